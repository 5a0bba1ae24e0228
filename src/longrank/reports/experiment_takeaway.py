"""What an experiment shows, for whoever reads no further: a few statements, each resting on tests named below it."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from longrank.evaluation.comparison import Estimate
from longrank.positions.gold import SNIPPETS
from longrank.reports.experiment_audits import audit_statements
from longrank.reports.experiment_reading import Change, Reading, told_apart
from longrank.reports.experiment_rows import Column, Row
from longrank.reports.experiment_shifts import shifts
from longrank.reports.experiment_words import changes_to, count_range, in_detail, row_words
from longrank.reports.page import Folded, Statement
from longrank.reports.tables import signed

_NAMED = 3  # systems named in a sentence; more are counted, and named in the details
_POINTS = 5  # of a statement

Family = Mapping[Row, Estimate]


def what_it_shows(reading: Reading) -> list[str | Statement | Folded]:
    """The takeaway and the audits' verdicts, and folded below the statements they are drawn from.

    Where nothing was compared there is no takeaway, and nothing is folded.
    """
    statements, details = takeaway(reading), in_detail(reading)
    folded = [Folded("In detail: every system in every column", details)] if statements else details
    return [*_unfinished(reading), *statements, *audit_statements(reading.result), *folded]


def takeaway(reading: Reading) -> list[Statement]:
    """At most five: own baseline, other collection, other training, first stage, and how sure all that is."""
    columns = reading.main_columns
    families = {letter: _families(reading, columns, letter) for letter in reading.baselines}
    retrieved = [row.system for row in reading.rows if row.reference == "retriever"]
    first_stage = next((c for c in "bc" if set(reading.baselines.get(c, "").split(" or ")) & set(retrieved)), "")
    moved = shifts(reading, columns)
    trained = [change for change in reading.changes if change.after in columns]
    found = {
        f"Compared with {reading.baselines.get('a', '')}": _first_few(_against_own(reading, families.get("a", {}))),
        _moved_head(reading, moved): _first_few(_between_collections(reading, moved)),
        "After other training": _first_few(_after_training(reading, trained)),
        f"Compared with the first-stage ranking ({reading.baselines.get(first_stage, '')})": _above_first_stage(
            reading, families.get(first_stage, {})
        ),
    }
    tests = sum(len(family) for of in families.values() for family in of.values()) + len(moved) + len(trained)
    statements = [Statement(head, points) for head, points in found.items() if points]
    return [*statements, Statement("How sure", _how_sure(reading, columns, tests))] if statements else []


def _families(reading: Reading, columns: Sequence[Column], letter: str) -> dict[Column, Family]:
    """Tests against one baseline by column; of what no training changes, those of a collection's first column only."""
    firsts = {column.scored_on: column for column in reversed(columns)}
    found = {
        column: {
            row: reading.against[row, column][letter]
            for row in reading.rows
            if letter in reading.against.get((row, column), {}) and (row.backbone or column in firsts.values())
        }
        for column in columns
    }
    return {column: family for column, family in found.items() if family}


def _above_first_stage(reading: Reading, families: Mapping[Column, Family]) -> list[str]:
    """Who is above it, by column, and how often anybody is below: rankers that lose to it would better not be used."""
    points = []
    for column, family in families.items():
        above, _ = _split(reading, family)
        if above:
            points.append(f"On {_place(reading, column)}: {_who(above, len(family))} significantly better.")
    tests = sum(map(len, families.values()))
    below = sum(len(_split(reading, family)[1]) for family in families.values())
    if tests and not points:
        points.append("No system is significantly better anywhere.")
    if not tests:
        return []
    counted = "comparison" if tests == 1 else "comparisons"
    return [*_first_few(points), f"In {below} of {tests} {counted} the system is significantly worse."]


def _against_own(reading: Reading, families: Mapping[Column, Family]) -> list[str]:
    points, seen = [], set()
    for column, family in families.items():
        evidence = "" if column.scored_on in seen else _evidence(reading, column.scored_on)
        points.append(f"On {_place(reading, column)}{evidence}: {_verdict(reading, family)}.")
        seen.add(column.scored_on)
    return points


def _place(reading: Reading, column: Column) -> str:
    """A column in words; its measure only where more than one is shown."""
    heading = reading.heading(column)
    return heading if len({c.measure for c in reading.columns}) > 1 else heading.removesuffix(f" {column.measure}")


def _evidence(reading: Reading, collection: str) -> str:
    """Where half of the evidence starts, if the experiment located it in tokens."""
    for cell in reading.result.where(what="positions", collection=collection):
        starts, lengths = (list(cell.values.get(name, {}).values()) for name in ("start", "length"))
        if starts and lengths and cell.facts.get("tokenizer") != SNIPPETS:
            start, length = median(starts), median(lengths)
            return f" (half of the evidence starts by token {start:,.0f}; median document: {length:,.0f} tokens)"
    return ""


