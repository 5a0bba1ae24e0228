"""Weights of examples: by hand, to the bit, and from the spans of a collection."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import SpanOutsideDocument, TrainingError
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, TokenSpan
from longrank.rankers.neural import NeuralRanker
from longrank.training.examples import CandidateSampler, Sampler, TrainExample
from longrank.training.settings import TrainSettings
from longrank.training.trainer import fit
from longrank.training.weights import PositionWeights, WeightedSampler, position_weights, positioned

MakeRanker = Callable[..., NeuralRanker]
Weights = Callable[[NeuralRanker], torch.Tensor]
WORDS = WordTokenizer()


@dataclass(frozen=True)
class Given:
    """A sampler of these examples, in this order, every epoch."""

    examples: tuple[TrainExample, ...]

    def __len__(self) -> int:
        return len(self.examples)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        return iter(self.examples)


def first_update(folder: Path) -> dict[str, float]:
    values: dict[str, float] = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    return values


def test_weights_of_one_change_nothing_to_the_bit(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    settings = TrainSettings(batch_size=2, epochs=2, backbone_rate=1e-3)
    plain, weighted = make_ranker(), make_ranker()
    log = fit(plain, sampler, settings=settings, folder=tmp_path / "plain")
    pairs = {(e.query.id, e.positive.id): 1.0 for e in sampler.epoch(0)}
    same = fit(weighted, WeightedSampler(sampler, pairs), settings=settings, folder=tmp_path / "weighted")
    assert torch.equal(weights(plain), weights(weighted))
    assert same == log


@pytest.mark.parametrize("at_once", [1, 3])
def test_twice_the_weight_is_as_good_as_coming_twice(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, at_once: int
) -> None:
    a, b = list(sampler.epoch(0))[:2]
    # the mean over a, a, b is (2a + b) / 3; weights 4/3 and 2/3, one twice the other and 1 on average, give
    # (4/3 a + 2/3 b) / 2, which is the same
    both: dict[str, Sampler] = {
        "twice": Given((a, a, b)),
        "weighted": Given((replace(a, weight=4 / 3), replace(b, weight=2 / 3))),
    }
    for name, examples in both.items():
        settings = TrainSettings(batch_size=len(examples), queries_at_once=at_once)
        fit(make_ranker(dropout=False), examples, settings=settings, folder=tmp_path / name)
    twice, weighted = (first_update(tmp_path / name) for name in both)
    assert weighted["loss"] == pytest.approx(twice["loss"], rel=1e-6)
    assert weighted["gradient_norm"] == pytest.approx(twice["gradient_norm"], rel=1e-5)


def test_an_example_without_weight_teaches_nothing(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path
) -> None:
    examples = Given(tuple(replace(example, weight=0.0) for example in sampler.epoch(0)))
    fit(make_ranker(), examples, settings=TrainSettings(), folder=tmp_path)
    assert first_update(tmp_path)["gradient_norm"] == 0.0


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_weights_that_are_no_weights_are_refused(sampler: CandidateSampler, weight: float) -> None:
    with pytest.raises(TrainingError, match="weight is a number from 0 on"):
        replace(next(sampler.epoch(0)), weight=weight)


def placed(*starts: int, words: int = 10) -> Collection:
    """A document of ten one-letter words for each start, whose evidence is the word there."""
    text = " ".join("x" for _ in range(words))
    names = [f"d{i}" for i in range(len(starts))]
    return Collection(
        "placed",
        {name: Document(name, text) for name in names},
        {f"q{i}": Query(f"q{i}", "x") for i in range(len(starts))},
        Qrels({f"q{i}": {name: 1} for i, name in enumerate(names)}),
        tuple(GoldSpan(f"q{i}", f"d{i}", CharSpan(2 * at, 2 * at + 1), "test") for i, at in enumerate(starts)),
    )


def test_rare_places_weigh_more() -> None:
    # three of four start in the first half: shares 3/4 and 1/4 of two bins, so 1 / (2 * 3/4) and 1 / (2 * 1/4)
    found = position_weights(
        placed(0, 1, 4, 9), ("q0", "q1", "q2", "q3"), tokenizer=WORDS, settings=PositionWeights(bins=2)
    )
    assert found == {
        ("q0", "d0"): pytest.approx(2 / 3),
        ("q1", "d1"): pytest.approx(2 / 3),
        ("q2", "d2"): pytest.approx(2 / 3),
        ("q3", "d3"): 2.0,
    }
    capped = position_weights(
        placed(0, 1, 4, 9), ("q0", "q1", "q2", "q3"), tokenizer=WORDS, settings=PositionWeights(bins=2, largest=1.5)
    )
    assert capped["q3", "d3"] == 1.5


def test_the_first_of_several_spans_counts_whatever_their_unit() -> None:
    collection = placed(7)
    more = (GoldSpan("q0", "d0", TokenSpan(3, 4, WORDS.name), "test"), *collection.spans)
    (pair,) = positioned(replace(collection, spans=more), ("q0",), tokenizer=WORDS)
    assert (pair.start, pair.tokens) == (3, 10)
    foreign = (GoldSpan("q0", "d0", TokenSpan(3, 4, "bert"), "test"),)
    with pytest.raises(SpanOutsideDocument, match="another tokenizer"):
        positioned(replace(collection, spans=foreign), ("q0",), tokenizer=WORDS)


def test_spans_of_other_queries_and_of_documents_that_are_not_relevant_do_not_count() -> None:
    collection = placed(0, 9)
    stray = (
        *collection.spans,
        GoldSpan("q0", "d1", CharSpan(0, 1), "test"),
        GoldSpan("q0", "gone", CharSpan(0, 1), "t"),
    )
    pairs = positioned(replace(collection, spans=stray), ("q0",), tokenizer=WORDS)
    assert [(pair.query_id, pair.document_id) for pair in pairs] == [("q0", "d0")]


def test_a_collection_without_spans_cannot_be_weighted() -> None:
    with pytest.raises(TrainingError, match=r"spans\.jsonl"):
        position_weights(replace(placed(0), spans=()), ("q0",), tokenizer=WORDS, settings=PositionWeights())


@pytest.mark.parametrize("wrong", [{"bins": 1}, {"cells": (512, 256)}, {"cells": (0,)}, {"largest": 0.0}])
def test_settings_that_make_no_bins_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PositionWeights.model_validate(wrong)
