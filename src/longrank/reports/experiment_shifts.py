"""What a system loses between two collections that were asked the same queries: each pair tested like all others."""

import dataclasses
from collections.abc import Iterator

from longrank.core.seeds import generator
from longrank.evaluation.comparison import Estimate, compare
from longrank.evaluation.measures import PerQuery
from longrank.evaluation.significance import correct, threshold
from longrank.reports.experiment_reading import DRAWS, Change, Reading
from longrank.reports.experiment_rows import Column, Row


def shifts(reading: Reading, columns: list[Column]) -> list[Change]:
    """Each system in another collection's column against the first of ``columns``, after the same training.

    Only where both collections have the same queries; corrected within a pair of collections.
    """
    found: list[Change] = []
    for after in columns[1:]:
        before = columns[0]
        if after.scored_on != before.scored_on and after[1:] == before[1:]:
            family = list(_family(reading, before, after))
            fresh = correct([estimate.p for _, estimate in family], "holm")
            found += [
                Change(row, before, after, dataclasses.replace(estimate, corrected_p=p))
                for (row, estimate), p in zip(family, fresh, strict=True)
            ]
    return found


def _family(reading: Reading, before: Column, after: Column) -> Iterator[tuple[Row, Estimate]]:
    for row in reading.rows:
        old, new = (_seeds(reading, row, column) for column in (before, after))
        if row.reference or not old or not new or _queries(old) != _queries(new) or len(_queries(old)) < 2:
            continue
        found = compare(
            {after.scored_on: new, before.scored_on: old},
            baseline=before.scored_on,
            rng=generator(f"report {row.name} on {after.scored_on} against {before.scored_on}", 0),
            correction="none",
            alpha=threshold(after.scored_on),
            draws=DRAWS,
        )
        yield row, found.estimates[0]


def _seeds(reading: Reading, row: Row, column: Column) -> list[PerQuery]:
    """The row's values in the column, one a seed."""
    wanted = {"ranker": row.ranker, "backbone": row.backbone, "scored_on": column.scored_on, **dict(row.settings)}
    return [
        {column.measure: cell.values[column.measure]}
        for cell in reading.result.cells
        if column.measure in cell.values
        and {"backbone": "", **cell.labels}.items() >= wanted.items()
        and cell.labels["stage"] in (column.stage, "untrained")
    ]


def _queries(seeds: list[PerQuery]) -> set[str]:
    return {query for seed in seeds for values in seed.values() for query in values}
