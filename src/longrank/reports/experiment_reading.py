"""An experiment's records as a grid of rows and columns: means, intervals and tests, before any words or markup.

A row is a system (ranker, backbone and the point of a sweep), a column where it was scored, after which training and by
which measure. Seeds are averaged by query before anything is tested; a pair of rows is compared on the queries both
have, so that a ranker tried on fewer queries shortens nobody else's sample.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from longrank.core.errors import DataError
from longrank.core.seeds import generator
from longrank.evaluation.comparison import Estimate, compare
from longrank.evaluation.measures import PerQuery
from longrank.evaluation.pooling import average_seeds
from longrank.evaluation.significance import FEWEST_QUERIES, Interval, bca_interval, correct, threshold
from longrank.experiments.records import LABELS, CellResult, ExperimentResult, Labels
from longrank.reports.experiment_pooling import POOLED, with_pooled
from longrank.reports.experiment_rows import Column, Row, Rows, baselines_of

DRAWS = 9_999
K = TypeVar("K")
_NAMES = {"bm25": "BM25", "random": "random order", "perfect": "perfect order"}
_BASELINE, _UNTRAINED = "baseline", "untrained"  # stages of references and of rankers that no training changes


class Place(NamedTuple):
    """One row in one column; the interval is None for a single query."""

    mean: float
    interval: Interval | None
    queries: int
    seed_means: tuple[float, ...]
    collapsed: int  # seeds whose training ended in constant scores; none is left out

    @property
    def seeds(self) -> int:
        """How many trainings were averaged."""
        return len(self.seed_means)


class Change(NamedTuple):
    """The same row after a later training, against an earlier one on the same queries."""

    row: Row
    before: Column
    after: Column
    estimate: Estimate


@dataclass(frozen=True)
class Reading:
    """Everything the reports say; ``against`` holds a row's tests by letter of the baseline."""

    result: ExperimentResult
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    places: Mapping[tuple[Row, Column], Place]
    grid: "Grid"
    baselines: Mapping[str, str]  # letter -> what it stands for
    own: Mapping[Row, Row]  # what letter a means for a row
    against: Mapping[tuple[Row, Column], Mapping[str, Estimate]]
    changes: tuple[Change, ...]

    def estimate(self, mine: tuple[Row, Column], theirs: tuple[Row, Column]) -> Estimate | None:
        """The paired comparison of two places, not corrected; None where they share fewer than two queries."""
        return self.grid.estimate(mine, theirs, DRAWS)

    def gains(self, row: Row) -> list[float]:
        """In percent over a, by each collection's first measure; a pooled query set stands for its parts."""
        parts = {part for name, of in POOLED.items() if any(c.scored_on == name for c in self.columns) for part in of}
        tests = [self.against.get((row, c), {}).get("a") for c in self.main_columns if c.scored_on not in parts]
        return [test.relative for test in tests if test is not None and test.relative is not None]

    @cached_property
    def main_columns(self) -> list[Column]:
        """The columns of each collection's first measure, which the sentences and figures are about."""
        first: dict[str, str] = {}
        for column in self.columns:
            first.setdefault(column.scored_on, column.measure)
        return [column for column in self.columns if first[column.scored_on] == column.measure]

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Labels of a sweep, in its order."""
        return tuple(dict.fromkeys(label for row in self.rows for label, _ in row.settings))

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """Labels of a sweep that take more than one value."""
        taken = {label: {dict(row.settings).get(label) for row in self.rows} - {None} for label in self.settings}
        return tuple(label for label, values in taken.items() if len(values) > 1)

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """Trainings, in the order of the plan."""
        return tuple(dict.fromkeys(column.stage for column in self.columns))

    def heading(self, column: Column) -> str:
        """A column's name; the training is named where there are several."""
        stage = f", {column.stage}" if len(self.stages) > 1 and column.stage else ""
        return f"{column.scored_on}{stage} {column.measure}"

    def best(self, column: Column) -> frozenset[Row]:
        """Rows with the highest mean as printed, among systems tried on as many queries as any."""
        tried = {row: self.places[row, column] for row in self.rows if (row, column) in self.places}
        most = max((place.queries for place in tried.values()), default=0)
        means = {r: round(p.mean, 3) for r, p in tried.items() if p.queries == most and not r.reference}
        return frozenset(row for row, mean in means.items() if mean == max(means.values()))


