import asyncio

import pytest

from longrank.testing import WordOverlapRanker

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from longrank.integrations.langchain import DocumentCompressor

DOCUMENTS = [
    Document(page_content="nothing", metadata={"source": "a"}),
    Document(page_content="a red fox", metadata={"source": "b"}),
    Document(page_content="a red dog", metadata={"source": "c"}),
]


class Fixed(BaseRetriever):  # type: ignore[misc]
    """Finds the same documents for every query."""

    def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
        return DOCUMENTS


def test_documents_come_back_best_first_with_their_score_and_their_own_metadata() -> None:
    found = DocumentCompressor(ranker=WordOverlapRanker(), top_n=2).compress_documents(DOCUMENTS, "red fox")
    assert [document.metadata for document in found] == [
        {"source": "b", "relevance_score": 1.0},
        {"source": "c", "relevance_score": 0.5},
    ]
    assert "relevance_score" not in DOCUMENTS[1].metadata


def test_it_works_asynchronously_and_on_nothing() -> None:
    compressor = DocumentCompressor(ranker=WordOverlapRanker())
    found = asyncio.run(compressor.acompress_documents(DOCUMENTS, "dog"))
    assert found[0].page_content == "a red dog"
    assert compressor.compress_documents([], "dog") == []


def test_it_reranks_inside_a_compression_retriever() -> None:
    retrievers = pytest.importorskip("langchain_classic.retrievers", reason="langchain-classic is not installed")
    chain = retrievers.ContextualCompressionRetriever(
        base_retriever=Fixed(), base_compressor=DocumentCompressor(ranker=WordOverlapRanker(), top_n=1)
    )
    assert [document.page_content for document in chain.invoke("red fox")] == ["a red fox"]


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k"):
        DocumentCompressor(ranker=WordOverlapRanker(), top_k=3)
