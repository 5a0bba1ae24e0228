"""Every table of the five papers as numbers that keep their printed digits."""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from longrank.core.errors import DataError, UnknownName

PAPERS = (
    "positional-bias",
    "long-document-models",
    "parade",
    "appendix-training-and-results",
    "appendix-positions",
)

# A cell of the data files: value, marks, gain. "?" could not be read, "~" was read elsewhere, "-" was left blank.
_CELL = re.compile(r"(\?|~?\d+(?:\.\d+)?[KM]?)([a-d†]*)(?: (\?|~?[+-]\d+\.\d+))?")
_SCALES = {"K": "E+3", "M": "E+6"}


class Column(NamedTuple):
    """What one column of a table measures, and on which collection."""

    collection: str
    measure: str

    def __str__(self) -> str:
        return f"{self.collection} {self.measure}"


class Interval(NamedTuple):
    """Closed range of exact numbers."""

    low: Fraction
    high: Fraction

    def meets(self, other: "Interval") -> bool:
        """Whether some number lies in both."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Printed:
    """A number with the digits it was printed with; ``restored`` if it had to be taken from another place."""

    digits: Decimal
    restored: bool = False

    def __float__(self) -> float:
        return float(self.digits)

    @property
    def unrounded(self) -> Interval:
        """Every number that rounds to these digits, both ends included because a tie may go either way.

        >>> [float(end) for end in Printed(Decimal("0.40")).unrounded]
        [0.395, 0.405]
        """
        exponent = self.digits.as_tuple().exponent
        half = Fraction(Decimal((0, (5,), int(exponent) - 1)))
        return Interval(Fraction(self.digits) - half, Fraction(self.digits) + half)


@dataclass(frozen=True)
class Cell:
    """One place of a table: value, printed gain in per cent, significance letters; ``unread`` if a part was lost."""

    value: Printed | None = None
    gain: Printed | None = None
    letters: str = ""
    unread: bool = False


@dataclass(frozen=True)
class Row:
    """One system's cells in column order, and the row its printed gains refer to."""

    system: str
    cells: tuple[Cell, ...]
    baseline: str | None = None
    average_gain: Printed | None = None

    @property
    def values(self) -> tuple[float | None, ...]:
        """Printed values; None where the paper has none or it could not be read."""
        return tuple(None if cell.value is None else float(cell.value) for cell in self.cells)

    @property
    def gains(self) -> tuple[float | None, ...]:
        """Printed gains in per cent; None as in ``values``."""
        return tuple(None if cell.gain is None else float(cell.gain) for cell in self.cells)

    @property
    def letters(self) -> tuple[str, ...]:
        """Significance letters, empty where there is none."""
        return tuple(cell.letters for cell in self.cells)


@dataclass(frozen=True)
class PaperTable:
    """One table of one paper; ``marks`` says what each letter means, ``notes`` what could not be read."""

    paper: str
    number: int
    title: str
    citation: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    marks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Paper and number, as ``paper_table`` takes it."""
        return f"{self.paper}/{self.number}"

    def row(self, system: str) -> Row:
        """The row of a system by its printed name."""
        found = {row.system: row for row in self.rows}
        if system not in found:
            raise UnknownName(f"no system {system!r} in {self.name}.{_hint(system, found)}")
        return found[system]

    def cell(self, system: str, column: tuple[str, str]) -> Cell:
        """One cell by system and (collection, measure)."""
        row = self.row(system)
        wanted = Column(*column)
        if wanted not in self.columns:
            raise UnknownName(f"no column '{wanted}' in {self.name}. It has {', '.join(map(str, self.columns))}")
        return row.cells[self.columns.index(wanted)]


@dataclass(frozen=True)
class Place:
    """One cell of one table."""

    table: str
    system: str
    column: Column


@dataclass(frozen=True)
class Claim:
    """A gain in per cent printed in a paper's running text, and the two cells it is about."""

    paper: str
    section: str
    printed: Printed
    value: Place
    baseline: Place


