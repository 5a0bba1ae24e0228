"""A ranker as LangChain's document compressor, for ``ContextualCompressionRetriever`` and its like."""

from collections.abc import Sequence
from typing import Any

from longrank.core.errors import MissingExtra
from longrank.integrations.scoring import as_ranker, best_first, score_texts

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from pydantic import ConfigDict, field_validator
except ImportError:
    raise MissingExtra("langchain-core", "langchain", purpose="the LangChain adapter") from None


class DocumentCompressor(BaseDocumentCompressor):  # type: ignore[misc]
    """Keeps the ``top_n`` best documents, best first; the score is in the metadata under ``relevance_score``."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    ranker: Any
    top_n: int | None = None

    @field_validator("ranker")
    @classmethod
    def _load(cls, value: Any) -> Any:
        return as_ranker(value)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        """The documents by their new score; those given are left as they are."""
        del callbacks
        values = score_texts(self.ranker, query, [document.page_content for document in documents])
        return [
            documents[i].model_copy(update={"metadata": {**documents[i].metadata, "relevance_score": values[i]}})
            for i in best_first(values, self.top_n)
        ]
