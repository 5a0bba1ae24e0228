"""How much faster the papers' matching is than rapidfuzz over windows of step one, in one run, decisions compared.

Run: python benchmarks/position_matching.py [--pairs 40] [--uncompiled] [--json FILE]
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rapidfuzz.distance import LCSseq

from longrank.core.seeds import generator
from longrank.positions import compiled
from longrank.positions.matching import PassageMatcher, prepare
from longrank.positions.words import at_least

PASSAGE_WORDS = 80
WORDS = [f"w{rank}" for rank in range(50_000)]
# Zipf and Mandelbrot: the commonest word is 5% of the text, as in English
SHARES = np.cumsum((np.arange(50_000) + 2.7) ** -1.05) / np.sum((np.arange(50_000) + 2.7) ** -1.05)
BARS = {"cached": 150.0, "not cached": 20.0, "cached, 10,000 words": 200.0}


def zipf_words(rng: np.random.Generator, count: int) -> list[str]:
    return [WORDS[place] for place in np.searchsorted(SHARES, rng.random(count)).tolist()]


def noisy(rng: np.random.Generator, words: list[str], share: float) -> list[str]:
    return [zipf_words(rng, 1)[0] if rng.random() < share else word for word in words]


def make_pairs(rng: np.random.Generator, kind: str, *, pairs: int, words: int) -> list[tuple[str, str]]:
    made = []
    for _ in range(pairs):
        document, passage = zipf_words(rng, words), zipf_words(rng, PASSAGE_WORDS)
        if kind != "absent":
            at = int(rng.integers(0, words - PASSAGE_WORDS))
            document[at : at + PASSAGE_WORDS] = passage if kind == "exact" else noisy(rng, passage, 0.15)
        made.append((" ".join(passage), " ".join(document)))
    return made


def brute_force(passage: list[int], document: list[int]) -> bool:
    """The definition: every window of step one, on lists of word numbers."""
    width, needed = at_least(1.2, len(passage)), at_least(0.7, len(passage))
    best = 0
    for start in range(max(1, len(document) - width + 1)):
        best = max(best, LCSseq.similarity(passage, document[start : start + width]))
    return best >= needed


def best_time(work: Callable[[], object], *, repeats: int) -> float:
    """Smallest CPU time of a few repeats."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def measure(kind: str, *, pairs: int, words: int) -> dict[str, object]:
    """Milliseconds a pair of the definition and of ours, cached and not, and the number of differing decisions."""
    made = make_pairs(generator(f"bench {kind} {words}", 0), kind, pairs=pairs, words=words)
    matcher = PassageMatcher()
    prepared = [(prepare(passage), prepare(document)) for passage, document in made]
    numbers: dict[str, int] = defaultdict(lambda: len(numbers))
    lists = [([numbers[w] for w in passage.split()], [numbers[w] for w in text.split()]) for passage, text in made]
    decisions = [matcher.match(*pair) for pair in prepared]
    expected = [brute_force(*pair) for pair in lists]
    # the substring test comes first in the procedure, so it can only add matches
    differ = sum(
        bool(ours) != theirs and ours.method != "substring" for ours, theirs in zip(decisions, expected, strict=True)
    )

    slow = best_time(lambda: [brute_force(*pair) for pair in lists], repeats=2)
    fast = best_time(lambda: [matcher.match(*pair) for pair in prepared], repeats=9)
    fresh = best_time(
        lambda: [matcher.match(ready, text) for (ready, _), (_, text) in zip(prepared, made, strict=True)], repeats=7
    )
    return {
        "kind": kind,
        "words": words,
        "rapidfuzz_ms": 1e3 * slow / pairs,
        "ours_ms": 1e3 * fast / pairs,
        "ours_not_cached_ms": 1e3 * fresh / pairs,
        "ratio": slow / fast,
        "ratio_not_cached": slow / fresh,
        "differing_decisions": differ,
    }


def growth() -> list[dict[str, float]]:
    """Our time at growing document lengths: linear means the time a word stays the same."""
    rows = []
    matcher = PassageMatcher()
    for words in (1_500, 5_000, 10_000, 25_000, 50_000):
        made = make_pairs(generator(f"growth {words}", 0), "noisy", pairs=8, words=words)
        prepared = [(prepare(passage), prepare(document)) for passage, document in made]
        spent = best_time(lambda pairs=prepared: [matcher.match(*pair) for pair in pairs], repeats=9)
        rows.append({"words": words, "ms": 1e3 * spent / 8, "ns_a_word": 1e9 * spent / 8 / words})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--uncompiled", action="store_true", help="as where numba is not installed")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    compiled.COMPILE_FROM = 10**12 if arguments.uncompiled else 0
    rows = [
        measure(kind, pairs=arguments.pairs if words < 5_000 else max(4, arguments.pairs // 5), words=words)
        for words in (1_500, 10_000)
        for kind in ("absent", "noisy", "exact")
    ]
    print("| pair | words | rapidfuzz ms | ours ms | ratio | not cached ms | ratio | differing |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['kind']} | {row['words']} | {row['rapidfuzz_ms']:.2f} | {row['ours_ms']:.4f} | {row['ratio']:.0f} "
            f"| {row['ours_not_cached_ms']:.3f} | {row['ratio_not_cached']:.0f} | {row['differing_decisions']} |"
        )
    grown = growth()
    print("\n| words | ms | ns a word |\n|---|---|---|")
    for line in grown:
        print(f"| {line['words']:.0f} | {line['ms']:.3f} | {line['ns_a_word']:.1f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps({"pairs": rows, "growth": grown, "bars": BARS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
