from pathlib import Path

import pytest

from longrank.testing import WordOverlapRanker

pytest.importorskip("mteb", reason="mteb is not installed")

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.models_protocols import CrossEncoderProtocol

from longrank.integrations.mteb import CrossEncoderModel


class ToyReranking(AbsTaskRetrieval):  # type: ignore[misc]
    """Two queries over three texts, candidates given."""

    metadata = TaskMetadata(
        name="ToyReranking",
        description="toy",
        type="Reranking",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        dataset={"path": "toy", "revision": "1"},
        reference=None,
        date=None,
        domains=None,
        task_subtypes=None,
        license=None,
        annotations_creators=None,
        dialect=None,
        sample_creation=None,
        bibtex_citation=None,
    )

    def load_data(self, num_proc: int | None = None, **_: object) -> None:
        corpus = [{"id": "a", "text": "nothing"}, {"id": "b", "text": "a red fox"}, {"id": "c", "text": "a red dog"}]
        queries = [{"id": "q1", "text": "red fox"}, {"id": "q2", "text": "dog"}]
        self.dataset = {
            "default": {
                "test": RetrievalSplitData(
                    corpus=Dataset.from_list(corpus),
                    queries=Dataset.from_list(queries),
                    relevant_docs={"q1": {"b": 1}, "q2": {"a": 1}},
                    top_ranked={"q1": ["a", "b", "c"], "q2": ["a", "c"]},
                )
            }
        }
        self.data_loaded = True


def test_it_follows_the_protocol() -> None:
    model = CrossEncoderModel(WordOverlapRanker(), name="maker/overlap")
    assert isinstance(model, CrossEncoderProtocol)
    assert model.mteb_model_meta.name == "maker/overlap"
    batches = [{"text": ["red fox", "red fox"]}, {"text": ["dog"]}]
    texts = [{"text": ["a red fox", "a red dog"]}, {"text": ["a dog"]}]
    assert model.predict(batches, texts).tolist() == [1.0, 0.5, 1.0]


@pytest.mark.filterwarnings("default")
def test_mteb_evaluates_it(tmp_path: Path) -> None:
    model = CrossEncoderModel(WordOverlapRanker())
    found = mteb.evaluate(model, ToyReranking(), cache=None, show_progress_bar=False)
    # q1 has its relevant text first, q2 second of two: (1 + 1/2) / 2
    assert found.task_results[0].scores["test"][0]["mrr_at_10"] == pytest.approx(0.75)
