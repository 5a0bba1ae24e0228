"""Figures of where relevance sits, as SVG text."""

from collections.abc import Sequence

from longrank.core.errors import DataError
from longrank.positions.profile import PositionProfile
from longrank.reports.plots import PositionSample, position_histograms
from longrank.reports.svg import FIRST, INK, drawing, to_svg


def first_position_figure(profiles: Sequence[PositionProfile]) -> str:
    """First relevant positions against lengths of relevant documents, a panel a profile (Figures 1 and 7)."""
    samples = {
        profile.name: PositionSample(profile.first("start").tolist(), profile.lengths().tolist())
        for profile in profiles
        if len(profile.lengths())
    }
    if not samples:
        raise DataError("no document of these profiles has a length, so there is nothing to draw")
    return position_histograms(samples)


def decile_figure(profile: PositionProfile) -> str:
    """Share of each tenth of the document that is relevant, with the mean over the document as a line."""
    if not profile.located:
        raise DataError(f"no relevant place of {profile.name!r} was located, so there is nothing to draw")
    rates = profile.decile_rates()
    with drawing(4.4, 2.6) as figure:
        axes = figure.subplots()
        axes.bar(range(1, len(rates) + 1), rates, color=FIRST, width=0.8)
        axes.axhline(sum(rates) / len(rates), color=INK, linewidth=0.8, linestyle="--")
        axes.set_xticks(range(1, len(rates) + 1))
        axes.set_xlabel("tenth of the document")
        axes.set_ylabel("share relevant")
        axes.set_title(f"{profile.name}: {len(profile.located)} documents; dashed, the mean")
        return to_svg(figure)
