"""What every ranker of the zoo promises, checked for each entry as it is added."""

import inspect
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from longrank.core.types import Document, Query, Spec
from longrank.rankers import checkpoint
from longrank.rankers.explain import explain
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.states import ChunkStates, TokenStates
from longrank.rankers.zoo import RANKERS, build_ranker

TINY = Spec("tiny", {"layers": 2, "dim": 16, "heads": 2, "positions": 96, "vocabulary": 300})
SMALL = {"size": 24, "stride": 16, "max_tokens": 320, "tokens": 60, "query_tokens": 8}  # up to 20 windows
NARROW = Spec("tiny", {"layers": 1, "dim": 8, "heads": 2})
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "parade-attn per-dimension": ("parade-attn", {"attention": "per-dimension"}),
    "parade-transformer pretrained": ("parade-transformer", {"init": NARROW}),
    "parade-transformer with query": ("parade-transformer", {"init": NARROW, "query": "shared"}),
    "parade-transformer with query, own projection": ("parade-transformer", {"query": "own", "layers": 3}),
    "parade-lateir pretrained": ("parade-lateir", {"init": NARROW, "interaction": NARROW}),
    "parade-cnn with zeros kept": ("parade-cnn", {"keep_zeros": True}),
    "cedr-knrm max": ("cedr-knrm", {"summary": "max"}),
    "cedr-knrm of capreolus": ("cedr-knrm", {"kernels": "capreolus"}),
    "cedr-knrm alone": ("cedr-knrm", {"summary": "none"}),
}
CASES = {**{entry.name: (entry.name, {}) for entry in RANKERS}, **VARIANTS}
PUBLISHED = {
    f"{entry.name} published": (entry.name, {"compat": "published"})
    for entry in RANKERS
    if "compat" in inspect.signature(entry.make).parameters
}
QUERY = Query("q", "w1 w5 w9 w25")
WORDS = [f"w{i}" for i in range(60)]


def _document(number: int, length: int) -> Document:
    return Document(f"d{number}", " ".join(WORDS[(number * 7 + i * i) % 60] for i in range(length)))


DOCUMENTS = [_document(number, length) for number, length in enumerate((70, 0, 23, 1, 150, 24, 400, 41))]


@cache
def ranker_of(case: str) -> NeuralRanker:
    name, params = {**CASES, **PUBLISHED}[case]
    known = inspect.signature(RANKERS[name].make).parameters
    small = {key: value for key, value in SMALL.items() if key in known}
    ranker = build_ranker(Spec(name, {"backbone": TINY, **small, **params}))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        for parameter in ranker.backbone.parameters():  # new weights are so small that all documents look alike
            parameter.add_(0.1 * torch.randn_like(parameter))
    return ranker


def close(value: float) -> Any:
    return pytest.approx(value, abs=1e-5 * max(1.0, abs(value)))


@pytest.mark.parametrize("case", [*CASES, *PUBLISHED])
def test_a_score_is_the_same_alone_and_in_any_batch(case: str) -> None:
    ranker = ranker_of(case)
    together = ranker.score(QUERY, DOCUMENTS).values
    for document, value in zip(DOCUMENTS, together, strict=True):
        assert ranker.score(QUERY, [document]).values == [close(value)]
    assert len({round(value, 5) for value in together}) > 4  # it depends on something


@pytest.mark.parametrize("case", CASES)
def test_any_order_and_any_selection_of_documents_gives_the_same_scores(case: str) -> None:
    ranker = ranker_of(case)
    known = dict(zip(DOCUMENTS, ranker.score(QUERY, DOCUMENTS).values, strict=True))

    @settings(max_examples=4, deadline=None)
    @given(st.lists(st.sampled_from(DOCUMENTS), min_size=1, max_size=8))
    def check(chosen: list[Document]) -> None:
        assert ranker.score(QUERY, chosen).values == [close(known[document]) for document in chosen]

    check()


@pytest.mark.parametrize("case", CASES)
def test_small_batches_give_the_same_scores(case: str) -> None:
    ranker = ranker_of(case)
    expected = ranker.score(QUERY, DOCUMENTS).values
    before, ranker.token_budget = ranker.token_budget, 50
    try:
        assert ranker.score(QUERY, DOCUMENTS).values == [close(value) for value in expected]
    finally:
        ranker.token_budget = before


