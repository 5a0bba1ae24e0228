"""RM3: the query is widened by the terms of its own best documents, and the whole collection is searched again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from longrank.core.settings import Settings
from longrank.core.types import Query, Run
from longrank.retrieval import kernel
from longrank.retrieval.bm25 import BM25


class RM3Settings(Settings):
    """How much feedback is taken, and how far it is trusted."""

    documents: int = Field(10, ge=1)
    terms: int = Field(10, ge=1)
    original_weight: float = Field(0.5, ge=0, le=1)
    # terms of more than this share of all documents say little and cost much
    max_share: float = Field(0.1, gt=0, le=1)
    # in a collection so small that the share is less than this, terms of so many documents may be added
    least_documents: int = Field(10, ge=0)


class WeightedTerm(NamedTuple):
    """A term of the widened query; ``original`` is the part of its weight that the query itself gave."""

    term: str
    weight: float
    original: float


@dataclass(frozen=True)
class Expansion:
    """What a query became."""

    query_id: str
    terms: tuple[WeightedTerm, ...]  # weight falling, then by term


class RM3:
    """Retriever: BM25 over the query mixed with a relevance model of its best documents (Abdul-Jaleel et al. 2004).

    A feedback document counts by its share of the feedback scores, a term in it by tf / |D|; the sums are cut to the
    best ``terms`` and made to add up to one, as the query's own counts are. The mix is
    ``original_weight`` x query + (1 - ``original_weight``) x feedback. A query that finds nothing stays as it is.
    """

    def __init__(self, index: BM25, settings: RM3Settings | None = None) -> None:
        self.index = index
        self.settings = settings or RM3Settings()

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        """At most ``depth`` documents a query, best first; equal scores by id falling."""
        queries = list(queries)
        mixed = [_mix(own, added) for own, added in self._models(queries)]
        weights = {query.id: row for query, row in zip(queries, mixed, strict=True)}
        return self.index.retrieve_weighted(weights, depth=depth, name="bm25+rm3")

    def explain(self, queries: Iterable[Query]) -> list[Expansion]:
        """The terms and weights with which each query is searched."""
        queries, names = list(queries), self.index.postings.terms
        result = []
        for query, (own, added) in zip(queries, self._models(queries), strict=True):
            terms = [WeightedTerm(names[t], w, own.get(t, 0.0)) for t, w in _mix(own, added).items()]
            result.append(Expansion(query.id, tuple(sorted(terms, key=lambda term: (-term.weight, term.term)))))
        return result

    def _models(self, queries: Sequence[Query]) -> list[tuple[dict[int, float], dict[int, float]]]:
        """Each query's own term weights and those of its feedback, both already scaled to their part of the mix."""
        counts = [self.index.weights(query) for query in queries]
        found = self.index.search(counts, depth=self.settings.documents)
        share = self.settings.original_weight
        models = []
        for row, best in zip(counts, found, strict=True):
            added = self._feedback(best) if share < 1 else {}
            own_share = share if added else 1.0
            total = sum(row.values())
            own = {term: own_share * count / total for term, count in row.items()}
            models.append((own, {term: (1 - share) * weight for term, weight in added.items()}))
        return models

    def _feedback(self, best: kernel.Keys) -> dict[int, float]:
        """The relevance model of the documents behind these keys: term number -> probability."""
        postings = self.index.postings
        rows = postings.ids.row_by_rank[kernel.key_ranks(best)]
        if not len(rows):
            return {}
        scores = kernel.key_scores(best).astype(np.float64)
        starts, stops = postings.forward_starts[rows], postings.forward_starts[rows + 1]
        places = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
        document_weights = np.repeat(scores / scores.sum() / postings.lengths[rows], stops - starts)
        terms, inverse = np.unique(postings.forward_terms[places], return_inverse=True)
        weights: NDArray[np.float64]
        weights = np.bincount(inverse, document_weights * postings.forward_counts[places]).astype(np.float64)
        frequencies = postings.starts[terms + 1] - postings.starts[terms]
        common = max(self.settings.least_documents, self.settings.max_share * len(postings.lengths))
        weights[frequencies > common] = 0.0
        return _largest(terms, weights, self.settings.terms)


def _largest(terms: NDArray[np.int32], weights: NDArray[np.float64], count: int) -> dict[int, float]:
    """The ``count`` heaviest terms, scaled to sum to one; equal weights by term number."""
    order = np.lexsort((terms, -weights))[:count]
    order = order[weights[order] > 0]
    total = weights[order].sum()
    return dict(zip(terms[order].tolist(), (weights[order] / total).tolist(), strict=True)) if total else {}


def _mix(own: dict[int, float], added: dict[int, float]) -> dict[int, float]:
    mixed = {term: own.get(term, 0.0) + added.get(term, 0.0) for term in own | added}
    return {term: weight for term, weight in mixed.items() if weight > 0}
