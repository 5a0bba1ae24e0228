"""The gain-against-cost figure."""

from xml.etree import ElementTree

import pytest

from longrank.core.errors import DataError
from longrank.reports.cost_plot import CostPoint, gain_against_cost


def test_the_figure_is_one_svg_that_names_every_ranker() -> None:
    svg = gain_against_cost([CostPoint("PARADE Attn", 2.5, 5.0), CostPoint("MaxP <raw>", 2.1, -0.4)])
    root = ElementTree.fromstring(svg)
    texts = {(element.text or "").strip() for element in root.iter()}
    assert root.tag.endswith("svg")
    assert {"PARADE Attn", "MaxP <raw>", "FirstP"} <= texts


def test_nothing_or_impossible_points_are_refused() -> None:
    with pytest.raises(DataError, match="at least one"):
        gain_against_cost([])
    with pytest.raises(DataError, match="cannot be drawn"):
        gain_against_cost([CostPoint("x", 0.0, 1.0)])
    with pytest.raises(DataError, match="cannot be drawn"):
        gain_against_cost([CostPoint("x", 1.0, float("nan"))])
