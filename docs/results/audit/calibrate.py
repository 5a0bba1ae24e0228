"""Write calibrated.toml: the best of 200-word chunks less the luck of many, from scores of irrelevant chunks."""

from pathlib import Path

from longrank.audit.harden import background
from longrank.cli.audit import make_settings, prepare
from longrank.cli.profile import TokenizerName, make_tokenizer
from longrank.rankers.adapters import resolve

sizes = {"queries": 16, "slots": 4, "distractors": 5}
settings = make_settings(sizes, "512,1024,2048", quick=False, tolerance=None, seed=0)
design, _ = prepare(Path("data/nq-open"), settings, make_tokenizer(TokenizerName.bert))
scores = background(resolve("firstp:models/reranker"), design, size=200)
text = Path("maxp.toml").read_text().replace("chunk-max", "calibrated-max")
Path("calibrated.toml").write_text(f"{text}background = {list(scores)}\n")
