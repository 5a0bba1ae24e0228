"""What a model that sees only the first tokens can possibly reach, and how much of that a real run reaches."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from longrank.core.errors import DataError, SettingsError
from longrank.core.types import Qrels, Run
from longrank.positions.chance import Interval, clustered_mean
from longrank.positions.profile import PositionProfile, check_window
from longrank.positions.records import PairRecord

Rule = Literal["start", "end", "overlap"]
RULES: tuple[Rule, ...] = ("start", "end", "overlap")
FATES = ("visible", "unknown", "hidden", "not retrieved")
PerQuery = Mapping[str, float]


class Bounds(NamedTuple):
    """The least and the most a share can be, whatever became of the pairs that were not located."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Reach:
    """Share of pairs whose evidence is visible: over located pairs with an interval, over all pairs as bounds."""

    window: int
    rule: Rule
    located: Interval
    bounds: Bounds


def is_visible(record: PairRecord, *, window: int, rule: Rule, overlap: float = 0.5) -> bool:
    """Whether a model that reads ``window`` tokens can see some evidence of a located pair.

    'start': a span begins inside; 'end': a span ends inside; 'overlap': at least this share of a span lies inside.
    """
    if rule == "start":
        return any(span.start < window for span in record.spans)
    if rule == "end":
        return any(span.stop <= window for span in record.spans)
    return any(min(window, span.stop) - span.start >= max(overlap * len(span), 1e-12) for span in record.spans)


def document_window(model_tokens: int, query_tokens: int, *, special_tokens: int = 3) -> int:
    """Tokens left for the document beside a query.

    >>> document_window(512, 32)
    477
    """
    return check_window(model_tokens - query_tokens - special_tokens)


def manski(share: float, located: float) -> Bounds:
    """Bounds of a share seen in the located part, if the rest may be anything.

    >>> tuple(round(bound, 2) for bound in manski(0.71, 0.85))
    (0.6, 0.75)
    """
    if not (0 <= share <= 1 and 0 <= located <= 1):
        raise DataError(f"shares lie between 0 and 1, got {share} and {located}")
    return Bounds(located * share, located * share + 1 - located)


def reach(profile: PositionProfile, *, window: int, rule: Rule = "start", seed: int = 0) -> Reach:
    """Share of relevant pairs that a prefix of ``window`` tokens can serve."""
    check_window(window)
    seen = [is_visible(record, window=window, rule=rule) for record in profile.located]
    located = clustered_mean(seen, [record.query_id for record in profile.located], seed=seed)
    share = located.value if seen else 0.0
    return Reach(window, rule, located, manski(share, 1 - profile.share_not_located))


def headroom(shares: Sequence[float], *, short: int = 1, long: int = 3) -> float:
    """Relative gain of seeing ``long`` chunks over ``short``, from the shares of positions by chunk.

    >>> round(headroom([0.859, 0.091, 0.026, 0.012]), 3)
    0.136
    """
    if not 1 <= short <= long <= len(shares):
        raise SettingsError(f"chunks {short} and {long} do not fit into {len(shares)} shares")
    if not sum(shares[:short]):
        return math.inf
    return sum(shares[:long]) / sum(shares[:short]) - 1


def window_headroom(profile: PositionProfile, *, short: int, long: int) -> Bounds:
    """Relative gain of a window over a shorter one, as the interval between the rules."""
    gains = []
    for rule in RULES:
        few, many = (reach(profile, window=window, rule=rule).located.value for window in (short, long))
        gains.append(many / few - 1 if few else math.inf)
    return Bounds(min(gains), max(gains))


