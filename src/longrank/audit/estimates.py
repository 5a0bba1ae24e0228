"""Estimates and tests over a table of responses [queries, slots]: only queries are resampled, only slots permuted."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import DataError
from longrank.evaluation.significance import Interval, bca_interval, sign_flip

Floats = NDArray[np.float64]

_CELLS = 4_000_000  # cells of a table of draws held at once


class Band(NamedTuple):
    """A curve over slots with a band that holds the whole true curve at the level it was made for."""

    mean: Floats
    low: Floats
    high: Floats


class Estimate(NamedTuple):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


class Measured(NamedTuple):
    """A value and the p-value of its being zero."""

    value: float
    p: float


class Psi(NamedTuple):
    """The position sensitivity index 1 - min/max, less what it is without any sensitivity, and its p-value."""

    raw: float
    adjusted: float
    p: float


class WorstSlot(NamedTuple):
    """The slot read worst and the signal lost there against the slot read best, corrected for having been picked."""

    slot: int
    best: int
    lost: Estimate


def simultaneous_band(table: Floats, *, level: float, rng: np.random.Generator, draws: int = 1_999) -> Band:
    """Means by slot with a simultaneous band: the query bootstrap of the largest studentised deviation."""
    table = _checked(table)
    mean, error = table.mean(axis=0), _errors(table)
    largest = np.concatenate([_largest_t(table, w) for w in _weights(len(table), draws, rng, table.shape[1])])
    reach = float(np.quantile(largest, level)) * error
    return Band(mean, mean - reach, mean + reach)


def centred(table: Floats) -> Floats:
    """The table with every query's mean taken out."""
    values: Floats = table - table.mean(axis=1, keepdims=True)
    return values


def mean_estimate(values: Floats, *, rng: np.random.Generator, draws: int = 9_999) -> Estimate:
    """Mean over queries with its BCa interval."""
    return Estimate(float(np.mean(values)), *bca_interval(values, rng=rng, draws=draws))


def ratio_estimate(above: Floats, below: Floats, *, rng: np.random.Generator, draws: int = 9_999) -> Estimate:
    """Ratio of two means over the same queries with its BCa interval, jackknife acceleration included."""
    value = float(above.mean() / below.mean())
    weights = _weights(len(above), draws, rng, 2)
    ratios = np.concatenate([(w @ above) / np.where((w @ below) == 0, np.nan, w @ below) for w in weights])
    left_out = (above.sum() - above) / (below.sum() - below)
    return Estimate(value, *_bca(value, ratios[np.isfinite(ratios)], left_out))


def contrast_weights(slots: int, degree: int) -> Floats:
    """Orthonormal polynomial weights over equally spaced slots; degree 1 is the trend, 2 the bend in the middle.

    >>> [round(float(w), 3) for w in contrast_weights(3, 2)]  # (1, -2, 1) / sqrt(6)
    [0.408, -0.816, 0.408]
    """
    columns, _ = np.linalg.qr(np.vander(np.linspace(-1, 1, slots), degree + 1, increasing=True))
    weights: Floats = columns[:, degree] * (1.0 if columns[-1, degree] > 0 else -1.0)
    return weights


def contrast(table: Floats, degree: int, *, rng: np.random.Generator, draws: int = 9_999) -> Measured:
    """Mean polynomial contrast over queries and its sign-flip p-value; negative at degree 1 means primacy."""
    table = _checked(table)
    # centring first keeps a flat row exactly zero, whatever its level
    values = centred(table) @ contrast_weights(table.shape[1], degree)
    values[np.ptp(table, axis=1) == 0] = 0.0
    return Measured(float(values.mean()), sign_flip(values, rng=rng, draws=draws))


def page_trend(table: Floats) -> Measured:
    """Page's L as a standard score, positive when early slots rank higher, and its two-sided p-value.

    Mid-ranks within queries, with the variance that the ties leave: a table of ties gives p = 1.
    """
    from scipy import special, stats

    table = _checked(table)
    slots = table.shape[1]
    ranks = stats.rankdata(table, axis=1)
    order = np.arange(slots, 0, -1.0)
    order -= order.mean()
    spread = ranks - ranks.mean(axis=1, keepdims=True)
    variance = (order**2).sum() * (spread**2).sum() / (slots - 1)
    if variance == 0:
        return Measured(0.0, 1.0)
    score = float((spread @ order).sum() / math.sqrt(variance))
    return Measured(score, float(2 * special.ndtr(-abs(score))))


def positional_deviation(table: Floats) -> float:
    """Standard deviation of the slots' true means, by two-way analysis of variance; unbiased at 0 before clipping."""
    queries, slots = _checked(table).shape
    between = queries * table.mean(axis=0).var(ddof=1)
    left = centred(table) - (table.mean(axis=0) - table.mean())
    residual = (left**2).sum() / ((queries - 1) * (slots - 1))
    return math.sqrt(max(0.0, float(between - residual)) / queries)


