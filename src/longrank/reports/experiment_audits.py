"""The audits among an experiment's records: verdicts in a table, curves with bands in small panels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from longrank.audit.card import Card, LengthCard
from longrank.experiments.records import ExperimentResult
from longrank.reports.card import shown
from longrank.reports.page import Figure, Statement
from longrank.reports.svg import FIRST, INK, LINES, MARKS, SECOND, drawing, to_svg
from longrank.reports.tables import Cell, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = (SECOND, FIRST, *LINES[2:])  # as the bars of the first and the second training
_ACROSS = 3


class Audited(NamedTuple):
    """A card and the training it is about."""

    system: str
    stage: str
    seed: int
    card: Card


def audited(result: ExperimentResult) -> list[Audited]:
    """The experiment's audits, in the order of its plan."""
    cells = result.where(what="audit")
    several = len({cell.labels["backbone"] for cell in cells}) > 1
    return [
        Audited(
            f"{cell.labels['ranker']} ({cell.labels['backbone']})" if several else str(cell.labels["ranker"]),
            str(cell.labels["stage"]),
            int(cell.labels["seed"]),
            Card.model_validate(dict(cell.facts)),
        )
        for cell in cells
    ]


def audits_table(result: ExperimentResult) -> Table | None:
    """A row an audit: the verdict, and how much of the usable signal is lost at the worst place."""
    audits = audited(result)
    if not audits:
        return None
    rows = tuple(
        (
            Cell(one.system),
            Cell(one.stage),
            Cell(str(one.seed)),
            Cell(one.card.outcome.value),
            Cell(shown(one.card.lost)),
            Cell(", ".join(map(str, one.card.design.lengths))),
            Cell(str(one.card.queries_answered)),
        )
        for one in audits
    )
    notes = (
        "The same evidence at several places of the same documents. Lost: the gap between the places read best and "
        "worst, as a share of the usable signal, with its 95% interval over queries. A robust verdict needs proof too; "
        "inconclusive means that neither was shown, most often because more queries are needed. Each verdict is "
        "corrected over the lengths and tests of its own audit, not over the rows.",
    )
    return Table(("system", "training", "seed", "verdict", "lost", "tokens", "queries"), rows, notes)


def audit_statements(result: ExperimentResult) -> list[Statement]:
    """Verdicts by training, each with the systems that got it and for how many of their seeds."""
    found: dict[str, dict[str, Counter[str]]] = {}
    seeds: Counter[tuple[str, str]] = Counter()
    for one in audited(result):
        found.setdefault(one.stage, {}).setdefault(one.card.outcome.value, Counter())[one.system] += 1
        seeds[one.stage, one.system] += 1
    return [
        Statement(f"Audits after {stage}", [_verdict(stage, word, names, seeds) for word, names in of.items()])
        for stage, of in found.items()
    ]


def _verdict(stage: str, word: str, names: Counter[str], seeds: Counter[tuple[str, str]]) -> str:
    told = (
        name if count == seeds[stage, name] else f"{name} ({count} of {seeds[stage, name]} seeds)"
        for name, count in names.items()
    )
    return f"{word.capitalize()}: {', '.join(told)}."


def audit_figure(result: ExperimentResult) -> Figure | None:
    """Reciprocal rank by place in the longest documents, a panel a system, a line a training, the first seed each."""
    curves: dict[str, dict[str, LengthCard]] = {}
    for one in audited(result):
        if one.card.lengths:
            longest = max(one.card.lengths, key=lambda at: at.tokens)
            curves.setdefault(one.system, {}).setdefault(one.stage, longest)
    if not curves:
        return None
    alt = "; ".join(
        f"{system}, {stage}: {', '.join(f'{mean:.2f}' for mean in at.curve.mean)}"
        for system, lines in curves.items()
        for stage, at in lines.items()
    )
    tokens = sorted({at.tokens for lines in curves.values() for at in lines.values()})
    caption = (
        "Mean reciprocal rank by place of the relevant passage, first to last, in documents of "
        f"{', '.join(map(str, tokens))} tokens; bands hold the whole true curve with 95% confidence. "
        "Dashed: chance. One training each."
    )
    return Figure(_panels(curves), caption, f"Curves. {alt}.")


def _panels(curves: Mapping[str, Mapping[str, LengthCard]]) -> str:
    stages = list(dict.fromkeys(stage for lines in curves.values() for stage in lines))
    across = min(_ACROSS, len(curves))
    down = -(-len(curves) // across)
    with drawing(1.35 * across + 0.4, 1.3 * down + 0.7) as figure:
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flatten()
        for axes, (system, lines) in zip(grid, curves.items(), strict=False):
            _panel(axes, lines, stages)
            axes.set_title(system)
        for axes in grid[max(0, len(curves) - across) : len(curves)]:  # the last of each column
            axes.tick_params(labelbottom=True)
        for axes in grid[len(curves) :]:
            axes.set_visible(False)
        figure.supxlabel("place of the relevant passage", fontsize="medium")
        figure.supylabel("mean reciprocal rank", fontsize="medium")
        handles = {text: line for axes in grid for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=3, borderaxespad=0.2)
        return to_svg(figure)


def _panel(axes: "Axes", lines: Mapping[str, LengthCard], stages: Sequence[str]) -> None:
    for stage, at in lines.items():
        colour = _LINES[stages.index(stage) % len(_LINES)]
        places = np.arange(1, len(at.curve.mean) + 1)
        axes.fill_between(places, at.curve.low, at.curve.high, color=colour, alpha=0.18, linewidth=0)
        mark = MARKS[stages.index(stage) % len(MARKS)]
        axes.plot(places, at.curve.mean, color=colour, marker=mark, markersize=3, label=stage)
        axes.axhline(at.absent_expected, color=INK, linestyle=(0, (4, 3)), linewidth=0.9)
    axes.set_xticks(places)
    axes.set_ylim(0, 1.02)
    axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.7)
