"""Gain against cost: Figure 3 of the positional-bias paper for one's own rankers."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from longrank.core.errors import DataError
from longrank.reports.label_placing import At, Box, place_labels
from longrank.reports.svg import FIRST, INK, drawing, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT = 4.8, 3.6  # inches
_LINE, _LETTER = 0.17, 0.08  # inches of a line of text below the plot, and of a letter in it
_POINTS_AN_INCH = 72


class CostPoint(NamedTuple):
    """A ranker: its time over that of its own baseline, and its average gain over it in percent."""

    name: str
    relative_time: float
    gain_percent: float


def gain_against_cost(points: Sequence[CostPoint], *, baseline: str = "FirstP") -> str:
    """SVG text: average relative gain over each ranker's own baseline against the relative increase of run-time.

    The baselines themselves are the marked point at one times the time and no gain. Labels keep clear of one another;
    where names are too many or too long for that, points are numbered and the names stand below.
    """
    if not points:
        raise DataError("a gain-against-cost plot needs at least one ranker")
    for point in points:
        if not (math.isfinite(point.gain_percent) and 0 < point.relative_time < math.inf):
            raise DataError(f"{point.name!r}: time {point.relative_time} and gain {point.gain_percent} cannot be drawn")
    shown = [CostPoint(baseline, 1.0, 0.0), *points]
    return _drawn(shown, [point.name for point in shown], []) or _numbered(shown)


def _numbered(shown: Sequence[CostPoint]) -> str:
    names = [point.name for point in shown[1:]]
    marks = [shown[0].name, *(str(number) for number, _ in enumerate(names, start=1))]
    listed = [f"{number}  {name}" for number, name in enumerate(names, start=1)]
    for stretch in (1, 2, 4, 8):
        svg = _drawn(shown, marks, listed, plot_height=stretch * _HEIGHT)
        if svg is not None:
            return svg
    raise DataError(f"{len(names)} points are too many for one gain-against-cost plot; leave some out")


def _drawn(
    shown: Sequence[CostPoint], marks: Sequence[str], listed: Sequence[str], *, plot_height: float = _HEIGHT
) -> str | None:
    """The figure with a mark at each point and lines of text below; None if the marks have no room."""
    width = max(_WIDTH, _LETTER * max(map(len, listed), default=0))
    height = plot_height + _LINE * len(listed)
    with drawing(width, height) as figure:
        layout = figure.get_layout_engine()
        if layout is not None and listed:
            layout.set(rect=(0, 1 - plot_height / height, 1, plot_height / height))  # type: ignore[call-arg]
        axes = figure.add_subplot()
        axes.axhline(0, color=INK, linewidth=0.6)
        axes.plot([1], [0], marker="s", color=INK, linestyle="none")
        for point in shown[1:]:
            axes.plot([point.relative_time], [point.gain_percent], marker="o", color=FIRST, linestyle="none")
        axes.set_xlabel(f"time per document relative to own {shown[0].name}")
        axes.set_ylabel(f"average gain over own {shown[0].name}, %")
        axes.margins(0.15)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # what is measured now must not move
        if not _label(axes, [(point.relative_time, point.gain_percent) for point in shown], marks):
            return None
        for line, text in enumerate(listed):
            figure.text(0.02, 1 - (plot_height + _LINE * (line + 0.2)) / height, text, va="top")
        return to_svg(figure)


def _label(axes: "Axes", places: Sequence[tuple[float, float]], names: Sequence[str]) -> bool:
    """Write the names at free places near theirs; False if there is no room."""
    texts = [
        axes.annotate(name, at, xytext=(0, 0), textcoords="offset points", va="bottom")
        for name, at in zip(names, places, strict=True)
    ]
    scale = _POINTS_AN_INCH / texts[0].get_figure(root=True).dpi  # type: ignore[union-attr]
    extents = [text.get_window_extent() for text in texts]
    points = [At(*(scale * axes.transData.transform(at)).tolist()) for at in places]
    edges = Box(*(scale * float(edge) for edge in axes.get_window_extent().extents))
    zero = scale * float(axes.transData.transform((1, 0))[1])
    sizes = [(scale * extent.width + 2, scale * extent.height) for extent in extents]
    labels = place_labels(points, sizes, area=edges, taken=[Box(edges.left, zero - 0.5, edges.right, zero + 0.5)])
    for text, at, point, label in zip(texts, places, points, labels or (), strict=labels is not None):
        text.xyann = (label.box.left + 1 - point.x, label.box.bottom - point.y)
        if label.leader is not None:
            line = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
            end = (label.leader.x - point.x, label.leader.y - point.y)
            axes.annotate("", at, xytext=end, textcoords="offset points", arrowprops=line)
    return labels is not None
