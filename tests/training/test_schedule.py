"""Rates over the updates of a training."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.training.schedule import ScheduleName, rate_factor


def factors(name: ScheduleName, total: int, warmup: float, final: float = 0.0) -> list[float]:
    return [rate_factor(name, u, total=total, warmup_fraction=warmup, final_factor=final) for u in range(total)]


def test_constant_rises_over_the_warm_up_and_stays() -> None:
    assert factors("constant", 5, 0.4) == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_linear_falls_towards_zero_after_the_warm_up() -> None:
    # two updates of warm-up, then 8 / 8, 7 / 8, ... 1 / 8
    assert factors("linear", 10, 0.2) == pytest.approx([0.5, 1.0, *(left / 8 for left in range(8, 0, -1))])


def test_linear_can_end_at_a_tenth() -> None:
    # from 1 to 0.1 in four updates: 1, 1 - 0.9 / 4, 1 - 1.8 / 4, 1 - 2.7 / 4
    assert factors("linear", 4, 0.0, final=0.1) == pytest.approx([1, 0.775, 0.55, 0.325])


def test_one_cycle_begins_above_a_tenth() -> None:
    # warm-up of five: 0.1 + 0.9 * u / 5
    assert factors("one-cycle", 10, 0.5)[:5] == pytest.approx([0.28, 0.46, 0.64, 0.82, 1.0])
    assert factors("one-cycle", 10, 0.5)[5:] == pytest.approx([1 - 0.99 * done / 5 for done in range(5)])


@given(st.sampled_from(["constant", "linear", "one-cycle"]), st.integers(1, 200), st.floats(0, 0.9))
def test_a_factor_rises_to_one_and_never_leaves_zero_to_one(name: ScheduleName, total: int, warmup: float) -> None:
    found = factors(name, total, warmup)
    peak = found.index(max(found))
    assert all(0 < factor <= 1 + 1e-12 for factor in found)
    assert found[: peak + 1] == sorted(found[: peak + 1])
    assert found[peak:] == sorted(found[peak:], reverse=True)
