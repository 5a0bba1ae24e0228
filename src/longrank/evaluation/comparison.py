"""Systems against baselines: seeds averaged by query first, then one paired test a pair and column."""

import dataclasses
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from longrank.core.errors import DataError, SettingsError, UnknownName
from longrank.evaluation.measures import PerQuery
from longrank.evaluation.pooling import average_seeds
from longrank.evaluation.significance import (
    Correction,
    Effect,
    Interval,
    Test,
    bca_interval,
    correct,
    effect_size,
    p_value,
    threshold,
)


@dataclass(frozen=True)
class Estimate:
    """One system against one baseline in one column."""

    system: str
    measure: str
    baseline: str
    letter: str
    queries: int
    mean: float
    baseline_mean: float
    interval: Interval  # of the difference
    effect: Effect
    p: float
    corrected_p: float
    alpha: float

    @property
    def difference(self) -> float:
        """Mean over queries of system minus baseline."""
        return self.mean - self.baseline_mean

    @property
    def relative(self) -> float | None:
        """Gain in percent of the baseline's mean, None if that is 0."""
        return 100 * self.difference / self.baseline_mean if self.baseline_mean else None

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below the column's threshold."""
        return self.corrected_p < self.alpha


@dataclass(frozen=True)
class Baseline:
    """A letter of the table and, for each system that has one, what it is compared with."""

    letter: str
    of: Mapping[str, str]
    label: str


