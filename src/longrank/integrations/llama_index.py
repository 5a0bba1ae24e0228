"""A ranker as LlamaIndex's node postprocessor, for query engines and retrievers."""

from typing import Any

from longrank.core.errors import MissingExtra, SettingsError
from longrank.integrations.scoring import as_ranker, best_first, score_texts

try:
    from llama_index.core.bridge.pydantic import ConfigDict, field_validator
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError:
    raise MissingExtra("llama-index-core", "llama-index", purpose="the LlamaIndex adapter") from None


class NodePostprocessor(BaseNodePostprocessor):  # type: ignore[misc]
    """Keeps the ``top_n`` best nodes, best first, each with the ranker's score in place of the retriever's."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    ranker: Any
    top_n: int | None = None

    @field_validator("ranker")  # type: ignore[untyped-decorator]
    @classmethod
    def _load(cls, value: Any) -> Any:
        return as_ranker(value)

    @classmethod
    def class_name(cls) -> str:
        """Name under which LlamaIndex lists it."""
        return "LongrankNodePostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise SettingsError("a ranker needs the query: pass query_str or query_bundle")
        texts = [found.node.get_content(metadata_mode=MetadataMode.EMBED) for found in nodes]
        values = score_texts(self.ranker, query_bundle.query_str, texts)
        return [NodeWithScore(node=nodes[i].node, score=values[i]) for i in best_first(values, self.top_n)]
