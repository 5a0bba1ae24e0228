import asyncio

import pytest

from longrank.core.errors import SettingsError
from longrank.testing import WordOverlapRanker

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from longrank.integrations.llama_index import NodePostprocessor


def nodes() -> list[NodeWithScore]:
    texts = {"a": "nothing", "b": "a red fox", "c": "a red dog"}
    return [NodeWithScore(node=TextNode(id_=name, text=text), score=9.0) for name, text in texts.items()]


class Fixed(BaseRetriever):  # type: ignore[misc]
    """Finds the same nodes for every query."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return nodes()


def test_nodes_come_back_best_first_with_the_ranker_s_score() -> None:
    given = nodes()
    found = NodePostprocessor(ranker=WordOverlapRanker(), top_n=2).postprocess_nodes(given, query_str="red fox")
    assert [(one.node.node_id, one.score) for one in found] == [("b", 1.0), ("c", 0.5)]
    assert [one.score for one in given] == [9.0] * 3


def test_it_works_asynchronously_and_on_nothing_and_asks_for_a_query() -> None:
    part = NodePostprocessor(ranker=WordOverlapRanker())
    assert asyncio.run(part.apostprocess_nodes(nodes(), query_str="dog"))[0].node.node_id == "c"
    assert part.postprocess_nodes([], query_str="dog") == []
    with pytest.raises(SettingsError, match="needs the query"):
        part.postprocess_nodes(nodes())


def test_a_query_engine_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IS_TESTING", "1")  # LlamaIndex then asks no language model
    engine = RetrieverQueryEngine.from_args(
        Fixed(),
        response_synthesizer=get_response_synthesizer(response_mode=ResponseMode.NO_TEXT),
        node_postprocessors=[NodePostprocessor(ranker=WordOverlapRanker(), top_n=1)],
    )
    assert [one.node.node_id for one in engine.query("red fox").source_nodes] == ["b"]
