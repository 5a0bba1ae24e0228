"""Cells that an earlier run has recorded, perhaps on another machine: they are taken over and not made again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from longrank.core.errors import DataError
from longrank.core.fingerprint import fingerprint
from longrank.experiments.records import CellResult, Labels, read_result
from longrank.experiments.step import Cell, Plan, needed_steps


@dataclass(frozen=True)
class Known:
    """Recorded cells; one fits a cell of the plan if its labels and the fingerprints of all its steps are the same.

    Of an ensemble the measure that found its weights must be the same too.
    """

    cells: dict[str, CellResult]

    def find(self, cell: Cell) -> CellResult | None:
        """The record of a cell; only scores are taken over, not run-times and audits."""
        if not cell.scorings:
            return None
        found = self.cells.get(_key(cell.labels, [step.fingerprint for step in cell.results], cell.weighed_by))
        if found is None or (cell.ranked and not found.ranks):
            return None
        values = {name: found.values[name] for name in cell.measures if name in found.values}
        ranks = found.ranks if cell.ranked else {}
        return replace(found, values=values, ranks=ranks) if len(values) == len(cell.measures) else None

    def remaining(self, plan: Plan) -> Plan:
        """The plan without the cells that are known, and without the steps that only they need."""
        cells = tuple(cell for cell in plan.cells if self.find(cell) is None)
        return replace(plan, cells=cells, steps=needed_steps(cells))


NOTHING = Known({})


def read_known(folders: Sequence[Path]) -> Known:
    """The scored cells in the folders of earlier results; two that differ under the same fingerprint are refused.

    One that stands in several folders has the measures of all of them.
    """
    found: dict[str, CellResult] = {}
    for folder in folders:
        for cell in read_result(folder).cells:
            if "fingerprints" not in cell.facts:
                continue
            key = _key(cell.labels, cell.facts["fingerprints"], cell.facts.get("weighed_by", ""))
            before = found.get(key, cell)
            if any(before.values[name] != cell.values[name] for name in before.values.keys() & cell.values.keys()):
                raise DataError(f"{folder} has other values for {dict(cell.labels)} than a folder named before it")
            ranks = before.ranks or cell.ranks
            found[key] = replace(before, values={**before.values, **cell.values}, ranks=ranks)
    return Known(found)


def _key(labels: Labels, steps: Sequence[str], weighed_by: str) -> str:
    return fingerprint(dict(labels), list(steps), weighed_by)
