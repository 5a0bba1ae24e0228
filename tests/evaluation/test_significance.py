"""Tests, intervals and corrections: worked cases, scipy as an oracle, false alarms and coverage."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.errors import DataError, SettingsError
from longrank.core.seeds import generator
from longrank.evaluation.significance import (
    Effect,
    Interval,
    Test,
    bca_interval,
    benjamini_hochberg,
    correct,
    effect_size,
    holm,
    p_value,
    paired_t,
    sign_flip,
    threshold,
    wilcoxon,
)

TESTS: tuple[Test, ...] = ("t", "permutation", "wilcoxon")
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def skewed(rng: np.random.Generator, queries: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Differences of two systems of equal merit, with the zeros and heavy middle that reciprocal ranks have."""
    left, right = (1.0 / rng.integers(1, 12, size=queries) for _ in range(2))
    values: np.ndarray[tuple[int], np.dtype[np.float64]] = left - right
    return values


def false_alarms(test: Test, nulls: int, draws: int) -> float:
    rng = generator(f"false alarms of {test}", 7)
    return float(np.mean([p_value(skewed(rng, 50), test=test, rng=rng, draws=draws) < 0.05 for _ in range(nulls)]))


@pytest.mark.parametrize("test", TESTS)
def test_false_alarms_are_rare_enough_in_a_short_series(test: Test) -> None:
    # 500 nulls at 5%: 25 expected, standard deviation 4.9; the bounds are three of them away
    assert 0.02 <= false_alarms(test, 500, 499) <= 0.08


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
def test_false_alarms_lie_near_five_percent_over_two_thousand_nulls(test: Test) -> None:
    assert 0.035 <= false_alarms(test, 2000, 9999) <= 0.065


def coverage(samples: int, draws: int) -> float:
    rng = generator("coverage", 11)
    inside = 0
    for _ in range(samples):
        interval = bca_interval(skewed(rng, 200) + 0.1, rng=rng, draws=draws)
        inside += interval.low <= 0.1 <= interval.high
    return inside / samples


def test_intervals_cover_in_a_short_series() -> None:
    # 300 intervals at 95%: standard deviation 1.3 points
    assert 0.91 <= coverage(300, 999) <= 0.99


@pytest.mark.slow
def test_intervals_of_two_hundred_queries_cover_ninety_five_percent() -> None:
    assert 0.935 <= coverage(2000, 1999) <= 0.965


def test_the_exact_permutation_test_counts_sign_patterns() -> None:
    values = [0.5, -0.25, 1.0, 0.75, 0.0]  # the zero has no sign: 16 patterns of four
    sums = [
        abs(sum(s * v for s, v in zip(signs, values[:4], strict=False)))
        for signs in itertools.product((-1, 1), repeat=4)
    ]
    expected = np.mean([total >= 2.0 for total in sums])
    assert sign_flip(values, rng=np.random.default_rng(0)) == expected == 4 / 16


def test_the_drawn_permutation_test_is_near_the_t_test_and_never_zero() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.2, 1.0, 80)
    assert sign_flip(values, rng=rng) == pytest.approx(paired_t(values), abs=0.02)
    assert sign_flip(np.ones(80) + values * 0.01, rng=rng) == 1 / 10_000


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=3, max_size=40))
def test_t_and_wilcoxon_agree_with_scipy(values: list[float]) -> None:
    from scipy import stats

    if np.ptp(values) > 0:
        assert paired_t(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=1e-9)
    magnitudes = [abs(v) for v in values]
    if 0 not in magnitudes and len(set(magnitudes)) == len(magnitudes):
        assert wilcoxon(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue, abs=1e-12)


@pytest.mark.parametrize("test", TESTS)
def test_identical_systems_have_p_one_and_no_effect(test: Test) -> None:
    same = np.zeros(20)
    assert p_value(same, test=test, rng=np.random.default_rng(0)) == 1.0
    assert bca_interval(same, rng=np.random.default_rng(0)) == Interval(0.0, 0.0)
    assert effect_size(same) == Effect(0.0, 0.0, 0, 20, 0)


