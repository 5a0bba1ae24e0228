"""How often edited passages are found again, how exactly, and how often a passage is found where it is not.

Words are deleted, inserted or replaced at known rates, or 40 foreign words are put into the passage's middle.
Run: python benchmarks/position_recall.py [--pairs 300] [--documents docs.jsonl.gz] [--json FILE]
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longrank.core.seeds import generator
from longrank.positions.alignment import PassageAligner
from longrank.positions.matching import Matcher, PassageMatcher

PASSAGE_WORDS = 80
WORDS = [f"w{rank}" for rank in range(50_000)]
SHARES = np.cumsum((np.arange(50_000) + 2.7) ** -1.05) / np.sum((np.arange(50_000) + 2.7) ** -1.05)


class Outcome(NamedTuple):
    """Shares of one row of the table; the error is the median of start and end offsets, in words."""

    edit: str
    method: str
    recall: float
    offset_error: float
    false_matches: float
    ambiguous: float


def synthetic(rng: np.random.Generator, count: int) -> list[list[str]]:
    lengths = rng.integers(400, 3_000, size=count)
    return [[WORDS[place] for place in np.searchsorted(SHARES, rng.random(length))] for length in lengths]


def real(path: Path, rng: np.random.Generator, count: int) -> list[list[str]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    texts = [json.loads(line)["text"].split() for line in data.splitlines()]
    texts = [words for words in texts if len(words) > 4 * PASSAGE_WORDS]
    return [texts[place] for place in rng.integers(0, len(texts), size=count)]


def edited(words: list[str], share: float, *, foreign: list[str], rng: np.random.Generator) -> list[str]:
    """The words with a share of them deleted, replaced, or given a foreign neighbour, a third each."""
    result: list[str] = []
    for word in words:
        kind = rng.integers(0, 3) if rng.random() < share else -1
        if kind == 0:
            continue
        other = foreign[int(rng.integers(0, len(foreign)))]
        result += [other] if kind == 1 else [word, other] if kind == 2 else [word]
    return result


def run(matcher: Matcher, edit: str, documents: list[list[str]], *, name: str) -> Outcome:
    """One row: the same passages, edits and documents for every matcher."""
    rng = generator(f"recall {edit}", 0)
    found, errors, wrong, ambiguous = 0, [], 0, 0
    for number, words in enumerate(documents):
        other = documents[(number + 1) % len(documents)]
        at = int(rng.integers(0, len(words) - PASSAGE_WORDS))
        passage = words[at : at + PASSAGE_WORDS]
        if edit == "insert 40":
            middle = PASSAGE_WORDS // 2
            place = [*passage[:middle], *other[:40], *passage[middle:]]
        else:
            place = edited(passage, float(edit) / 100, foreign=other, rng=rng)
        text = " ".join([*words[:at], *place, *words[at + PASSAGE_WORDS :]])
        located = matcher.match(" ".join(passage), text)
        if located:
            first = text.count(" ", 0, located.spans[0].start)
            last = text.count(" ", 0, located.spans[0].stop)
            overlap = max(0, min(last, at + len(place) - 1) - max(first, at) + 1)
            union = max(last, at + len(place) - 1) - min(first, at) + 1
            found += overlap / union >= 0.5
            errors += [abs(first - at), abs(last - (at + len(place) - 1))]
            ambiguous += located.ambiguous
        wrong += other is not words and bool(matcher.match(" ".join(passage), " ".join(other)))
    count = len(documents)
    return Outcome(edit, name, found / count, float(np.median(errors)), wrong / count, ambiguous / count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--documents", type=Path, help="JSONL with a field 'text'; synthetic text if not given")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rng = generator("recall documents", 0)
    documents = (
        real(arguments.documents, rng, arguments.pairs) if arguments.documents else synthetic(rng, arguments.pairs)
    )
    rows = [
        run(matcher, edit, documents, name=name)
        for edit in ("0", "5", "10", "15", "20", "25", "30", "insert 40")
        for name, matcher in (("papers", PassageMatcher()), ("aligned", PassageAligner()))
    ]
    print("| words edited % | method | recall | offset error (words) | false matches | ambiguous |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.edit} | {row.method} | {row.recall:.3f} | {row.offset_error:.1f} | {row.false_matches:.4f} "
            f"| {row.ambiguous:.3f} |"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
