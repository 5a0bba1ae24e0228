"""What an experiment shows, for whoever reads no further: a few sentences, each resting on tests named below it."""

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
_CLAUSES = 4  # columns spoken of in a sentence

Family = Mapping[Row, Estimate]


def what_it_shows(reading: Reading) -> list[str | Statement | Folded]:
    """The takeaway and the audits' verdicts, and folded below the statements they are drawn from.

    Where nothing was compared there is no takeaway, and nothing is folded.
    """
    sentences, details = takeaway(reading), in_detail(reading)
    folded = [Folded("In detail: every system in every column", details)] if sentences else details
    return [*_unfinished(reading), *sentences, *audit_statements(reading.result), *folded]


def takeaway(reading: Reading) -> list[str]:
    """At most five sentences: first stage, own baseline, other collection, later training, and how sure all that is."""
    columns = reading.main_columns
    families = {letter: _families(reading, columns, letter) for letter in reading.baselines}
    retrieved = [row.system for row in reading.rows if row.reference == "retriever"]
    first_stage = next((c for c in "bc" if set(reading.baselines.get(c, "").split(" or ")) & set(retrieved)), "")
    moved = shifts(reading, columns)
    trained = [change for change in reading.changes if change.after in columns]
    found = [
        _above_first_stage(reading, reading.baselines.get(first_stage, ""), families.get(first_stage, {})),
        _against_own(reading, families.get("a", {})),
        _between_collections(reading, moved),
        _after_training(reading, trained),
    ]
    tests = sum(len(family) for of in families.values() for family in of.values()) + len(moved) + len(trained)
    return [*filter(None, found), _how_sure(reading, columns, tests)] if any(found) else []


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


def _above_first_stage(reading: Reading, label: str, families: Mapping[Column, Family]) -> str:
    if not families:
        return ""
    clauses = []
    for column, family in families.items():
        above, _ = _split(reading, family)
        if above:
            clauses.append(f"on {reading.heading(column)} {_many(above, family)}{_few(above)}")
    below = sum(len(_split(reading, family)[1]) for family in families.values())
    lead = f"Told apart above the first-stage ranking ({label}): {_joined(clauses) or 'no system'}"
    return f"{lead}; in {below} of {sum(map(len, families.values()))} comparisons a system is below it."


def _against_own(reading: Reading, families: Mapping[Column, Family]) -> str:
    clauses, seen = [], set()
    for column, family in families.items():
        evidence = "" if column.scored_on in seen else _evidence(reading, column.scored_on)
        clauses.append(f"on {reading.heading(column)}{evidence} {_counted(reading, family, ('above', 'below'))}")
        seen.add(column.scored_on)
    return f"Told apart from {reading.baselines['a']}: {_joined(clauses)}." if clauses else ""


def _evidence(reading: Reading, collection: str) -> str:
    """Where half of the evidence starts, if the experiment located it in tokens."""
    for cell in reading.result.where(what="positions", collection=collection):
        starts, lengths = (list(cell.values.get(name, {}).values()) for name in ("start", "length"))
        if starts and lengths and cell.facts.get("tokenizer") != SNIPPETS:
            start, length = median(starts), median(lengths)
            return f", where half of the evidence starts by token {start:,.0f} of a median {length:,.0f},"
    return ""


def _between_collections(reading: Reading, moved: Sequence[Change]) -> str:
    clauses = []
    for after in dict.fromkeys(change.after for change in moved):
        changes = changes_to(moved, after)
        before = changes[0].before
        clause = f"from {before.scored_on} to {after.scored_on} {_counted(reading, _of(changes), ('higher', 'lower'))}"
        lost = [c for c in changes if told_apart(c.estimate) and c.estimate.difference < 0]
        if lost:
            most = min(lost, key=lambda change: change.estimate.difference)
            which = f"most of all {row_words(reading, most.row)} " if len(lost) > 1 else ""
            clause += f", {which}by {signed(most.estimate)}"
        clauses.append(clause + _first_stage_moves(reading, before, after))
    trained = f" ({moved[0].after.stage})" if moved and len(reading.stages) > 1 else ""
    return f"Told apart between collections{trained}: {_joined(clauses)}." if clauses else ""


def _first_stage_moves(reading: Reading, before: Column, after: Column) -> str:
    for row in reading.rows:
        places = [reading.places.get((row, column)) for column in (before, after)]
        if row.reference == "retriever" and places[0] and places[1]:
            return f" ({row.system} itself has {places[0].mean:.3f}, then {places[1].mean:.3f})"
    return ""


def _after_training(reading: Reading, changes: Sequence[Change]) -> str:
    clauses = []
    for after in dict.fromkeys(change.after for change in changes):
        those = changes_to(changes, after)
        pair = f"{after.stage} against {those[0].before.stage}"
        clauses.append(f"{pair} on {after.scored_on} {_counted(reading, _of(those), ('higher', 'lower'))}")
    return f"Told apart after later training: {_joined(clauses)}." if clauses else ""


def _how_sure(reading: Reading, columns: Iterable[Column], tests: int) -> str:
    places = [(row, reading.places[row, c]) for c in columns for row in reading.rows if (row, c) in reading.places]
    queries = count_range({place.queries for row, place in places if not row.reference})
    seeds = {place.seeds for row, place in places if row.backbone}
    sown = f", {count_range(seeds)} {'seed' if seeds == {1} else 'seeds'} a training" if seeds else ""
    laptop = " At laptop size directions may carry over, numbers do not." if _at_laptop(reading) else ""
    return (
        f"Told apart is what a test and its interval bear out, of {tests} tests on {queries} queries{sown}, corrected "
        f"within each column and baseline; the others are not thereby equal.{laptop}"
    )


def _at_laptop(reading: Reading) -> bool:
    return reading.result.about.get("size") == "laptop"


def _of(changes: Iterable[Change]) -> dict[Row, Estimate]:
    return {change.row: change.estimate for change in changes}


def _split(reading: Reading, family: Family) -> tuple[list[str], list[str]]:
    """Names of those told apart above and below, the largest difference first."""
    apart = sorted((item for item in family.items() if told_apart(item[1])), key=lambda each: -abs(each[1].difference))
    above, below = ([row_words(reading, r) for r, e in apart if (e.difference > 0) is sign] for sign in (True, False))
    return above, below


def _counted(reading: Reading, family: Family, words: tuple[str, str]) -> str:
    above, below = _split(reading, family)
    up, down = words
    return f"{_many(above, family)} {up}{_few(above)}, {len(below) or 'none'} {down}{_few(below)}"


def _many(names: Sequence[str], family: Family) -> str:
    return f"{len(names) or 'none'} of {len(family)} system{'s' if len(family) > 1 else ''}"


def _few(names: Sequence[str]) -> str:
    """The names in brackets, if they are few.

    >>> _few([]), _few(["maxp", "sump"]), _few(["a", "b", "c", "d"])
    ('', ' (maxp, sump)', '')
    """
    return f" ({', '.join(names)})" if 0 < len(names) <= _NAMED else ""


def _joined(clauses: Sequence[str]) -> str:
    left = len(clauses) - _CLAUSES
    more = [f"{left} more in the details"] if left > 0 else []
    return "; ".join([*clauses[:_CLAUSES], *more])


def _unfinished(reading: Reading) -> list[str]:
    planned, finished = (reading.result.about.get(name) for name in ("cells", "finished_cells"))
    if planned is None or finished is None or finished >= planned:
        return []
    return [f"Unfinished: {finished} of {planned} cells are there; what follows is about these."]