@dataclass(frozen=True)
class Comparison:
    """Per-query values of all systems and every test made on them; tables are views of this."""

    values: Mapping[str, PerQuery]  # system -> column -> query -> mean over seeds
    seeds: Mapping[str, int]
    dropped: Mapping[str, int]  # column -> queries that some system or seed lacks
    baselines: tuple[Baseline, ...]
    estimates: tuple[Estimate, ...]
    test: Test
    correction: Correction
    level: float
    draws: int

    @property
    def systems(self) -> tuple[str, ...]:
        """Names in the order given."""
        return tuple(self.values)

    @property
    def columns(self) -> tuple[str, ...]:
        """Measures in the order given."""
        return tuple(next(iter(self.values.values())))

    @cached_property
    def gains(self) -> Mapping[tuple[str, str], Estimate]:
        """(system, measure) -> estimate against the first baseline."""
        letter = self.baselines[0].letter
        return {(e.system, e.measure): e for e in self.estimates if e.letter == letter}

    def queries(self, column: str) -> int:
        """Number of queries that every system has."""
        return len(next(iter(self.values.values()))[column])

    def mean(self, system: str, column: str) -> float:
        """Mean over queries."""
        row = self.values[system][column]
        return math.fsum(row.values()) / len(row)

    def best(self, column: str) -> frozenset[str]:
        """Systems with the highest mean, as printed to four digits."""
        means = {system: round(self.mean(system, column), 4) for system in self.systems}
        return frozenset(system for system, mean in means.items() if mean == max(means.values()))

    def letters(self, system: str, column: str) -> str:
        """Letters of the baselines from which the system differs significantly, either way."""
        marks = (e for e in self.estimates if (e.system, e.measure) == (system, column) and e.significant)
        return "".join(sorted(e.letter for e in marks))

    def average_gain(self, system: str) -> float | None:
        """Mean over columns of the relative gains over the first baseline; None for a baseline or if one is unknown."""
        gains = [self.gains[system, column].relative for column in self.columns if (system, column) in self.gains]
        known = [gain for gain in gains if gain is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(self.columns) else None


def compare(
    systems: Mapping[str, Sequence[PerQuery]],
    *,
    baseline: str | Sequence[str] = (),
    own: Mapping[str, str] | None = None,
    rng: np.random.Generator,
    test: Test = "t",
    correction: Correction = "holm",
    alpha: float | Mapping[str, float] | None = None,
    level: float = 0.95,
    draws: int = 9999,
) -> Comparison:
    """Every system against every baseline, in every column that all systems have.

    ``systems`` maps a name to one PerQuery a seed. ``own`` names each system's own baseline (its FirstP) and takes the
    first letter; ``baseline`` names fixed ones, which take the next letters. Columns are measures, or '<collection>
    <measure>' from ``join_collections``; ``alpha`` is one threshold or a table by collection, the papers' by default.
    Queries that some system lacks are dropped from the column and counted. The correction covers all systems tested
    against one baseline in one column; ``correction="none"`` is what the papers do.
    """
    names = [baseline] if isinstance(baseline, str) else list(baseline)
    check_names(list(systems), names, own or {})
    values, dropped = _common_queries({name: average_seeds(seeds) for name, seeds in systems.items()}, systems)
    baselines = _baselines(tuple(values), names, own or {})
    estimates: list[Estimate] = []
    for line in baselines:
        for column in next(iter(values.values())):
            bar = _alpha(column, alpha)
            family = _tested(values, line, column, alpha=bar, test=test, level=level, draws=draws, rng=rng)
            corrected = correct([estimate.p for estimate in family], correction)
            estimates += [dataclasses.replace(e, corrected_p=p) for e, p in zip(family, corrected, strict=True)]
    seeds = {name: len(runs) for name, runs in systems.items()}
    return Comparison(values, seeds, dropped, baselines, tuple(estimates), test, correction, level, draws)


def _common_queries(
    averaged: Mapping[str, PerQuery], systems: Mapping[str, Sequence[PerQuery]]
) -> tuple[Mapping[str, PerQuery], dict[str, int]]:
    first, *others = averaged.values()
    columns = [column for column in first if all(column in other for other in others)]
    if not columns:
        raise DataError("the systems share no measure; evaluate each with the same measures")
    kept = {c: [q for q in first[c] if all(q in other[c] for other in others)] for c in columns}
    for column, queries in kept.items():
        if len(queries) < 2:
            raise DataError(f"{column}: the systems share {len(queries)} queries, but a test needs at least two")
    values = {name: {c: {q: row[c][q] for q in kept[c]} for c in columns} for name, row in averaged.items()}
    seen = {c: {q for runs in systems.values() for run in runs for q in run[c]} for c in columns}
    return values, {column: len(seen[column]) - len(kept[column]) for column in columns}


def check_names(systems: Sequence[str], baselines: Sequence[str], own: Mapping[str, str]) -> None:
    """Refuse a comparison of fewer than two systems, with none of them, or with one that is not there."""
    if len(systems) < 2:
        raise DataError(f"a comparison needs at least two systems, got {len(systems)}")
    if not baselines and not own:
        raise SettingsError("nothing to compare with: name a baseline, or each system's own")
    for name in (*baselines, *own, *own.values()):
        if name not in systems:
            raise UnknownName(f"no system {name!r} to compare with; the systems are {', '.join(systems)}")


def _baselines(systems: tuple[str, ...], names: Sequence[str], own: Mapping[str, str]) -> tuple[Baseline, ...]:
    tables = [(dict(own), "own baseline")] if own else []
    tables += [(dict.fromkeys(systems, name), name) for name in dict.fromkeys(names)]
    if len(tables) > len(string.ascii_lowercase):
        raise SettingsError(f"{len(tables)} baselines are more than there are letters")
    return tuple(
        Baseline(letter, {system: name for system, name in of.items() if system != name}, label)
        for letter, (of, label) in zip(string.ascii_lowercase, tables, strict=False)
    )


def _alpha(column: str, alpha: float | Mapping[str, float] | None) -> float:
    bar = float(alpha) if isinstance(alpha, int | float) else threshold(column, alpha)
    if not 0 < bar < 1:
        raise SettingsError(f"a significance threshold lies between 0 and 1, got {bar}")
    return bar


def _tested(
    values: Mapping[str, PerQuery],
    baseline: Baseline,
    column: str,
    *,
    alpha: float,
    test: Test,
    level: float,
    draws: int,
    rng: np.random.Generator,
) -> list[Estimate]:
    family = []
    for system, reference in baseline.of.items():
        mine, theirs = values[system][column], values[reference][column]
        left, right = (np.fromiter((row[q] for q in mine), dtype=np.float64) for row in (mine, theirs))
        difference = left - right
        p = p_value(difference, test=test, rng=rng, draws=draws)
        family.append(
            Estimate(
                system,
                column,
                reference,
                baseline.letter,
                queries=len(difference),
                mean=float(left.mean()),
                baseline_mean=float(right.mean()),
                interval=bca_interval(difference, rng=rng, level=level, draws=draws),
                effect=effect_size(difference),
                p=p,
                corrected_p=p,
                alpha=alpha,
            )
        )
    return family
