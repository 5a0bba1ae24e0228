"""How far a judge agrees with people, and what a profile becomes when the judge's known errors are taken out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import DataError
from longrank.core.seeds import generator
from longrank.positions.chance import Interval

Floats = NDArray[np.float64]
Weighting = Literal["none", "linear", "quadratic"]
GRADE_COUNT = 4


class Rated(NamedTuple):
    """One piece graded by people and by the judge; ``cluster`` is what is resampled, usually the query."""

    human: int
    judge: int
    cluster: str
    weight: float = 1.0


def paired_grades(
    human: Mapping[tuple[str, str], int], judge: Mapping[tuple[str, str], int | None]
) -> tuple[list[Rated], int]:
    """Pieces both have graded, keyed (query, snippet), and how many of the people's have no grade by the judge."""
    both = [Rated(grade, other, key[0]) for key, grade in human.items() if (other := judge.get(key)) is not None]
    return both, len(human) - len(both)


def reweighted(sample: Sequence[Rated], population: Mapping[int, int]) -> list[Rated]:
    """A sample drawn by human label, weighted back to the labels' counts in the population."""
    drawn = {label: sum(item.human == label for item in sample) for label in population}
    missing = [label for label, count in population.items() if count and not drawn[label]]
    if missing:
        raise DataError(f"the sample has no piece of label {missing[0]}, so it cannot be weighted back")
    return [item._replace(weight=population[item.human] / drawn[item.human]) for item in sample]


def confusion(items: Iterable[Rated]) -> Floats:
    """Weight of each human grade (rows) and judge grade (columns), 0 to 3."""
    table = np.zeros((GRADE_COUNT, GRADE_COUNT))
    for item in items:
        if not (0 <= item.human < GRADE_COUNT and 0 <= item.judge < GRADE_COUNT):
            raise DataError(f"grades run from 0 to {GRADE_COUNT - 1}, got {item.human} and {item.judge}")
        table[item.human, item.judge] += item.weight
    return table


def kappa(items: Sequence[Rated], *, weighting: Weighting = "none", resamples: int = 2000, seed: int = 0) -> Interval:
    """Cohen's kappa with a 95% interval from resampling clusters; disagreement grows with distance if weighted.

    >>> same = [Rated(grade, grade, str(grade)) for grade in (0, 1, 2, 3)]
    >>> kappa(same).value
    1.0
    """
    clusters = sorted({item.cluster for item in items})
    if len(clusters) < 2:
        raise DataError(f"{len(clusters)} clusters of graded pieces: an interval needs two or more")
    places = {name: number for number, name in enumerate(clusters)}
    tables = np.zeros((len(clusters), GRADE_COUNT, GRADE_COUNT))
    for item in items:
        tables[places[item.cluster], item.human, item.judge] += item.weight
    costs = _costs(weighting)
    equal = np.full(len(clusters), 1 / len(clusters))
    draws = generator("kappa", seed).multinomial(len(clusters), equal, size=resamples)
    values = _kappas(np.tensordot(draws, tables, axes=1), costs)
    value = float(_kappas(tables.sum(axis=0)[None], costs)[0])
    low, high = np.nanquantile(values, [0.025, 0.975])
    return Interval(value, float(low), float(high), len(items), len(clusters))


def _costs(weighting: Weighting) -> Floats:
    distance = np.abs(np.subtract.outer(np.arange(GRADE_COUNT), np.arange(GRADE_COUNT))).astype(float)
    return {"none": (distance > 0).astype(float), "linear": distance, "quadratic": distance**2}[weighting]


def _kappas(tables: Floats, costs: Floats) -> Floats:
    """One minus observed over chance disagreement, for each table; not a number where chance cannot disagree."""
    shares = tables / tables.sum(axis=(1, 2), keepdims=True)
    by_chance = shares.sum(axis=2)[:, :, None] * shares.sum(axis=1)[:, None, :]
    observed, expected = (shares * costs).sum(axis=(1, 2)), (by_chance * costs).sum(axis=(1, 2))
    ratio = np.divide(observed, expected, out=np.full(len(tables), np.nan), where=expected > 0)
    return np.asarray(1 - ratio)


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """How often a judge calls a relevant piece relevant, and an irrelevant one irrelevant."""

    sensitivity: float
    specificity: float

    def __post_init__(self) -> None:
        if not (0 <= self.sensitivity <= 1 and 0 <= self.specificity <= 1 and self.sensitivity + self.specificity > 1):
            raise DataError(
                f"sensitivity {self.sensitivity} and specificity {self.specificity} must lie in [0, 1] and sum to "
                "more than 1; a judge no better than a coin cannot be corrected"
            )

    @classmethod
    def of(cls, items: Iterable[Rated], *, at_least: int = 1) -> "ErrorRates":
        """The rates of a judge against people, both read as relevant from this grade on."""
        table = confusion(items)
        relevant, others = table[at_least:], table[:at_least]
        if not relevant.sum() or not others.sum():
            raise DataError(f"error rates need pieces that people graded below {at_least} and others at or above it")
        return cls(
            float(relevant[:, at_least:].sum() / relevant.sum()), float(others[:, :at_least].sum() / others.sum())
        )

    def corrected(self, share: float) -> float:
        """The true share behind the share the judge reports (Rogan and Gladen 1978), kept inside [0, 1].

        >>> round(ErrorRates(0.9, 0.8).corrected(0.34), 3)
        0.2
        """
        raw = (share + self.specificity - 1) / (self.sensitivity + self.specificity - 1)
        return min(1.0, max(0.0, raw))


def corrected_first_shares(graded: Sequence[Sequence[bool]], rates: ErrorRates, *, chunks: int) -> list[float]:
    """Share of relevant documents whose first relevant piece is among the first 1 to ``chunks``, errors taken out.

    ``graded`` holds the judge's verdict on each piece of each document. Rogan and Gladen's correction is applied to
    each piece's "not relevant" and multiplied over pieces, which is unbiased for "none of the first k is relevant" if
    the judge errs independently. Wide of the mark for few documents, hence kept inside [0, 1].
    """
    scale = rates.sensitivity + rates.specificity - 1
    if_irrelevant, if_relevant = rates.sensitivity / scale, -(1 - rates.sensitivity) / scale
    longest = max((len(row) for row in graded), default=0)
    none = np.ones((len(graded), max(longest, chunks) + 1))
    for place, row in enumerate(graded):
        factors = np.where(np.asarray(row, dtype=bool), if_relevant, if_irrelevant)
        none[place, 1 : len(row) + 1] = np.cumprod(factors)
        none[place, len(row) + 1 :] = none[place, len(row)]
    reached = 1 - none.mean(axis=0)
    if not len(graded) or reached[-1] <= 0:
        raise DataError("after correction no document is relevant: the error rates do not fit these verdicts")
    return [float(min(1.0, max(0.0, share / reached[-1]))) for share in reached[1 : chunks + 1]]
