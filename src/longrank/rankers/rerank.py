"""A ranker and a candidate run give a new run."""

from collections.abc import Iterable

from longrank.core.contracts import Ranker
from longrank.core.errors import UnknownDocument
from longrank.core.progress import track
from longrank.core.types import Collection, Run, RunNotes


def rerank(
    ranker: Ranker,
    candidates: Run,
    collection: Collection,
    *,
    depth: int = 100,
    query_ids: Iterable[str] | None = None,
    name: str = "longrank",
) -> Run:
    """The top ``depth`` candidates of every query, scored anew; deeper ones are left out."""
    wanted = list(candidates if query_ids is None else query_ids)
    scores: dict[str, dict[str, float]] = {}
    notes = RunNotes()
    for query_id in track(wanted, f"reranking with {name}", total=len(wanted)):
        if query_id not in collection.queries:
            raise UnknownDocument(f"the run names query {query_id!r}, which {collection.name!r} does not have")
        ids = candidates.ranking(query_id)[:depth]
        absent = next((document_id for document_id in ids if document_id not in collection.documents), None)
        if absent is not None:
            raise UnknownDocument(f"the run names document {absent!r}, which {collection.name!r} does not have")
        found = ranker.score(collection.queries[query_id], [collection.documents[i] for i in ids])
        scores[query_id] = dict(zip(ids, found.values, strict=True))
        notes += found.notes
    return Run(name, scores, notes)
