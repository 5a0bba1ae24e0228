import os

import pytest

from longrank.core.errors import SettingsError
from longrank.testing import WordOverlapRanker

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # it would call out of the house
pytest.importorskip("haystack", reason="haystack-ai is not installed")

from haystack import Document, Pipeline

from longrank.integrations.haystack import DocumentRanker

DOCUMENTS = [Document(id=name, content=text) for name, text in (("a", "nothing"), ("b", "a red fox"), ("c", "red"))]


def test_documents_come_back_best_first_and_those_given_are_untouched() -> None:
    found = DocumentRanker(WordOverlapRanker(), top_k=2).run("red fox", DOCUMENTS)["documents"]
    assert [(document.id, document.score) for document in found] == [("b", 1.0), ("c", 0.5)]
    assert [document.score for document in DOCUMENTS] == [None, None, None]
    assert len(DocumentRanker(WordOverlapRanker(), top_k=2).run("red", DOCUMENTS, top_k=1)["documents"]) == 1
    assert DocumentRanker(WordOverlapRanker()).run("red", [])["documents"] == []


def test_a_pipeline_runs_it() -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", DocumentRanker(WordOverlapRanker(), top_k=1))
    found = pipeline.run({"ranker": {"query": "red fox", "documents": DOCUMENTS}})
    assert [document.id for document in found["ranker"]["documents"]] == ["b"]


def test_a_pipeline_whose_ranker_has_a_key_in_its_address_is_not_written_down() -> None:
    with pytest.raises(SettingsError, match="LONGRANK_API_KEY") as refused:
        DocumentRanker("http://localhost:1/rerank?api_key=SECRET").to_dict()
    assert "SECRET" not in str(refused.value)


def test_a_pipeline_with_a_named_ranker_survives_being_written_down() -> None:
    pipeline = Pipeline()
    pipeline.add_component("ranker", DocumentRanker("json:dumps", top_k=3))
    trusted = ["longrank.integrations.haystack"]
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=trusted).get_component("ranker")
    assert isinstance(again, DocumentRanker)
    assert again.to_dict()["init_parameters"] == {"ranker": "json:dumps", "top_k": 3}
    with pytest.raises(SettingsError, match="by name"):
        DocumentRanker(WordOverlapRanker()).to_dict()
