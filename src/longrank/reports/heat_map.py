"""Figures of sweeps: a line for one parameter, a heat map for two."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from longrank.core.errors import DataError
from longrank.reports.plots import Interval
from longrank.reports.svg import INK, SECOND, drawing, look, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Setting = str | int | float | bool
_PALEST, _STRONGEST = 0.08, 0.62  # of the tint: at both ends the page's ink stays legible, light and dark


def heat_map(values: Mapping[tuple[Setting, Setting], float], *, across: str, down: str, measure: str) -> str:
    """SVG: a cell a pair (across, down) with its mean written in it, the darker the higher; the best is framed.

    Pairs that were not tried stay empty.
    """
    if not values:
        raise DataError("a heat map needs at least one value")
    left, top = (in_order([pair[at] for pair in values]) for at in (0, 1))
    low, high = min(values.values()), max(values.values())
    with drawing(1.2 + 0.72 * len(left), 1.2 + 0.42 * len(top)) as figure:
        axes = figure.subplots()
        for (x, y), value in values.items():
            strength = _PALEST + (_STRONGEST - _PALEST) * ((value - low) / (high - low) if high > low else 0.5)
            _cell(axes, left.index(x), top.index(y), value, strength=strength, best=value == high)
        axes.set_xlim(-0.5, len(left) - 0.5)
        axes.set_ylim(len(top) - 0.5, -0.5)
        axes.set_xticks(range(len(left)), [str(value) for value in left])
        axes.set_yticks(range(len(top)), [str(value) for value in top])
        axes.set_xlabel(across)
        axes.set_ylabel(down)
        axes.set_title(measure)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return to_svg(figure)


def sweep_lines(lines: Mapping[str, Mapping[Setting, Interval]], *, parameter: str, measure: str) -> str:
    """SVG: the mean by a parameter's value with its band, a line a system.

    Numbers stand where they belong on the axis; words stand side by side, and no line joins what has no order.
    """
    points = in_order([value for line in lines.values() for value in line])
    if not points:
        raise DataError("a figure of a sweep needs at least one point")
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in points)
    places = {value: float(value) if numeric else float(at) for at, value in enumerate(points)}
    with drawing(4.8, 3.2) as figure:
        axes = figure.subplots()
        for at, (name, line) in enumerate(lines.items()):
            known = [value for value in points if value in line]
            means, lows, highs = np.array([line[value] for value in known], dtype=np.float64).T
            where = np.array([places[value] for value in known])
            colour, mark = look(at)
            if numeric:
                axes.fill_between(where, lows, highs, color=colour, alpha=0.15, linewidth=0)
            else:
                where = where + 0.08 * (at - (len(lines) - 1) / 2)
                reach = [means - lows, highs - means]
                axes.errorbar(where, means, reach, fmt="none", color=colour, elinewidth=1.1, capsize=2.5)
            joined = "-" if numeric else "none"
            axes.plot(where, means, color=colour, linestyle=joined, marker=mark, markersize=4, label=name)
        axes.set_xticks(list(places.values()), [str(value) for value in points])
        axes.set_xlabel(parameter)
        axes.set_ylabel(measure)
        axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.7)
        figure.legend(loc="outside upper left", ncols=min(3, len(lines)), borderaxespad=0.2)
        return to_svg(figure)


def in_order(values: Sequence[Setting]) -> list[Setting]:
    """Each value once: numbers by size, words as they came.

    >>> in_order([100, 50, 50]), in_order(["mean", "cls", "mean"])
    ([50, 100], ['mean', 'cls'])
    """
    unique = list(dict.fromkeys(values))
    numbers = [value for value in unique if isinstance(value, int | float)]
    return [*sorted(numbers)] if len(numbers) == len(unique) else unique


def _cell(axes: "Axes", x: int, y: int, value: float, *, strength: float, best: bool) -> None:
    from matplotlib.patches import Rectangle

    edge = INK if best else "none"
    box = Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, facecolor=(SECOND, strength), edgecolor=edge, linewidth=1.3)
    axes.add_patch(box)
    axes.annotate(f"{value:.3f}", (x, y), ha="center", va="center", fontweight="bold" if best else "normal")
