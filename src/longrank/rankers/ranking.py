"""Plain texts in, a ranking out: what a caller without ids and collections wants."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from longrank.core.contracts import Ranker
from longrank.core.types import Document, Query, Scores


@dataclass(frozen=True)
class Ranked:
    """One document of a ranking: its number among the documents given, its score and its text."""

    index: int
    score: float
    text: str


class TextRanker(Protocol):
    """A ranker that also takes plain texts: what ``longrank.load`` gives."""

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document, in the order given."""
        ...

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
        """The documents best first."""
        ...


def rank_texts(ranker: Ranker, query: str, documents: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
    """The documents best first; ties keep the order given."""
    texts = list(documents)
    found = ranker.score(Query("query", query), [Document(str(i), text) for i, text in enumerate(texts)])
    order = sorted(range(len(texts)), key=lambda i: -found.values[i])
    return [Ranked(i, found.values[i], texts[i]) for i in order[:top_k]]
