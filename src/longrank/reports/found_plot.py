"""Stacked bars of relevant documents by rank, one panel an order."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from longrank.core.errors import DataError
from longrank.reports.svg import FIRST, INK, SECOND, drawing, to_svg

_WIDTH, _PANEL = 4.4, 1.5  # inches
ALL, SOME, ALONE = "all", "some others too", "this one alone"  # first stages that found a document
_FILLS: Mapping[str, str | tuple[str, float]] = {ALL: (SECOND, 0.3), SOME: SECOND, ALONE: FIRST}


class FoundPanel(NamedTuple):
    """Mean number of documents a query in each bin of ranks, by who found them."""

    name: str
    bars: Mapping[str, Sequence[float]]


def found_bars(panels: Sequence[FoundPanel], bins: Sequence[tuple[int, int]]) -> str:
    """SVG text: panels under one another with the same axes; the three shades differ in tone as well as in colour."""
    if not panels or any(len(row) != len(bins) for panel in panels for row in panel.bars.values()):
        raise DataError("a figure of ranks needs at least one order, and one bar a bin in each")
    places = np.arange(len(bins))
    with drawing(_WIDTH, 0.9 + _PANEL * len(panels)) as figure:
        axes = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for plot, panel in zip(axes, panels, strict=True):
            below = np.zeros(len(bins))
            for group, row in panel.bars.items():
                look = {"facecolor": _FILLS[group], "edgecolor": INK, "linewidth": 0.4}
                plot.bar(places, row, 0.8, bottom=below, label=f"found by {group}", **look)
                below = below + np.asarray(row)
            plot.set_title(panel.name)
            plot.grid(axis="y", color=INK, alpha=0.15, linewidth=0.7)
            plot.set_axisbelow(True)
        axes[-1].set_xticks(places, [f"{low}-{high}" if high > low else f"{low}" for low, high in bins])
        for label in axes[-1].get_xticklabels():
            label.set(rotation=50, ha="right", rotation_mode="anchor", fontsize=7.5)
        axes[-1].set_xlabel("rank")
        figure.supylabel("relevant documents a query", fontsize="medium")
        shown = {label: bar for plot in axes for bar, label in zip(*plot.get_legend_handles_labels(), strict=True)}
        figure.legend(shown.values(), shown.keys(), loc="outside upper left", ncols=2, borderaxespad=0.2)
        return to_svg(figure)
