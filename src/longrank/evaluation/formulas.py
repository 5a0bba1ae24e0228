"""The measures themselves, each from Hits to one number a query. trec_eval's rules unless a name says otherwise."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from longrank.core.errors import DataError
from longrank.evaluation.hits import Floats, Hits, Ints, position_in_query

EVERY_RANK = np.iinfo(np.int64).max


def precision(hits: Hits, *, cutoff: int, rel: int = 1) -> Floats:
    """Share of relevant documents among the first ``cutoff`` places, empty places included."""
    return hits.counts((hits.grade >= rel) & (hits.rank <= cutoff)) / cutoff


def recall(hits: Hits, *, cutoff: int, rel: int = 1) -> Floats:
    """Share of all relevant documents found in the first ``cutoff`` places; 0 where nothing is relevant."""
    return _ratio(hits.counts((hits.grade >= rel) & (hits.rank <= cutoff)), hits.relevant(rel))


def reciprocal_rank(hits: Hits, *, cutoff: int = EVERY_RANK, rel: int = 1) -> Floats:
    """1 / rank of the first relevant document, 0 without one."""
    query, rank = _chosen(hits, rel)
    first = (position_in_query(query) == 0) & (rank <= cutoff)
    values = np.zeros(len(hits.query_ids))
    values[query[first]] = 1.0 / rank[first]
    return values


def average_precision(hits: Hits, *, cutoff: int = EVERY_RANK, rel: int = 1) -> Floats:
    """Precision at each relevant document found, summed and divided by the number of all relevant ones."""
    query, rank = _chosen(hits, rel)
    share = (position_in_query(query) + 1) / rank
    return _ratio(_sums(hits, query, np.where(rank <= cutoff, share, 0.0)), hits.relevant(rel))


def ndcg(hits: Hits, *, cutoff: int = EVERY_RANK, exponential: bool = False) -> Floats:
    """Discounted gain over that of the ideal order; gain is the grade, or 2^grade - 1 where asked; below 0 it is 0."""
    ideal_rank = position_in_query(hits.judged_query) + 1
    return _ratio(
        _sums(hits, hits.query, _discounted(hits.grade, hits.rank, cutoff, exponential)),
        _sums(hits, hits.judged_query, _discounted(hits.judged_grade, ideal_rank, cutoff, exponential)),
    )


def err(hits: Hits, *, cutoff: int = EVERY_RANK, max_grade: int = 4) -> Floats:
    """Expected reciprocal rank; a document of grade g stops the reader with (2^g - 1) / 2^max_grade.

    ``max_grade=4`` is gdeval's constant for every collection; the top grade of the scale gives PARADE's Eq. 11.
    """
    _check_grades(hits, max_grade)
    return np.array([_cascade(q.grades, q.ranks, cutoff, max_grade) for q in _each_query(hits)], dtype=np.float64)


def nerr(hits: Hits, *, cutoff: int = EVERY_RANK, max_grade: int = 4) -> Floats:
    """ERR over that of the ideal order."""
    ideal = [_cascade(q.ideal, np.arange(1, len(q.ideal) + 1), cutoff, max_grade) for q in _each_query(hits)]
    return _ratio(err(hits, cutoff=cutoff, max_grade=max_grade), np.array(ideal, dtype=np.float64))


def q_measure(hits: Hits, *, cutoff: int = EVERY_RANK, beta: float = 1.0) -> Floats:
    """Sakai's Q: AP with the blended ratio (found + beta * gain) / (rank + beta * ideal gain) in place of precision.

    Gain is the grade; the sum is divided by the smaller of the cutoff and the number of relevant documents.
    """
    return np.array([_blended(q, cutoff, beta) for q in _each_query(hits)], dtype=np.float64)


def judged(hits: Hits, *, cutoff: int = EVERY_RANK) -> Floats:
    """Share of judged documents among the first ``cutoff`` retrieved ones, empty places left out."""
    places = np.minimum(hits.retrieved, cutoff).astype(np.float64)
    return _ratio(hits.counts(hits.rank <= cutoff), places)


class _QueryHits(NamedTuple):
    ranks: Ints  # of documents with a grade above 0, rising
    grades: Ints
    ideal: Ints  # every grade above 0, falling


def _each_query(hits: Hits) -> Iterator[_QueryHits]:
    good, ideal_good = hits.grade > 0, hits.judged_grade > 0
    query, rank, grade = hits.query[good], hits.rank[good], hits.grade[good]
    ideal_query, ideal = hits.judged_query[ideal_good], hits.judged_grade[ideal_good]
    edges = np.arange(len(hits.query_ids) + 1)
    cuts = np.searchsorted(query, edges).tolist()
    ideal_cuts = np.searchsorted(ideal_query, edges).tolist()
    for i in range(len(hits.query_ids)):
        mine = slice(cuts[i], cuts[i + 1])
        yield _QueryHits(rank[mine], grade[mine], ideal[ideal_cuts[i] : ideal_cuts[i + 1]])


def _cascade(grades: Ints, ranks: Ints, cutoff: int, max_grade: int) -> float:
    kept = ranks <= cutoff
    stop = (np.exp2(grades[kept]) - 1.0) / 2.0**max_grade
    reach = np.concatenate([[1.0], np.cumprod(1.0 - stop)[:-1]])[: len(stop)]
    return float((reach * stop / ranks[kept]).sum())


def _blended(query: _QueryHits, cutoff: int, beta: float) -> float:
    if not len(query.ideal):
        return 0.0
    kept = query.ranks <= cutoff
    ranks, gain = query.ranks[kept], np.cumsum(query.grades[kept])
    ideal_gain = np.cumsum(query.ideal)[np.minimum(ranks, len(query.ideal)) - 1]
    ratio = (np.arange(1, len(ranks) + 1) + beta * gain) / (ranks + beta * ideal_gain)
    return float(ratio.sum() / min(cutoff, len(query.ideal)))


def _check_grades(hits: Hits, max_grade: int) -> None:
    top = int(hits.judged_grade.max(initial=0))
    if top > max_grade:
        raise DataError(f"ERR with max_grade={max_grade} cannot take grade {top}; write ERR(max_grade={top})")


def _chosen(hits: Hits, rel: int) -> tuple[Ints, Ints]:
    chosen = hits.grade >= rel
    return hits.query[chosen], hits.rank[chosen]


def _discounted(grade: Ints, rank: Ints, cutoff: int, exponential: bool) -> Floats:
    gain = np.maximum(grade, 0).astype(np.float64)
    if exponential:
        gain = np.exp2(gain) - 1.0
    return np.where(rank <= cutoff, gain / np.log2(rank + 1.0), 0.0)


def _sums(hits: Hits, query: Ints, values: Floats) -> Floats:
    return np.bincount(query, weights=values, minlength=len(hits.query_ids)).astype(np.float64)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
