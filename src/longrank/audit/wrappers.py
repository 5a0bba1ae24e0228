"""Ways to make a ranker read to the end without touching its weights: each takes a ranker and is one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from longrank.audit.response import checked_scores
from longrank.chunking.splitters import EvenWindows
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.contracts import Ranker, Splitter, Tokenizer
from longrank.core.errors import SettingsError
from longrank.core.registry import Registry
from longrank.core.types import Document, Query, Scores

Combine = Callable[[Sequence[float]], float]

WRAPPERS: Registry[Ranker] = Registry("wrapper")


@dataclass(frozen=True)
class Chunked:
    """A ranker asked about a document's chunks, each distinct chunk once a call, their scores made one."""

    ranker: Ranker
    splitter: Splitter
    combine: Combine
    tokenizer: Tokenizer = field(default_factory=WordTokenizer)

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document; what the inner ranker cuts of a chunk is passed on."""
        chunks = [self._chunks(document.text) for document in documents]
        distinct = list(dict.fromkeys(text for texts in chunks for text in texts))
        if not distinct:
            return Scores([])
        # checked here: a maximum would hide that a chunk's score is no number
        shown = [Document(f"chunk{n}", text) for n, text in enumerate(distinct)]
        asked = checked_scores(self.ranker.score(query, shown), len(distinct))
        known = dict(zip(distinct, asked.values, strict=True))
        values = [self.combine([known[text] for text in texts]) for texts in chunks]
        return asked._replace(values=values)

    def _chunks(self, text: str) -> list[str]:
        split = self.splitter.split(self.tokenizer.tokenize(text))
        places = [split.source.chars(span) for span in split.spans]
        return [text[place.start : place.stop] for place in places]


@dataclass(frozen=True)
class Rotated:
    """A ranker asked about a document and its rotations by whole chunks, the scores averaged.

    Every part stands near the start of some rotation, so a ranker that reads only the start has seen all.
    """

    ranker: Ranker
    rotations: int
    tokenizer: Tokenizer = field(default_factory=WordTokenizer)

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document."""
        turned = [Document(f"{d.id}/{n}", text) for d in documents for n, text in enumerate(self._turns(d.text))]
        asked = checked_scores(self.ranker.score(query, turned), len(turned))
        rows = np.asarray(asked.values, dtype=np.float64).reshape(len(documents), self.rotations)
        return asked._replace(values=[float(value) for value in rows.mean(axis=1)])

    def _turns(self, text: str) -> list[str]:
        starts = self.tokenizer.tokenize(text).char_starts
        cuts = [
            int(starts[n * len(starts) // self.rotations]) if n and len(starts) else 0 for n in range(self.rotations)
        ]
        return [f"{text[at:]} {text[:at]}".strip() if at else text for at in cuts]


@dataclass(frozen=True)
class CalibratedMaximum:
    """The greatest of n scores less what the greatest of n irrelevant ones exceeds a single one by: max - (E_n - E_1).

    A plain maximum favours long documents, which have more chances; ``background`` holds scores of irrelevant chunks.
    """

    background: tuple[float, ...]

    def __call__(self, scores: Sequence[float]) -> float:
        """The calibrated maximum."""
        return max(scores) - (self.expected_maximum(len(scores)) - self.expected_maximum(1))

    def expected_maximum(self, draws: int) -> float:
        """Expected greatest of so many draws from the background.

        >>> CalibratedMaximum((0.0, 1.0)).expected_maximum(2)  # 0 only if both are 0: 1/4
        0.75
        """
        ordered = np.sort(np.asarray(self.background, dtype=np.float64))
        at_most = (np.arange(len(ordered) + 1) / len(ordered)) ** draws
        return float(ordered @ np.diff(at_most))


@WRAPPERS.add("chunk-max")
def chunk_max(ranker: Ranker, *, size: int = 200, stride: int = 100) -> Ranker:
    """The best of a document's overlapping chunks."""
    return Chunked(ranker, EvenWindows(size, stride), max)


@WRAPPERS.add("chunk-max-end")
def chunk_max_end(ranker: Ranker, *, size: int = 200, stride: int = 100) -> Ranker:
    """The best chunk, the last ``stride`` words by themselves among them: else they stand at a chunk's end only."""
    return Chunked(ranker, EvenWindows(size, stride, end_alone=True), max)


@WRAPPERS.add("chunk-mean")
def chunk_mean(ranker: Ranker, *, size: int = 200, stride: int = 200) -> Ranker:
    """The mean of a document's chunks."""
    return Chunked(ranker, EvenWindows(size, stride), _mean)


@WRAPPERS.add("first-and-best")
def first_and_best(ranker: Ranker, *, size: int = 200, stride: int = 100) -> Ranker:
    """The mean of the first and the best chunk: keeps what a ranker learnt about openings."""
    return Chunked(ranker, EvenWindows(size, stride), _first_and_best)


@WRAPPERS.add("rotate")
def rotate(ranker: Ranker, *, rotations: int = 4) -> Ranker:
    """The mean over rotations of the document."""
    if rotations < 2:
        raise SettingsError(f"rotate needs at least 2 rotations, got {rotations}")
    return Rotated(ranker, rotations)


@WRAPPERS.add("calibrated-max")
def calibrated_max(ranker: Ranker, *, background: Sequence[float], size: int = 200, stride: int = 100) -> Ranker:
    """The best chunk, less the advantage that many chunks have over few."""
    if not background:
        raise SettingsError("calibrated-max needs the scores of some irrelevant chunks; `background_scores` makes them")
    return Chunked(ranker, EvenWindows(size, stride), CalibratedMaximum(tuple(background)))


def background_scores(ranker: Ranker, queries: Sequence[Query], chunks: Sequence[str]) -> tuple[float, ...]:
    """Scores of chunks for queries they do not answer, for ``calibrated-max``."""
    documents = [Document(f"chunk{n}", text) for n, text in enumerate(chunks)]
    asked = (checked_scores(ranker.score(query, documents), len(documents)) for query in queries)
    return tuple(value for scores in asked for value in scores.values)


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores)


def _first_and_best(scores: Sequence[float]) -> float:
    return (scores[0] + max(scores)) / 2
