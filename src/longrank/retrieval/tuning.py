"""Settings chosen by trying them on training queries."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Generic, TypeVar

from longrank.core.errors import SettingsError
from longrank.core.progress import track
from longrank.core.types import Query, Run
from longrank.retrieval.bm25 import BM25
from longrank.retrieval.rm3 import RM3, RM3Settings

T = TypeVar("T")
Objective = Callable[[Run], float]  # larger is better


@dataclass(frozen=True)
class Trial(Generic[T]):
    """One choice and what it was worth."""

    choice: T
    value: float


@dataclass(frozen=True)
class Tuned(Generic[T]):
    """The best choice with every trial, in the order tried."""

    best: T
    value: float
    trials: tuple[Trial[T], ...]


def grid_search(choices: Iterable[T], worth: Callable[[T], float]) -> Tuned[T]:
    """The choice of the largest worth, the earliest of equals.

    >>> grid_search([1, 2, 3], lambda x: -((x - 2) ** 2)).best
    2
    """
    trials = tuple(Trial(choice, worth(choice)) for choice in choices)
    if not trials:
        raise SettingsError("there is nothing to tune: the grid is empty")
    best = max(trials, key=lambda trial: trial.value)  # max keeps the first of equals
    return Tuned(best.choice, best.value, trials)


@dataclass(frozen=True)
class BM25Parameters:
    """A point of the BM25 grid."""

    k1: float
    b: float


def bm25_grid() -> list[BM25Parameters]:
    """b from 0.3 to 1.0 by 0.1, k1 from 0.4 to 1.6 by 0.2: 56 points."""
    return [BM25Parameters(k1 / 10, b / 10) for b, k1 in product(range(3, 11), range(4, 17, 2))]


def rm3_grid() -> list[RM3Settings]:
    """Documents, terms and original weight around the usual values: 27 points."""
    return [
        RM3Settings(documents=documents, terms=terms, original_weight=weight)
        for documents, terms, weight in product((5, 10, 20), (10, 20, 40), (0.3, 0.5, 0.7))
    ]


def tune_bm25(
    index: BM25,
    queries: Sequence[Query],
    objective: Objective,
    *,
    depth: int = 100,
    grid: Sequence[BM25Parameters] | None = None,
) -> Tuned[BM25Parameters]:
    """The k1 and b that make the objective of the queries' run largest; the index is not rebuilt."""
    points = bm25_grid() if grid is None else grid
    return grid_search(
        _tracked(points, "tuning BM25"),
        lambda point: objective(index.at(k1=point.k1, b=point.b).retrieve(queries, depth=depth)),
    )


def tune_rm3(
    index: BM25,
    queries: Sequence[Query],
    objective: Objective,
    *,
    depth: int = 100,
    grid: Sequence[RM3Settings] | None = None,
) -> Tuned[RM3Settings]:
    """The feedback settings that make the objective of the queries' run largest."""
    points = rm3_grid() if grid is None else grid
    return grid_search(
        _tracked(points, "tuning RM3"), lambda point: objective(RM3(index, point).retrieve(queries, depth=depth))
    )


def _tracked(points: Sequence[T], what: str) -> Iterator[T]:
    return track(points, what, total=len(points))
