"""Explanations against rankers whose reasons are known."""

import pytest
import torch

from longrank.core.errors import ModelError
from longrank.core.types import CharSpan, Document, Query, Spec
from longrank.rankers.aggregators.contract import Parts
from longrank.rankers.explain import Explanation, explain
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.states import ChunkStates
from longrank.rankers.zoo import build_ranker

TINY = Spec("tiny", {"layers": 2, "dim": 16, "heads": 2, "positions": 64, "vocabulary": 300})
QUERY = Query("q", "alpha beta")
DOCUMENT = Document("d", " ".join(f"w{i * i % 50}" for i in range(60)))


def ranker(name: str, **params: object) -> NeuralRanker:
    made = build_ranker(Spec(name, {"backbone": TINY, "size": 20, "query_tokens": 8, **params}))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def values(found: Explanation) -> list[float]:
    return [part.value for part in found.chunks]


def test_the_best_window_of_maxp_is_the_score() -> None:
    found = explain(ranker("maxp", stride=10), QUERY, DOCUMENT)
    assert found.method == "scores"
    assert len(found.chunks) == 5  # ceil((60 - 20) / 10) + 1
    assert found.score == pytest.approx(max(values(found)), abs=1e-6)
    best = values(found).index(max(values(found)))
    assert found.best == found.chunks[best].chars


@pytest.mark.parametrize("name", ["sump", "avgp-score", "k-max", "parade-avg", "parade-sum"])
def test_values_of_additive_rankers_sum_to_the_score(name: str) -> None:
    found = explain(ranker(name, stride=10), QUERY, DOCUMENT)
    assert found.method == "scores"
    assert found.score == pytest.approx(sum(values(found)), abs=1e-5)


def test_only_the_k_best_windows_count_in_k_max() -> None:
    found = explain(ranker("k-max", stride=10, k=2), QUERY, DOCUMENT)
    assert sum(value != 0 for value in values(found)) == 2


def test_a_single_window_of_k_max_stands_for_all_k() -> None:
    made = ranker("k-max", stride=10, k=3)
    found = explain(made, QUERY, Document("d", "w1 w2"))
    assert values(found) == [pytest.approx(found.score, abs=1e-6)]


def test_attention_weights_sum_to_one() -> None:
    for attention in ("scalar", "per-dimension"):
        found = explain(ranker("parade-attn", stride=10, attention=attention), QUERY, DOCUMENT)
        assert found.method == "attention"
        assert sum(values(found)) == pytest.approx(1, abs=1e-5)
        assert min(values(found)) > 0


def test_occlusion_is_the_fall_of_the_score_without_the_chunk() -> None:
    made = ranker("neural-model1", max_chunks=3)
    found = explain(made, QUERY, DOCUMENT)
    assert found.method == "occlusion"
    # a document of the first two chunks alone: contextual states of a chunk do not depend on the other chunks
    two_chunks = Document("d", " ".join(DOCUMENT.text.split()[:40]))
    expected = found.score - made.score(QUERY, [two_chunks]).values[0]
    assert found.chunks[2].value == pytest.approx(expected, abs=1e-5)
    assert abs(expected) > 1e-4


def test_spans_are_characters_of_the_text() -> None:
    found = explain(ranker("avgp", max_chunks=3), QUERY, Document("d", "Alpha, beta gamma"))
    (part,) = found.chunks
    assert part.chars == CharSpan(0, 17)
    assert (part.tokens.start, part.tokens.stop, part.tokens.tokenizer) == (0, 4, "words-v1")


def test_selected_windows_are_the_ones_explained() -> None:
    words = ["filler"] * 300
    words[250] = "alpha"
    found = explain(ranker("select-k", stride=20, keep=2), QUERY, Document("d", " ".join(words)))
    assert [(part.tokens.start, part.tokens.stop) for part in found.chunks] == [(0, 20), (240, 260)]


def test_what_is_not_read_is_counted() -> None:
    found = explain(ranker("avgp", max_chunks=2), QUERY, DOCUMENT)
    assert found.cut_tokens == 20
    assert [(part.tokens.start, part.tokens.stop) for part in found.chunks] == [(0, 20), (20, 40)]


def test_an_explanation_that_does_not_add_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ranker("sump", stride=10)

    def wrong(states: ChunkStates) -> Parts:
        return Parts(torch.ones_like(states.chunk_mask, dtype=torch.float32) * 9, "sum")

    monkeypatch.setattr(made.aggregator, "parts", wrong)
    with pytest.raises(ModelError, match=r"the chunks' values give 45\.0+ \(sum\)"):
        explain(made, QUERY, DOCUMENT)


def test_explaining_leaves_a_ranker_in_training_in_training() -> None:
    made = ranker("maxp", stride=10).train()
    explain(made, QUERY, DOCUMENT)
    assert made.training
