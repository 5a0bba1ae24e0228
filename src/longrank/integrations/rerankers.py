"""A ranker for code written against the ``rerankers`` package."""

from collections.abc import Sequence
from typing import Any

from longrank.core.errors import MissingExtra
from longrank.integrations.scoring import RankerOrName, as_ranker, best_first, score_texts

try:
    from rerankers.documents import Document
    from rerankers.models.ranker import BaseRanker
    from rerankers.results import RankedResults, Result
except ImportError:
    raise MissingExtra("rerankers", "rerankers", purpose="the rerankers adapter") from None


class LongReranker(BaseRanker):  # type: ignore[misc]
    """What ``Reranker(...)`` gives, over one of our rankers."""

    def __init__(self, ranker: RankerOrName, verbose: int = 0) -> None:
        self.ranker = as_ranker(ranker)
        self.verbose = verbose

    def score(self, query: str, doc: str) -> float:
        """Score of one document."""
        return score_texts(self.ranker, query, [doc])[0]

    def rank(
        self,
        query: str,
        docs: "str | Document | Sequence[str] | Sequence[Document]",
        doc_ids: Sequence[str] | Sequence[int] | None = None,
        metadata: Sequence[dict[str, Any]] | None = None,
    ) -> RankedResults:
        """The documents best first, ranks from 1; ids are the given ones, a document's own, or numbers from 0."""
        given: Any = [docs] if isinstance(docs, (str, Document)) else list(docs)
        found = [_document(one, i, doc_ids, metadata) for i, one in enumerate(given)]
        values = score_texts(self.ranker, query, [document.text for document in found])
        results = [Result(found[i], values[i], rank) for rank, i in enumerate(best_first(values), start=1)]
        return RankedResults(results, query, has_scores=True)


def _document(given: Any, place: int, ids: Sequence[Any] | None, metadata: Sequence[dict[str, Any]] | None) -> Any:
    own = isinstance(given, Document)
    text = given.text if own else given
    name = ids[place] if ids is not None else (given.doc_id if own else None)
    notes = metadata[place] if metadata is not None else (given.metadata if own else None)
    return Document(text, place if name is None else name, notes)
