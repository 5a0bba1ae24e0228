import pytest

from longrank.testing import WordOverlapRanker

pytest.importorskip("rerankers", reason="rerankers is not installed")

from rerankers import Document
from rerankers.results import RankedResults

from longrank.integrations.rerankers import LongReranker

TEXTS = ["nothing", "a red fox", "a red dog"]


def test_results_are_of_the_package_s_own_kind_and_in_order() -> None:
    found = LongReranker(WordOverlapRanker()).rank("red fox", TEXTS, doc_ids=["a", "b", "c"])
    assert isinstance(found, RankedResults)
    assert [(one.rank, one.doc_id, one.score) for one in found.results] == [(1, "b", 1.0), (2, "c", 0.5), (3, "a", 0.0)]
    assert [one.text for one in found.top_k(1)] == ["a red fox"]
    assert found.get_score_by_docid("c") == 0.5


def test_documents_keep_their_ids_and_texts_get_numbers() -> None:
    ranker = LongReranker(WordOverlapRanker())
    own = [Document("a dog", doc_id=7, metadata={"kind": "x"}), Document("a cat", doc_id=8)]
    assert [(one.doc_id, one.kind) for one in ranker.rank("dog", own).top_k(1)] == [(7, "x")]
    assert [one.doc_id for one in ranker.rank("red fox", TEXTS)] == [1, 2, 0]
    assert ranker.rank("dog", "a dog").results_count() == 1
    assert ranker.rank("dog", []).results_count() == 0


def test_one_document_has_the_score_it_has_in_a_list() -> None:
    assert LongReranker(WordOverlapRanker()).score("red fox", "a red dog") == 0.5
