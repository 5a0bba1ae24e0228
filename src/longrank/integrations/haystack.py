"""A ranker as a Haystack component, for pipelines, and for their YAML where the ranker has a name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from longrank.core.addresses import shown_address
from longrank.core.contracts import Ranker
from longrank.core.errors import MissingExtra, SettingsError
from longrank.integrations.scoring import RankerOrName, as_ranker, best_first, score_texts

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError:
    raise MissingExtra("haystack-ai", "haystack", purpose="the Haystack adapter") from None


@component
class DocumentRanker:
    """Takes a query and documents, gives the ``top_k`` best, best first, with the ranker's score."""

    def __init__(self, ranker: RankerOrName, *, top_k: int | None = None) -> None:
        self.top_k = top_k
        self._given = ranker
        self._ranker: Ranker | None = None

    def warm_up(self) -> None:
        """Load the ranker, once."""
        if self._ranker is None:
            self._ranker = as_ranker(self._given)

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, list[Document]]:
        """The documents by their new score; those given are left as they are."""
        self.warm_up()
        texts = [document.content or "" for document in documents]
        values = score_texts(as_ranker(self._ranker or self._given), query, texts)
        order = best_first(values, self.top_k if top_k is None else top_k)
        return {"documents": [replace(documents[i], score=values[i]) for i in order]}

    def to_dict(self) -> dict[str, Any]:
        """What a pipeline's YAML holds; the ranker must have been given by name."""
        if not isinstance(self._given, (str, Path)):
            raise SettingsError("a pipeline can be written down only if its ranker was given by name or folder")
        if shown_address(str(self._given)) != str(self._given):
            raise SettingsError("the ranker's address may hold a key, and is not written down: set LONGRANK_API_KEY")
        table: dict[str, Any] = default_to_dict(self, ranker=str(self._given), top_k=self.top_k)
        return table

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "DocumentRanker":
        """The component of a pipeline's YAML."""
        made: DocumentRanker = default_from_dict(cls, data)
        return made
