from importlib.util import find_spec

import numpy as np
import pytest
import torch

from longrank.integrations.sentence_transformers import LongCrossEncoder
from longrank.testing import WordOverlapRanker, tiny_spec

PAIRS = [("red fox", "a red fox"), ("red fox", "a red dog"), ("red fox", "nothing")]


def test_predict_gives_the_ranker_s_scores_in_the_form_asked_for() -> None:
    model = LongCrossEncoder(WordOverlapRanker())
    scores = model.predict(PAIRS, batch_size=2, show_progress_bar=False)
    assert scores.dtype == np.float32
    assert scores.tolist() == [1.0, 0.5, 0.0]
    assert torch.equal(model.predict(PAIRS, convert_to_tensor=True), torch.tensor([1.0, 0.5, 0.0]))
    assert [score.item() for score in model.predict(PAIRS, convert_to_numpy=False)] == [1.0, 0.5, 0.0]
    assert model.predict(("red fox", "a red dog")).item() == 0.5


def test_an_activation_changes_scores_and_not_the_order() -> None:
    model = LongCrossEncoder(WordOverlapRanker(), activation_fn=torch.nn.Sigmoid())
    assert model.predict(PAIRS).tolist() == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-0.5)), 0.5])
    assert model.predict(PAIRS, activation_fn=torch.nn.Identity()).tolist() == [1.0, 0.5, 0.0]


def test_rank_sorts_and_gives_back_texts_where_asked_for() -> None:
    model = LongCrossEncoder(WordOverlapRanker())
    texts = ["nothing", "a red fox", "a red dog"]
    assert [row["corpus_id"] for row in model.rank("red fox", texts)] == [1, 2, 0]
    assert model.rank("red fox", texts, top_k=1, return_documents=True) == [
        {"corpus_id": 1, "score": 1.0, "text": "a red fox"}
    ]
    assert model.rank("red fox", []) == []


def test_a_neural_ranker_scores_as_it_does_alone() -> None:
    from longrank.rankers.zoo import build_ranker

    ranker = build_ranker(tiny_spec("maxp"))
    texts = ["the bridge " * 200, "a river", ""]
    alone = [row.score for row in ranker.rank("bridge", texts)]
    assert [row["score"] for row in LongCrossEncoder(ranker).rank("bridge", texts)] == pytest.approx(alone, abs=1e-6)


@pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed")
def test_an_evaluator_of_sentence_transformers_runs_on_it() -> None:
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator

    samples = [
        {"query": "red fox", "positive": ["a red fox"], "negative": ["a dog", "nothing"]},
        {"query": "red dog", "positive": ["a dog"], "negative": ["a red dog", "nothing"]},
    ]
    model = LongCrossEncoder(WordOverlapRanker())
    found = CrossEncoderRerankingEvaluator(samples, at_k=10, name="toy", show_progress_bar=False)(model)
    # the positives come first and second: (1 + 1/2) / 2
    assert found["toy_mrr@10"] == pytest.approx(0.75)
    assert model.model_card_data.metrics["toy_mrr@10"] == pytest.approx(0.75)
