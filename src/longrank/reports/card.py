"""The audit card as a page: the verdict in a sentence, the curve with its band, the controls, and the numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from longrank.audit.card import Card, Curve, Interval, WindowCard
from longrank.audit.verdict import Outcome
from longrank.reports.page import Cell, Column, Figure, Part, Section, Table, Value, write_page
from longrank.reports.svg import INK, drawing, look, to_svg

VERDICTS = {
    Outcome.robust: "Robust: every place is near the average",
    Outcome.biased: "Biased: position matters",
    Outcome.inconclusive: "Inconclusive: neither robust nor biased was shown",
    Outcome.not_auditable: "Not auditable",
}
BANDS = "bands hold the whole true curve with 95% confidence"
_SHORT_NAME = 16  # letters; three such names stand side by side in a legend
_LINE = 60  # letters that one line of a legend holds
_CUTS = {
    "nothing": "reads all of the longest text tried",
    "end": "cuts the end of a document",
    "start": "cuts the start of a document",
    "middle": "cuts the middle of a document",
    "unclear": "did not react to the query's words anywhere",
}


def write_card_page(path: Path, card: Card) -> None:
    """Write the card as one self-contained HTML file."""
    found = _found(card)
    sections = [Section("What was found", found)] if found else []
    if card.lengths:
        sections += [Section("Controls", [_controls(card)]), Section("Numbers", [_numbers(card)])]
    if card.window is not None:
        sections.append(Section("How much is read", [window_words(card.window)]))
    sections.append(Section("How it was measured", [_method(card)]))
    title = f"Does {card.ranker} read the whole document?"
    write_page(
        path, title=title, lead=f"{VERDICTS[card.outcome]}. {card.sentence}", sections=sections, footer=_footer(card)
    )


def curve_figure(curves: Mapping[str, Curve], *, chance: float) -> str:
    """Reciprocal rank by slot as SVG: a line with its simultaneous band for each name, and the level of chance."""
    with drawing(5.2, 3.2) as figure:
        axes = figure.subplots()
        lines: list[Any] = []
        for number, curve in enumerate(curves.values()):
            colour, mark = look(number)
            slots = np.arange(1, len(curve.mean) + 1)
            axes.fill_between(slots, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
            lines += axes.plot(slots, curve.mean, color=colour, marker=mark, markersize=4)
        lines.append(axes.axhline(chance, color=INK, linestyle=(0, (4, 3)), linewidth=1.1))
        axes.set_xticks(slots)
        axes.set_xlabel("slot of the relevant passage, first to last")
        axes.set_ylabel("mean reciprocal rank")
        axes.set_ylim(0, 1.02)
        axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.7)
        columns = 3 if max(map(len, curves)) <= _SHORT_NAME else 1
        names = [fill(name, _LINE) for name in (*curves, "chance")]
        figure.legend(lines, names, loc="outside upper left", ncols=columns, borderaxespad=0.2)
        return to_svg(figure)


def curve_words(curves: Mapping[str, Curve]) -> str:
    """The lines of such a figure for those who cannot see it."""
    lines = (f"{name}: {', '.join(f'{mean:.2f}' for mean in curve.mean)}" for name, curve in curves.items())
    return f"Mean reciprocal rank by slot. {'; '.join(lines)}."


def window_words(window: WindowCard) -> str:
    """The probe's findings in sentences."""
    size = ""
    if window.words is not None:
        size = f" It reads {window.words:,} words ({window.characters:,} characters, {window.tokens:,} tokens of "
        size += f"{window.tokenizer}) beside a query of {window.query_words}."
    gives = "" if window.gives_way == "neither" else f" When the query is long, the {window.gives_way} gives way."
    lost = " A long query loses its end." if window.query_cut else ""
    return (
        f"The ranker {_CUTS[window.cut]}.{size}{gives}{lost} Its score comes from: {window.combines}. "
        f"{window.agreeing} of {window.asked} queries agree; texts of up to {window.longest:,} words were tried, "
        f"{window.documents} in all."
    )