@dataclass(frozen=True)
class Statement:
    """A number of a paper's running text in its words; ``shown_with`` are the tables and figures it belongs to."""

    paper: str
    section: str
    citation: str
    shown_with: tuple[str, ...]
    column: Column
    printed: Printed
    words: str


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """All tables, paper by paper in the order of their numbers."""
    return tuple(table for paper in PAPERS for table in _read(paper))


@cache
def paper_claims() -> tuple[Claim, ...]:
    """Gains of the running text that two cells of the tables decide."""
    return tuple(_claim(paper, record) for paper in PAPERS for record in _record(paper)["claims"])


@cache
def paper_statements() -> tuple[Statement, ...]:
    """Numbers of the running text that no table has."""
    return tuple(_statement(record, one) for record in map(_record, PAPERS) for one in record.get("statements", ()))


def paper_table(name: str) -> PaperTable:
    """One table by paper and number.

    >>> table = paper_table("positional-bias/4")
    >>> float(table.cell("MaxP", ("far-relevant/zero-shot", "RR")).value)
    0.297
    """
    tables = {table.name: table for table in paper_tables()}
    if name in tables:
        return tables[name]
    paper = name.partition("/")[0]
    numbers = [str(table.number) for table in tables.values() if table.paper == paper]
    if numbers:
        known = ", ".join(numbers)
        raise UnknownName(f"no table {name!r}: {paper} has the tables {known}. Did you mean '{paper}/{numbers[-1]}'?")
    raise UnknownName(f"no table {name!r}.{_hint(name, tables)} The papers are {', '.join(PAPERS)}")


def _hint(name: str, known: Mapping[str, object]) -> str:
    folded = {each.casefold(): each for each in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.4)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


def _record(paper: str) -> dict[str, Any]:
    text = resources.files("longrank.evaluation.papers").joinpath("data", f"{paper}.json").read_text(encoding="utf-8")
    record: dict[str, Any] = json.loads(text)
    return record


def _read(paper: str) -> list[PaperTable]:
    record = _record(paper)
    return [_table(record["paper"], record["citation"], table) for table in record["tables"]]


def _claim(paper: str, record: Mapping[str, Any]) -> Claim:
    value, baseline = (
        Place(table, system, Column(*column)) for table, system, column in (record["value"], record["baseline"])
    )
    return Claim(paper, record["section"], Printed(Decimal(record["printed"])), value, baseline)


def _statement(record: Mapping[str, Any], one: Mapping[str, Any]) -> Statement:
    printed = Printed(Decimal(one["printed"]))
    column, shown_with = Column(*one["column"]), tuple(one["with"])
    return Statement(record["paper"], one["section"], record["citation"], shown_with, column, printed, one["words"])


def _table(paper: str, citation: str, record: Mapping[str, Any]) -> PaperTable:
    return PaperTable(
        paper=paper,
        number=record["number"],
        title=record["title"],
        citation=citation,
        columns=tuple(Column(*column) for column in record["columns"]),
        rows=tuple(_row(row) for row in record["rows"]),
        marks=record.get("marks", {}),
        notes=tuple(record.get("notes", ())),
    )


def _row(record: Mapping[str, Any]) -> Row:
    return Row(
        system=record["system"],
        cells=tuple(_cell(text) for text in record["cells"]),
        baseline=record.get("baseline"),
        average_gain=_number(record.get("average_gain")),
    )


def _cell(text: str) -> Cell:
    if text == "-":
        return Cell()
    match = _CELL.fullmatch(text)
    if match is None:
        raise DataError(f"cell {text!r} of a paper's table is not '<value><letters> <gain>', '-' or '?'")
    value, letters, gain = match.groups()
    return Cell(_number(value), _number(gain), letters, unread="?" in (value, gain))


def _number(text: str | None) -> Printed | None:
    if text is None or text == "?":
        return None
    digits = text.removeprefix("~")
    if digits[-1] in _SCALES:
        digits = digits[:-1] + _SCALES[digits[-1]]
    return Printed(Decimal(digits), restored=text.startswith("~"))
