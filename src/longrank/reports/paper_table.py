"""Your means beside the numbers a paper printed."""

from collections.abc import Iterable, Mapping

from longrank.core.errors import SettingsError
from longrank.evaluation.comparison import Comparison
from longrank.evaluation.papers.beside import Beside, beside
from longrank.evaluation.papers.tables import PaperTable, paper_table
from longrank.reports.tables import Cell, Table


def check_paper(name: str, *, systems: Iterable[str], measures: Iterable[str], collection: str) -> None:
    """Refuse a table that is not there or has no place for one of the systems or for all of the measures."""
    _beside(paper_table(name), {system: dict.fromkeys(measures, 0.0) for system in systems}, collection)


def beside_paper(name: str, comparison: Comparison, *, collection: str) -> Table:
    """The rows of a paper's table that you have a number for, on one of its collections; others are counted."""
    table = paper_table(name)
    means = {s: {c: comparison.mean(s, c) for c in comparison.columns} for s in comparison.systems}
    cells = [cell for cell in _beside(table, means, collection) if cell.ours is not None]
    rows = tuple(
        (
            Cell(cell.system),
            Cell(cell.column.measure),
            Cell("not readable" if cell.theirs is None else f"{cell.theirs:.3f}"),
            Cell(f"{cell.ours:.3f}"),
            Cell("" if cell.difference is None else f"{cell.difference:+.3f}"),
        )
        for cell in cells
    )
    notes = (f"{table.title}, {table.citation}, {collection}.", "Theirs as printed; other data or seeds explain much.")
    return Table(("system", "measure", "theirs", "ours", "difference"), rows, notes)


def _beside(table: PaperTable, means: Mapping[str, Mapping[str, float]], collection: str) -> tuple[Beside, ...]:
    known = {column.measure for column in table.columns if column.collection == collection}
    ours = {(s, (collection, m)): mean for s, row in means.items() for m, mean in row.items() if m in known}
    if not ours:
        offered = sorted({f"{column.collection} {column.measure}" for column in table.columns})
        raise SettingsError(
            f"{table.name} has none of your measures for the collection {collection!r}; --collection and --measures "
            f"may name one of: {', '.join(offered)}"
        )
    return beside(table, ours)
