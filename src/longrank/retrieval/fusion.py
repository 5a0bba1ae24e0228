"""Several runs made one: weighted sums of normalised scores, reciprocal ranks, weights found on training queries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from longrank.core.errors import SettingsError
from longrank.core.types import Run, RunNotes
from longrank.retrieval.tuning import Objective, Tuned, grid_search

Normalisation = Literal["min-max", "z", "none"]
Candidates = Literal["union", "intersection", "first"]
Row = Mapping[str, float]
WEIGHTS = tuple(step / 20 for step in range(21))


def normalise(run: Run, how: Normalisation = "min-max") -> Run:
    """The run with each query's scores brought to one scale.

    ``min-max`` maps them to 0..1 (equal scores all to 1), ``z`` to mean 0 and deviation 1 (equal scores all to 0).

    >>> normalise(Run("r", {"q": {"a": 4.0, "b": 3.0, "c": 2.0}})).scores["q"]
    {'a': 1.0, 'b': 0.5, 'c': 0.0}
    """
    scales: dict[Normalisation, Callable[[Row], Row]] = {"min-max": _min_max, "z": _z, "none": dict}
    scale = scales[how]
    return Run(run.name, {query_id: scale(row) for query_id, row in run.scores.items()}, run.notes)


def linear(
    runs: Sequence[Run],
    weights: Sequence[float],
    *,
    normalisation: Normalisation = "min-max",
    candidates: Candidates = "union",
    name: str = "linear",
) -> Run:
    """The weighted sum of the runs' normalised scores; a document that a run lacks gets that run's lowest score.

    With ``min-max`` that is 0, below the 1 of equal scores too: a run's only document is ahead of those it lacks. With
    ``z`` and ``none`` a row of equal scores has no scale to put anything below it, and tells no document apart.
    ``candidates`` says which documents are kept: those of any run, of every run, or of the first.
    """
    if not runs or len(runs) != len(weights):
        raise SettingsError(f"fusion needs one weight a run, got {len(weights)} weights for {len(runs)} runs")
    scaled = [normalise(run, normalisation) for run in runs]
    return _summed(scaled, weights, normalisation, candidates=candidates, name=name)


def interpolate(first: Run, second: Run, weight: float, *, normalisation: Normalisation = "min-max") -> Run:
    """``weight`` x first + (1 - ``weight``) x second, over the documents of both."""
    return linear([first, second], [weight, 1 - weight], normalisation=normalisation, name="interpolated")


def reciprocal_rank(runs: Sequence[Run], *, k: int = 60) -> Run:
    """Reciprocal rank fusion: the sum of 1 / (k + rank) over the runs that have the document (Cormack et al. 2009).

    >>> one, two = Run("1", {"q": {"a": 9.0, "b": 8.0}}), Run("2", {"q": {"b": 1.0, "c": 0.5}})
    >>> reciprocal_rank([one, two]).ranking("q")
    ['b', 'a', 'c']
    """

    def fuse(query_id: str) -> dict[str, float]:
        fused: dict[str, float] = {}
        for run in runs:
            for rank, document_id in enumerate(run.ranking(query_id), start=1):
                fused[document_id] = fused.get(document_id, 0.0) + 1 / (k + rank)
        return fused

    return _fused(runs, fuse, "rrf")


def pool(runs: Sequence[Run], *, depth: int) -> Run:
    """The union of the runs' best ``depth`` documents; a document's score is 1 / its best rank in any of them."""

    def fuse(query_id: str) -> dict[str, float]:
        fused: dict[str, float] = {}
        for run in runs:
            for rank, document_id in enumerate(run.ranking(query_id)[:depth], start=1):
                fused[document_id] = max(fused.get(document_id, 0.0), 1 / rank)
        return fused

    return _fused(runs, fuse, "pool")


def best_weight(
    first: Run,
    second: Run,
    objective: Objective,
    *,
    weights: Sequence[float] = WEIGHTS,
    normalisation: Normalisation = "min-max",
) -> Tuned[float]:
    """The weight of the first run that makes the objective of the interpolated run largest."""
    one, other = normalise(first, normalisation), normalise(second, normalisation)
    return grid_search(weights, lambda weight: objective(_summed([one, other], [weight, 1 - weight], normalisation)))


def best_weights(
    runs: Sequence[Run],
    objective: Objective,
    *,
    normalisation: Normalisation = "min-max",
    rounds: int = 5,
    weights: Sequence[float] = WEIGHTS,
) -> Tuned[tuple[float, ...]]:
    """Weights of an ensemble by coordinate ascent from equal weights, each set scaled to sum to one."""
    scaled = [normalise(run, normalisation) for run in runs]

    def worth(choice: tuple[float, ...]) -> float:
        return objective(_summed(scaled, choice, normalisation))

    found = grid_search([tuple(1 / len(runs) for _ in runs)], worth)
    for _ in range(rounds):
        before = found.value
        for place in range(len(runs)):
            tried = grid_search([found.best, *_moved(found.best, place, weights)], worth)
            found = Tuned(tried.best, tried.value, found.trials + tried.trials)
        if found.value <= before:
            break
    return found


def cross_validated(
    runs: Sequence[Run],
    folds: Sequence[Iterable[str]],
    objective: Objective,
    *,
    normalisation: Normalisation = "min-max",
) -> Run:
    """An ensemble in which each fold of query ids is fused with the weights found on the other folds.

    Folds without queries are left out.
    """
    parts = [part for part in map(frozenset, folds) if part]
    everything = frozenset().union(*parts)
    if len(parts) < 2 or sum(map(len, parts)) != len(everything):
        raise SettingsError("cross-validation needs at least two folds with queries, and every query in one fold only")
    rows: dict[str, Row] = {}
    for fold in parts:
        tuned = best_weights([select(run, everything - fold) for run in runs], objective, normalisation=normalisation)
        fused = linear([select(run, fold) for run in runs], tuned.best, normalisation=normalisation)
        rows.update(fused.scores)
    return Run("cross-validated", rows, _notes(runs, rows))


def select(run: Run, query_ids: Iterable[str]) -> Run:
    """The run of these queries only."""
    kept = frozenset(query_ids)
    return Run(run.name, {query_id: row for query_id, row in run.scores.items() if query_id in kept}, run.notes)


def _summed(
    scaled: Sequence[Run],
    weights: Sequence[float],
    normalisation: Normalisation,
    *,
    candidates: Candidates = "union",
    name: str = "linear",
) -> Run:
    """The weighted sum of runs that were normalised in this way."""

    def fuse(query_id: str) -> dict[str, float]:
        rows = [run.scores.get(query_id, {}) for run in scaled]
        absent = [0.0 if normalisation == "min-max" else min(row.values(), default=0.0) for row in rows]
        parts = list(zip(weights, rows, absent, strict=True))
        return {d: sum(w * row.get(d, low) for w, row, low in parts) for d in _chosen(rows, candidates)}

    return _fused(scaled, fuse, name)


def _moved(current: tuple[float, ...], place: int, weights: Sequence[float]) -> list[tuple[float, ...]]:
    """The current weights with one of them set to each value, the others sharing the rest as they do now."""
    rest = sum(current) - current[place]
    if len(current) == 1 or rest <= 0:
        return []
    return [
        tuple(weight if i == place else old * (1 - weight) / rest for i, old in enumerate(current))
        for weight in weights
    ]


def _chosen(rows: Sequence[Row], candidates: Candidates) -> dict[str, None]:
    if candidates == "first":
        return dict.fromkeys(rows[0])
    if candidates == "union":
        return {document_id: None for row in rows for document_id in row}
    return {document_id: None for document_id in rows[0] if all(document_id in row for row in rows[1:])}


def _fused(runs: Sequence[Run], fuse: Callable[[str], dict[str, float]], name: str) -> Run:
    rows = {query_id: fuse(query_id) for query_id in dict.fromkeys(q for run in runs for q in run)}
    return Run(name, rows, _notes(runs, rows))


def _notes(runs: Sequence[Run], rows: Mapping[str, Row]) -> RunNotes:
    """Cut texts of all runs; a query is dropped only if no run had documents for it."""
    total = sum((run.notes for run in runs), RunNotes())
    dropped = tuple(q for q in dict.fromkeys(total.dropped_queries) if not rows.get(q))
    return replace(total, dropped_queries=dropped)


def _min_max(row: Row) -> dict[str, float]:
    if not row:
        return {}
    low, high = min(row.values()), max(row.values())
    width = high - low
    return {d: (score - low) / width if width > 0 else 1.0 for d, score in row.items()}


def _z(row: Row) -> dict[str, float]:
    if not row:
        return {}
    values = np.fromiter(row.values(), dtype=np.float64)
    deviation = float(values.std())
    scaled = (values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values)
    return dict(zip(row, scaled.tolist(), strict=True))
