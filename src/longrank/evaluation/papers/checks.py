"""The papers' own arithmetic done again: which printed gains no unrounded metrics can explain."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

from longrank.core.errors import DataError
from longrank.evaluation.papers.tables import (
    Cell,
    Claim,
    Column,
    Interval,
    PaperTable,
    Printed,
    Row,
    paper_claims,
    paper_table,
    paper_tables,
)


@dataclass(frozen=True)
class GainCheck:
    """A printed gain in per cent beside the range that the printed metrics allow; no column means the average gain.

    ``place`` is the name of a table, or paper and section for a gain of the running text.
    """

    place: str
    system: str
    column: Column | None
    printed: Printed
    allowed: Interval

    @property
    def agrees(self) -> bool:
        """Whether some unrounded metrics that round to the printed ones give a gain that rounds to the printed one."""
        return self.allowed.meets(self.printed.unrounded)

    def __str__(self) -> str:
        low, high = (float(end) for end in self.allowed)
        what = "average gain" if self.column is None else str(self.column)
        printed = f"{self.printed.digits:+} %"
        return f"{self.place}, {self.system}, {what}: printed {printed}, possible {low:+.2f} to {high:+.2f} %"


Misprint: TypeAlias = GainCheck


@dataclass(frozen=True)
class Disagreement:
    """Two tables of one paper that print different values for the same system, collection and measure."""

    tables: tuple[str, str]
    system: str
    column: Column
    values: tuple[Printed, Printed]


def gain_interval(value: Printed, baseline: Printed) -> Interval:
    """Relative gains in per cent that two rounded metrics leave possible.

    >>> from decimal import Decimal
    >>> [round(float(end), 2) for end in gain_interval(Printed(Decimal("0.416")), Printed(Decimal("0.394")))]
    [5.32, 5.84]
    """
    new, old = value.unrounded, baseline.unrounded
    return Interval(100 * (new.low / old.high - 1), 100 * (new.high / old.low - 1))


def gain_checks() -> tuple[GainCheck, ...]:
    """Every printed gain and average gain that can be computed again from the printed metrics, the text's last.

    A restored gain is left out (it is checked where it was read), and so is an average over a column that was lost.
    """
    printed = (check for table in paper_tables() for row in table.rows for check in _row_checks(table, row))
    return (*printed, *map(_claim_check, paper_claims()))


def misprints() -> tuple[Misprint, ...]:
    """Printed gains that no unrounded values consistent with the printed metrics round to."""
    return tuple(check for check in gain_checks() if not check.agrees)


def disagreements() -> tuple[Disagreement, ...]:
    """Values that one paper prints twice with digits no single number rounds to; restored numbers are left out."""
    found = []
    for first, second in combinations(paper_tables(), 2):
        if first.paper != second.paper:
            continue
        others = {key: cell.value for key, cell in _read_cells(second) if cell.value is not None}
        for (system, column), cell in _read_cells(first):
            other = others.get((system, column))
            if cell.value is not None and other is not None and not cell.value.unrounded.meets(other.unrounded):
                found.append(Disagreement((first.name, second.name), system, column, (cell.value, other)))
    return tuple(found)


def _row_checks(table: PaperTable, row: Row) -> Iterator[GainCheck]:
    if row.baseline is None:
        return
    allowed = [_allowed(cell, base) for cell, base in zip(row.cells, table.row(row.baseline).cells, strict=True)]
    for column, cell, interval in zip(table.columns, row.cells, allowed, strict=True):
        if cell.gain is not None and not cell.gain.restored and interval is not None:
            yield GainCheck(table.name, row.system, column, cell.gain, interval)
    if row.average_gain is not None:
        average = _average(row.cells, allowed)
        if average is not None:
            yield GainCheck(table.name, row.system, None, row.average_gain, average)


def _allowed(cell: Cell, baseline: Cell) -> Interval | None:
    if cell.value is None or baseline.value is None:
        return None
    return gain_interval(cell.value, baseline.value)


def _average(cells: tuple[Cell, ...], allowed: list[Interval | None]) -> Interval | None:
    if any(interval is None and (cell.unread or cell.value) for cell, interval in zip(cells, allowed, strict=True)):
        return None
    parts = [interval for interval in allowed if interval is not None]
    low, high = (sum(ends, Fraction()) / len(parts) for ends in zip(*parts, strict=True))
    return Interval(low, high)


def _claim_check(claim: Claim) -> GainCheck:
    value, baseline = (paper_table(at.table).cell(at.system, at.column).value for at in (claim.value, claim.baseline))
    place = f"{claim.paper}, section {claim.section}"
    if value is None or baseline is None:
        raise DataError(f"{place}: a gain of the text refers to a cell without a value")
    allowed = gain_interval(value, baseline)
    return GainCheck(place, claim.value.system, claim.value.column, claim.printed, allowed)


def _read_cells(table: PaperTable) -> Iterator[tuple[tuple[str, Column], Cell]]:
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            if cell.value is not None and not cell.value.restored:
                yield (row.system, column), cell
