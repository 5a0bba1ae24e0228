"""A ranker and a candidate run give a new run."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from longrank.core.contracts import Ranker
from longrank.core.errors import BadScore, LongrankError, ModelError, UnknownDocument
from longrank.core.progress import track
from longrank.core.types import Collection, Document, Query, Run, RunNotes, Scores


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
        documents = _candidates(candidates, collection, query_id, depth)
        found = _scored(ranker, collection.queries[query_id], documents, name)
        scores[query_id] = dict(zip((document.id for document in documents), found.values, strict=True))
        notes += found.notes
    return Run(name, scores, notes)


class Estimate(NamedTuple):
    """How long a rerank will take, from a timed sample."""

    queries: int
    documents: int
    seconds: float

    def __str__(self) -> str:
        """The time in its two largest units.

        >>> str(Estimate(50, 5000, 4000.0))
        '50 queries, 5,000 documents: about 1 h 6 min'
        """
        minutes, seconds = divmod(round(self.seconds), 60)
        hours, minutes_left = divmod(minutes, 60)
        length = (
            f"{hours} h {minutes_left} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        )
        return f"{self.queries:,} queries, {self.documents:,} documents: about {length}"


def estimate(
    ranker: Ranker,
    candidates: Run,
    collection: Collection,
    *,
    depth: int = 100,
    query_ids: Iterable[str] | None = None,
    sample: int = 12,
    name: str = "longrank",
) -> Estimate:
    """Time that ``rerank`` will take, from candidates spread evenly over all queries, after one to warm up."""
    wanted = list(candidates if query_ids is None else query_ids)
    counts = [min(depth, len(candidates.scores.get(query_id, {}))) for query_id in wanted]
    total = sum(counts)
    if not total:
        return Estimate(len(wanted), 0, 0.0)
    pairs = [(query_id, rank) for query_id, count in zip(wanted, counts, strict=True) for rank in range(count)]
    chosen = [pairs[i * total // min(sample, total)] for i in range(min(sample, total))]
    work = [(q, _candidates(candidates, collection, q, depth)[rank]) for q, rank in chosen]
    _scored(ranker, collection.queries[work[0][0]], [work[0][1]], name)
    began = time.perf_counter()
    for query_id, document in work:
        _scored(ranker, collection.queries[query_id], [document], name)
    return Estimate(len(wanted), total, (time.perf_counter() - began) / len(work) * total)


def _scored(ranker: Ranker, query: Query, documents: list[Document], name: str) -> Scores:
    try:
        found = ranker.score(query, documents)
    except LongrankError:
        raise
    except Exception as error:  # anyone's code may raise anything
        said = f"{type(error).__name__}: {error}"
        raise ModelError(f"ranker {name!r} failed at query {query.id!r} with {said}; --debug shows where") from error
    if len(found.values) != len(documents):
        raise BadScore(
            f"ranker {name!r} gave {len(found.values)} scores for the {len(documents)} documents of query {query.id!r}"
        )
    try:
        return found._replace(values=[float(value) for value in found.values])
    except (TypeError, ValueError):
        raise BadScore(f"ranker {name!r} gave a score that is no number for query {query.id!r}") from None


def _candidates(candidates: Run, collection: Collection, query_id: str, depth: int) -> list[Document]:
    if query_id not in collection.queries:
        raise UnknownDocument(f"the run names query {query_id!r}, which {collection.name!r} does not have")
    ids = candidates.ranking(query_id)[:depth]
    absent = next((document_id for document_id in ids if document_id not in collection.documents), None)
    if absent is not None:
        raise UnknownDocument(f"the run names document {absent!r}, which {collection.name!r} does not have")
    return [collection.documents[document_id] for document_id in ids]
