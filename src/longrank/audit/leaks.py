"""Can a made collection be solved without reading the evidence? Tests over exchangeable candidates.

Every query has one document with its evidence and C from the same generator, each with a hard passage where evidence
could stand. If nothing leaks, the start of the planted passage and the length of the document tell nothing (AUC .5),
and with all planted passages replaced by filler of equal length every ranker is at chance, H(C + 1) / (C + 1).
Candidates that a retriever found must not be used here: they match, a masked document does not, under any policy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from longrank.audit.response import reciprocal_rank
from longrank.audit.verdict import expected_absent
from longrank.core.contracts import Ranker, Tokenizer
from longrank.core.errors import DataError
from longrank.core.seeds import generator
from longrank.core.types import Document, Query, TokenSpan
from longrank.evaluation.significance import Interval, bca_interval
from longrank.synthetic.assembling import Pool
from longrank.synthetic.far_relevant import FarRelevant, Made

Fit = Callable[[Sequence["LeakCase"]], Ranker]


class Candidate(NamedTuple):
    """A document, itself with its planted passage masked, where that passage starts and how long the document is."""

    document: Document
    masked: Document
    start: int
    tokens: int


@dataclass(frozen=True)
class LeakCase:
    """A query, the document with its evidence, and the others, which differ in nothing else."""

    query: Query
    positive: Candidate
    others: tuple[Candidate, ...]


@dataclass(frozen=True)
class Leak:
    """What one test found: a mean over queries, what it is without a leak, and its interval."""

    name: str
    value: float
    chance: float
    interval: Interval

    @property
    def flagged(self) -> bool:
        """Chance lies outside the interval."""
        return not self.interval.low <= self.chance <= self.interval.high


@dataclass(frozen=True)
class LeakReport:
    """All tests of a collection; the intervals share the error rate, so that a clean one passes at the level asked."""

    leaks: tuple[Leak, ...]
    queries: int
    candidates: int
    level: float

    @property
    def passed(self) -> bool:
        """Nothing was flagged."""
        return not any(leak.flagged for leak in self.leaks)

    def lines(self) -> list[str]:
        """The report as text, one line a test."""
        head = f"{self.queries} queries, {self.candidates} other candidates each, {self.level:.0%} for all intervals"
        rows = [
            f"{'LEAK' if leak.flagged else 'ok':4}  {leak.name}: {leak.value:.3f} "
            f"[{leak.interval.low:.3f}, {leak.interval.high:.3f}], without a leak {leak.chance:.3f}"
            for leak in self.leaks
        ]
        return [head, *rows]


def leak_cases(
    made: FarRelevant, tokenizer: Tokenizer, *, query_ids: Iterable[str] | None = None, limit: int | None = None
) -> list[LeakCase]:
    """Cases of a collection that was made with distractors; of a query with several documents the first.

    Masks are filler, cut to the tokens of what they replace; the tokenizer must be the one that counted the passages.
    """
    if not made.settings.distractors:
        raise DataError("leak tests need distractors made by the same rules: make the collection with distractors=9")
    wanted = None if query_ids is None else set(query_ids)
    cases: list[LeakCase] = []
    for query_id, group in groupby(_usable(made, wanted), key=lambda one: one.query_id):
        positive, *others = group
        first = [one for one in others if not one.answers][: made.settings.distractors]
        if len(first) == made.settings.distractors:
            rng = generator(f"leaks/{query_id}", made.settings.seed)
            candidates = [_candidate(one, made.pool, tokenizer, rng) for one in (positive, *first)]
            cases.append(LeakCase(made.queries[query_id], candidates[0], tuple(candidates[1:])))
        if limit is not None and len(cases) == limit:
            break
    return cases


def check_leaks(
    cases: Sequence[LeakCase], *, rankers: Mapping[str, Ranker], rng: np.random.Generator, level: float = 0.95
) -> LeakReport:
    """Position-only and length-only AUC, and every ranker on masked documents against chance."""
    if len(cases) < 2:
        raise DataError(f"leak tests need at least two queries, got {len(cases)}")
    each = 1 - (1 - level) / (2 + len(rankers))  # Bonferroni over the tests
    chance = expected_absent(len(cases[0].others))

    def leak(name: str, values: Sequence[float], without: float) -> Leak:
        return Leak(name, float(np.mean(values)), without, bca_interval(values, rng=rng, level=each))

    found = [
        leak("position alone, AUC", [_auc(c.positive.start, [o.start for o in c.others]) for c in cases], 0.5),
        leak("length alone, AUC", [_auc(c.positive.tokens, [o.tokens for o in c.others]) for c in cases], 0.5),
    ]
    for name, ranker in rankers.items():
        values = [_reciprocal_rank(ranker, case.query, [case.positive.masked, *_masked(case)]) for case in cases]
        found.append(leak(f"{name} on masked documents, RR", values, chance))
    return LeakReport(tuple(found), len(cases), len(cases[0].others), level)


def fitted_leak(
    train: Sequence[LeakCase],
    test: Sequence[LeakCase],
    *,
    fit: Fit,
    rng: np.random.Generator,
    name: str = "fine-tuned FirstP",
    level: float = 0.95,
) -> Leak:
    """A ranker trained on some cases against chance on others, documents as they are.

    For a ranker that reads less than the boundary: where evidence stands behind it, all above chance is a leak.
    """
    ranker = fit(train)
    shown = [[case.positive.document, *(other.document for other in case.others)] for case in test]
    values = [_reciprocal_rank(ranker, case.query, documents) for case, documents in zip(test, shown, strict=True)]
    chance = expected_absent(len(test[0].others))
    return Leak(f"{name}, RR", float(np.mean(values)), chance, bca_interval(values, rng=rng, level=level))


def expected_reciprocal_rank(scores: Sequence[float]) -> float:
    """Reciprocal rank of the first score among all, averaged over the orders of its ties: fair to constant rankers.

    >>> expected_reciprocal_rank([1.0, 1.0, 0.0])  # first or second: (1 + 1/2) / 2
    0.75
    """
    return reciprocal_rank(scores[0], scores[1:])


def _usable(made: FarRelevant, wanted: set[str] | None) -> Iterator[Made]:
    return (one for one in made.documents() if wanted is None or one.query_id in wanted)


def _masked(case: LeakCase) -> list[Document]:
    return [other.masked for other in case.others]


def _candidate(one: Made, pool: Pool, tokenizer: Tokenizer, rng: np.random.Generator) -> Candidate:
    text = one.document.text
    for chars, tokens in zip(reversed(one.chars), reversed(one.spans), strict=True):  # from the back: offsets hold
        text = text[: chars.start] + _mask(len(tokens), pool, tokenizer, rng) + text[chars.stop :]
    return Candidate(one.document, Document(one.document.id, text), one.spans[0].start, one.tokens)


def _mask(tokens: int, pool: Pool, tokenizer: Tokenizer, rng: np.random.Generator) -> str:
    """Filler of exactly this many tokens."""
    parts, held = list[str](), 0
    while held < tokens:
        row = int(pool.rows[rng.integers(len(pool.rows))])
        parts.append(pool.passages.texts[row])
        held += int(pool.passages.tokens[row])
    counted = tokenizer.tokenize(" ".join(parts))
    return counted.text[: counted.chars(TokenSpan(0, tokens, counted.tokenizer)).stop]


def _reciprocal_rank(ranker: Ranker, query: Query, documents: Sequence[Document]) -> float:
    return expected_reciprocal_rank(ranker.score(query, documents).values)


def _auc(own: int, others: Sequence[int]) -> float:
    rest = np.asarray(others)
    return float((rest < own).mean() + 0.5 * (rest == own).mean())
