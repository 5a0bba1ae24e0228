"""An experiment's grid as tables: results, changes between trainings, what seeds did, and sizes of collections."""

from statistics import stdev

from longrank.positions.statistics import CollectionStatistics
from longrank.reports.experiment_reading import Reading, told_apart
from longrank.reports.experiment_rows import Column, Row
from longrank.reports.experiment_words import count_range, how_tested
from longrank.reports.page import Cell as PageCell
from longrank.reports.page import Column as PageColumn
from longrank.reports.page import Table as PageTable
from longrank.reports.page import Value
from longrank.reports.position_tables import statistics_table
from longrank.reports.tables import RAISED, Cell, Table, short_p, signed


def results_table(reading: Reading) -> Table:
    """A row a system: mean, interval, letters and gain in every column, then seeds; references stand last."""
    collapsed = any(place.collapsed for place in reading.places.values())
    headings = ["system", *reading.settings, *map(reading.heading, reading.columns), "queries", "seeds"]
    rows = []
    for row in _each_reference_once(reading):
        points = [Cell(str(dict(row.settings).get(label, ""))) for label in reading.settings]
        cells = [Cell(row.system), *points, *(_mean_cell(reading, row, column) for column in reading.columns)]
        places = [reading.places[row, column] for column in reading.columns if (row, column) in reading.places]
        cells.append(Cell(count_range({place.queries for place in places})))
        cells.append(Cell("" if not row.backbone else count_range({place.seeds for place in places})))
        if collapsed:
            cells.append(Cell(str(max(place.collapsed for place in places)) if row.backbone else ""))
        rows.append(tuple(cells))
    return Table((*headings, *(["collapsed"] if collapsed else [])), tuple(rows), results_notes(reading))


def _each_reference_once(reading: Reading) -> list[Row]:
    """The rows, without references that a sweep repeats with the same values."""
    kept: dict[object, Row] = {}
    for row in reading.rows:
        means = tuple(p.mean if (p := reading.places.get((row, column))) else None for column in reading.columns)
        kept.setdefault((row.system, means) if row.reference else row, row)
    return list(kept.values())


def results_notes(reading: Reading) -> tuple[str, ...]:
    """What belongs below the results."""
    letters = ", ".join(f"{letter} = {label}" for letter, label in reading.baselines.items())
    gain = ", then the gain over a" if letters else ""
    notes = [
        f"Means over queries; beside them the 95% interval{gain}. Bold: the best ranker of a column "
        "among those tried on all of its queries; first stages and orders to compare with are not counted."
    ]
    if letters:
        notes.append(f"Superscripts mark a significant difference from {letters}.")
        notes.append(how_tested(reading))
    facts = [cell.facts for cell in reading.result.cells if cell.values and "ranker" in cell.labels]
    depths = sorted({int(fact["depth"]) for fact in facts if "depth" in fact})
    if depths:
        notes.append(f"Candidates a query: {', '.join(map(str, depths))}.")
    lost = max((int(fact.get("queries_without_candidates", 0)) for fact in facts), default=0)
    unjudged = max((int(fact.get("queries_without_judgements", 0)) for fact in facts), default=0)
    if lost:
        notes.append(f"Up to {lost} queries had no candidates and count as zero.")
    if unjudged:
        notes.append(f"Up to {unjudged} queries without judgements are left out.")
    return tuple(notes)


def changes_table(reading: Reading) -> Table:
    """Each system after a later training against the first, on the same queries."""
    rows = tuple(
        (
            Cell(change.row.name),
            Cell(f"{change.after.scored_on} {change.after.measure}"),
            Cell(change.after.stage),
            Cell(f"{change.estimate.mean:.3f}"),
            Cell(change.before.stage),
            Cell(f"{change.estimate.baseline_mean:.3f}"),
            Cell(signed(change.estimate)),
            Cell(short_p(change.estimate.corrected_p)),
            Cell("yes" if told_apart(change.estimate) else "no"),
            Cell(str(change.estimate.queries)),
        )
        for change in reading.changes
    )
    headings = ("system", "where", "training", "mean", "against", "its mean", "difference", "corrected p",
                "significant", "queries")  # fmt: skip
    notes = ("The same system after two trainings, paired by query; tested as the results are.",)
    return Table(headings, rows, notes)


