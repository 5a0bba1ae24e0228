"""Where a run ranks its relevant documents, and which of two retrievers found them (PARADE, section 5.6)."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from longrank.core.errors import DataError, SettingsError
from longrank.core.types import Qrels, Run

Pair = tuple[str, str]  # query id, document id

# the columns of PARADE's Table 12
RETRIEVER_MEASURES = ("R@100", "R@1000", "AP@100", "AP@1000", "P@20", "nDCG@20")


class Bin(NamedTuple):
    """Ranks from ``first`` to ``last``, both inside."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


# PARADE's Figure 5: tens up to 100, then hundreds up to 1,000
BINS = (*(Bin(i + 1, i + 10) for i in range(0, 100, 10)), *(Bin(i + 1, i + 100) for i in range(100, 1000, 100)))


@dataclass(frozen=True)
class Found:
    """Relevant documents by who found them: both retrievers, only the first, only the second."""

    both: frozenset[Pair]
    only_first: frozenset[Pair]
    only_second: frozenset[Pair]
    queries: int

    @property
    def parts(self) -> dict[str, frozenset[Pair]]:
        """The three sets by name."""
        return {"both": self.both, "only first": self.only_first, "only second": self.only_second}


@dataclass(frozen=True)
class RankDistribution:
    """Relevant documents a query in each bin of ranks, for each part of a Found."""

    run: str
    bins: tuple[Bin, ...]
    averages: Mapping[str, tuple[float, ...]]  # part -> one number a bin
    queries: int


def split_by_retriever(first: Run, second: Run, qrels: Qrels, *, depth: int = 1000, relevant_from: int = 1) -> Found:
    """Relevant documents among the first ``depth`` of two retrievers, over the judged queries of either run."""
    queries = [q for q, row in qrels.grades.items() if row and (q in first.scores or q in second.scores)]
    if not queries:
        raise DataError(f"runs {first.name!r} and {second.name!r} have no judged query. Are the ids the same?")
    found: tuple[set[Pair], set[Pair]] = (set(), set())
    for query_id in queries:
        relevant = qrels.relevant(query_id, at_least=relevant_from)
        for run, pairs in zip((first, second), found, strict=True):
            pairs.update((query_id, d) for d in run.ranking(query_id)[:depth] if d in relevant)
    left, right = found
    return Found(frozenset(left & right), frozenset(left - right), frozenset(right - left), len(queries))


def rank_distribution(run: Run, found: Found, *, bins: Sequence[Bin] = BINS) -> RankDistribution:
    """Average number of relevant documents that the run, a retriever's or a re-ranked one, puts into each bin.

    >>> run = Run("r", {"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    >>> found = Found(frozenset({("q", "a")}), frozenset({("q", "c")}), frozenset(), queries=1)
    >>> rank_distribution(run, found, bins=[Bin(1, 2), Bin(3, 4)]).averages["only first"]
    (0.0, 1.0)
    """
    places = sorted(bins)
    if not places or any(left.last >= right.first for left, right in itertools.pairwise(places)):
        raise SettingsError("bins of ranks must be given and must not overlap")
    ranks = {(q, d): rank for q in run for rank, d in enumerate(run.ranking(q), start=1)}
    averages = {}
    for part, pairs in found.parts.items():
        counts = Counter(ranks[pair] for pair in pairs if pair in ranks)
        totals = (sum(counts[rank] for rank in counts if b.first <= rank <= b.last) for b in places)
        averages[part] = tuple(total / found.queries for total in totals)
    return RankDistribution(run.name, tuple(places), averages, found.queries)
