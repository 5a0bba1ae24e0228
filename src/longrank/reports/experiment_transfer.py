"""The reverse transfer: what tuning on late evidence costs elsewhere, beside what a paper's text says of it."""

from collections.abc import Iterator, Mapping

from longrank.evaluation.papers.tables import Statement, paper_statements
from longrank.reports.experiment_reading import Change, Reading
from longrank.reports.tables import Cell, Table, signed

# what a statement is about: its collection -> our query sets, its words -> labels of our rankers begin so
_SETS: Mapping[str, tuple[str, ...]] = {"trec-dl-2019-2020": ("trec-dl-2019", "trec-dl-2020")}
_RANKERS = ("parade-transf", "cedr-knrm")


def transfer_beside(reading: Reading) -> dict[str, Table]:
    """A table for each statement of a named paper about rankers scored again after they were tuned elsewhere."""
    named = {(p["key"], f"table {n}") for p in reading.result.about.get("papers", ()) for n in p.get("tables", ())}
    tables = {}
    for one in paper_statements():
        changes = list(_changes(reading, one)) if named & {(one.paper, shown) for shown in one.shown_with} else []
        if changes:
            tables[f"{one.paper}, text about the reverse transfer"] = _table(one, changes)
    return tables


def _changes(reading: Reading, one: Statement) -> Iterator[Change]:
    measure, _, tuned_on = one.column.measure.partition(" after tuning on ")
    trainings = [(str(c.labels.get("trained_on")), c.labels.get("stage")) for c in reading.result.cells]
    tuned = {stage for history, stage in trainings if history.endswith(f" > {tuned_on}")}
    for change in reading.changes:
        where = change.after.scored_on in _SETS.get(one.column.collection, ()) and change.after.measure == measure
        if where and change.after.stage in tuned and change.row.ranker.startswith(_RANKERS):
            yield change


def _table(one: Statement, changes: list[Change]) -> Table:
    rows = tuple(
        (Cell(change.row.name), Cell(f"{change.after.scored_on} {change.after.measure}"), Cell(signed(change.estimate)))
        for change in changes
    )
    notes = (
        f"After tuning, less before, on the same queries with 95% intervals. {one.citation.rstrip('.')}, section "
        f"{one.section}, of both years together, in the paper's words: {one.words}.",
    )
    return Table(("system", "where", "difference"), rows, notes)
