"""What placement by chance would give, and how far the evidence departs from it, with intervals over queries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longrank.core.seeds import generator
from longrank.core.types import TokenSpan
from longrank.positions.records import PairRecord

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over items with its 95% interval over clusters of items, usually queries."""

    value: float
    low: float
    high: float
    items: int
    clusters: int

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval."""
        return self.low > 0 or self.high < 0


def merged(spans: Sequence[TokenSpan]) -> list[TokenSpan]:
    """The spans by start, with overlapping ones joined; touching ones stay apart."""
    result: list[TokenSpan] = []
    for span in sorted(spans):
        if result and span.start < result[-1].stop:
            result[-1] = TokenSpan(result[-1].start, max(result[-1].stop, span.stop), span.tokenizer)
        else:
            result.append(span)
    return result


@dataclass(frozen=True, slots=True)
class Placement:
    """A record reduced to what chance needs: ``relevant`` of ``places`` are drawn, the first came at ``first``.

    Pieces judged one by one are places themselves. Spans of any length, placed at random without overlap, leave
    gaps that are a random composition of the free tokens; so the first start is distributed as the smallest of
    ``relevant`` draws from free tokens + relevant places, whatever the spans' lengths.
    """

    places: int
    relevant: int
    first: int

    @property
    def informative(self) -> bool:
        """False if there is only one way to place the evidence."""
        return self.relevant < self.places

    def below(self, first: int) -> float:
        """Chance that the first relevant place comes before ``first``: 1 - C(places - first, r) / C(places, r)."""
        if first <= 0:
            return 0.0
        none = 1.0
        for number in range(self.relevant):
            left = self.places - first - number
            if left <= 0:
                return 1.0
            none *= left / (self.places - number)
        return 1.0 - none

    def shift(self) -> float:
        """Mid-rank of the first relevant place under chance, minus one half; below 0 means earlier than chance."""
        return (self.below(self.first) + self.below(self.first + 1)) / 2 - 0.5


def placement(record: PairRecord) -> Placement:
    """A located record as chance sees it."""
    if record.slots:
        return Placement(record.slots, len(record.relevant_slots), record.relevant_slots[0])
    spans = merged(record.spans)
    free = record.length - sum(map(len, spans))
    return Placement(free + len(spans), len(spans), spans[0].start)


def mean_position(record: PairRecord) -> float:
    """Mean place of all the evidence as a share of the document, minus one half; chance gives 0 exactly."""
    if record.slots:
        return sum((place + 0.5) / record.slots for place in record.relevant_slots) / len(record.relevant_slots) - 0.5
    spans = merged(record.spans)
    return sum((span.start + span.stop) / 2 for span in spans) / len(spans) / record.length - 0.5


def clustered_mean(
    values: Sequence[float] | Floats, clusters: Sequence[str], *, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Mean of the values with a 95% percentile interval from resampling whole clusters.

    The percentiles are widened to what Student's t would use at this number of clusters, because the plain ones are
    too narrow when clusters are few. With fewer than two clusters the interval is not a number.
    """
    names = sorted(set(clusters))
    numbers = {name: number for number, name in enumerate(names)}
    place = np.fromiter((numbers[name] for name in clusters), dtype=np.intp, count=len(clusters))
    sums = np.bincount(place, weights=np.asarray(values, dtype=float), minlength=len(names))
    counts = np.bincount(place, minlength=len(names)).astype(float)
    if not names:
        return Interval(float("nan"), float("nan"), float("nan"), 0, 0)
    value = float(sums.sum() / counts.sum())
    if len(names) < 2:
        return Interval(value, float("nan"), float("nan"), len(clusters), len(names))
    draws = generator("clustered mean", seed).multinomial(
        len(names), np.full(len(names), 1 / len(names)), size=resamples
    )
    means = (draws @ sums) / (draws @ counts)
    tail = _widened_tail(len(names))
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(value, float(low), float(high), len(clusters), len(names))


def _widened_tail(clusters: int) -> float:
    """The lower percentile: the normal tail beyond sqrt(n / (n - 1)) times the 2.5% point of t with n - 1 degrees."""
    from scipy.special import ndtr, stdtrit

    return float(ndtr(stdtrit(clusters - 1, 0.025) * np.sqrt(clusters / (clusters - 1))))
