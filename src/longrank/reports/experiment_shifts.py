"""What a system loses between two collections that were asked the same queries: each pair tested like all others."""

from longrank.reports.experiment_reading import Change, Reading, corrected
from longrank.reports.experiment_rows import Column, Row


def shifts(reading: Reading, columns: list[Column]) -> list[Change]:
    """Each system in another collection's column against the first of ``columns``, after the same training.

    Only where both collections have the same queries; corrected within a pair of collections.
    """
    found: list[Change] = []
    for after in columns[1:]:
        before = columns[0]
        if after.scored_on != before.scored_on and after[1:] == before[1:]:
            family = {
                row: estimate
                for row in reading.rows
                if not row.reference
                and _queries(reading, row, before) == _queries(reading, row, after)
                and (estimate := reading.estimate((row, after), (row, before))) is not None
            }
            found += [Change(row, before, after, estimate) for row, estimate in corrected(family)]
    return found


def _queries(reading: Reading, row: Row, column: Column) -> set[str]:
    return {query for seed in reading.grid.seeds.get((row, column), ()) for query in seed[column.measure]}
