"""What a system loses between two collections that were asked the same queries: each pair tested like all others."""

from longrank.reports.experiment_reading import Change, Reading, corrected
from longrank.reports.experiment_rows import Column, Row


def shifts(reading: Reading, columns: list[Column]) -> list[Change]:
    """Each system in another collection's column against the first of ``columns``, after the same training.

    Only where both collections were made of one and have the same queries; corrected within a pair of collections.
    """
    found: list[Change] = []
    for after in columns[1:]:
        before = columns[0]
        if after[1:] == before[1:] and _made_of_one(reading, after.scored_on, before.scored_on):
            family = {
                row: estimate
                for row in reading.rows
                if not row.reference
                and _queries(reading, row, before) == _queries(reading, row, after)
                and (estimate := reading.estimate((row, after), (row, before))) is not None
            }
            found += [Change(row, before, after, estimate) for row, estimate in corrected(family)]
    return found


def _made_of_one(reading: Reading, *names: str) -> bool:
    """Whether two collections come from one: ids alone tell nothing, two worlds may both have a q1."""
    sources = reading.result.about.get("settings", {}).get("collections", {})
    roots = []
    for name in names:
        root = name
        while "of" in sources.get(root, {}):
            root = sources[root]["of"]
        roots.append(root)
    return names[0] != names[1] and roots[0] == roots[1]


def _queries(reading: Reading, row: Row, column: Column) -> set[str]:
    return {query for seed in reading.grid.seeds.get((row, column), ()) for query in seed[column.measure]}