@dataclass(frozen=True)
class Ceiling:
    """The best a ranker of the candidates can score if it sees only a window of each document.

    ``low`` counts documents that were not located as hidden, ``high`` as visible: measure -> query id -> value.
    ``fates`` says for each query whether a relevant document is visible, may be, is hidden, or was not retrieved.
    """

    rule: Rule
    low: Mapping[str, PerQuery]
    high: Mapping[str, PerQuery]
    fates: Mapping[str, str]
    dropped_queries: tuple[str, ...]

    def mean(self, measure: str) -> Bounds:
        """Mean over queries, as bounds."""
        if not self.fates:
            raise DataError("no query has both candidates and a relevant document, so there is no ceiling")
        return Bounds(
            float(np.mean(list(self.low[measure].values()))), float(np.mean(list(self.high[measure].values())))
        )

    def fate_shares(self) -> dict[str, float]:
        """Share of queries by fate; the shares sum to one."""
        fates = list(self.fates.values())
        return {fate: fates.count(fate) / max(1, len(fates)) for fate in FATES}

    def efficiency(self, measure: str, values: PerQuery, *, seed: int = 0) -> Interval:
        """A run's mean as a share of the ceiling's mean (counting unlocated documents as visible), over shared queries.

        Above one, the run ranks documents high whose evidence it cannot have seen.
        """
        shared = sorted(set(values) & set(self.high[measure]))
        best = [self.high[measure][query_id] for query_id in shared]
        if not shared or not sum(best):
            raise DataError("the run and the ceiling share no query that can be answered")
        scale = sum(best) / len(best)
        return clustered_mean([values[query_id] / scale for query_id in shared], shared, seed=seed)


def ceiling(
    profile: PositionProfile,
    qrels: Qrels,
    candidates: Run,
    *,
    window: int | Mapping[str, int],
    rule: Rule = "start",
    measures: Sequence[str] = ("RR", "nDCG@10", "AP"),
    at_least: int = 1,
) -> Ceiling:
    """The perfect ranker's measures on the candidates, with no credit for documents without visible evidence.

    ``window`` is one number of tokens or one a query. Documents are relevant to RR and AP from the grade ``at_least``,
    as in ``AP(rel=2)``; nDCG's gains are all the grades, as in trec_eval. Queries without candidates or without a
    relevant document are dropped and listed.
    """
    records = {(record.query_id, record.document_id): record for record in profile.records}
    low: dict[str, dict[str, float]] = {measure: {} for measure in measures}
    high: dict[str, dict[str, float]] = {measure: {} for measure in measures}
    fates: dict[str, str] = {}
    dropped: list[str] = []
    for query_id in qrels:
        gains = {d: g for d, g in qrels.grades[query_id].items() if g > 0}
        relevant = {d: g for d, g in gains.items() if g >= at_least}
        if not relevant or query_id not in candidates.scores:
            dropped.append(query_id)
            continue
        sees = check_window(window if isinstance(window, int) else window[query_id])
        retrieved = [document_id for document_id in candidates.scores[query_id] if document_id in gains]
        states = {d: _state(records.get((query_id, d)), window=sees, rule=rule) for d in retrieved}
        found = [state for d, state in states.items() if d in relevant]
        fates[query_id] = min(found, key=FATES.index, default="not retrieved")
        for measure in measures:
            grades = gains if measure.startswith("nDCG") else relevant
            certain = [grades[d] for d, state in states.items() if state == "visible" and d in grades]
            possible = [grades[d] for d, state in states.items() if state != "hidden" and d in grades]
            low[measure][query_id] = best_value(measure, certain, list(grades.values()))
            high[measure][query_id] = best_value(measure, possible, list(grades.values()))
    return Ceiling(rule, low, high, fates, tuple(dropped))


def _state(record: PairRecord | None, *, window: int, rule: Rule) -> str:
    if record is None or not record.located:
        return "unknown"
    return "visible" if is_visible(record, window=window, rule=rule) else "hidden"


def best_value(measure: str, credited: Sequence[int], relevant: Sequence[int]) -> float:
    """The measure of a ranking that puts the credited grades first, best first; ``relevant`` are all judged ones.

    >>> best_value("AP", [1], [1, 1]), best_value("RR", [1], [1, 1])
    (0.5, 1.0)
    """
    name, _, cut = measure.partition("@")
    depth = int(cut) if cut.isdigit() else None
    if name not in ("RR", "AP", "nDCG") or (cut and not depth):
        raise SettingsError(f"no ceiling for measure {measure!r}; known: RR, AP, nDCG, each also with @depth")
    if name == "RR":
        return 1.0 if credited else 0.0
    if name == "AP":
        return min(len(credited), depth or len(credited)) / len(relevant)
    return _gain(credited, depth) / _gain(relevant, depth)


def _gain(grades: Sequence[int], depth: int | None) -> float:
    ordered = sorted(grades, reverse=True)[:depth]
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ordered, start=1))
