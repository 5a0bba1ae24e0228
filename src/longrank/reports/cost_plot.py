"""Gain against cost: Figure 3 of the positional-bias paper for one's own rankers."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from longrank.core.errors import DataError
from longrank.reports.svg import FIRST, INK, drawing, to_svg


class CostPoint(NamedTuple):
    """A ranker: its time over that of its FirstP, and its average gain over it in percent."""

    name: str
    relative_time: float
    gain_percent: float


def gain_against_cost(points: Sequence[CostPoint]) -> str:
    """SVG text: average relative gain over the FirstP baselines against the relative increase of run-time.

    The baselines themselves are the marked point at one times the time and no gain.
    """
    if not points:
        raise DataError("a gain-against-cost plot needs at least one ranker")
    for point in points:
        if not (math.isfinite(point.gain_percent) and 0 < point.relative_time < math.inf):
            raise DataError(f"{point.name!r}: time {point.relative_time} and gain {point.gain_percent} cannot be drawn")
    with drawing(4.8, 3.6) as figure:
        axes = figure.add_subplot()
        axes.axhline(0, color=INK, linewidth=0.6)
        axes.plot([1], [0], marker="s", color=INK, linestyle="none")
        axes.annotate("FirstP", (1, 0), xytext=(5, 5), textcoords="offset points")
        for point in points:
            at = (point.relative_time, point.gain_percent)
            axes.plot(*([value] for value in at), marker="o", color=FIRST, linestyle="none")
            axes.annotate(point.name, at, xytext=(5, 5), textcoords="offset points")
        axes.set_xlabel("time per document relative to own FirstP")
        axes.set_ylabel("average gain over own FirstP, %")
        axes.margins(0.15)
        return to_svg(figure)