def shown(estimate: Interval | None) -> str:
    """Value and 95% interval as percentages, such as ``72% [65%, 79%]``."""
    return "–" if estimate is None else f"{estimate.value:.0%} [{estimate.low:.0%}, {estimate.high:.0%}]"


def over_words(estimates: Sequence[Interval | None]) -> str:
    """What a share above 100% means, for the caption of a table that shows one."""
    if not any(estimate is not None and estimate.high > 1 for estimate in estimates):
        return ""
    return "; over 100% is lost where the worst slot ranks below chance, or the best one above the passage alone"


def _found(card: Card) -> list[Part]:
    parts: list[Part] = []
    if card.lengths:
        curves = {f"{at.tokens:,} tokens": at.curve for at in card.lengths}
        caption = f"Mean reciprocal rank by slot; {BANDS}."
        chance = card.lengths[0].absent_expected
        parts.append(Figure(curve_figure(curves, chance=chance), caption, curve_words(curves)))
    if card.unstable_queries:
        parts.append(f"The ranker scored the same input differently on a re-run for {card.unstable_queries} queries.")
    parts += [f"Problem: {kind}, {count} times." for kind, count in card.problems.items()]
    return parts


def _controls(card: Card) -> Table:
    columns = [Column(name) for name in ("length", "passage alone", "absent", "absent, expected", "usable signal")]
    columns += [Column("cost of length"), Column("first - last"), Column("first - last, reversed fillers")]
    rows: list[list[Value | Cell]] = [
        [
            at.tokens,
            at.isolated,
            _cell(at.absent),
            at.absent_expected,
            _cell(at.usable_signal),
            _cell(at.dilution),
            _cell(at.primacy),
            _cell(at.primacy_reversed),
        ]
        for at in card.lengths
    ]
    return Table(columns, rows, caption="Reciprocal ranks of the controls, with 95% intervals over queries")


def _numbers(card: Card) -> Table:
    columns = [Column(name) for name in ("length", "verdict", "lost at the worst slot", "lost, first to last")]
    columns += [Column("trend, p", 4), Column("bend, p", 4), Column("PSI less chance"), Column("PSI, p", 4)]
    columns += [Column("Page, p", 4), Column("positional SD")]
    rows: list[list[Value | Cell]] = [
        [
            at.tokens,
            at.outcome.value,
            Cell(at.worst_slot_lost.value if at.worst_slot_lost else None, shown(at.worst_slot_lost)),
            Cell(at.primacy_share.value if at.primacy_share else None, shown(at.primacy_share)),
            at.trend.holm_p,
            at.bend.holm_p,
            at.psi.adjusted,
            at.psi.holm_p,
            at.page.p,
            at.positional_deviation,
        ]
        for at in card.lengths
    ]
    caption = "By length; p-values but Page's are corrected by Holm over lengths and tests"
    shares = [share for at in card.lengths for share in (at.worst_slot_lost, at.primacy_share)]
    return Table(columns, rows, caption=caption + over_words(shares))


def _method(card: Card) -> str:
    design = card.design
    times = design.documents_naive / design.documents_scored if design.documents_scored else 1.0
    return (
        f"{card.queries_answered} of {design.queries} queries of {design.data!r}; the relevant passage at "
        f"{design.slots} slots among the same fillers, against {design.distractors} distractors, half with one "
        f"hard passage; lengths {', '.join(f'{length:,}' for length in design.lengths)} "
        f"tokens ({design.tokenizer}); tolerance {design.tolerance:.0%} of the usable signal. "
        f"{design.documents_scored:,} documents were scored, {times:.1f} times fewer than "
        f"a design that repeats its distractors would need."
    )


def _footer(card: Card) -> str:
    return f"longrank {card.longrank}, seed {card.design.seed}, design {card.design.fingerprint}, card {card.version}"


def _cell(estimate: Interval) -> Cell:
    return Cell(estimate.value, detail=f"[{estimate.low:.3f}, {estimate.high:.3f}]")