def position_sensitivity(table: Floats, *, rng: np.random.Generator, draws: int = 1_999) -> Psi:
    """PSI with its null: slot labels permuted within each query."""
    table = _checked(table)
    raw = _psi(table.mean(axis=0))
    if np.ptp(table, axis=1).max() == 0:
        return Psi(raw, 0.0, 1.0)
    step = max(1, _CELLS // table.size)
    null = np.concatenate([_permuted_psi(table, min(step, draws - at), rng) for at in range(0, draws, step)])
    # sums in another order differ by rounding, and an index that only looks smaller must count as reached
    reached = int(np.count_nonzero(null >= raw - 1e-12))
    return Psi(raw, float(raw - null.mean()), (1 + reached) / (1 + draws))


def worst_slot(table: Floats, signal: Floats, *, rng: np.random.Generator, draws: int = 1_999) -> WorstSlot:
    """Share of the usable signal lost between the slots read best and worst, corrected for picking them by their means.

    The correction is the bootstrap's: how much the gap between the picked slots exceeds their true gap, on average.
    The interval's upper end is left as it is: moved too, it would cover too seldom (docs/audit.md).
    """
    table = _checked(table)
    mean = table.mean(axis=0)
    best, worst = int(mean.argmax()), int(mean.argmin())
    if mean[best] - mean[worst] == 0:
        return WorstSlot(worst, best, Estimate(0.0, 0.0, 0.0))
    surplus = []
    for weights in _weights(len(table), draws, rng, table.shape[1]):
        means = weights @ table / len(table)
        high, low = means.argmax(axis=1), means.argmin(axis=1)
        rows = np.arange(len(means))
        surplus.append((means[rows, high] - means[rows, low]) - (mean[high] - mean[low]))
    bias = float(np.concatenate(surplus).mean()) / float(signal.mean())
    found = ratio_estimate(table[:, best] - table[:, worst], signal, rng=rng, draws=draws)
    lost = Estimate(max(0.0, found.value - bias), max(0.0, found.low - bias), max(0.0, found.high))
    return WorstSlot(worst, best, lost)


def slope(by_length: Floats, lengths: tuple[int, ...]) -> Floats:
    """Each query's change a doubling of length, by least squares over values [queries, lengths]."""
    doublings = np.log2(np.asarray(lengths, dtype=np.float64))
    doublings -= doublings.mean()
    values: Floats = by_length @ doublings / (doublings**2).sum()
    return values


def _checked(table: Floats) -> Floats:
    if table.ndim != 2 or len(table) < 2 or table.shape[1] < 2:
        raise DataError(f"a table of responses needs at least two queries and two slots, got shape {table.shape}")
    if not np.isfinite(table).all():
        raise DataError("a response is missing or not finite; no estimate is made from incomplete data")
    return table


def _errors(table: Floats) -> Floats:
    errors: Floats = table.std(axis=0, ddof=1) / math.sqrt(len(table))
    return errors


def _weights(queries: int, draws: int, rng: np.random.Generator, width: int) -> list[Floats]:
    """How often each query is drawn [draws, queries], in pieces of bounded size."""
    step = max(1, _CELLS // (queries * max(1, width // 4)))
    shares = np.full(queries, 1 / queries)
    sizes = [min(step, draws - at) for at in range(0, draws, step)]
    return [rng.multinomial(queries, shares, size=size).astype(np.float64) for size in sizes]


def _largest_t(table: Floats, weights: Floats) -> Floats:
    queries = len(table)
    mean = table.mean(axis=0)
    shifted = table - mean  # the spread is taken about the mean, so that squares do not cancel
    moved = weights @ shifted / queries
    drawn = (weights @ shifted**2 / queries - moved**2) / (queries - 1)
    # few queries with many equal values give draws without any spread: none counts as less than half of the table's
    variance = np.maximum(drawn, _errors(table) ** 2 / 4)
    # a slot whose values are all the same cannot leave its band
    usable = variance > 1e-24
    scores = np.where(usable, np.abs(moved) / np.sqrt(np.where(usable, variance, 1.0)), 0.0)
    largest: Floats = scores.max(axis=1)
    return largest


def _psi(means: Floats) -> float:
    highest = float(means.max())
    return 1 - float(means.min()) / highest if highest > 0 else 0.0


def _permuted_psi(table: Floats, draws: int, rng: np.random.Generator) -> Floats:
    order = rng.random((draws, *table.shape), dtype=np.float32).argsort(axis=2)
    means = np.take_along_axis(table[None], order, axis=2).mean(axis=1)
    highest = means.max(axis=1)
    values: Floats = np.where(highest > 0, 1 - means.min(axis=1) / np.where(highest > 0, highest, 1.0), 0.0)
    return values


def _bca(value: float, drawn: Floats, left_out: Floats, level: float = 0.95) -> Interval:
    from scipy import special

    if len(drawn) == 0 or np.ptp(drawn) == 0:
        return Interval(value, value)
    below = (np.count_nonzero(drawn < value) + 0.5 * np.count_nonzero(drawn == value)) / len(drawn)
    bias = special.ndtri(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn)))
    spread = left_out.mean() - left_out
    scale = (spread**2).sum() ** 1.5
    acceleration = (spread**3).sum() / (6 * scale) if scale > 0 else 0.0
    tails = special.ndtri([(1 - level) / 2, (1 + level) / 2])
    low, high = np.quantile(drawn, special.ndtr(bias + (bias + tails) / (1 - acceleration * (bias + tails))))
    return Interval(float(low), float(high))