def read_experiment(result: ExperimentResult, *, baseline: str | None = None, draws: int = DRAWS) -> Reading:
    """The grid of an experiment's scored cells.

    ``baseline`` is a ranker's label: each row is compared with that ranker of its own backbone and sweep point. Without
    it the one that the file names is taken (``gains_over``), else FirstP, else the first point of a sweep, else the
    first row; of an untrained one, what the file names for it.
    """
    scored = with_pooled(cell for cell in result.cells if cell.values and "ranker" in cell.labels)
    rows, columns, runs = _grid(scored)
    places = {key: _place(key, cells, draws) for key, cells in runs.items()}
    grid = Grid(rows, columns, {key: [_values(c, key[1].measure) for c in cells] for key, cells in runs.items()})
    baselines = baselines_of(rows, baseline, result)
    against: dict[tuple[Row, Column], dict[str, Estimate]] = {}
    for letter, (_, of) in baselines.items():
        for key, estimate in grid.tested(of, letter, draws):
            against.setdefault(key, {})[letter] = estimate
    labels = {letter: label for letter, (label, _) in baselines.items()}
    own = {row: others[0] for row, others in baselines["a"][1].items()} if "a" in baselines else {}
    return Reading(result, rows, columns, places, grid, labels, own, against, grid.changes(draws))


@dataclass(frozen=True)
class Grid:
    """Rows, columns, and the values of each seed where a row was tried."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    seeds: Mapping[tuple[Row, Column], Sequence[PerQuery]]

    def tested(self, of: Mapping[Row, Rows], letter: str, draws: int) -> list[tuple[tuple[Row, Column], Estimate]]:
        """Each row against the first of its baselines that a column has, corrected within it."""
        found = []
        for column in self.columns:
            family = {}
            for row, others in of.items():
                other = next((each for each in others if (each, column) in self.seeds), row)
                estimate = self.estimate((row, column), (other, column), draws)
                if estimate is not None:
                    family[row] = dataclasses.replace(estimate, letter=letter)
            found += [((row, column), estimate) for row, estimate in corrected(family)]
        return found

    def changes(self, draws: int) -> tuple[Change, ...]:
        """Each later training of a row against the first, corrected within a pair of columns."""
        found: list[Change] = []
        for after in self.columns:
            same = [c for c in self.columns if (c.scored_on, c.measure) == (after.scored_on, after.measure)]
            if same[0] == after:
                continue
            family = {}
            for row in self.rows:
                estimate = self.estimate((row, after), (row, same[0]), draws)
                if estimate is not None and _trained_twice(self.seeds, row, same[0], after):
                    family[row] = estimate
            found += [Change(row, same[0], after, estimate) for row, estimate in corrected(family)]
        return tuple(found)

    def estimate(self, mine: tuple[Row, Column], theirs: tuple[Row, Column], draws: int) -> Estimate | None:
        """The paired comparison of two places, None if they share fewer than two queries."""
        if mine == theirs or mine not in self.seeds or theirs not in self.seeds:
            return None
        measure = mine[1].measure
        left, right = (average_seeds(self.seeds[key])[measure] for key in (mine, theirs))
        if len(left.keys() & right.keys()) < 2:
            return None
        names = [_label(mine), _label(theirs)]
        if names[0] == names[1]:  # a ranker that is called as its first stage
            names[1] += ", the baseline"
        found = compare(
            {names[0]: self.seeds[mine], names[1]: self.seeds[theirs]},
            baseline=names[1],
            rng=_same_draws(),
            correction="none",
            alpha=threshold(mine[1].scored_on),
            draws=draws,
        )
        return found.estimates[0]


def told_apart(estimate: Estimate) -> bool:
    """Whether a difference may be claimed: its corrected p is below the threshold and its interval excludes zero.

    Of fewer than six queries nothing is claimed: no exact test of five signs can reach .05.
    """
    low, high = estimate.interval
    return estimate.queries >= FEWEST_QUERIES and estimate.significant and (low > 0 or high < 0)


def _grid(
    cells: Iterable[CellResult],
) -> tuple[tuple[Row, ...], tuple[Column, ...], dict[tuple[Row, Column], list[CellResult]]]:
    """Rows in the order of the plan (references last), columns, and the cells (one a seed) of each place."""
    cells = list(cells)
    naming = _naming(cells)
    stages = _stages(cells)
    found: dict[tuple[Row, Column], list[CellResult]] = {}
    for cell in cells:
        row = naming.row(cell.labels)
        for column in _columns(cell, stages):
            found.setdefault((row, column), []).append(cell)
    rows = dict.fromkeys(row for row, _ in found)
    places = dict.fromkeys(column for _, column in found)
    order = list(dict.fromkeys(column.scored_on for column in places))
    columns = sorted(places, key=lambda c: (order.index(c.scored_on), _stage_rank(c, stages)))
    return (
        (*(row for row in rows if not row.reference), *(row for row in rows if row.reference)),
        tuple(columns),
        found,
    )


def _stages(cells: Sequence[CellResult]) -> dict[str, list[str]]:
    """Trainings whose rankers were scored on each collection; one empty name where there is none."""
    stages: dict[str, list[str]] = {}
    for cell in cells:
        known = stages.setdefault(str(cell.labels["scored_on"]), [])
        stage = str(cell.labels["stage"])
        if stage not in (_BASELINE, _UNTRAINED) and stage not in known:
            known.append(stage)
    return {collection: known or [""] for collection, known in stages.items()}


def _stage_rank(column: Column, stages: Mapping[str, Sequence[str]]) -> int:
    return stages[column.scored_on].index(column.stage)


def _columns(cell: CellResult, stages: Mapping[str, Sequence[str]]) -> list[Column]:
    """Where a cell stands: references beside every training, what is never trained once."""
    collection, stage = str(cell.labels["scored_on"]), str(cell.labels["stage"])
    shown = {_BASELINE: stages[collection], _UNTRAINED: stages[collection][:1]}.get(stage, [stage])
    return [Column(collection, each, measure) for each in shown for measure in cell.values]


@dataclass(frozen=True)
class _Naming:
    """Which labels tell rows apart, so that a name says only what differs; ``several`` rankers have many backbones."""

    several: frozenset[str]
    points: tuple[str, ...]

    def row(self, labels: Labels) -> Row:
        """Row of a cell's labels."""
        ranker, backbone = str(labels["ranker"]), str(labels.get("backbone", ""))
        settings = tuple((label, labels[label]) for label in self.points if label in labels)
        reference = ""
        if labels["stage"] == _BASELINE:
            reference = ranker if ranker in ("random", "perfect") else "retriever"
        name = (_NAMES.get(ranker, ranker) if reference else ranker) + (
            f" ({backbone})" if backbone and ranker in self.several else ""
        )
        return Row(name, ranker, backbone, settings, reference)


