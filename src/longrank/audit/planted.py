"""Scorers whose dependence on position is known: what an audit and a probe must find."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from longrank.core.contracts import Ranker
from longrank.core.errors import SettingsError
from longrank.core.seeds import derive
from longrank.core.types import Document, Query, Scores

PositionWeight = Callable[[int, int], float]  # word number and number of words -> weight of a match there

_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """Lower-cased words and marks of a text, as 'words-v1' counts them.

    >>> words("Long, long ago")
    ['long', ',', 'long', 'ago']
    """
    return [word.lower() for word in _WORD.findall(text)]


def flat(position: int, length: int) -> float:
    """The same weight everywhere."""
    return 1.0


def decaying(scale: float) -> PositionWeight:
    """exp(-position / scale), the position counted in words from the start."""
    return lambda position, length: math.exp(-position / scale)


def ends_first(depth: float = 0.9) -> PositionWeight:
    """1 at both ends, falling as a parabola to 1 - depth in the middle: lost in the middle."""
    return lambda position, length: 1 - depth * (1 - (2 * position / max(1, length - 1) - 1) ** 2)


@dataclass(frozen=True)
class WordMatch:
    """BM25 with a weight for the place of every match; flat weights make it a bag of words, blind to position.

    ``linear`` takes the weighted count as it is, without saturation and without the document's length, so that the
    score of one match is its weight times its idf.
    """

    frequencies: Mapping[str, int]
    documents: int
    mean_length: float
    weight: PositionWeight = flat
    k1: float = 0.9
    b: float = 0.4
    linear: bool = False

    @classmethod
    def fitted(cls, texts: Iterable[str]) -> "WordMatch":
        """Word frequencies and mean length of these texts."""
        counts: Counter[str] = Counter()
        documents = total = 0
        for text in texts:
            found = words(text)
            counts.update(set(found))
            documents += 1
            total += len(found)
        if not total:
            raise SettingsError("word frequencies need at least one text with a word")
        return cls(counts, documents, total / documents)

    def weighted(self, weight: PositionWeight, *, linear: bool = False) -> "WordMatch":
        """The same scorer with another weight for places."""
        return replace(self, weight=weight, linear=linear)

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document."""
        asked = {word: self._idf(word) for word in sorted(set(words(query.text)))}
        return Scores([self._score(asked, words(document.text)) for document in documents])

    def _score(self, asked: Mapping[str, float], found: Sequence[str]) -> float:
        counts = dict.fromkeys(asked, 0.0)
        for position, word in enumerate(found):
            if word in counts:
                counts[word] += self.weight(position, len(found))
        if self.linear:
            return sum(idf * counts[word] for word, idf in asked.items())
        norm = self.k1 * (1 - self.b + self.b * len(found) / self.mean_length)
        return sum(idf * counts[word] / (counts[word] + norm) for word, idf in asked.items())

    def _idf(self, word: str) -> float:
        having = self.frequencies.get(word, 0)
        return math.log(1 + (self.documents - having + 0.5) / (having + 0.5))


@dataclass(frozen=True)
class Windowed:
    """A ranker that reads a document's first, last, or first and last words only, or shares its window with the query.

    ``side`` is 'right' (the end is cut), 'left', 'middle' (both ends are kept), or 'longest' (words are dropped from
    the end of the longer of query and document until both fit together).
    """

    inner: Ranker
    window: int
    side: str = "right"

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """Scores of what is read; what is not is counted."""
        values, cut = [], []
        for document in documents:
            asked, found = words(query.text), words(document.text)
            kept_query, kept = self._kept(asked, found)
            shown = Document(document.id, " ".join(kept))
            values += self.inner.score(Query(query.id, " ".join(kept_query)), [shown]).values
            cut.append(len(found) - len(kept))
        return Scores(values, sum(tokens > 0 for tokens in cut), sum(cut))

    def _kept(self, asked: list[str], found: list[str]) -> tuple[list[str], list[str]]:
        size = self.window
        if self.side == "longest":
            kept = min(len(asked), max(size - len(found), size // 2))
            return asked[:kept], found[: size - kept]
        if len(found) <= size:
            return asked, found
        if self.side == "right":
            return asked, found[:size]
        if self.side == "left":
            return asked, found[-size:]
        if self.side == "middle":
            tail = size // 2
            return asked, found[: size - tail] + found[len(found) - tail :]
        raise SettingsError(f"no side {self.side!r}; known: right, left, middle, longest")


@dataclass(frozen=True)
class RandomScores:
    """A score that depends on query and document text like a hash: the same each time, and worth nothing."""

    seed: int = 0

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """Numbers between 0 and 1."""
        return Scores([derive(f"{query.text}\0{document.text}", self.seed) / 2**63 for document in documents])


@dataclass
class Noisy:
    """Another ranker with normal noise on every score, new each time it is asked."""

    inner: Ranker
    deviation: float
    rng: np.random.Generator

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """Scores that differ on a re-run."""
        exact = self.inner.score(query, documents)
        noise = self.rng.normal(0, self.deviation, len(exact.values))
        return exact._replace(values=[float(value) for value in np.asarray(exact.values) + noise])
