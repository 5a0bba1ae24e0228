"""The two figures, measured in their own SVG."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from longrank.core.errors import DataError
from longrank.reports.plots import Interval, PositionSample, TransferBar, position_histograms, transfer_bars
from longrank.reports.svg import FIRST, INK, SECOND

SAMPLE = {"toy": PositionSample([3, 5, 9, 130], [60, 200, 200, 340])}
BARS = (
    TransferBar("firstp", Interval(0.2, 0.1, 0.3), Interval(0.1, 0.05, 0.2)),
    TransferBar("maxp", Interval(0.4, 0.3, 0.5), Interval(0.6, 0.5, 0.7)),
)


def bars_svg(rows: tuple[TransferBar, ...] = BARS, *, label: str = "random order") -> str:
    return transfer_bars(rows, levels={label: 0.2}, measure="RR")


def drawn(svg: str, wanted: str) -> list[list[tuple[float, float]]]:
    """Corner points of every path outside the legend whose style holds ``wanted``, left to right."""
    root = ElementTree.fromstring(svg)
    legend = {id(path) for group in root.iter() if group.get("id", "").startswith("legend") for path in group.iter()}
    paths = [e for e in root.iter() if e.tag.endswith("path") and id(e) not in legend and wanted in e.get("style", "")]
    points = [re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.get("d", "")) for path in paths]
    return sorted([(float(x), float(y)) for x, y in corners] for corners in points)


def heights(svg: str, wanted: str) -> list[float]:
    spans = [[y for _, y in corners] for corners in drawn(svg, wanted)]
    return [max(span) - min(span) for span in spans]


def words(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]


def test_bars_of_starts_are_as_high_as_their_shares() -> None:
    # lengths reach 340, 340 / 32 = 10.6, so bins are 16 tokens wide: 3, 5 and 9 in bin 0, 130 in bin 8 (128 to 144)
    found = heights(position_histograms(SAMPLE), f"fill: {FIRST}")
    high = [at for at, height in enumerate(found) if height > 0.01]
    assert high == [0, 8]
    assert found[0] / found[8] == pytest.approx(3.0, rel=1e-4)


def test_panels_name_their_collection_and_both_medians() -> None:
    # starts 3 5 9 130: (5 + 9) / 2 = 7; lengths 60 200 200 340: 200
    both = {**SAMPLE, "lost": PositionSample([], [1000, 3000])}
    text = " ".join(words(position_histograms(both)))
    assert "toy: median start 7, median length 200" in text
    assert "lost: no passage located, median length 2,000" in text
    assert "last bin" not in text


def test_the_long_tail_is_folded_into_the_last_bin_and_said() -> None:
    # the 99th percentile is 100, so bins of 4 (100 / 32 = 3.1) end there: the last begins at 96
    svg = position_histograms({"tail": PositionSample([0], [100] * 499 + [9000])})
    assert "tokens; the last bin holds all from 96 on" in words(svg)


def test_transfer_bars_are_as_high_as_their_means_and_share_a_scale_with_the_baseline() -> None:
    svg = bars_svg()
    zero_shot, tuned = heights(svg, f"stroke: {SECOND}"), heights(svg, f"fill: {FIRST}")
    assert zero_shot[1] / zero_shot[0] == pytest.approx(2.0, rel=1e-4)  # 0.4 / 0.2
    assert tuned[1] / zero_shot[0] == pytest.approx(3.0, rel=1e-4)  # 0.6 / 0.2
    (dashed,) = drawn(svg, "stroke-dasharray")
    top = min(y for _, y in drawn(svg, f"stroke: {SECOND}")[0])
    assert dashed[0][1] == dashed[1][1] == pytest.approx(top, abs=1e-4)  # the baseline is 0.2 too
    assert {"firstp", "maxp", "RR", "random order", "zero-shot", "fine-tuned", "0.60"} <= set(words(svg))


def test_every_level_has_a_line_of_its_own_dashes_and_a_name() -> None:
    svg = transfer_bars(BARS, levels={"BM25": 0.4, "random order": 0.2}, measure="RR")
    lines = drawn(svg, "stroke-dasharray")
    tops = [min(y for _, y in bar) for bar in drawn(svg, f"stroke: {SECOND}")]  # 0.2 and 0.4
    assert sorted(line[0][1] for line in lines) == pytest.approx(sorted(tops), abs=1e-4)
    assert len(set(re.findall(r"stroke-dasharray: ([\d., ]+)", svg))) == 2
    assert {"BM25", "random order"} <= set(words(svg))


def test_a_level_above_every_bar_is_inside_the_figure() -> None:
    svg = transfer_bars(BARS, levels={"BM25": 0.95}, measure="RR")
    (line,) = drawn(svg, "stroke-dasharray")
    assert 0 < line[0][1] < min(y for bar in drawn(svg, f"fill: {FIRST}") for _, y in bar)


def test_many_rankers_keep_all_their_names_and_leave_the_numbers_to_the_table() -> None:
    rows = tuple(replace(BARS[1], name=f"ranker-{at}") for at in range(11))
    text = words(bars_svg(rows))
    assert {row.name for row in rows} <= set(text)
    assert "0.60" not in text


def test_drawings_follow_the_ink_of_the_page_and_hold_nothing_but_the_drawing() -> None:
    for svg in (position_histograms(SAMPLE), bars_svg()):
        assert svg.startswith("<svg ") and svg.endswith("</svg>")
        assert "currentColor" in svg
        colors = set(re.findall(r"(?:fill|stroke): (#\w+)", svg))
        assert colors <= {FIRST, SECOND}, "every other line follows the page"
        assert INK not in svg
        assert not re.search(r"<metadata|<style|<!--|<!DOCTYPE|DejaVu", svg)


def test_names_are_taken_literally() -> None:
    name, label = "a$x^2$b", "zufällig & <随机>"
    text = words(bars_svg((replace(BARS[0], name=name),), label=label))
    assert name in text
    assert label in text


def test_the_same_numbers_give_the_same_bytes_in_another_process() -> None:
    code = (
        "from longrank.reports.plots import *\n"
        "bar = TransferBar('maxp', Interval(0.4, 0.3, 0.5), Interval(0.6, 0.5, 0.7))\n"
        "svg = transfer_bars([bar], levels={'random': 0.2}, measure='RR')\n"
        "svg += position_histograms({'toy': PositionSample([3, 5], [60, 200])})\n"
        "import sys; sys.stdout.write(svg)\n"
    )
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = transfer_bars(BARS[1:], levels={"random": 0.2}, measure="RR")
    here += position_histograms({"toy": PositionSample([3, 5], [60, 200])})
    assert elsewhere == here


def test_importing_the_reports_loads_neither_matplotlib_nor_jinja() -> None:
    code = (
        "import sys, longrank.reports.page, longrank.reports.plots\n"
        "sys.exit(', '.join({'matplotlib', 'jinja2', 'torch'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.strip() == ""
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: position_histograms({}), "at least one collection"),
        (lambda: transfer_bars([], levels={"r": 0}, measure="RR"), "at least one ranker"),
        (lambda: PositionSample([1], []), "at least one document length"),
        (lambda: PositionSample([-1], [5]), "negative"),
        (lambda: TransferBar("x", Interval(0.5, 0.6, 0.7), Interval(0.5, 0.4, 0.6)), "does not hold its mean 0.5"),
        (lambda: TransferBar("x", Interval(0.5, 0.4, 0.6), Interval(float("nan"), 0.4, 0.6)), "mean nan"),
    ],
)
def test_numbers_that_cannot_be_drawn_are_refused(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        make()
