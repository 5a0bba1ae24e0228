"""The two figures of the positional-bias paper: where relevance begins, and what fine-tuning brings."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import DataError
from longrank.reports.svg import FIRST, INK, SECOND, drawing, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

_WIDTH = 4.4  # inches; narrow, so that the letters stay legible on a phone
_MOST_BINS = 32
_CROWDED = 4  # more rankers than this and their names are turned, their numbers left to the table
_DASHES = ((4, 3), (1, 2), (6, 2, 1, 2))  # of the lines at a level, told apart without colour


@dataclass(frozen=True)
class PositionSample:
    """Where the relevant passages of a collection start, or end, and how long its relevant documents are, in tokens."""

    places: Sequence[int]
    lengths: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.lengths) == 0:
            raise DataError("a position sample needs at least one document length; `places` may be empty")
        if min(self.lengths) < 0 or min(self.places, default=0) < 0:
            raise DataError("a position sample holds a negative number of tokens; places and lengths count from 0")


class Interval(NamedTuple):
    """A mean with the ends of its confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class TransferBar:
    """One ranker on the far collection: as trained elsewhere, and after fine-tuning there."""

    name: str
    zero_shot: Interval
    tuned: Interval

    def __post_init__(self) -> None:
        for mean, low, high in (self.zero_shot, self.tuned):
            if not (math.isfinite(low) and math.isfinite(high) and low <= mean <= high):
                raise DataError(f"{self.name!r}: interval {low} to {high} does not hold its mean {mean}")


def position_histograms(groups: Mapping[str, PositionSample], *, edge: str = "start") -> str:
    """Figure 1 as SVG: for each collection, places of relevant passages (bars) over document lengths (outline).

    All panels share one axis of tokens; its last bin takes the longest hundredth of the documents, and says so.
    """
    if not groups:
        raise DataError("a position figure needs at least one collection")
    edges, open_ended = _token_bins(groups.values())
    with drawing(_WIDTH, 0.7 + 1.5 * len(groups)) as figure:
        panels = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (name, sample) in zip(panels, groups.items(), strict=True):
            _draw_positions(axes, sample, edges, edge)
            axes.set_title(textwrap.fill(f"{name}: {_position_words(sample, edge)}", 56))
        figure.supylabel("share, %", fontsize="medium")
        tail = f"; the last bin holds all from {edges[-2]:,.0f} on" if open_ended else ""
        panels[-1].set_xlabel(f"tokens{tail}")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, borderaxespad=0.2)
        return to_svg(figure)


def transfer_bars(
    rows: Sequence[TransferBar],
    *,
    levels: Mapping[str, float],
    measure: str,
    trainings: tuple[str, str] = ("zero-shot", "fine-tuned"),
) -> str:
    """Figure 2 as SVG: two bars a ranker with their intervals, and a broken line at each of the named ``levels``."""
    if not rows:
        raise DataError("a transfer figure needs at least one ranker")
    crowded = len(rows) > _CROWDED
    zero_shot, tuned = [row.zero_shot for row in rows], [row.tuned for row in rows]
    with drawing(_WIDTH, 3.3 if crowded else 2.9) as figure:
        axes = figure.subplots()
        bars = [
            _draw_bars(axes, zero_shot, offset=-0.2, color=SECOND, fill=(SECOND, 0.25), label=trainings[0]),
            _draw_bars(axes, tuned, offset=0.2, color=FIRST, fill=FIRST, label=trainings[1]),
        ]
        lines = [
            axes.axhline(level, color=INK, linestyle=(0, dashes), linewidth=1.1, label=name, zorder=4)
            for (name, level), dashes in zip(levels.items(), cycle(_DASHES), strict=False)
        ]
        _write_names(axes, [row.name for row in rows])
        if not crowded:
            _write_values(axes, zero_shot, offset=-0.2)
            _write_values(axes, tuned, offset=0.2)
        axes.set_ylabel(measure)
        axes.set_ylim(bottom=min(0.0, *levels.values(), *(interval.low for interval in zero_shot + tuned)))
        _grid(axes)
        columns = 3 if len(lines) == 1 and len(next(iter(levels))) < 20 else 2
        figure.legend(handles=[*bars, *lines], loc="outside upper left", ncols=columns, borderaxespad=0.2)
        return to_svg(figure)


def _token_bins(samples: Iterable[PositionSample]) -> tuple[NDArray[np.float64], bool]:
    """Edges shared by all panels, and whether values beyond the last edge must be folded into the last bin."""
    samples = list(samples)
    longest = max(max(sample.lengths) for sample in samples)
    # only lengths have a tail to fold: every start keeps its place on the axis
    reach = max(max(float(np.quantile(each.lengths, 0.99)), *each.places, 1.0) for each in samples)
    # a power of two, so that the usual limits (128, 512) fall between bins
    step = 2 ** math.ceil(math.log2(max(reach / _MOST_BINS, 1.0)))
    edges = step * np.arange(math.ceil(reach / step) + 1, dtype=np.float64)
    return edges, longest > edges[-1]


def _draw_positions(axes: "Axes", sample: PositionSample, edges: NDArray[np.float64], edge: str) -> None:
    lengths, places = (_shares(values, edges) for values in (sample.lengths, sample.places))
    axes.stairs(lengths, edges, fill=True, color=SECOND, alpha=0.22, zorder=2)
    axes.stairs(lengths, edges, color=SECOND, linewidth=1.4, zorder=4, label="document length")
    middles, widths = (edges[:-1] + edges[1:]) / 2, np.diff(edges) * 0.62
    axes.bar(middles, places, widths, color=FIRST, zorder=3, label=f"{edge} of the relevant passage")
    axes.set_xlim(0, edges[-1])
    axes.set_xticks(edges[:: max(1, len(edges) // 6)])
    _grid(axes)


def _shares(values: Sequence[int], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts, _ = np.histogram(np.minimum(values, edges[-1]), bins=edges)
    return 100.0 * counts / max(len(values), 1)


def _position_words(sample: PositionSample, edge: str) -> str:
    located = f"median {edge} {median(sample.places):,.0f}" if sample.places else "no passage located"
    return f"{located}, median length {median(sample.lengths):,.0f}"


def _draw_bars(
    axes: "Axes", values: Sequence[Interval], *, offset: float, color: str, fill: str | tuple[str, float], label: str
) -> "BarContainer":
    places = np.arange(len(values)) + offset
    means, lows, highs = np.array(values, dtype=np.float64).T
    whiskers = [means - lows, highs - means]
    axes.errorbar(places, means, whiskers, fmt="none", color=INK, elinewidth=1.1, capsize=2.5, zorder=3)
    return axes.bar(places, means, 0.36, facecolor=fill, edgecolor=color, linewidth=1.2, label=label, zorder=2)


def _write_values(axes: "Axes", values: Sequence[Interval], *, offset: float) -> None:
    for place, value in enumerate(values):
        above = (place + offset, value.high)
        axes.annotate(f"{value.mean:.2f}", above, (0, 3), textcoords="offset points", ha="center")


def _write_names(axes: "Axes", names: Sequence[str]) -> None:
    axes.tick_params(axis="x", length=0)
    if len(names) <= _CROWDED:
        axes.set_xticks(range(len(names)), [textwrap.fill(name, 12, break_long_words=False) for name in names])
        return
    axes.set_xticks(range(len(names)), names)
    for label in axes.get_xticklabels():
        label.set(rotation=40, ha="right", rotation_mode="anchor")


def _grid(axes: "Axes") -> None:
    axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.7)
    axes.set_axisbelow(True)