@pytest.mark.parametrize("case", [*CASES, *PUBLISHED])
def test_scores_are_the_same_to_the_bit_after_saving_and_loading(case: str, tmp_path: Path) -> None:
    ranker = ranker_of(case)
    checkpoint.save(ranker, tmp_path / "ranker")
    again = checkpoint.load(tmp_path / "ranker")
    assert again.score(QUERY, DOCUMENTS).values == ranker.score(QUERY, DOCUMENTS).values


@pytest.mark.parametrize("case", [*CASES, *PUBLISHED])
def test_empty_texts_and_single_words_have_a_score(case: str) -> None:
    ranker = ranker_of(case)
    for query in (Query("q", ""), Query("q", "w1"), Query("q", " ".join(WORDS))):
        assert all(map(math.isfinite, ranker.score(query, [Document("a", ""), Document("b", "w1")]).values))


@pytest.mark.parametrize("case", CASES)
def test_every_parameter_of_the_aggregator_gets_a_gradient(case: str) -> None:
    ranker = ranker_of(case)
    ranker.zero_grad()
    # the sum of squares, because a loss that falls on one score alone leaves some ways unused
    (ranker(QUERY, DOCUMENTS) ** 2).sum().backward()
    for name, parameter in ranker.aggregator.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and bool(parameter.grad.abs().sum() > 0), name


def _states(ranker: NeuralRanker, documents: list[Document]) -> ChunkStates:
    asked = ranker.backbone.tokenizer.tokenize(QUERY.text)
    split = ranker.split(documents)
    rows = ranker.layout.rows(ranker.backbone, asked, split)
    encoded = ranker.backbone.encode(rows, needs=ranker.aggregator.needs)  # type: ignore[arg-type]
    return ranker.layout.states(encoded, ranker.backbone.specials, asked, split)


def _longer(values: Tensor, filling: float) -> Tensor:
    return torch.cat([values, torch.full_like(values[:, :3], filling)], 1)


def _with_padding_chunks(states: ChunkStates) -> ChunkStates:
    tokens = states.tokens
    if tokens is not None:
        index, mask, ids = _longer(tokens.index, 0), _longer(tokens.mask, False), _longer(tokens.ids, 1)
        tokens = TokenStates(tokens.packed, index, mask, ids)
    chunks, mask = _longer(states.chunks, 1e3), _longer(states.chunk_mask, False)
    sizes = None if states.sizes is None else _longer(states.sizes, 0)
    return replace(states, chunks=chunks, chunk_mask=mask, tokens=tokens, sizes=sizes)


@pytest.mark.parametrize("case", CASES)
def test_padding_chunks_change_nothing(case: str) -> None:
    ranker = ranker_of(case)
    with torch.inference_mode():
        states = _states(ranker, DOCUMENTS[:5])
        found, padded = ranker.aggregator(states), ranker.aggregator(_with_padding_chunks(states))
    torch.testing.assert_close(found, padded, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_training_and_scoring_read_the_same_numbers(case: str) -> None:
    ranker = ranker_of(case)
    with torch.no_grad():
        trained_on = ranker(QUERY, DOCUMENTS).tolist()
    assert ranker.score(QUERY, DOCUMENTS).values == [close(value) for value in trained_on]


@pytest.mark.parametrize("case", [*CASES, *PUBLISHED])
def test_what_is_cropped_of_a_query_is_counted(case: str) -> None:
    ranker, fits = ranker_of(case), " ".join(WORDS[:8])
    long = ranker.score(Query("q", f"{fits} w9 w10 w11"), DOCUMENTS[:3])
    whole = ranker.score(Query("q", fits), DOCUMENTS[:3])
    assert long.values == whole.values
    assert (long.cut_query_tokens, whole.cut_query_tokens) == (3, 0)
    assert explain(ranker, Query("q", f"{fits} w9 w10 w11"), DOCUMENTS[0]).cut_query_tokens == 3


@pytest.mark.parametrize("case", [*CASES, *PUBLISHED])
def test_an_explanation_covers_what_was_read_and_gives_the_score(case: str) -> None:
    ranker = ranker_of(case)
    for document in DOCUMENTS:
        scores = ranker.score(QUERY, [document])
        found = explain(ranker, QUERY, document)
        assert found.score == close(scores.values[0])
        assert found.cut_tokens == scores.cut_tokens
        assert len(found.chunks) >= 1
        assert all(0 <= part.chars.start <= part.chars.stop <= len(document.text) for part in found.chunks)
        assert found.best in [part.chars for part in found.chunks]
        assert all(math.isfinite(part.value) for part in found.chunks)
