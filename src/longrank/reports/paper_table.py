"""Your means beside the numbers a paper printed."""

from longrank.core.errors import SettingsError
from longrank.evaluation.comparison import Comparison
from longrank.evaluation.papers.beside import beside
from longrank.evaluation.papers.tables import paper_table
from longrank.reports.tables import Cell, Table


def beside_paper(name: str, comparison: Comparison, *, collection: str) -> Table:
    """The rows of a paper's table that you have a number for, on one of its collections; others are counted."""
    table = paper_table(name)
    known = {column.measure for column in table.columns if column.collection == collection}
    measures = [measure for measure in comparison.columns if measure in known]
    if not measures:
        offered = sorted({f"{column.collection} {column.measure}" for column in table.columns})
        raise SettingsError(
            f"{name} has none of your measures for the collection {collection!r}; --collection and --measures may name "
            f"one of: {', '.join(offered)}"
        )
    ours = {
        (system, (collection, measure)): comparison.mean(system, measure)
        for system in comparison.systems
        for measure in measures
    }
    cells = [cell for cell in beside(table, ours) if cell.ours is not None]
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
