"""The papers' tables made by the experiment: their rows and columns, our numbers, and theirs beside them."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean

from longrank.evaluation.comparison import Estimate
from longrank.evaluation.papers.tables import Cell as PaperCell
from longrank.evaluation.papers.tables import Column as PaperColumn
from longrank.evaluation.papers.tables import PaperTable, paper_table
from longrank.reports.experiment_papers import STANDS_FOR, Printed, printed
from longrank.reports.experiment_reading import Reading, corrected, told_apart
from longrank.reports.experiment_rows import Row
from longrank.reports.tables import Cell, Table

Tests = Mapping[Printed, Mapping[str, Estimate]]


def papers_beside(reading: Reading) -> dict[str, Table]:
    """A table for each paper's table that the experiment names and that has at least one of its systems, by name."""
    tables = {}
    for paper in reading.result.about.get("papers", ()):
        for number in paper.get("tables", ()):
            theirs = paper_table(f"{paper['key']}/{number}")
            found = _each_once(printed(theirs, reading), reading)
            if found:
                tables[f"{paper['key']}, Table {number}"] = _shaped(theirs, found, reading)
    return tables


def _each_once(found: Iterable[Printed], reading: Reading) -> list[Printed]:
    """References that stand beside every training and at every point of a sweep with one value are shown once."""
    kept: list[Printed] = []
    for one in found:
        same = [k for k in kept if (k.system, k.paper_column) == (one.system, one.paper_column) and k.row.reference]
        if not one.row.reference or not any(
            reading.places[k.place].mean == reading.places[one.place].mean for k in same
        ):
            kept.append(one)
    return kept


def _shaped(table: PaperTable, found: Sequence[Printed], reading: Reading) -> Table:
    """Rows and columns of the paper's table of which we have something, in its order."""
    columns = [column for column in table.columns if any(one.paper_column == column for one in found)]
    order = {row.system: place for place, row in enumerate(table.rows)}
    lines: dict[tuple[str, Row, str], dict[PaperColumn, Printed]] = {}
    for one in sorted(found, key=lambda one: (order[one.system], one.row.name)):
        key = (one.system, one.row, "")
        if one.paper_column in lines.get(key, {}):  # another training of ours fits the same place
            key = (one.system, one.row, one.column.stage)
        lines.setdefault(key, {})[one.paper_column] = one
    tests = _tests(table, found, reading)
    averages = [_average(table, key[0], [cells.get(c) for c in table.columns], tests) for key, cells in lines.items()]
    averaged = any(cell.text for cell in averages)
    rows = []
    for ((system, row, stage), cells), average in zip(lines.items(), averages, strict=True):
        shown = [_cell(table, cells.get(column), tests, reading) for column in columns]
        name = ", ".join(filter(None, (row.name, stage)))
        rows.append((Cell(system), Cell(name), *shown, *([average] if averaged else [])))
    headings = ("system", "ours is", *map(str, columns), *(["average gain"] if averaged else []))
    return Table(headings, tuple(rows), tuple(_notes(table, found, tests)))


def _cell(table: PaperTable, one: Printed | None, tests: Tests, reading: Reading) -> Cell:
    if one is None:
        return Cell("")
    own, theirs = tests[one], table.cell(one.system, one.paper_column)
    letters = "".join(letter for letter, estimate in own.items() if told_apart(estimate))
    gain = _gain(own, table, one.system)
    beside = [f"{gain:+.1f}%"] if gain is not None else []
    return Cell(f"{reading.places[one.place].mean:.3f}", letters, "; ".join([*beside, _printed(theirs)]))


def _printed(theirs: PaperCell) -> str:
    gain = "" if theirs.gain is None else f", {float(theirs.gain):+.1f}%"
    return f"theirs {theirs.value.digits if theirs.value else '?'}{theirs.letters}{gain}"