def _naming(cells: Sequence[CellResult]) -> _Naming:
    pairs = {(str(cell.labels["ranker"]), cell.labels.get("backbone", "")) for cell in cells}
    times = Counter(ranker for ranker, _ in pairs)
    several = frozenset(ranker for ranker, count in times.items() if count > 1)
    swept = dict.fromkeys(label for cell in cells for label in cell.labels if label not in LABELS)
    first_stages = {(cell.labels["scored_on"], cell.labels.get("retriever")) for cell in cells}
    most = max(Counter(scored_on for scored_on, _ in first_stages).values(), default=1)
    return _Naming(several, (*swept, *(["retriever"] if most > 1 else [])))


def _place(key: tuple[Row, Column], cells: Sequence[CellResult], draws: int) -> Place:
    measure = key[1].measure
    averaged = average_seeds([_values(cell, measure) for cell in cells])[measure]
    if not averaged:
        raise DataError(f"the seeds of {_label(key)} share no query; evaluate each on the same queries")
    values = np.fromiter(averaged.values(), dtype=np.float64)
    interval = None
    if len(values) > 1:
        interval = bca_interval(values, rng=_same_draws(), draws=draws)
    seed_means = tuple(_mean(cell.values[measure].values()) for cell in cells)
    collapsed = sum(bool(cell.facts.get("collapsed", False)) for cell in cells)
    return Place(_mean(averaged.values()), interval, len(values), seed_means, collapsed)


def _same_draws() -> np.random.Generator:
    """The draws of every interval: rows that are equal have equal intervals, whatever they are called."""
    return generator("report", 0)


def _values(cell: CellResult, measure: str) -> PerQuery:
    return {measure: cell.values[measure]}


def _label(key: tuple[Row, Column]) -> str:
    return " / ".join((key[0].name, *(part for part in key[1] if part)))


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)


def corrected(family: Mapping[K, Estimate]) -> list[tuple[K, Estimate]]:
    """A family of tests with Holm's correction."""
    fresh = correct([estimate.p for estimate in family.values()], "holm")
    return [
        (row, dataclasses.replace(estimate, corrected_p=p))
        for (row, estimate), p in zip(family.items(), fresh, strict=True)
    ]


def _trained_twice(
    seeds: Mapping[tuple[Row, Column], Sequence[PerQuery]], row: Row, before: Column, after: Column
) -> bool:
    """Whether two trainings stand behind the columns, not one untrained result shown in both."""
    one, other = seeds[row, before], seeds[row, after]
    return not all(left[before.measure] is right[after.measure] for left, right in zip(one, other, strict=False))