def seeds_table(reading: Reading) -> Table | None:
    """What the choice of seed alone changes; None where there is one seed."""
    rows = [
        (
            Cell(row.name),
            Cell(reading.heading(column)),
            Cell(str(place.seeds)),
            Cell(f"{min(place.seed_means):.3f}"),
            Cell(f"{max(place.seed_means):.3f}"),
            Cell(f"{stdev(place.seed_means):.3f}"),
            Cell(str(place.collapsed)),
        )
        for row in reading.rows
        for column in reading.columns
        if (place := reading.places.get((row, column))) is not None and row.backbone and place.seeds > 1
    ]
    headings = ("system", "column", "seeds", "lowest", "highest", "SD", "collapsed")
    notes = ("Means of single trainings; SD is that over seeds. No seed was left out.",)
    return Table(headings, tuple(rows), notes) if rows else None


def parameters_table(reading: Reading) -> Table | None:
    """How many parameters each trained system has, from the fewest to the most where a sweep changes them."""
    known: dict[tuple[str, str], set[int]] = {}
    for cell in reading.result.cells:
        if cell.facts.get("parameters") is not None:
            pair = str(cell.labels["ranker"]), str(cell.labels["backbone"])
            known.setdefault(pair, set()).add(int(cell.facts["parameters"]))
    rows = tuple((Cell(name), Cell(backbone), Cell(count_range(counts))) for (name, backbone), counts in known.items())
    return Table(("system", "backbone", "parameters"), rows, ("Embeddings included.",)) if rows else None


def sizes_table(reading: Reading) -> Table | None:
    """Sizes of the collections whose statistics the experiment asked for."""
    known = [CollectionStatistics(**cell.facts) for cell in reading.result.where(what="statistics")]
    return statistics_table(known) if known else None


def on_page(table: Table, *, caption: str) -> PageTable:
    """The table for a page: numbers sort as numbers, intervals and gains stand beside them in small type."""
    columns = [PageColumn(heading) for heading in table.headings]
    rows = [[PageCell(row[0].text), *(_page_cell(cell) for cell in row[1:])] for row in table.rows]
    return PageTable(columns, rows, caption=caption)


def _page_cell(cell: Cell) -> PageCell:
    first, _, rest = cell.text.partition(" ")
    number = _number(first)
    detail = " ".join(part for part in (rest if number is not None else "", cell.gain) if part)
    value: Value = number if number is not None else (cell.text or None)
    shown = f"{first}{cell.letters.translate(RAISED)}" if number is not None else cell.text
    return PageCell(value, shown, detail, best=cell.best)


def _number(text: str) -> float | int | None:
    """The number that a text is, if it is one.

    >>> _number("0.250"), _number("+12.5%"), _number("1,024"), _number("toy")
    (0.25, 12.5, 1024, None)
    """
    plain = text.removesuffix("%").replace(",", "").removeprefix("<")
    try:
        return float(plain) if "." in plain else int(plain)
    except ValueError:
        return None


def _mean_cell(reading: Reading, row: Row, column: Column) -> Cell:
    place = reading.places.get((row, column))
    if place is None:
        return Cell("")
    tests = reading.against.get((row, column), {})
    letters = "".join(letter for letter, estimate in tests.items() if told_apart(estimate))
    own = tests.get("a")
    gain = "" if own is None or own.relative is None else f"{own.relative:+.1f}%"
    interval = "" if place.interval is None else f"{place.interval.low:.3f}–{place.interval.high:.3f}"
    beside = ", ".join(part for part in (interval, gain) if part)
    return Cell(f"{place.mean:.3f}", letters, beside, row in reading.best(column))