def _average(table: PaperTable, system: str, cells: Sequence[Printed | None], tests: Tests) -> Cell:
    """The mean of our gains in all columns of the paper's, beside the paper's own."""
    theirs = table.row(system).average_gain
    gains = [None if one is None else _gain(tests[one], table, system) for one in cells]
    known = [gain for gain in gains if gain is not None]
    beside = "" if theirs is None else f"theirs {float(theirs):+.1f}%"
    return Cell(f"{mean(known):+.1f}%" if known and len(known) == len(gains) else "", gain=beside)


def _gain(own: Mapping[str, Estimate], table: PaperTable, system: str) -> float | None:
    """Over the row that the paper's own gains of this system refer to."""
    return own[""].relative if "" in own and table.row(system).baseline else None


def _tests(table: PaperTable, found: Sequence[Printed], reading: Reading) -> Tests:
    """Each of our places against what plays the part of the paper's baselines, corrected within column and baseline.

    The empty letter is the row that the paper's gains refer to, the others are the paper's marks.
    """
    tests: dict[Printed, dict[str, Estimate]] = {one: {} for one in found}
    for letter in ("", *table.marks):
        for column in table.columns:
            family = {}
            for one in found:
                other = _counterpart(table, one, letter, found) if one.paper_column == column else None
                estimate = None if other is None else reading.estimate(one.place, other.place)
                if estimate is not None:
                    family[one] = estimate
            for one, estimate in corrected(family):
                tests[one][letter] = estimate
    return tests


def _counterpart(table: PaperTable, one: Printed, letter: str, found: Sequence[Printed]) -> Printed | None:
    """Ours for the paper's baseline of a row: the one that is called so, or the own one of the row."""
    system = _baseline(table, one.system, letter)
    fits = [o for o in found if (o.system, o.paper_column) == (system, one.paper_column) and o.place != one.place]
    alike = [o for o in fits if (o.row.backbone, o.row.settings) == (one.row.backbone, one.row.settings)]
    # of several trainings or collections of ours in one place of the paper's, that of the row itself
    return min(
        alike or fits, key=lambda o: (o.column != one.column, o.column.scored_on != one.column.scored_on), default=None
    )


def _baseline(table: PaperTable, system: str, letter: str) -> str | None:
    """The row of the paper's table that a mark of a system is about: at its own setting, of its own backbone."""
    systems = {row.system for row in table.rows}
    named = table.marks[letter].partition(";")[0].removesuffix(", same set-up") if letter else ""
    head, comma, setting = system.partition(", ")
    backbone = head[head.find(" (") :] if " (" in head else ""
    tried = [named, f"{named}{comma}{setting}", f"{named}{backbone}{comma}{setting}"] if named else []
    return next((name for name in tried if name in systems), table.row(system).baseline)


def _notes(table: PaperTable, found: Sequence[Printed], tests: Tests) -> list[str]:
    notes = [f"{table.title}: {table.citation.rstrip('.')}, Table {table.number}; theirs as printed."]
    if any("" in own for own in tests.values()):
        notes.append("Gains are over our counterpart of the row to which the paper's gains refer.")
    meant = {letter: words.partition(";")[0] for letter, words in table.marks.items()}
    tested = [letter for letter in meant if any(letter in own for own in tests.values())]
    if meant:
        notes.append(f"Marks: {', '.join(f'{letter} = {words}' for letter, words in meant.items())}.")
    if tested:
        notes.append(
            f"Ours ({', '.join(tested)}) by a paired t-test with Holm's correction within column and baseline and an "
            "interval that excludes zero, theirs uncorrected."
        )
    elif meant:
        notes.append("Theirs only: none of our systems could be tested so.")
    absent = [row.system for row in table.rows if row.system not in {one.system for one in found}]
    if absent:
        notes.append(f"Of the paper's rows we have none for: {', '.join(absent)}.")
    if any(one.column.scored_on in STANDS_FOR for one in found):
        notes.append("Other data and another encoder: compare the signs of the gains, not the numbers.")
    return notes
