"""What every measure is computed from: ranks and grades of the judged documents a run found."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longrank.core.types import Qrels, Run

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Hits:
    """The judged part of a ranking, flat over queries.

    Documents without a judgement move ranks and nothing else, so only the judged ones are kept. ``query`` holds
    indices into ``query_ids``; hits rise by query, then rank (from 1); judgements rise by query, then fall by grade.
    """

    query_ids: tuple[str, ...]
    query: Ints  # [hits]
    rank: Ints  # [hits]
    grade: Ints  # [hits]
    retrieved: Ints  # [queries], documents of the run
    judged_query: Ints  # [judgements]
    judged_grade: Ints  # [judgements]

    def counts(self, chosen: NDArray[np.bool_]) -> Floats:
        """Number of chosen hits of each query."""
        return np.bincount(self.query[chosen], minlength=len(self.query_ids)).astype(np.float64)

    def relevant(self, at_least: int) -> Floats:
        """Number of documents of each query judged at least this relevant, found or not."""
        chosen = self.judged_query[self.judged_grade >= at_least]
        return np.bincount(chosen, minlength=len(self.query_ids)).astype(np.float64)


def position_in_query(query: Ints) -> Ints:
    """0, 1, 2... within each stretch of equal query indices.

    >>> position_in_query(np.array([0, 0, 2, 2, 2])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.arange(len(query), dtype=np.int64) - np.searchsorted(query, query)


def hits_of_run(run: Run, qrels: Qrels, query_ids: tuple[str, ...]) -> Hits:
    """Hits of these queries, ranked by float32 score, then document id, both falling."""
    found = [_ranked(run.scores[query_id], qrels.grades[query_id]) for query_id in query_ids]
    query = np.repeat(np.arange(len(query_ids)), [len(ranks) for ranks, _ in found])
    rank, grade = (np.array([x for pair in found for x in pair[i]], dtype=np.int64) for i in (0, 1))
    retrieved = np.array([len(run.scores[query_id]) for query_id in query_ids], dtype=np.int64)
    return make_hits(query_ids, query, rank, grade, retrieved=retrieved, qrels=qrels)


def make_hits(
    query_ids: tuple[str, ...], query: Ints, rank: Ints, grade: Ints, *, retrieved: Ints, qrels: Qrels
) -> Hits:
    """Hits in their order, with all judgements of the queries beside them."""
    order = np.lexsort((rank, query))
    judged = [sorted(qrels.grades[query_id].values(), reverse=True) for query_id in query_ids]
    return Hits(
        query_ids,
        query[order],
        rank[order],
        grade[order],
        retrieved,
        np.repeat(np.arange(len(query_ids)), [len(grades) for grades in judged]),
        np.array([grade for grades in judged for grade in grades], dtype=np.int64),
    )


def _ranked(scores: Mapping[str, float], grades: Mapping[str, int]) -> tuple[list[int], list[int]]:
    found = [document_id for document_id in grades if document_id in scores]
    if not found:
        return [], []
    lowered = -np.fromiter(scores.values(), dtype=np.float32, count=len(scores))
    rising = np.sort(lowered)
    mine = -np.fromiter((scores[d] for d in found), dtype=np.float32, count=len(found))
    above, level = np.searchsorted(rising, mine, side="left"), np.searchsorted(rising, mine, side="right")
    ranks = (above + 1).tolist()
    if (level - above > 1).any():
        ids = list(scores)
        for place, document_id in enumerate(found):
            if level[place] - above[place] > 1:
                tied = np.flatnonzero(lowered == mine[place]).tolist()
                ranks[place] += sum(ids[other] > document_id for other in tied)
    return ranks, [grades[document_id] for document_id in found]
