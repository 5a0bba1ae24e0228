"""What an experiment shows, in sentences made from its statistics: nothing is claimed that a test does not bear out."""

import math
import re
from collections.abc import Iterable, Sequence
from statistics import median

from longrank.evaluation.comparison import Estimate
from longrank.evaluation.significance import CORRECTION_NAMES, FEWEST_QUERIES, TEST_NAMES
from longrank.experiments.records import ExperimentResult
from longrank.positions.gold import SNIPPETS
from longrank.reports.experiment_reading import Change, Reading, told_apart
from longrank.reports.experiment_rows import Column, Row
from longrank.reports.experiment_shifts import shifts
from longrank.reports.page import Statement
from longrank.reports.tables import signed

_FEW_QUERIES = 30


def in_detail(reading: Reading) -> list[str | Statement]:
    """Statements on each column of the first measure, then on changes between trainings, then the cautions."""
    columns = reading.main_columns
    found = [statement for column in columns for statement in _on_column(reading, column)]
    found += [_on_training(reading, after) for after in columns if changes_to(reading.changes, after)]
    moved = shifts(reading, columns)
    found += [_on_shift(reading, changes_to(moved, after)) for after in columns if changes_to(moved, after)]
    return [*found, *_on_positions(reading.result), *_cautions(reading)]


def row_words(reading: Reading, row: Row) -> str:
    """The system and its point of a sweep, as a person would say it."""
    last = [label.rpartition(".")[2] for label in reading.settings]
    short = {label: end if last.count(end) == 1 else label for label, end in zip(reading.settings, last, strict=True)}
    points = [f"{re.sub('[._]', ' ', short[label])} {value}" for label, value in row.settings]
    return f"{row.system} at {' and '.join(points)}" if points else row.system


def how_tested(reading: Reading) -> str:
    """How differences were tested and intervals made."""
    levels = sorted({e.alpha for tests in reading.against.values() for e in tests.values()})
    levels = levels or sorted({change.estimate.alpha for change in reading.changes})
    bars = " or ".join(f"{level:g}" for level in levels) or "0.05"
    return (
        f"{TEST_NAMES['t'].capitalize()} over queries, seeds averaged by query first, {CORRECTION_NAMES['holm']} "
        f"within a column and baseline, threshold {bars}; 95% BCa bootstrap intervals over queries. A difference is "
        f"claimed only if the test finds it and its interval excludes zero, from {FEWEST_QUERIES} queries on."
    )


def changes_to(changes: Sequence[Change], after: Column) -> list[Change]:
    """Those that end in the column."""
    return [change for change in changes if change.after == after]


def sample(queries: Iterable[int], seeds: Iterable[int]) -> str:
    """How many queries and seeds stand behind a statement.

    >>> sample([50, 300], [1])
    'n = 50 to 300 queries, 1 seed'
    """
    asked, sown = set(queries), set(seeds)
    return f"n = {count_range(asked)} {'query' if asked == {1} else 'queries'}, {count_range(sown)} {_plural(sown)}"


def _on_column(reading: Reading, column: Column) -> list[Statement]:
    """One statement a column: what is above and below the first baseline, and what does not beat the others."""
    families: dict[str, dict[Row, Estimate]] = {}
    for row in reading.rows:
        for letter, estimate in reading.against.get((row, column), {}).items():
            families.setdefault(letter, {})[row] = estimate
    if not families:
        return []
    first, *others = sorted(families)
    parts = _family(reading, reading.baselines[first], families[first])
    for letter in others:
        parts += _short_of(reading, reading.baselines[letter], families[letter])
    places = [reading.places[row, column] for family in families.values() for row in family]
    tried = sample((place.queries for place in places), (place.seeds for place in places))
    return [Statement(f"{reading.heading(column)} ({tried})", _points(parts))]


def _short_of(reading: Reading, label: str, family: dict[Row, Estimate]) -> list[str]:
    """Who does not beat a baseline that all should beat."""
    below = [row_words(reading, row) for row, e in family.items() if told_apart(e) and e.difference < 0]
    level = [row_words(reading, row) for row, e in family.items() if not told_apart(e)]
    groups = {"below": below, "no significant difference from": level}
    return [f"{word} {label}: {', '.join(names)}" for word, names in groups.items() if names] or [f"all above {label}"]


