"""What a ranker costs, relative to the FirstP of the same backbone, measured side by side in one process."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from longrank.core.contracts import Ranker
from longrank.core.errors import DataError, SettingsError, UnknownName
from longrank.core.types import Document, Query

Work = Sequence[tuple[Query, Sequence[Document]]]
CountTokens = Callable[[Query, Sequence[Document]], int]


@dataclass(frozen=True)
class Cost:
    """Time of one ranker in each round, and the tokens it reads."""

    seconds: tuple[float, ...]  # a round, for all documents
    documents: int
    tokens: int | None  # for all documents, None if nobody counted

    @property
    def seconds_per_document(self) -> float:
        """Median over rounds."""
        return statistics.median(self.seconds) / self.documents

    @property
    def tokens_per_document(self) -> float | None:
        """Mean over documents."""
        return None if self.tokens is None else self.tokens / self.documents


@dataclass(frozen=True)
class RelativeCost:
    """How many times the baseline's cost a ranker has; time is compared within each round, then the median taken."""

    baseline: str
    time: float
    slowest: float
    fastest: float
    tokens: float | None


def measure_costs(
    rankers: Mapping[str, Ranker],
    work: Work,
    *,
    rounds: int = 5,
    count_tokens: Mapping[str, CountTokens] | None = None,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Cost]:
    """Cost of every ranker on the same queries and documents.

    Each round runs all rankers, starting with another one each time, so that a busy machine slows all alike; one round
    before them warms up and is not counted. The default clock counts processor seconds, not waiting.
    """
    documents = sum(len(batch) for _, batch in work)
    if not rankers or not documents or rounds < 1:
        raise SettingsError("measuring needs at least one ranker, one document and one round")
    seconds: dict[str, list[float]] = {name: [] for name in rankers}
    names = list(rankers)
    for turn in range(-1, rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start = clock()
            for query, batch in work:
                rankers[name].score(query, batch)
            if turn >= 0:
                seconds[name].append(clock() - start)
    counters = count_tokens or {}
    tokens = {name: sum(count(q, batch) for q, batch in work) for name, count in counters.items()}
    return {name: Cost(tuple(times), documents, tokens.get(name)) for name, times in seconds.items()}


def relative_costs(costs: Mapping[str, Cost], first_p: Mapping[str, str]) -> dict[str, RelativeCost]:
    """Cost of each ranker over that of its own FirstP, which ``first_p`` names.

    >>> costs = {"FirstP": Cost((1.0, 2.0, 1.0), 10, 100), "MaxP": Cost((2.5, 4.0, 3.0), 10, 300)}
    >>> relative_costs(costs, {"MaxP": "FirstP"})["MaxP"]
    RelativeCost(baseline='FirstP', time=2.5, slowest=3.0, fastest=2.0, tokens=3.0)
    """
    result = {}
    for name, baseline in first_p.items():
        for wanted in (name, baseline):
            if wanted not in costs:
                raise UnknownName(f"no cost of {wanted!r} was measured; measured: {', '.join(costs)}")
        result[name] = _relative(name, costs[name], baseline, costs[baseline])
    return result


def _relative(name: str, mine: Cost, baseline: str, theirs: Cost) -> RelativeCost:
    if len(mine.seconds) != len(theirs.seconds) or mine.documents != theirs.documents:
        raise DataError(f"{name!r} and {baseline!r} were not measured in the same rounds; measure them in one call")
    if min(theirs.seconds) <= 0:
        raise DataError(f"{baseline!r} took no measurable time; give it more documents")
    ratios = [left / right for left, right in zip(mine.seconds, theirs.seconds, strict=True)]
    tokens = mine.tokens / theirs.tokens if mine.tokens is not None and theirs.tokens else None
    return RelativeCost(baseline, statistics.median(ratios), max(ratios), min(ratios), tokens)
