"""One self-contained HTML page from headings, paragraphs, tables and figures."""

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from longrank.core.disk import write_atomic
from longrank.core.errors import DataError
from longrank.reports.svg import check_inert, inline

if TYPE_CHECKING:
    from jinja2 import Environment

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how the numbers under it are shown; ``best`` sets the winning cells in bold."""

    heading: str
    decimals: int = 3
    best: Literal["highest", "lowest"] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value to sort by, with other words to show for it, or a detail such as its interval in small type.

    ``best`` decides whether it is set in bold where the column cannot know: a reference row wins nothing.
    """

    value: Value
    shown: str = ""
    detail: str = ""
    best: bool | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns, the first of which names the row; None is shown as a dash and sorted last.

    >>> Table([Column("ranker"), Column("RR", best="highest")], [["firstp", 0.11], ["maxp"]], caption="Zero-shot")
    Traceback (most recent call last):
    longrank.core.errors.DataError: table 'Zero-shot': row 2 has 1 cell, but there are 2 columns
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Value | Cell]]
    caption: str

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                raise DataError(
                    f"table {self.caption!r}: row {number} has {cells}, but there are {len(self.columns)} columns"
                )
            for column, cell in zip(self.columns, row, strict=True):
                value = _as_cell(cell).value
                if isinstance(value, float) and not math.isfinite(value):
                    raise DataError(
                        f"table {self.caption!r}: {column.heading!r} of row {number} is {value}; give None if unknown"
                    )


@dataclass(frozen=True, slots=True)
class Figure:
    """An SVG drawing with a caption for all, and in ``alt`` what it shows for those who cannot see it."""

    svg: str
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise DataError(f"figure {self.caption!r} has no alt text: say in a sentence what it shows")
        check_inert(self.svg)


@dataclass(frozen=True, slots=True)
class Statement:
    """What is spoken of, and the points that are made of it: a bold line and a list."""

    head: str
    points: Sequence[str]

    def __str__(self) -> str:
        return " ".join([f"{self.head}.", *self.points])


@dataclass(frozen=True, slots=True)
class Folded:
    """A line that says what is folded away under it, and the words that a click on it opens; printed open."""

    summary: str
    parts: Sequence[str | Statement]

    def __str__(self) -> str:
        return " ".join([f"{self.summary}.", *map(str, self.parts)])


Part = str | Table | Figure | Statement | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what follows it: paragraphs, statements, tables and figures in reading order."""

    heading: str
    parts: Sequence[Part]


def write_page(path: Path, *, title: str, lead: str, sections: Sequence[Section], footer: str) -> None:
    """Write the page as one HTML file that needs nothing else: no request leaves it."""
    write_atomic(path, render_page(title=title, lead=lead, sections=sections, footer=footer))


def render_page(*, title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """The page's HTML: the same text for the same content, all of it escaped but the drawings of figures."""
    template = _environment().get_template("page.html")
    return template.render(title=title, lead=lead, sections=sections, footer=footer)


class _ShownCell(NamedTuple):
    text: str
    detail: str
    key: str  # what the page's script sorts by; empty sorts last
    best: bool


class _ShownTable(NamedTuple):
    numeric: list[bool]  # by column; a column that mixes words and numbers is sorted as words
    rows: list[list[_ShownCell]]


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("longrank.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(shown=_shown, drawing=_drawing, csp_hash=_csp_hash)
    environment.tests.update(
        table=lambda part: isinstance(part, Table),
        figure=lambda part: isinstance(part, Figure),
        statement=lambda part: isinstance(part, Statement),
        folded=lambda part: isinstance(part, Folded),
    )
    return environment


def _shown(table: Table) -> _ShownTable:
    rows = [[_as_cell(cell) for cell in row] for row in table.rows]
    by_column = [[row[at] for row in rows] for at in range(len(table.columns))]
    winners = [_winner(column, cells) for column, cells in zip(table.columns, by_column, strict=True)]
    return _ShownTable(
        numeric=[bool(_numbers(cells)) and not any(isinstance(c.value, str) for c in cells) for cells in by_column],
        rows=[[_show(*each) for each in zip(row, table.columns, winners, strict=True)] for row in rows],
    )


def _show(cell: Cell, column: Column, winner: str | None) -> _ShownCell:
    text = _text(cell.value, column)
    key = "" if cell.value is None else str(cell.value)
    best = winner == text if cell.best is None else cell.best
    return _ShownCell(cell.shown or text, cell.detail, key, best)


def _numbers(cells: Sequence[Cell]) -> list[int | float]:
    return [cell.value for cell in cells if isinstance(cell.value, int | float)]


def _winner(column: Column, cells: Sequence[Cell]) -> str | None:
    """The best number as it is shown, so that cells which look the same are marked the same."""
    numbers = _numbers(cells)
    if column.best is None or not numbers:
        return None
    return _text(max(numbers) if column.best == "highest" else min(numbers), column)


def _text(value: Value, column: Column) -> str:
    match value:
        case None:
            return "–"
        case float():
            return f"{value:,.{column.decimals}f}"
        case int():
            return f"{value:,}"
        case _:
            return value


def _as_cell(cell: Value | Cell) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def _drawing(figure: Figure, prefix: str) -> str:
    from markupsafe import Markup

    return Markup(inline(figure.svg, prefix=prefix, title=figure.caption, description=figure.alt))


def _csp_hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