def _family(reading: Reading, label: str, family: dict[Row, Estimate]) -> list[str]:
    above = {row: e for row, e in family.items() if told_apart(e) and e.difference > 0}
    below = {row: e for row, e in family.items() if told_apart(e) and e.difference < 0}
    level = [row_words(reading, row) for row in family if row not in above and row not in below]
    parts = [f"{word} {label}: {_listed(reading, rows)}" for word, rows in (("above", above), ("below", below)) if rows]
    return [*parts, *([f"no significant difference from {label}: {', '.join(level)}"] if level else [])]


def _points(parts: Sequence[str]) -> list[str]:
    return [f"{part[0].upper()}{part[1:]}." for part in parts]


def _listed(reading: Reading, estimates: dict[Row, Estimate]) -> str:
    ordered = sorted(estimates.items(), key=lambda item: -abs(item[1].difference))
    return ", ".join(f"{row_words(reading, row)} {signed(estimate)}" for row, estimate in ordered)


def count_range(counts: set[int]) -> str:
    """A number, or the lowest and highest of several.

    >>> count_range({3}), count_range({1, 2, 6980})
    ('3', '1 to 6,980')
    """
    return f"{min(counts):,}" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,}"


def _plural(counts: set[int]) -> str:
    return "seed" if counts == {1} else "seeds"


def _on_training(reading: Reading, after: Column) -> Statement:
    changes = changes_to(reading.changes, after)
    return _on_changes(reading, changes, f"{after.stage} against {changes[0].before.stage} on {after.scored_on}")


def _on_shift(reading: Reading, changes: Sequence[Change]) -> Statement:
    before, after, trained = changes[0].before, changes[0].after, ""
    if len(reading.stages) > 1:
        trained = f" after {after.stage}"
    return _on_changes(reading, changes, f"{after.scored_on} against {before.scored_on}{trained}")


def _on_changes(reading: Reading, changes: Sequence[Change], head: str) -> Statement:
    groups = {
        "higher": {c.row: c.estimate for c in changes if told_apart(c.estimate) and c.estimate.difference > 0},
        "lower": {c.row: c.estimate for c in changes if told_apart(c.estimate) and c.estimate.difference < 0},
    }
    parts = [f"{word}: {_listed(reading, rows)}" for word, rows in groups.items() if rows]
    same = [row_words(reading, change.row) for change in changes if not told_apart(change.estimate)]
    if same:
        parts.append(f"no significant difference: {', '.join(same)}")
    places = [reading.places[change.row, change.after] for change in changes]
    tried = sample((place.queries for place in places), (place.seeds for place in places))
    return Statement(f"{head} ({changes[0].after.measure}, {tried})", _points(parts))


def _on_positions(result: ExperimentResult) -> list[Statement]:
    """Where the first relevant passage starts, as quantiles; no more is said than was located."""
    found = []
    for cell in result.where(what="positions"):
        starts, lengths = (sorted(cell.values.get(name, {}).values()) for name in ("start", "length"))
        if starts and lengths:
            nine_tenths = starts[math.ceil(0.9 * len(starts)) - 1]
            unit = "snippet" if cell.facts.get("tokenizer") == SNIPPETS else "token"
            sample = f"n = {len(starts)} located of {cell.facts.get('pairs', '?')} relevant pairs"
            point = (
                f"Half of the first relevant passages start by {unit} {median(starts):,.0f}, nine tenths by {unit} "
                f"{nine_tenths:,.0f}; the median document has {median(lengths):,.0f} {unit}s."
            )
            found.append(Statement(f"Positions in {cell.labels['collection']} ({sample})", [point]))
    return found


def _cautions(reading: Reading) -> list[str]:
    trained = [place for (row, _), place in reading.places.items() if row.backbone]
    found = []
    if trained and max(place.seeds for place in trained) == 1:
        found.append("One training a system: another seed may give other numbers, and no interval here covers that.")
    elif trained:
        found.append("The intervals cover the choice of queries; what seeds change is shown apart.")
    fewest = min((place.queries for place in reading.places.values()), default=_FEW_QUERIES)
    if fewest < _FEW_QUERIES:
        found.append(f"With as few as {fewest} queries only large differences can be found.")
    collapsed: dict[str, int] = {}
    for (row, _), place in reading.places.items():
        if place.collapsed:
            name = row_words(reading, row)
            collapsed[name] = max(place.collapsed, collapsed.get(name, 0))
    if collapsed:
        told = ", ".join(f"{name} {count}" for name, count in collapsed.items())
        found.append(f"Trainings that collapsed to constant scores, counted in the means like all others: {told}.")
    about = reading.result.about
    if about.get("size") == "laptop" and reading.rows:
        found.append("Laptop size: small encoders on small collections. Directions may carry over, numbers do not.")
    return found
