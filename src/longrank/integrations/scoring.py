"""What all adapters share: a ranker by name or value, plain texts to scores, and a warning where text was cut."""

import warnings
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from longrank.core.contracts import Ranker
from longrank.core.types import Document, Query

RankerOrName = Ranker | str | Path


class TextCut(UserWarning):
    """Documents, or the query, were not read to the end."""


def as_ranker(ranker: RankerOrName) -> Ranker:
    """The ranker itself, or the one of this name; a cross-encoder's folder is read to the end of a document."""
    if isinstance(ranker, (str, Path)):
        from longrank.rankers.adapters import resolve

        return resolve(str(ranker), whole=True)
    return ranker


def score_texts(ranker: Ranker, query: str, texts: Sequence[str]) -> list[float]:
    """One score a text, in the order given; what was cut becomes a ``TextCut`` warning."""
    if not texts:
        return []
    found = ranker.score(Query("query", query), [Document(str(i), text) for i, text in enumerate(texts)])
    if found.cut_documents:
        warnings.warn(
            f"{found.cut_documents} of {len(texts)} documents were not read to the end ({found.cut_tokens} tokens "
            f"were cut): use a ranker that reads more, such as 'maxp'",
            TextCut,
            stacklevel=3,
        )
    if found.cut_query_tokens:
        warnings.warn(
            f"{found.cut_query_tokens} tokens at the end of the query were not read: shorten it, or use a ranker that "
            f"reads more of it",
            TextCut,
            stacklevel=3,
        )
    return [float(value) for value in found.values]


def score_pairs(ranker: Ranker, pairs: Sequence[Sequence[str]]) -> list[float]:
    """One score a (query, text) pair; neighbours with the same query are scored together."""
    values: list[float] = []
    for query, group in groupby(pairs, key=lambda pair: pair[0]):
        values += score_texts(ranker, query, [pair[1] for pair in group])
    return values


def best_first(values: Sequence[float], top: int | None = None) -> list[int]:
    """Places of the highest values, falling; ties keep the order given.

    >>> best_first([1.0, 3.0, 3.0], top=2)
    [1, 2]
    """
    return sorted(range(len(values)), key=lambda i: -values[i])[:top]
