# A ranker under audit: a function, a checkpoint folder, 'minilm' or an address. Run in an empty folder.

# [function]
cat > my_ranker.py <<'END'
def score(query: str, texts: list[str]) -> list[float]:
    asked = {word for word in query.lower().strip("?").split() if len(word) > 4}
    return [float(len(asked & set(text.lower().split()[:100]))) for text in texts]
END
# [probe]
longrank probe my_ranker:score --longest 1024
# [audit]
longrank audit my_ranker:score --quick --queries 24 --lengths 256 --out audits/mine
# [harden]
longrank harden my_ranker:score --quick --queries 24 --lengths 256 --out hardened
longrank board audits/mine/card.json hardened/calibrated-max.json --out board.html
# [gate]
rm -rf audits/release
longrank audit my_ranker:score --quick --queries 24 --lengths 256 --out audits/release --fail-if-lost 0.10 || echo "exit code $?"