def _between_collections(reading: Reading, moved: Sequence[Change]) -> list[str]:
    points = []
    for after in dict.fromkeys(change.after for change in moved):
        changes = changes_to(moved, after)
        before = changes[0].before
        point = f"{after.scored_on} instead of {before.scored_on}: {_verdict(reading, _of(changes))}"
        lost = [c for c in changes if told_apart(c.estimate) and c.estimate.difference < 0]
        if lost:
            most = min(lost, key=lambda change: change.estimate.difference)
            point += f". The largest loss is {signed(most.estimate)} ({row_words(reading, most.row)})"
        points.append(f"{point}.{_first_stage_moves(reading, before, after)}")
    return points


def _moved_head(reading: Reading, moved: Sequence[Change]) -> str:
    stage = f" ({moved[0].after.stage})" if moved and len(reading.stages) > 1 else ""
    return f"From one collection to another{stage}"


def _first_stage_moves(reading: Reading, before: Column, after: Column) -> str:
    for row in reading.rows:
        places = [reading.places.get((row, column)) for column in (before, after)]
        if row.reference == "retriever" and places[0] and places[1]:
            return f" {row.system} has {places[0].mean:.3f} on {before.scored_on}, {places[1].mean:.3f} here."
    return ""


def _after_training(reading: Reading, changes: Sequence[Change]) -> list[str]:
    points = []
    for after in dict.fromkeys(change.after for change in changes):
        those = changes_to(changes, after)
        pair = f"{after.stage} instead of {those[0].before.stage}, on {after.scored_on}"
        points.append(f"{pair[0].upper()}{pair[1:]}: {_verdict(reading, _of(those))}.")
    return points


def _how_sure(reading: Reading, columns: Iterable[Column], tests: int) -> list[str]:
    places = [(row, reading.places[row, c]) for c in columns for row in reading.rows if (row, c) in reading.places]
    asked = {place.queries for row, place in places if not row.reference}
    queries = f"{count_range(asked)} {'query' if asked == {1} else 'queries'}"
    seeds = {place.seeds for row, place in places if row.backbone}
    sown = f", {count_range(seeds)} {'seed' if seeds == {1} else 'seeds'} a training" if seeds else ""
    return [
        f"{tests} {'test' if tests == 1 else 'tests'} on {queries}{sown}. Significant: the test, corrected within each "
        "column and baseline, finds a difference and its interval excludes zero. No significant difference does not "
        "mean equal.",
        *(["Laptop size: directions may carry over to larger models, numbers do not."] if _at_laptop(reading) else []),
    ]


def _at_laptop(reading: Reading) -> bool:
    return reading.result.about.get("size") == "laptop"


def _of(changes: Iterable[Change]) -> dict[Row, Estimate]:
    return {change.row: change.estimate for change in changes}


def _split(reading: Reading, family: Family) -> tuple[list[str], list[str]]:
    """Names of those told apart above and below, the largest difference first."""
    apart = sorted((item for item in family.items() if told_apart(item[1])), key=lambda each: -abs(each[1].difference))
    above, below = ([row_words(reading, r) for r, e in apart if (e.difference > 0) is sign] for sign in (True, False))
    return above, below


def _verdict(reading: Reading, family: Family) -> str:
    """Who is better and who is worse, and how many show no difference."""
    above, below = _split(reading, family)
    rest = len(family) - len(above) - len(below)
    if rest == len(family):
        whom = row_words(reading, next(iter(family))) if rest == 1 else f"any of {rest} systems"
        return f"no significant difference for {whom}"
    parts = [f"{_who(above, len(family))} significantly better"] if above else []
    parts += [f"{_who(below, len(family))} significantly worse"] if below else []
    other = "the other one" if rest == 1 else f"the other {rest}"
    return "; ".join([*parts, *([f"no significant difference for {other}"] if rest else [])])


def _who(names: Sequence[str], tried: int) -> str:
    """The names, if they are few, else their number, with the verb that follows.

    >>> _who(["maxp"], 9), _who(["maxp", "sump", "avgp"], 9), _who(["a", "b", "c", "d"], 9)
    ('maxp is', 'maxp, sump and avgp are', '4 of 9 systems are')
    >>> _who(["a", "b", "c", "d"], 4)
    'all 4 systems are'
    """
    if len(names) <= _NAMED:
        return f"{' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))} {'is' if len(names) == 1 else 'are'}"
    return f"all {tried} systems are" if len(names) == tried else f"{len(names)} of {tried} systems are"


def _first_few(points: Sequence[str]) -> list[str]:
    left = len(points) - _POINTS
    return [*points[:_POINTS], *([f"{left} more in the details."] if left > 0 else [])]


def _unfinished(reading: Reading) -> list[str]:
    planned, finished = (reading.result.about.get(name) for name in ("cells", "finished_cells"))
    if planned is None or finished is None or finished >= planned:
        return []
    return [f"Unfinished: {finished} of {planned} cells are there; what follows is about these."]
