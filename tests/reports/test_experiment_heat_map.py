"""Figures of sweeps, read back from their SVG."""

import re

import pytest

from longrank.core.errors import DataError
from longrank.reports.heat_map import Setting, heat_map, in_order, sweep_lines
from longrank.reports.plots import Interval
from longrank.reports.svg import check_inert


def words(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_a_heat_map_writes_each_mean_once_and_leaves_untried_pairs_empty() -> None:
    svg = heat_map({(75, 50): 0.25, (35, 25): 0.5, (35, 50): 0.125}, across="window", down="stride", measure="toy RR")
    check_inert(svg)
    shown = words(svg)
    assert sorted(word for word in shown if word.startswith("0.")) == ["0.125", "0.250", "0.500"]
    assert [word for word in shown if word in {"35", "75"}] == ["35", "75"], "numbers are in order of size"
    assert {"window", "stride", "toy RR"} <= set(shown)


def test_a_heat_map_is_darkest_at_the_best_and_all_alike_where_there_is_no_difference() -> None:
    def opacities(svg: str) -> list[str]:
        return re.findall(r"fill: #3f7fc9; (?:fill-)?opacity: ([\d.]+)", svg)

    assert opacities(heat_map({(1, 1): 0.1, (2, 1): 0.9}, across="a", down="b", measure="m")) == ["0.08", "0.62"]
    same = opacities(heat_map({(1, 1): 0.5, (2, 1): 0.5}, across="a", down="b", measure="m"))
    assert len(same) == 2
    assert len(set(same)) == 1


def test_a_line_keeps_words_as_they_came_and_names_every_system() -> None:
    point = Interval(0.5, 0.4, 0.6)
    lines: dict[str, dict[Setting, Interval]] = {"maxp": {"mean": point, "cls": point}, "sump": {"cls": point}}
    shown = words(sweep_lines(lines, parameter="pooling", measure="RR"))
    assert [word for word in shown if word in {"mean", "cls"}] == ["mean", "cls"]
    assert {"maxp", "sump", "pooling", "RR"} <= set(shown)


def test_no_two_of_many_lines_look_the_same() -> None:
    lines: dict[str, dict[Setting, Interval]] = {f"r{n}": {1: Interval(0.5, 0.4, 0.6)} for n in range(12)}
    svg = sweep_lines(lines, parameter="p", measure="RR")
    marks = re.findall(r'<use xlink:href="#(\w+)" [^>]*style="fill: (#\w+); stroke: \2', svg)
    assert len(set(marks)) == 12, "each has a mark or a colour of its own"


def test_the_same_sweep_is_the_same_drawing() -> None:
    lines: dict[str, dict[Setting, Interval]] = {"maxp": {1: Interval(0.5, 0.4, 0.6), 2: Interval(0.6, 0.5, 0.7)}}
    assert len({sweep_lines(lines, parameter="p", measure="RR") for _ in range(2)}) == 1


def test_settings_are_put_in_order_once() -> None:
    assert in_order([100, 25, 50, 25]) == [25, 50, 100]
    assert in_order(["b", "a", "b"]) == ["b", "a"]


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(DataError, match="at least one value"):
        heat_map({}, across="a", down="b", measure="m")
    with pytest.raises(DataError, match="at least one point"):
        sweep_lines({}, parameter="p", measure="m")
