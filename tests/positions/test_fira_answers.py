"""The numbers of FiRA's snippet judgements, computed from the file and compared with the known answers."""

from pathlib import Path

import pytest

from longrank.positions.gold import SNIPPETS, read_fira
from longrank.positions.profile import PositionProfile

FIRA = Path(__file__).parents[3] / "shared" / "data" / "fira" / "snippet-qrels.txt"
pytestmark = pytest.mark.skipif(not FIRA.exists(), reason="the FiRA judgements are not at hand")


def fira(grade: int) -> PositionProfile:
    return PositionProfile("FiRA", SNIPPETS, tuple(one.record(at_least=grade) for one in read_fira(FIRA)))


@pytest.mark.parametrize(
    ("grade", "observed", "expected", "documents"),
    [(1, 0.910, 0.915, 1862), (2, 0.765, 0.778, 1574), (3, 0.697, 0.664, 815)],
)
def test_first_relevant_snippet_among_the_first_five(
    grade: int, observed: float, expected: float, documents: int
) -> None:
    within = fira(grade).first_within(5)
    assert within.observed == pytest.approx(observed, abs=0.001)
    assert within.expected == pytest.approx(expected, abs=0.001)
    assert within.documents == documents


@pytest.mark.parametrize(
    ("grade", "value", "low", "high", "documents"),
    [(1, -0.008, -0.031, 0.012, 1415), (2, -0.010, -0.032, 0.009, 1441), (3, -0.046, -0.066, -0.026, 782)],
)
def test_shift_of_the_first_relevant_snippet(grade: int, value: float, low: float, high: float, documents: int) -> None:
    shift = fira(grade).first_shift()
    assert shift.value == pytest.approx(value, abs=0.001)
    assert (shift.low, shift.high) == pytest.approx((low, high), abs=0.005)
    assert (shift.items, shift.clusters) == (documents, 43)


@pytest.mark.parametrize(
    ("grade", "value", "low", "high"),
    [(1, -0.035, -0.053, -0.023), (2, -0.035, -0.055, -0.018), (3, -0.055, -0.076, -0.036)],
)
def test_mean_position_of_all_relevant_snippets(grade: int, value: float, low: float, high: float) -> None:
    shift = fira(grade).mean_shift()
    assert shift.value == pytest.approx(value, abs=0.001)
    assert (shift.low, shift.high) == pytest.approx((low, high), abs=0.005)


def test_documents_by_number_of_perfect_snippets() -> None:
    counts = fira(3).passage_counts()
    assert counts.one == pytest.approx(0.665, abs=0.0005)
    assert counts.one_or_two == pytest.approx(0.866, abs=0.0005)


def test_bias_is_told_for_perfect_snippets_only() -> None:
    assert "is within what chance gives" in fira(1).bias_sentence()
    assert "differs from chance (earlier)" in fira(3).bias_sentence()
