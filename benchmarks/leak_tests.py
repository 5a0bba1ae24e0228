"""Leak tests on the toy world: the papers' policy and the uniform one, and what a FirstP can learn under each.

python benchmarks/leak_tests.py --queries 600 [--firstp tiny|minilm] [--json FILE]

``words`` is a FirstP that counts the query's words in the first 128 tokens and learns on the training half whether such
matches speak for a document or against it; ``tiny`` and ``minilm`` are trained cross-encoders, in minutes and in hours.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from longrank.audit.leaks import Leak, LeakCase, check_leaks, expected_reciprocal_rank, fitted_leak, leak_cases
from longrank.audit.planted import WordMatch, words
from longrank.chunking.tokenizers import bert_tokenizer
from longrank.core.contracts import Ranker
from longrank.core.seeds import generator
from longrank.core.types import Document, Query, Scores, Spec
from longrank.synthetic.assembling import Placing
from longrank.synthetic.far_relevant import FarRelevantSettings, far_relevant
from longrank.synthetic.toy import ToySettings
from longrank.synthetic.toy_passages import toy_passages
from longrank.training.examples import TrainExample
from longrank.training.trainer import TrainSettings, fit

SEEN = 109  # tokens of a document that FirstP reads at laptop scale
BEYOND = Placing(boundary=128, max_tokens=327)
UNIFORM = Placing(policy="uniform", min_tokens=173, max_tokens=327)


@dataclass(frozen=True)
class FirstWords:
    """Query words in the first words of a document, counted for or against it."""

    sign: float

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One count a document."""
        asked = set(words(query.text))
        return Scores([self.sign * sum(word in asked for word in words(d.text)[:SEEN]) for d in documents])


@dataclass(frozen=True)
class CaseSampler:
    """Training examples of cases: the positive against one of its exchangeable others."""

    cases: Sequence[LeakCase]

    def __len__(self) -> int:
        return len(self.cases)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Every case once."""
        rng = generator(f"leak-examples-epoch-{number}", 0)
        for place in rng.permutation(len(self.cases)).tolist():
            case = self.cases[place]
            other = case.others[int(rng.integers(len(case.others)))]
            yield TrainExample(case.query, case.positive.document, (other.document,))


def main() -> None:
    """Measure both policies, print and write one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--firstp", choices=["words", "tiny", "minilm"], default="words")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    trained = {"words": fit_words, "tiny": fit_tiny, "minilm": fit_minilm}[chosen.firstp]
    label, rows = f"learned FirstP ({chosen.firstp})", dict[str, list[object]]()
    named: list[tuple[str, Placing, Literal["policy", "anywhere"]]] = [
        ("uniform", UNIFORM, "policy"),
        ("papers' policy, hard passages anywhere", BEYOND, "anywhere"),
        ("papers' policy, hard passages by it too", BEYOND, "policy"),
    ]
    for name, placing, places in named:
        cases = made(placing, places, chosen.queries)
        match = WordMatch.fitted(case.positive.document.text for case in cases)
        report = check_leaks(cases, rankers={"word match": match}, rng=generator("leaks", 0))
        half = len(cases) // 2
        learned = fitted_leak(cases[:half], cases[half:], fit=trained, rng=generator("leaks/fitted", 0), name=label)
        sys.stdout.write("\n".join([f"== {name}", *report.lines(), shown(learned)]) + "\n")
        rows[name] = [asdict(leak) for leak in (*report.leaks, learned)]
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def made(placing: Placing, places: Literal["policy", "anywhere"], queries: int) -> list[LeakCase]:
    """Cases over so many toy queries, nine other candidates each."""
    world = toy_passages(ToySettings(train=queries // 2, dev=0, test=queries - queries // 2))
    settings = FarRelevantSettings(placing=placing, distractors=9, distractor_places=places)
    tokenizer = bert_tokenizer()
    return leak_cases(far_relevant(world.collection, tokenizer, settings, hard=world.hard), tokenizer)


def shown(leak: Leak) -> str:
    """One line: value minus chance with its interval."""
    low, high = (end - leak.chance for end in leak.interval)
    return f"      {leak.name} minus chance: {leak.value - leak.chance:+.3f} [{low:+.3f}, {high:+.3f}]"


def fit_words(train: Sequence[LeakCase]) -> Ranker:
    """The sign that ranks the training cases best."""

    def quality(ranker: FirstWords) -> float:
        ranked = [[case.positive.document, *(other.document for other in case.others)] for case in train]
        scores = [ranker.score(case.query, row).values for case, row in zip(train, ranked, strict=True)]
        return float(np.mean([expected_reciprocal_rank(row) for row in scores]))

    return max(FirstWords(1.0), FirstWords(-1.0), key=quality)


def fit_tiny(train: Sequence[LeakCase]) -> Ranker:
    """A two-layer FirstP from scratch."""
    return _fitted(train, Spec("tiny", {"vocabulary": "bert", "positions": 128}), rate=1e-3, epochs=4)


def fit_minilm(train: Sequence[LeakCase]) -> Ranker:
    """MiniLM's first four layers as FirstP, pooled as they were trained."""
    return _fitted(train, Spec("minilm", {"layers": 4, "pooling": "mean"}), rate=1e-4, epochs=2)


def _fitted(train: Sequence[LeakCase], backbone: Spec, *, rate: float, epochs: int) -> Ranker:
    from longrank.rankers.zoo import build_ranker

    ranker = build_ranker(Spec("firstp", {"backbone": backbone, "tokens": SEEN, "query_tokens": 16}))
    settings = TrainSettings(epochs=epochs, backbone_rate=rate, aggregator_rate=1e-3, batch_size=8)
    with TemporaryDirectory() as folder:
        fit(ranker, CaseSampler(train), settings=settings, folder=Path(folder))
    return ranker


if __name__ == "__main__":
    main()
