"""The inner loops of sparse retrieval: sum postings, pick the best; compiled by numba where it is installed."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
# loading and compiling cost seconds: worth it from about this many (query, document) pairs
COMPILE_FROM = 1 << 25


class Batch(NamedTuple):
    """Queries as flat arrays: query i has the terms and weights from starts[i] to starts[i + 1]."""

    starts: NDArray[np.int64]
    terms: NDArray[np.int64]
    weights: NDArray[np.float32]


def keys(scores: NDArray[np.float32], ranks: NDArray[np.int32]) -> Keys:
    """One integer a document, so that the order of integers is that of (float32 score, rank)."""
    bits = (scores + np.float32(0)).view(np.int32)  # the sum makes minus zero zero
    rising = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))  # negative floats count backwards
    result: Keys = (rising.astype(np.int64) << 32) | ranks
    return result


def key_scores(values: Keys) -> NDArray[np.float32]:
    """The scores inside keys."""
    rising = (values >> 32).astype(np.int32)
    return (rising ^ ((rising >> 31) & np.int32(0x7FFFFFFF))).view(np.float32)


def key_ranks(values: Keys) -> NDArray[np.int64]:
    """The ranks inside keys."""
    return values & 0xFFFFFFFF


def largest(values: Keys, depth: int) -> Keys:
    """The ``depth`` largest keys, falling."""
    if len(values) > depth:
        values = np.partition(values, len(values) - depth)[len(values) - depth :]
    return np.sort(values)[::-1]


def best(scores: NDArray[np.float32], ranks: NDArray[np.int32], depth: int) -> Keys:
    """Keys of the ``depth`` best scores above zero, best first; of equal scores the larger rank."""
    found = np.flatnonzero(scores > 0)  # first, because numpy is slow to partition many equal zeros
    if len(found) > depth:
        values = scores[found]
        found = found[values >= np.partition(values, len(values) - depth)[len(values) - depth]]
    return largest(keys(scores[found], ranks[found]), depth)


def rank_batch(
    batch: Batch, postings: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], ranks: NDArray[Any], depth: int
) -> list[Keys] | None:
    """``best`` of each query of the batch by compiled code; None without numba.

    ``postings`` are starts, rows and impacts.
    """
    rank = _compiled()
    if rank is None:
        return None
    found = np.empty((len(batch.starts) - 1, depth), dtype=np.int64)
    sizes = rank(*batch, *postings, ranks, found)
    return [row[:size] for row, size in zip(found, sizes.tolist(), strict=True)]


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., NDArray[np.int64]] | None:
    try:
        from numba import njit
    except ImportError:
        return None
    rank: Callable[..., NDArray[np.int64]] = njit(nogil=True, cache=True)(_rank)
    return rank


def _rank(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    query_starts, query_terms, query_weights, starts, rows, impacts, ranks, found
):  # pragma: no cover
    documents, depth = len(ranks), found.shape[1]
    sizes = np.zeros(len(query_starts) - 1, dtype=np.int64)
    scores = np.zeros(documents, dtype=np.float32)
    bits = scores.view(np.int32)
    pool = np.empty(2 * depth + 64, dtype=np.int64)
    for query in range(len(query_starts) - 1):
        scores[:] = 0
        for place in range(query_starts[query], query_starts[query + 1]):
            term, weight = query_terms[place], query_weights[place]
            for posting in range(starts[term], starts[term + 1]):
                scores[rows[posting]] += impacts[posting] * weight
        held, floor = 0, np.int32(1)  # scores are not negative here, so their bits rise with them
        for row in range(documents):
            if bits[row] >= floor:
                pool[held] = (np.int64(bits[row]) << 32) | np.int64(ranks[row])
                held += 1
                if held == len(pool):
                    pool[:depth] = np.partition(pool, held - depth)[held - depth :]
                    held = depth
                    floor = np.int32(pool[:depth].min() >> 32)
        kept = np.sort(pool[:held])[::-1]
        sizes[query] = min(held, depth)
        found[query, : sizes[query]] = kept[: sizes[query]]
    return sizes
