"""Estimates against hand-worked tables, an independent library, and simulated truths."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from longrank.audit import estimates
from longrank.audit.estimates import Floats
from longrank.core.errors import DataError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def null_table(generator: np.random.Generator, queries: int = 100, slots: int = 6) -> Floats:
    """Reciprocal ranks of a ranker without any sensitivity to slots: queries differ, slots do not."""
    strength = generator.normal(1.5, 1.0, size=(queries, 1, 1))
    planted = strength + generator.normal(size=(queries, slots, 1)) * 0.7
    ranks = 1 + (generator.normal(size=(queries, 1, 20)) > planted).sum(axis=2)
    table: Floats = 1.0 / ranks
    return table


def test_trend_and_bend_see_each_only_its_own_shape() -> None:
    line = np.linspace(1, 0, 5) + np.zeros((4, 1))
    bowl = np.array([1.0, 0.25, 0.0, 0.25, 1.0]) + np.zeros((4, 1))
    # a line from 1 to 0 over 5 slots: deviations .5 .25 0 -.25 -.5 times weights (-2 -1 0 1 2) / sqrt(10)
    assert estimates.contrast(line, 1, rng=rng()).value == pytest.approx(-2.5 / math.sqrt(10))
    assert estimates.contrast(line, 2, rng=rng()).value == pytest.approx(0, abs=1e-12)
    assert estimates.contrast(bowl, 1, rng=rng()).value == pytest.approx(0, abs=1e-12)
    # weights (2 -1 -2 -1 2) / sqrt(14): (2 - .25 - 0 - .25 + 2) / sqrt(14)
    assert estimates.contrast(bowl, 2, rng=rng()).value == pytest.approx(3.5 / math.sqrt(14))


def test_pages_trend_agrees_with_scipy_where_there_are_no_ties() -> None:
    from scipy import stats

    table = rng(3).normal(size=(30, 5)) - 0.25 * np.arange(5)
    ours = estimates.page_trend(table)
    theirs = stats.page_trend_test(table, predicted_ranks=[5, 4, 3, 2, 1], method="asymptotic")
    assert ours.p == pytest.approx(2 * min(theirs.pvalue, 1 - theirs.pvalue), rel=1e-9)
    assert ours.value > 0


def test_a_flat_table_has_no_effect_of_any_kind() -> None:
    table = rng(1).random((20, 1)) + np.zeros((1, 6))
    assert estimates.contrast(table, 1, rng=rng()).p == 1.0
    assert estimates.page_trend(table) == (0.0, 1.0)
    assert estimates.positional_deviation(table) == 0.0
    psi = estimates.position_sensitivity(table, rng=rng())
    assert (psi.adjusted, psi.p) == (0.0, 1.0)
    assert psi.raw == pytest.approx(0, abs=1e-12)
    assert estimates.worst_slot(table, np.ones(20), rng=rng()).lost.value == pytest.approx(0, abs=1e-12)


def test_the_positional_deviation_of_a_table_without_noise_is_that_of_its_slots() -> None:
    # two queries (0 and 1) plus slots 0, 1, 2: no residual, so the variance of the slots is (1 + 0 + 1) / 2 = 1
    table = np.array([[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]])
    assert estimates.positional_deviation(table) == pytest.approx(1.0)


def test_psi_is_one_less_min_over_max_and_its_chance_level_is_taken_off() -> None:
    table = np.array([[1.0, 0.5]] * 6)
    found = estimates.position_sensitivity(table, rng=rng(), draws=1999)
    assert found.raw == pytest.approx(0.5)
    # all six queries order the slots alike: under permutation 2 of 64 patterns reach that
    assert found.p == pytest.approx(2 / 64, abs=0.012)
    assert 0 < found.adjusted < found.raw


def test_a_ratio_of_means_and_its_interval() -> None:
    below = np.array([1.0, 2.0, 3.0, 2.0] * 10)
    found = estimates.ratio_estimate(0.5 * below, below, rng=rng())
    assert found == pytest.approx((0.5, 0.5, 0.5))


def test_the_cost_of_a_doubling_is_the_slope_over_log_length() -> None:
    values = np.array([[0.9, 0.8, 0.7], [0.5, 0.5, 0.5]])
    assert estimates.slope(values, (512, 1024, 2048)).tolist() == pytest.approx([-0.1, 0.0])


def test_missing_responses_are_refused() -> None:
    with pytest.raises(DataError, match="incomplete"):
        estimates.page_trend(np.array([[1.0, np.nan], [1.0, 0.5]]))


def test_the_worst_slot_is_corrected_for_having_been_picked() -> None:
    raw, corrected = [], []
    for seed in range(40):
        generator = rng(seed)
        table = generator.normal(0.5, 0.3, size=(60, 8))
        means = table.mean(axis=0)
        raw.append(means.max() - means.min())
        corrected.append(estimates.worst_slot(table, np.ones(60), rng=generator, draws=99).lost.value)
    # no slot is worse in truth: the raw gap is all selection, and most of it goes
    assert np.mean(raw) > 0.08
    assert np.mean(corrected) < 0.5 * np.mean(raw)


def simulate_p_values(simulations: int, *, draws: int, seed: int) -> Floats:
    """p-values [simulations, 4] of trend, bend, PSI and Page under the null."""
    generator, found = rng(seed), []
    for _ in range(simulations):
        table = null_table(generator)
        found.append(
            [
                estimates.contrast(table, 1, rng=generator, draws=draws).p,
                estimates.contrast(table, 2, rng=generator, draws=draws).p,
                estimates.position_sensitivity(table, rng=generator, draws=draws).p,
                estimates.page_trend(table).p,
            ]
        )
    return np.array(found)


def simulate_coverage(simulations: int, *, queries: int, seed: int) -> tuple[float, float]:
    """How often the band holds the whole curve, and the interval of first against last its mean."""
    generator, held, covered = rng(seed), 0, 0
    truth = null_table(rng(12345), queries=400_000).mean(axis=0)
    middle = truth.mean()
    for _ in range(simulations):
        table = null_table(generator, queries=queries)
        band = estimates.simultaneous_band(table, level=0.95, rng=generator, draws=499)
        held += bool(((band.low <= middle) & (middle <= band.high)).all())
        gap = estimates.mean_estimate(table[:, 0] - table[:, -1], rng=generator, draws=499)
        covered += gap.low <= 0 <= gap.high
    return held / simulations, covered / simulations


def simulate_worst_slot(means: Floats, simulations: int, *, draws: int, seed: int) -> float:
    """How often the interval of the share lost holds the true one between the slots that were picked."""
    generator, covered = rng(seed), 0
    edges = np.array([NormalDist().inv_cdf(share) for share in (means - 0.2) / 0.8])
    for _ in range(simulations):
        shared, own = generator.normal(size=(200, 1)), generator.normal(size=(200, len(means)))
        table = np.where((shared + own) / math.sqrt(2) < edges, 1.0, 0.2)
        signal = np.where(generator.random(200) < 0.875, 0.8, 0.0)
        found = estimates.worst_slot(table, signal, rng=generator, draws=draws)
        covered += found.lost.low <= (means[found.best] - means[found.slot]) / 0.7 <= found.lost.high
    return covered / simulations


SHAPES = {"flat": np.full(8, 0.7), "decline": np.linspace(0.8, 0.6, 8), "step": np.repeat([0.8, 0.5], 4)}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_of_the_worst_slot_covers(shape: str) -> None:
    assert simulate_worst_slot(SHAPES[shape], 80, draws=299, seed=3) > 0.87  # 95% less three standard errors


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_of_the_worst_slot_covers_over_two_thousand_tables(shape: str) -> None:
    assert 0.93 <= simulate_worst_slot(SHAPES[shape], 2_000, draws=799, seed=5) <= 0.975


def test_false_alarms_of_every_p_value_are_near_five_percent() -> None:
    rates = (simulate_p_values(400, draws=199, seed=7) <= 0.05).mean(axis=0)
    assert (rates > 0.022).all(), rates  # 2.6 standard errors of a share among 400
    assert (rates < 0.078).all(), rates


def test_a_band_stays_finite_where_most_queries_answer_alike() -> None:
    table = np.ones((16, 3))
    table[0, 1] = table[3, 2] = 0.5  # a draw of sixteen misses one of these more than once in three times
    band = estimates.simultaneous_band(table, level=0.95, rng=rng(1))
    assert (band.high - band.low).max() < 0.5
    assert band.low[0] == band.high[0] == 1.0
    assert band.low[1] < 31 / 32 < band.high[1]


def test_bands_and_intervals_cover_near_ninety_five_percent() -> None:
    band, interval = simulate_coverage(150, queries=200, seed=9)
    assert 0.90 < band <= 0.993
    assert 0.90 < interval <= 0.993


@pytest.mark.slow
def test_false_alarms_over_two_thousand_nulls() -> None:
    rates = (simulate_p_values(2_000, draws=199, seed=11) <= 0.05).mean(axis=0)
    assert (rates >= 0.035).all(), rates
    assert (rates <= 0.065).all(), rates


@pytest.mark.slow
def test_coverage_over_two_thousand_tables() -> None:
    band, interval = simulate_coverage(2_000, queries=200, seed=13)
    assert 0.935 <= band <= 0.965
    assert 0.935 <= interval <= 0.965
