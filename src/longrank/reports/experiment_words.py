"""What an experiment shows, in sentences made from its statistics: nothing is claimed that a test does not bear out."""

import math
from collections.abc import Sequence
from statistics import median

from longrank.evaluation.comparison import Estimate
from longrank.evaluation.significance import CORRECTION_NAMES, FEWEST_QUERIES, TEST_NAMES
from longrank.experiments.records import ExperimentResult
from longrank.positions.gold import SNIPPETS
from longrank.reports.experiment_audits import audit_statements
from longrank.reports.experiment_reading import Change, Place, Reading, told_apart
from longrank.reports.experiment_rows import Column, Row
from longrank.reports.page import Statement
from longrank.reports.tables import signed

_FEW_QUERIES = 30
_NAMED = 4  # systems named in one sentence; the rest are counted


def what_it_shows(reading: Reading) -> list[str | Statement]:
    """Statements on each column of the first measure, then on changes between trainings, then the cautions."""
    columns = main_columns(reading)
    found = [statement for column in columns for statement in _on_column(reading, column)]
    found += [_on_changes(reading, after) for after in columns if _changes(reading, after)]
    found += [*audit_statements(reading.result), *_on_positions(reading.result)]
    return [*_unfinished(reading), *found, *_cautions(reading)]


def main_columns(reading: Reading) -> list[Column]:
    """The columns of each collection's first measure, which the sentences and figures are about."""
    first: dict[str, str] = {}
    for column in reading.columns:
        first.setdefault(column.scored_on, column.measure)
    return [column for column in reading.columns if first[column.scored_on] == column.measure]


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


def _on_column(reading: Reading, column: Column) -> list[Statement]:
    """One statement a column: what is above and below the first baseline, and what does not beat the others."""
    families: dict[str, dict[Row, Estimate]] = {}
    for row in reading.rows:
        for letter, estimate in reading.against.get((row, column), {}).items():
            families.setdefault(letter, {})[row] = estimate
    if not families:
        return []
    first, *others = sorted(families)
    parts = _family(reading.baselines[first], families[first])
    for letter in others:
        parts += _short_of(reading.baselines[letter], families[letter])
    places = [reading.places[row, column] for family in families.values() for row in family]
    return [Statement(f"{reading.heading(column)} ({_sample(places)})", _points(parts))]


def _short_of(label: str, family: dict[Row, Estimate]) -> list[str]:
    """Who does not beat a baseline that all should beat."""
    below = [row.name for row, e in family.items() if told_apart(e) and e.difference < 0]
    level = [row.name for row, e in family.items() if not told_apart(e)]
    groups = {"below": below, "not told apart from": level}
    return [f"{word} {label}: {_named(names)}" for word, names in groups.items() if names] or [f"all above {label}"]


def _family(label: str, family: dict[Row, Estimate]) -> list[str]:
    above = {row: e for row, e in family.items() if told_apart(e) and e.difference > 0}
    below = {row: e for row, e in family.items() if told_apart(e) and e.difference < 0}
    level = [row.name for row in family if row not in above and row not in below]
    parts = [f"{word} {label}: {_listed(rows)}" for word, rows in (("above", above), ("below", below)) if rows]
    return [*parts, *([f"not told apart from {label}: {_named(level)}"] if level else [])]


def _points(parts: Sequence[str]) -> list[str]:
    return [f"{part[0].upper()}{part[1:]}." for part in parts]


def _listed(estimates: dict[Row, Estimate]) -> str:
    ordered = sorted(estimates.items(), key=lambda item: -abs(item[1].difference))
    return _named([f"{row.name} {signed(estimate)}" for row, estimate in ordered])


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _sample(places: Sequence[Place]) -> str:
    queries, seeds = ({getattr(place, name) for place in places} for name in ("queries", "seeds"))
    return f"n = {_range(queries)} {'query' if queries == {1} else 'queries'}, {_range(seeds)} {_plural(seeds)}"


def _range(counts: set[int]) -> str:
    return f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _plural(counts: set[int]) -> str:
    return "seed" if counts == {1} else "seeds"


def _changes(reading: Reading, after: Column) -> list[Change]:
    return [change for change in reading.changes if change.after == after]


def _on_changes(reading: Reading, after: Column) -> Statement:
    changes = _changes(reading, after)
    groups = {
        "higher": {c.row: c.estimate for c in changes if told_apart(c.estimate) and c.estimate.difference > 0},
        "lower": {c.row: c.estimate for c in changes if told_apart(c.estimate) and c.estimate.difference < 0},
    }
    parts = [f"{word}: {_listed(rows)}" for word, rows in groups.items() if rows]
    same = [change.row.name for change in changes if not told_apart(change.estimate)]
    if same:
        parts.append(f"no difference that can be told from zero: {_named(same)}")
    sample = _sample([reading.places[change.row, after] for change in changes])
    head = f"{after.stage} against {changes[0].before.stage} on {after.scored_on} ({after.measure}, {sample})"
    return Statement(head, _points(parts))


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
            collapsed[row.name] = max(place.collapsed, collapsed.get(row.name, 0))
    if collapsed:
        told = ", ".join(f"{name} {count}" for name, count in collapsed.items())
        found.append(f"Trainings that collapsed to constant scores, counted in the means like all others: {told}.")
    about = reading.result.about
    if about.get("size") == "laptop" and reading.rows:
        found.append("Laptop size: small encoders on small collections. Directions may carry over, numbers do not.")
    return found


def _unfinished(reading: Reading) -> list[str]:
    planned, finished = (reading.result.about.get(name) for name in ("cells", "finished_cells"))
    if planned is None or finished is None or finished >= planned:
        return []
    return [f"Unfinished: {finished} of {planned} cells are there; what follows is about these."]
