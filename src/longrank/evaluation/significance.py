"""Paired tests, intervals, effect sizes and corrections over per-query differences."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longrank.core.errors import DataError, SettingsError

Floats = NDArray[np.float64]
Test = Literal["t", "permutation", "wilcoxon"]
Correction = Literal["none", "holm", "benjamini-hochberg"]

TEST_NAMES: Mapping[str, str] = {
    "t": "two-sided paired t-test",
    "permutation": "two-sided sign-flip permutation test",
    "wilcoxon": "two-sided Wilcoxon signed-rank test",
}
CORRECTION_NAMES: Mapping[str, str] = {
    "none": "no correction",
    "holm": "Holm's correction",
    "benjamini-hochberg": "Benjamini-Hochberg's correction",
}

# The positional-bias paper's thresholds: the first entry that begins a '/'-separated part of a collection's name.
THRESHOLDS: Mapping[str, float] = {
    "trec-dl": 0.05,
    "robust04": 0.05,
    "disks45": 0.05,
    "msmarco": 0.01,
    "far-relevant": 0.01,
    "farrelevant": 0.01,
    "longembed": 0.01,
    "nq": 0.01,
}
FEWEST_QUERIES = 6  # from which on a difference may be claimed: no exact test of five signs can reach .05
_CHUNK_CELLS = 4_000_000  # cells of a draws x queries table held at once


class Interval(NamedTuple):
    """Ends of an interval."""

    low: float
    high: float


class Effect(NamedTuple):
    """How large a difference is, whatever its p-value."""

    standardized: float  # mean over standard deviation of the differences (Cohen's d_z); 0 if all are 0
    rank_biserial: float  # (positive - negative) rank sum over all, -1 to 1
    wins: int
    ties: int
    losses: int


def threshold(collection: str, chosen: Mapping[str, float] | None = None) -> float:
    """Significance threshold of a collection, .05 for an unknown one; ``chosen`` entries come before the paper's.

    >>> threshold("msmarco-document/dev"), threshold("msmarco-document/trec-dl-2019"), threshold("MS MARCO dev")
    (0.01, 0.05, 0.01)
    >>> threshold("Robust04 title", {"robust04": 0.001})
    0.001
    """
    name = "/" + _plain_name(collection)
    for key, bar in [*(chosen or {}).items(), *THRESHOLDS.items()]:
        if f"/{_plain_name(key)}" in name:
            return bar
    return 0.05


def _plain_name(collection: str) -> str:
    return re.sub(r"[\s_]+", "-", collection.lower()).replace("ms-marco", "msmarco")


def p_value(differences: ArrayLike, *, test: Test, rng: np.random.Generator, draws: int = 9999) -> float:
    """p of the named test; only ``permutation`` uses the generator and the draws."""
    if test == "t":
        return paired_t(differences)
    if test == "permutation":
        return sign_flip(differences, rng=rng, draws=draws)
    if test == "wilcoxon":
        return wilcoxon(differences)
    raise SettingsError(f"no test {test!r}; known: {', '.join(TEST_NAMES)}")


def paired_t(differences: ArrayLike) -> float:
    """Two-sided p of Student's paired t; 1 if all differences are 0, 0 if they are equal and not 0.

    >>> round(paired_t([1.0, 2.0, 3.0]), 4)  # t = 2 / (1 / sqrt(3)) with 2 degrees of freedom
    0.0742
    """
    values = _checked(differences)
    if not values.any():
        return 1.0
    error = values.std(ddof=1) / math.sqrt(len(values))
    if error <= abs(values.mean()) * 1e-14:  # equal up to rounding
        return 0.0
    from scipy import stats

    return float(2 * stats.t.sf(abs(values.mean()) / error, len(values) - 1))


def sign_flip(differences: ArrayLike, *, rng: np.random.Generator, draws: int = 9999) -> float:
    """Two-sided p of the mean under random signs; exact where the sign patterns are fewer than the draws.

    >>> sign_flip([1.0, 2.0, 3.0], rng=np.random.default_rng(0))  # +++ and --- of 8 patterns reach |6|
    0.25
    """
    values = _checked(differences)
    values = values[values != 0]  # a zero has no sign to flip
    if not len(values):
        return 1.0
    bar = abs(values.sum()) - 1e-12 * np.abs(values).sum()  # sums in another order differ by rounding
    if 2 ** len(values) <= draws + 1:
        bits = (np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1
        return float(np.mean(np.abs((2.0 * bits - 1.0) @ values) >= bar))
    reached = 0
    for count in _chunks(draws, len(values)):
        signs = 2.0 * rng.integers(0, 2, size=(count, len(values)), dtype=np.int8) - 1.0
        reached += int(np.count_nonzero(np.abs(signs @ values) >= bar))
    return (1 + reached) / (1 + draws)


def wilcoxon(differences: ArrayLike) -> float:
    """Two-sided p of the signed-rank test, zeros left out; 1 if all differences are 0.

    >>> wilcoxon([1.0, 2.0, 3.0])  # rank sums 6 and 0: 2 of 8 sign patterns
    0.25
    """
    values = _checked(differences)
    values = values[values != 0]
    if not len(values):
        return 1.0
    from scipy import stats

    magnitudes = np.abs(values)
    exact = len(values) <= 50 and len(np.unique(magnitudes)) == len(values)
    method = "exact" if exact else "approx"
    return float(stats.wilcoxon(values, method=method, correction=not exact).pvalue)


def bca_interval(
    differences: ArrayLike, *, rng: np.random.Generator, level: float = 0.95, draws: int = 9999
) -> Interval:
    """Bias-corrected and accelerated bootstrap interval of the mean over queries; a point if all values are equal."""
    values = _checked(differences)
    if not 0 < level < 1:
        raise SettingsError(f"an interval's level lies between 0 and 1, got {level}")
    mean = float(values.mean())
    if np.ptp(values) == 0:
        return Interval(mean, mean)
    from scipy import special

    means = np.concatenate([_resampled(values, count, rng) for count in _chunks(draws, len(values))])
    below = np.count_nonzero(means < mean) + 0.5 * np.count_nonzero(means == mean)
    bias = special.ndtri(np.clip(below / draws, 0.5 / draws, 1 - 0.5 / draws))
    # jackknife means differ from the mean by (mean - value) / (n - 1): the acceleration of a mean needs no loop
    spread = values - mean
    acceleration = (spread**3).sum() / (6 * (spread**2).sum() ** 1.5)
    tails = special.ndtri([(1 - level) / 2, (1 + level) / 2])
    moved = special.ndtr(bias + (bias + tails) / (1 - acceleration * (bias + tails)))
    low, high = np.quantile(means, moved)
    return Interval(float(low), float(high))


def effect_size(differences: ArrayLike) -> Effect:
    """Standardised and rank-based size of the differences, with wins, ties and losses.

    >>> effect_size([1.0, 2.0, 3.0, 0.0])._replace(standardized=0)
    Effect(standardized=0, rank_biserial=1.0, wins=3, ties=1, losses=0)
    """
    values = _checked(differences)
    deviation = float(values.std(ddof=1))
    mean = float(values.mean())
    constant = deviation <= abs(mean) * 1e-14  # equal up to rounding
    standardized = (math.copysign(math.inf, mean) if mean else 0.0) if constant else mean / deviation
    nonzero = values[values != 0]
    return Effect(
        standardized,
        _rank_biserial(nonzero) if len(nonzero) else 0.0,
        int((values > 0).sum()),
        int((values == 0).sum()),
        int((values < 0).sum()),
    )


def correct(p_values: Sequence[float], correction: Correction) -> list[float]:
    """p-values after the named correction, in the order given."""
    if correction == "none":
        return list(p_values)
    if correction == "holm":
        return holm(p_values)
    if correction == "benjamini-hochberg":
        return benjamini_hochberg(p_values)
    raise SettingsError(f"no correction {correction!r}; known: {', '.join(CORRECTION_NAMES)}")


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that control the chance of any false alarm.

    >>> holm([0.25, 0.0625, 0.5])  # 3 * .0625; then 2 * .25; then 1 * .5, which may not be below the one before
    [0.5, 0.1875, 0.5]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    steps = (len(values) - np.arange(len(values))) * values[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that control the share of false alarms among the alarms.

    >>> benjamini_hochberg([0.25, 0.0625, 0.5])  # .0625 * 3/1; .25 * 3/2; .5 * 3/3
    [0.375, 0.1875, 0.5]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    steps = values[order] * len(values) / np.arange(1, len(values) + 1)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return [float(p) for p in adjusted]


def _checked(differences: ArrayLike) -> Floats:
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise DataError(f"a paired test needs at least two queries, got {values.size}; evaluate more queries")
    if not np.isfinite(values).all():
        raise DataError("a per-query difference is NaN or infinite; evaluate both systems on the same queries")
    return values


def _chunks(draws: int, width: int) -> list[int]:
    if draws < 99:
        raise SettingsError(f"at least 99 draws are needed for a usable p-value or interval, got {draws}")
    step = max(1, _CHUNK_CELLS // width)
    return [min(step, draws - start) for start in range(0, draws, step)]


def _resampled(values: Floats, count: int, rng: np.random.Generator) -> Floats:
    drawn: Floats = values[rng.integers(0, len(values), size=(count, len(values)), dtype=np.int32)].mean(axis=1)
    return drawn


def _rank_biserial(nonzero: Floats) -> float:
    from scipy import stats

    ranks = stats.rankdata(np.abs(nonzero))
    return float((ranks * np.sign(nonzero)).sum() / ranks.sum())
