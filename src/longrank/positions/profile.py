"""The distribution of relevant positions: pair records are the data, every summary is a view of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import DataError, SettingsError
from longrank.core.seeds import generator
from longrank.evaluation.significance import FEWEST_QUERIES
from longrank.positions.chance import Interval, Placement, clustered_mean, mean_position, merged, placement
from longrank.positions.records import PairRecord
from longrank.positions.statistics import collapse

Edge = Literal["start", "end"]
CHUNK_TOKENS = 477
DECILES = 10


class Within(NamedTuple):
    """Share of documents whose first relevant place is among the first few, and what chance would give."""

    observed: float
    expected: float
    documents: int


class ByChance(NamedTuple):
    """A distance of drawn placements from their own distribution: the mean, and what 95% of the draws stay below."""

    mean: float
    high: float


class Divergence(NamedTuple):
    """Distance of the first relevant position from chance placement in the same documents.

    Both are above 0 for chance itself, the more so the fewer documents there are: what it gives stands beside them.
    """

    ks: float
    kl: float
    ks_by_chance: ByChance
    kl_by_chance: ByChance


class PassageCounts(NamedTuple):
    """Shares of located documents by number of relevant passages."""

    one: float
    one_or_two: float
    three_or_more: float
    documents: int


@dataclass(frozen=True)
class PositionProfile:
    """Where relevance sits in a set of query-document pairs, counted in tokens of one tokenizer."""

    name: str
    tokenizer: str
    records: tuple[PairRecord, ...]

    def __post_init__(self) -> None:
        for record in self.records:
            if record.spans and record.spans[0].tokenizer != self.tokenizer:
                raise DataError(
                    f"the spans of {record.document_id!r} count {record.spans[0].tokenizer!r}, the profile "
                    f"{self.tokenizer!r}: count all with one tokenizer"
                )

    @cached_property
    def located(self) -> tuple[PairRecord, ...]:
        """The pairs whose evidence was found."""
        return tuple(record for record in self.records if record.located)

    @property
    def share_not_located(self) -> float:
        """Share of the pairs without a place; 0 for no pairs."""
        return 1 - len(self.located) / len(self.records) if self.records else 0.0

    @property
    def share_ambiguous(self) -> float:
        """Share of the located pairs that have a second place nearly as good."""
        return _mean([record.ambiguous for record in self.located])

    def reasons(self) -> dict[str, int]:
        """How often each reason for a missing place was given, most frequent first."""
        counts: dict[str, int] = {}
        for record in self.records:
            if not record.located:
                counts[record.reason] = counts.get(record.reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda entry: -entry[1]))

    def lengths(self) -> NDArray[np.int64]:
        """Document lengths in tokens, one a pair, of pairs whose document was there."""
        return np.array([record.length for record in self.records if record.length], dtype=np.int64)

    def first(self, edge: Edge) -> NDArray[np.int64]:
        """Token at which the first relevant span of each located pair starts, or the one after its last token."""
        spans = [merged(record.spans)[0] for record in self.located]
        return np.array([span.start if edge == "start" else span.stop for span in spans], dtype=np.int64)

    def every(self, edge: Edge) -> NDArray[np.int64]:
        """The same for all relevant spans."""
        spans = [span for record in self.located for span in merged(record.spans)]
        return np.array([span.start if edge == "start" else span.stop for span in spans], dtype=np.int64)

    def chunk_shares(self, edge: Edge, *, chunk_tokens: int = CHUNK_TOKENS, chunks: int = 6) -> tuple[float, ...]:
        """Share of located pairs whose first relevant span starts (ends) in chunk 1, 2, ..., and beyond the last.

        The long-document-models paper's Table 6 with its chunks of 477 tokens.
        """
        tokens = self.first(edge) - (edge == "end")
        counts = np.bincount(np.minimum(tokens // chunk_tokens, chunks), minlength=chunks + 1)
        return tuple((counts / max(1, len(tokens))).tolist())

    def passage_counts(self, *, max_tokens: int | None = None) -> PassageCounts:
        """Shares of located documents with one, one or two, and three or more relevant passages.

        With ``max_tokens``, relevant sentences that follow one another are first collapsed into passages of at most
        that length (the PARADE paper's Table 11 uses 130); judged pieces are passages already.
        """
        return passage_counts([_count(record, max_tokens) for record in self.located])

    def quantiles(self, shares: Sequence[float] = (0.1, 0.5, 0.9)) -> dict[str, tuple[int, ...]]:
        """Tokens by which these shares of first relevant passages start and end, and of documents end."""
        values = {"start": self.first("start"), "end": self.first("end"), "length": self.lengths()}
        return {
            name: tuple(np.quantile(tokens, list(shares), method="inverted_cdf").astype(int).tolist())
            for name, tokens in values.items()
            if len(tokens)
        }

    @cached_property
    def _placed(self) -> list[tuple[PairRecord, Placement]]:
        """Located pairs whose evidence could have been placed otherwise."""
        pairs = ((record, placement(record)) for record in self.located)
        return [(record, placed) for record, placed in pairs if placed.informative]

    @property
    def only_one_way(self) -> int:
        """Located pairs left out of the shifts because the whole document is relevant."""
        return len(self.located) - len(self._placed)

    def first_shift(self, *, resamples: int = 2000, seed: int = 0) -> Interval:
        """How much earlier (below 0) or later than chance the first relevant place comes, interval over queries."""
        return clustered_mean(
            [placed.shift() for _, placed in self._placed],
            [record.query_id for record, _ in self._placed],
            resamples=resamples,
            seed=seed,
        )

    def mean_shift(self, *, resamples: int = 2000, seed: int = 0) -> Interval:
        """Mean position of all the evidence minus the middle of the document, in document lengths."""
        return clustered_mean(
            [mean_position(record) for record, _ in self._placed],
            [record.query_id for record, _ in self._placed],
            resamples=resamples,
            seed=seed,
        )

    def first_within(self, places: int) -> Within:
        """Share of documents whose first relevant place is among the first ``places``, observed and by chance."""
        pairs = [placement(record) for record in self.located]
        observed = _mean([placed.first < places for placed in pairs])
        return Within(observed, _mean([placed.below(places) for placed in pairs]), len(pairs))

    def decile_rates(self) -> tuple[float, ...]:
        """Mean share of each tenth of the document that is relevant, over located pairs."""
        rates = np.zeros(DECILES)
        for record in self.located:
            rates += _coverage(record)
        return tuple((rates / max(1, len(self.located))).tolist())

    def divergence(self, *, draws: int = 200, seed: int = 0) -> Divergence:
        """Kolmogorov-Smirnov distance and Kullback-Leibler divergence from chance in the same documents.

        The first is taken on a grid of hundredths of the document, the second over tenths and in nats. Beside them
        stands what ``draws`` placements of the same evidence by chance give.
        """
        if not self._placed:
            return Divergence(math.nan, math.nan, ByChance(math.nan, math.nan), ByChance(math.nan, math.nan))
        rng, each = generator("chance divergence", seed), np.arange(draws)
        observed, expected, drawn = np.zeros(101), np.zeros(101), np.zeros((draws, 101))
        for _, placed in self._placed:
            edges = np.ceil(np.arange(101) * placed.places / 100 - 0.5).astype(int)
            below = [placed.below(edge) for edge in edges.tolist()]
            observed += placed.first < edges
            expected += below
            drawn[each, np.searchsorted(below, rng.random(draws), side="right")] += 1  # the hundredth it falls into
        count = len(self._placed)
        ks, kl = _distances(observed / count, expected / count)
        by_chance = [_distances(one, expected / count) for one in np.cumsum(drawn, axis=1) / count]
        return Divergence(ks, kl, *map(_mean_and_high, zip(*by_chance, strict=True)))

    def prefix_sentence(self, window: int = CHUNK_TOKENS) -> str:
        """One sentence: how much a prefix suffices."""
        if not self.located:
            return "No relevant place was located, so nothing can be said about prefixes."
        starts, ends = _mean(self.first("start") < window), _mean(self.first("end") <= window)
        found = 1 - self.share_not_located
        bounds = ""
        if self.share_not_located:
            low, high = found * ends, found * ends + 1 - found
            bounds = f"; with the {self.share_not_located:.1%} not located it ends there in {low:.1%} to {high:.1%}"
        return (
            f"In {len(self.located)} located pairs the first relevant passage starts within the first {window} "
            f"{self.tokenizer} tokens in {starts:.1%} and ends there in {ends:.1%}{bounds}."
        )

    def bias_sentence(self, *, seed: int = 0) -> str:
        """One sentence: whether relevance is placed otherwise than by chance."""
        if (queries := len({record.query_id for record, _ in self._placed})) < FEWEST_QUERIES:
            return (
                f"Bias cannot be told from chance: {queries} queries have evidence that could lie elsewhere, and fewer "
                f"than {FEWEST_QUERIES} prove nothing."
            )
        first, mean = self.first_shift(seed=seed), self.mean_shift(seed=seed)
        words = {True: "differs from chance", False: "is within what chance gives"}
        direction = "" if not first.excludes_zero else " (earlier)" if first.value < 0 else " (later)"
        return (
            f"The place of the first relevant passage {words[first.excludes_zero]}{direction}: shift {first}, and the "
            f"mean place of all of them is {mean} of the document from its middle ({first.items} documents, "
            f"{first.clusters} queries, 95% intervals over queries)."
        )


def passage_counts(counts: Sequence[int]) -> PassageCounts:
    """Shares of documents by their number of relevant passages; documents with none are left out.

    >>> passage_counts([1, 1, 2, 5, 0])
    PassageCounts(one=0.5, one_or_two=0.75, three_or_more=0.25, documents=4)
    """
    some = [count for count in counts if count > 0]
    two = _mean([count <= 2 for count in some])
    return PassageCounts(_mean([count == 1 for count in some]), two, 1 - two if some else 0.0, len(some))


def _count(record: PairRecord, max_tokens: int | None) -> int:
    if record.slots:
        return len(record.relevant_slots)
    return len(merged(record.spans) if max_tokens is None else collapse(record.spans, max_tokens=max_tokens))


def _coverage(record: PairRecord) -> NDArray[np.float64]:
    """Share of each tenth of the document that the evidence covers."""
    if record.slots:
        pieces = [(slot / record.slots, (slot + 1) / record.slots) for slot in record.relevant_slots]
    else:
        pieces = [(span.start / record.length, span.stop / record.length) for span in merged(record.spans)]
    low = np.arange(DECILES) / DECILES
    covered = np.zeros(DECILES)
    for start, stop in pieces:
        covered += np.clip(np.minimum(stop, low + 1 / DECILES) - np.maximum(start, low), 0, None)
    return covered * DECILES


def _distances(observed: NDArray[np.float64], expected: NDArray[np.float64]) -> tuple[float, float]:
    """Largest difference of two distributions given at hundredths, and their divergence over tenths."""
    p, q = np.diff(observed[::10]), np.diff(expected[::10])
    seen = p > 0
    return float(np.abs(observed - expected).max()), float((p[seen] * np.log(p[seen] / q[seen])).sum())


def _mean_and_high(values: Sequence[float]) -> ByChance:
    return ByChance(float(np.mean(values)), float(np.quantile(values, 0.95)))


def _mean(values: Sequence[float] | Sequence[bool] | NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def check_window(window: int) -> int:
    """The window, if it is at least one token."""
    if window < 1:
        raise SettingsError(f"a window of {window} tokens sees nothing; it must be 1 or more")
    return window
