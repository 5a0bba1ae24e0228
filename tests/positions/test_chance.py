from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.seeds import generator
from longrank.core.types import TokenSpan
from longrank.positions.chance import Placement, clustered_mean, mean_position, merged, placement
from longrank.positions.profile import PositionProfile
from longrank.positions.records import PairRecord

TOKENIZER = "words-v1"


def spans_record(length: int, *spans: tuple[int, int]) -> PairRecord:
    return PairRecord("q", "d", length, tuple(TokenSpan(a, b, TOKENIZER) for a, b in spans), "gold")


@settings(max_examples=60)
@given(st.integers(1, 9), st.data())
def test_chance_of_the_first_place_equals_counting_all_placements(places: int, data: st.DataObject) -> None:
    relevant = data.draw(st.integers(1, places))
    first = data.draw(st.integers(0, places))
    every = list(combinations(range(places), relevant))
    expected = Fraction(sum(chosen[0] < first for chosen in every), len(every))
    assert Placement(places, relevant, 0).below(first) == pytest.approx(float(expected))


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 6), st.integers(0, 8))
def test_spans_of_any_length_are_placed_like_points(one: int, two: int, free: int, first: int) -> None:
    """Two spans in a document: all orders and gaps counted one by one, against the closed form."""
    starts = []
    for before in range(free + 1):
        for between in range(free - before + 1):
            starts += [before] * len({(one, two), (two, one)}) if between >= 0 else []
    record = spans_record(one + two + free, (0, one), (one, one + two))
    expected = sum(start < first for start in starts) / len(starts)
    assert placement(record).below(first) == pytest.approx(expected)


def test_the_shift_of_a_hand_worked_case() -> None:
    # 4 snippets, 2 relevant, first at 1. P(first < 1) = 3/6, P(first < 2) = 5/6; mid-rank 4/6, shift 1/6
    assert Placement(4, 2, 1).shift() == pytest.approx(1 / 6)


def test_shifts_average_to_zero_over_all_placements() -> None:
    shifts = [Placement(7, 3, chosen[0]).shift() for chosen in combinations(range(7), 3)]
    assert np.mean(shifts) == pytest.approx(0)


def test_mean_position_is_the_middle_of_the_evidence() -> None:
    # midpoints 5 and 45 of 100: mean .25, shift -.25
    assert mean_position(spans_record(100, (0, 10), (40, 50))) == pytest.approx(-0.25)
    record = PairRecord("q", "d", 999, (TokenSpan(0, 9, TOKENIZER),), "judged", slots=4, relevant_slots=(0, 3))
    assert mean_position(record) == pytest.approx(0)  # (.125 + .875) / 2 - .5


def test_overlapping_spans_are_one_and_touching_spans_two() -> None:
    overlapping = [TokenSpan(0, 5, TOKENIZER), TokenSpan(3, 8, TOKENIZER)]
    assert merged(overlapping) == [TokenSpan(0, 8, TOKENIZER)]
    assert len(merged([TokenSpan(0, 5, TOKENIZER), TokenSpan(5, 8, TOKENIZER)])) == 2


def test_a_wholly_relevant_document_says_nothing_about_placement() -> None:
    assert not placement(spans_record(10, (0, 5), (5, 10))).informative


def test_items_of_one_cluster_widen_the_interval() -> None:
    values = [0.0, 1.0] * 50
    apart = clustered_mean(values, [str(number) for number in range(100)])
    together = clustered_mean(sorted(values), [str(number // 10) for number in range(100)])
    assert apart.value == together.value == 0.5
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_one_cluster_has_no_interval() -> None:
    assert np.isnan(clustered_mean([1.0, 2.0], ["q", "q"]).low)
    assert clustered_mean([], []).items == 0


def uniform_profile(rng: np.random.Generator, queries: int) -> PositionProfile:
    """Documents of several lengths whose relevant pieces are placed by chance, one to four documents a query."""
    records = []
    for query in range(queries):
        for document in range(int(rng.integers(1, 5))):
            slots = int(rng.integers(2, 16))
            relevant = tuple(sorted(rng.choice(slots, size=int(rng.integers(1, slots)), replace=False).tolist()))
            spans = tuple(TokenSpan(place, place + 1, TOKENIZER) for place in relevant)
            records.append(
                PairRecord(str(query), str(document), slots, spans, "gold", slots=slots, relevant_slots=relevant)
            )
    return PositionProfile("uniform", TOKENIZER, tuple(records))


def coverage(simulations: int, *, queries: int) -> tuple[float, float]:
    """Share of simulations whose interval holds zero, for the first and the mean position."""
    rng = generator("uniform placement", 0)
    first = mean = 0
    for number in range(simulations):
        profile = uniform_profile(rng, queries=queries)
        first += not profile.first_shift(resamples=1000, seed=number).excludes_zero
        mean += not profile.mean_shift(resamples=1000, seed=number).excludes_zero
    return first / simulations, mean / simulations


def test_uniform_placement_is_mostly_within_its_interval() -> None:
    for share in coverage(150, queries=30):
        assert 0.90 <= share <= 0.99


@pytest.mark.slow
def test_uniform_placement_is_within_its_interval_in_95_of_100_simulations() -> None:
    for share in coverage(2000, queries=60):
        assert 0.935 <= share <= 0.965
