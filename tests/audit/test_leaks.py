"""Leak tests pass a counterbalanced collection and flag the papers' policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.audit.leaks import (
    LeakCase,
    LeakReport,
    check_leaks,
    expected_reciprocal_rank,
    fitted_leak,
    leak_cases,
)
from longrank.audit.planted import WordMatch
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import DataError
from longrank.core.types import Document, Query, Scores
from longrank.synthetic.assembling import Placing
from longrank.synthetic.far_relevant import FarRelevantSettings, far_relevant
from longrank.synthetic.toy import ToySettings
from longrank.synthetic.toy_passages import toy_passages

WORDS = WordTokenizer()
BEYOND = Placing(policy="beyond", boundary=128, max_tokens=327)
UNIFORM = Placing(policy="uniform", min_tokens=160, max_tokens=327)


@cache
def cases(placing: Placing, places: Literal["policy", "anywhere"]) -> tuple[LeakCase, ...]:
    world = toy_passages(ToySettings(train=0, dev=0, test=160, seed=3))
    settings = FarRelevantSettings(placing=placing, distractor_places=places, distractors=9)
    return tuple(leak_cases(far_relevant(world.collection, WORDS, settings, hard=world.hard), WORDS))


def report(found: Sequence[LeakCase]) -> LeakReport:
    match = WordMatch.fitted(case.positive.document.text for case in found)
    return check_leaks(found, rankers={"word match": match, "constant": Constant()}, rng=np.random.default_rng(0))


class Constant:
    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        return Scores([0.0] * len(documents))


@dataclass(frozen=True)
class EarlyMatch:
    """Reads ``tokens`` and scores a match there by ``sign``: what a FirstP can learn."""

    tokens: int
    sign: float

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        asked = set(query.text.lower().split())
        heads = [document.text.lower().split()[: self.tokens] for document in documents]
        return Scores([self.sign * sum(word in asked for word in head) for head in heads])


def test_the_uniform_policy_passes_every_test() -> None:
    found = report(cases(UNIFORM, "policy"))
    assert found.passed, found.lines()
    assert [round(leak.chance, 4) for leak in found.leaks] == [0.5, 0.5, 0.2929, 0.2929]  # H(10) / 10 = .2929


def test_the_papers_policy_with_uniformly_placed_negatives_is_flagged_by_position() -> None:
    position, *rest = report(cases(BEYOND, "anywhere")).leaks
    assert position.flagged
    assert position.value > 0.6
    assert not any(leak.flagged for leak in rest)


def test_the_papers_policy_passes_when_hard_passages_follow_it_too() -> None:
    assert report(cases(BEYOND, "policy")).passed


def test_a_ranker_that_reads_only_the_beginning_learns_the_papers_shortcut() -> None:
    def fit(train: Sequence[LeakCase]) -> EarlyMatch:
        def quality(ranker: EarlyMatch) -> float:
            shown = [[case.positive.document, *(o.document for o in case.others)] for case in train]
            pairs = zip(train, shown, strict=True)
            return float(np.mean([expected_reciprocal_rank(ranker.score(c.query, d).values) for c, d in pairs]))

        return max((EarlyMatch(128, sign) for sign in (1.0, -1.0)), key=quality)

    found = cases(BEYOND, "anywhere")
    leak = fitted_leak(found[:80], found[80:], fit=fit, rng=np.random.default_rng(1))
    assert leak.flagged
    assert leak.value > leak.chance
    fair = cases(BEYOND, "policy")
    assert not fitted_leak(fair[:80], fair[80:], fit=fit, rng=np.random.default_rng(1)).flagged


def test_masks_have_as_many_tokens_as_what_they_hide_and_hide_it() -> None:
    for case in cases(UNIFORM, "policy")[:30]:
        for candidate in (case.positive, *case.others):
            counted = WORDS.tokenize(candidate.masked.text)
            assert len(counted) == candidate.tokens == len(WORDS.tokenize(candidate.document.text))
            assert candidate.masked.text != candidate.document.text
            assert candidate.masked.id == candidate.document.id


def test_collections_without_distractors_cannot_be_tested() -> None:
    world = toy_passages(ToySettings(train=0, dev=0, test=2))
    with pytest.raises(DataError, match="distractors"):
        leak_cases(far_relevant(world.collection, WORDS, FarRelevantSettings(placing=BEYOND)), WORDS)
    with pytest.raises(DataError, match="two queries"):
        check_leaks([], rankers={}, rng=np.random.default_rng(0))


@given(scores=st.lists(st.integers(0, 3).map(float), min_size=1, max_size=7))
def test_reciprocal_ranks_of_all_documents_average_chance_whatever_the_ties(scores: list[float]) -> None:
    each = [expected_reciprocal_rank([scores[i], *scores[:i], *scores[i + 1 :]]) for i in range(len(scores))]
    assert np.mean(each) == pytest.approx(np.mean(1 / np.arange(1, len(scores) + 1)))