def test_a_constant_difference_is_certain_for_t_and_bounded_by_the_patterns_for_permutation() -> None:
    constant = np.full(5, 0.1)
    assert paired_t(constant) == 0.0
    assert sign_flip(constant, rng=np.random.default_rng(0)) == 2 / 32
    assert effect_size(constant).standardized == np.inf


@pytest.mark.parametrize("call", [paired_t, wilcoxon, effect_size])
@pytest.mark.parametrize("values", [[], [0.5], [0.1, float("nan")], [0.1, float("inf")]])
def test_too_few_or_broken_differences_are_refused(call: Callable[[list[float]], object], values: list[float]) -> None:
    with pytest.raises(DataError, match=r"at least two queries|NaN or infinite"):
        call(values)


def test_the_effect_of_a_worked_case() -> None:
    # mean 1, deviation sqrt(((0)^2 + 2^2 + 2^2) / 2) = 2; ranks of |1|, |3|, |-1| are 1.5, 3, 1.5: (1.5 + 3 - 1.5) / 6
    assert effect_size([1.0, 3.0, -1.0]) == Effect(0.5, 0.5, 2, 0, 1)


def test_an_interval_narrows_with_queries_and_widens_with_level() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, 400)
    few, many = bca_interval(values[:40], rng=rng), bca_interval(values, rng=rng)
    wide = bca_interval(values, rng=rng, level=0.99)
    assert few.high - few.low > 2 * (many.high - many.low)
    assert wide.low < many.low < values.mean() < many.high < wide.high


def test_the_interval_is_close_to_scipys_bca() -> None:
    from scipy import stats

    values = np.random.default_rng(2).exponential(1.0, 60)
    ours = bca_interval(values, rng=np.random.default_rng(4))
    theirs = stats.bootstrap((values,), np.mean, rng=np.random.default_rng(5)).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.02)


@given(P_VALUES)
def test_corrections_keep_order_and_never_lower_a_p(p_values: list[float]) -> None:
    for adjusted in (holm(p_values), benjamini_hochberg(p_values)):
        assert all(q >= p - 1e-15 and q <= 1 for p, q in zip(p_values, adjusted, strict=True))
        by_p = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
        assert by_p == sorted(by_p)
    assert all(h >= b - 1e-12 for h, b in zip(holm(p_values), benjamini_hochberg(p_values), strict=True))


@given(P_VALUES)
def test_benjamini_hochberg_agrees_with_scipy(p_values: list[float]) -> None:
    from scipy import stats

    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values).tolist(), abs=1e-12)


def test_corrections_of_a_worked_case() -> None:
    # Holm: .01*4, .02*3, .03*2 -> raised to .06, .04*1 -> raised to .06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    # Benjamini-Hochberg: .01*4, .02*2, .03*4/3, .04 -> all lowered to .04
    assert benjamini_hochberg([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.04] * 4)
    assert correct([0.04, 0.01], "none") == [0.04, 0.01]


@pytest.mark.parametrize(
    ("collection", "bar"),
    [
        ("msmarco-document/dev", 0.01),
        ("MS MARCO dev RR", 0.01),
        ("msmarco-document-v2/trec-dl-2021/judged", 0.05),
        ("TREC DL (2019-2021) nDCG@10", 0.05),
        ("far-relevant-1k", 0.01),
        ("longembed/passkey", 0.01),
        ("beir/nq", 0.01),
        ("disks45/nocr/trec-robust-2004", 0.05),
        ("robust04-title", 0.05),
        ("my own set", 0.05),
    ],
)
def test_thresholds_are_those_of_the_paper(collection: str, bar: float) -> None:
    assert threshold(collection) == bar


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SettingsError, match="permutation"):
        p_value([1.0, 2.0], test="anova", rng=np.random.default_rng(0))  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="holm"):
        correct([0.5], "bonferroni")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="99 draws"):
        sign_flip(np.arange(1, 30), rng=np.random.default_rng(0), draws=10)
