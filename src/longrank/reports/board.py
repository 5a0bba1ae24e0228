"""Many audit cards as one sortable page."""

from collections.abc import Sequence
from pathlib import Path

from longrank.audit.card import Card
from longrank.core.errors import DataError
from longrank.reports.card import over_words, shown
from longrank.reports.page import Cell, Column, Section, Table, Value, write_page


def write_board(
    path: Path, cards: Sequence[Card], *, latencies: Sequence[float | None] = (), notes: Sequence[str] = ()
) -> None:
    """Write the board: a row a card, by ranker and data, whatever the order they came in.

    ``latencies`` are seconds for 1,000 tokens, one a card or none at all; ``notes`` stand above the table.
    """
    if not cards:
        raise DataError("a board needs at least one card; `longrank audit` writes them")
    known = latencies or [None] * len(cards)
    rows = sorted(
        zip(cards, known, strict=True), key=lambda row: (row[0].ranker, row[0].design.data, row[0].design.fingerprint)
    )
    table = board_table([card for card, _ in rows], latencies=[latency for _, latency in rows])
    designs = {card.design.fingerprint for card in cards}
    parts: list[str | Table] = [table]
    if len(designs) > 1:
        parts.append(
            f"The cards come from {len(designs)} designs (data, lengths or settings): compare rows of the same design."
        )
    lead = "Share of the usable signal that each ranker loses when the relevant passage moves, and how sure that is."
    sections = [Section("What to do", list(notes))] if notes else []
    sections.append(Section("Rankers", parts))
    write_page(path, title="Which rankers read to the end?", lead=lead, sections=sections, footer=_footer(cards))


def board_table(cards: Sequence[Card], *, latencies: Sequence[float | None] = ()) -> Table:
    """The board's rows; the column of latencies is left out where none is known."""
    timed = any(latency is not None for latency in latencies)
    columns = [
        Column("ranker"),
        Column("verdict"),
        Column("lost at the worst slot", best="lowest"),
        Column("mean RR", best="highest"),
        Column("change a doubling of length"),
        Column("window, words"),
        Column("cut"),
        Column("data"),
        Column("lengths"),
        Column("queries"),
        Column("design"),
    ]
    rows = [_row(card) for card in cards]
    if timed:
        columns.append(Column("s for 1,000 tokens"))
        rows = [[*row, latency] for row, latency in zip(rows, latencies, strict=True)]
    caption = "One row a card, shares with 95% intervals; click a heading to sort"
    return Table(columns, rows, caption=caption + over_words([card.lost for card in cards]))


def _row(card: Card) -> list[Value | Cell]:
    means = [sum(at.curve.mean) / len(at.curve.mean) for at in card.lengths]
    slope = card.length_slope
    return [
        card.ranker,
        card.outcome.value,
        Cell(None if card.lost is None else card.lost.value, shown(card.lost)),
        sum(means) / len(means) if means else None,
        None if slope is None else Cell(slope.value, detail=f"[{slope.low:.3f}, {slope.high:.3f}]"),
        None if card.window is None else card.window.words,
        None if card.window is None else card.window.cut,
        card.design.data,
        ", ".join(map(str, card.design.lengths)),
        card.queries_answered,
        card.design.fingerprint,
    ]


def _footer(cards: Sequence[Card]) -> str:
    versions = ", ".join(sorted({card.longrank for card in cards}))
    return f"{len(cards)} audit cards, made by longrank {versions}"
