"""Many audit cards as one sortable page."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from longrank.audit.card import Card, card_json
from longrank.audit.together import Joint, judge_together, out_of_reach
from longrank.audit.usage import latency_words
from longrank.core.errors import DataError
from longrank.reports.card import BANDS, curve_figure, curve_words, over_words, shown
from longrank.reports.page import Cell, Column, Figure, Part, Section, Table, Value, write_page

_MOST_LINES = 6  # of a figure; more could not be followed
_DECIMALS = 3  # as numbers are shown: what looks the same is marked the same


def write_board(
    path: Path, cards: Sequence[Card], *, latencies: Sequence[float | None] = (), notes: Sequence[str] = ()
) -> int:
    """Write the board and give its number of rows: one a distinct card, by ranker and data, whatever their order.

    ``latencies`` are seconds for 1,000 tokens, one a card or none at all; ``notes`` stand above the table.
    """
    if not cards:
        raise DataError("a board needs at least one card; `longrank audit` writes them")
    known = latencies or [None] * len(cards)
    rows = sorted(
        _distinct(zip(cards, known, strict=True)),
        key=lambda row: (row[0].ranker, row[0].design.data, row[0].design.fingerprint),
    )
    table = board_table([card for card, _ in rows], latencies=[latency for _, latency in rows])
    designs = {card.design.fingerprint for card in cards}
    parts: list[Part] = [table, *_family([card for card, _ in rows])]
    if len(designs) > 1:
        parts.append(
            f"The cards come from {len(designs)} designs (data, lengths or settings): compare rows of the same design."
        )
    lead = "Share of the usable signal that each ranker loses when the relevant passage moves, and how sure that is."
    sections = [Section("What to do", list(notes))] if notes else []
    sections.append(Section("Rankers", parts))
    figures = place_figures([card for card, _ in rows])
    if figures:
        sections.append(Section("Where the relevant passage stands", figures))
    write_page(
        path,
        title="Which rankers read to the end?",
        lead=lead,
        sections=sections,
        footer=_footer([card for card, _ in rows]),
    )
    return len(rows)


def board_table(cards: Sequence[Card], *, latencies: Sequence[float | None] = ()) -> Table:
    """The board's rows, the best of each design in bold; the column of latencies is left out where none is known."""
    timed = any(latency is not None for latency in latencies)
    columns = [
        Column("ranker"),
        Column("verdict"),
        Column("Holm p", 4),
        Column("lost at the worst slot"),
        Column("mean RR"),
        Column("change a doubling of length"),
        Column("window, words"),
        Column("cut"),
        Column("data"),
        Column("lengths"),
        Column("queries"),
        Column("design"),
    ]
    lost, found = [None if card.lost is None else card.lost.value for card in cards], [_mean_rr(card) for card in cards]
    marks = zip(_best(cards, lost, min), _best(cards, found, max), strict=True)
    joint = judge_together(cards)
    rows = [_row(card, judged, *best) for card, judged, best in zip(cards, joint, marks, strict=True)]
    if timed:
        columns.append(Column("s for 1,000 tokens"))
        rows = [[*row, _latency(seconds)] for row, seconds in zip(rows, latencies, strict=True)]
    caption = (
        "One row a card, shares with 95% intervals, p of the test that speaks most for a bias; click a heading to sort"
    )
    return Table(columns, rows, caption=caption + over_words([card.lost for card in cards]))


def place_figures(cards: Sequence[Card]) -> list[Figure]:
    """Curves at the longest length of each design that several rankers share; of many, those that lose least."""
    designs: dict[str, list[Card]] = {}
    for card in sorted(cards, key=lambda card: card.lost.value if card.lost else math.inf):
        if card.lengths:
            designs.setdefault(card.design.fingerprint, []).append(card)
    return [_place_figure(sharing) for sharing in designs.values() if len(sharing) > 1]


def _place_figure(cards: Sequence[Card]) -> Figure:
    longest = [max(card.lengths, key=lambda at: at.tokens) for card in cards[:_MOST_LINES]]
    curves = {name: at.curve for name, at in zip(_numbered(card.ranker for card in cards), longest, strict=False)}
    left = f"; of {len(cards)} rankers the {_MOST_LINES} that lose least" if len(cards) > _MOST_LINES else ""
    where = f"documents of {longest[0].tokens:,} tokens, {cards[0].design.data}"
    figure = curve_figure(curves, chance=longest[0].absent_expected)
    return Figure(figure, f"Mean reciprocal rank by slot in {where}{left}; {BANDS}.", curve_words(curves))


def _numbered(names: Iterable[str]) -> list[str]:
    """The names, with a number behind one that stood before: folders are called by their last part.

    >>> _numbered(["best", "minilm", "best"])
    ['best', 'minilm', 'best (2)']
    """
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _distinct(rows: Iterable[tuple[Card, float | None]]) -> list[tuple[Card, float | None]]:
    """Each card once, with a latency if any of its copies has one."""
    kept: dict[str, tuple[Card, float | None]] = {}
    for card, latency in rows:
        text = card_json(card)
        kept[text] = (card, kept[text][1] if text in kept and kept[text][1] is not None else latency)
    return list(kept.values())


def _best(cards: Sequence[Card], values: Sequence[float | None], pick: Callable[[list[float]], float]) -> list[bool]:
    """Whether each value is the best, as it is shown, of two or more cards of the same design."""
    designs: dict[str, list[float]] = {}
    for card, value in zip(cards, values, strict=True):
        if value is not None:
            designs.setdefault(card.design.fingerprint, []).append(round(value, _DECIMALS))
    return [
        value is not None
        and len(rivals := designs[card.design.fingerprint]) > 1
        and round(value, _DECIMALS) == pick(rivals)
        for card, value in zip(cards, values, strict=True)
    ]


def _latency(seconds: float | None) -> Cell:
    return Cell(None) if seconds is None else Cell(seconds, latency_words(seconds))


def _mean_rr(card: Card) -> float | None:
    means = [sum(at.curve.mean) / len(at.curve.mean) for at in card.lengths]
    return sum(means) / len(means) if means else None


def _family(cards: Sequence[Card]) -> list[str]:
    """What the verdicts are corrected for, where there is more than a card's own tests."""
    tests = 3 * sum(len(card.lengths) for card in cards)
    if len(cards) < 2 or not tests:
        return []
    said = f"The p-values of all {len(cards)} cards are corrected together by Holm's method, over {tests} tests, and a "
    said += "bias must hold out against that. Robust is shown of each ranker by itself."
    if out_of_reach(cards):
        said += " No p-value that the cards' permutations can give is small enough for so many: compare fewer cards."
    return [said]


def _row(card: Card, judged: Joint, least_lost: bool, best_found: bool) -> list[Value | Cell]:
    slope, verdict = card.length_slope, judged.outcome.value
    return [
        card.ranker,
        verdict if judged.outcome is card.outcome else Cell(verdict, detail=f"{card.outcome.value} by its card alone"),
        judged.p,
        Cell(None if card.lost is None else card.lost.value, shown(card.lost), best=least_lost),
        Cell(_mean_rr(card), best=best_found),
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
