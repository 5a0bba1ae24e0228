"""BM25 and embeddings together: candidates of one or both, every candidate scored by both."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from pydantic import Field

from longrank.core.settings import Settings
from longrank.core.types import Query, Run
from longrank.retrieval.bm25 import BM25
from longrank.retrieval.fusion import WEIGHTS, linear, pool
from longrank.retrieval.tuning import Objective, Tuned, grid_search


class HybridSettings(Settings):
    """Which documents are scored, and how the two scores are weighed."""

    bm25_weight: float = Field(0.5, ge=0, le=1)
    candidates: Literal["union", "dense", "bm25"] = "union"
    pool_depth: int = Field(1000, ge=1)  # taken from each retriever before fusion


class Rescoring(Protocol):
    """A retriever that can also score given candidates."""

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        """The best documents of each query."""
        ...

    def rescore(self, queries: Iterable[Query], candidates: Run) -> Run:
        """Scores of another run's documents."""
        ...


class Hybrid:
    """Retriever: weight x BM25 / sum of query idf + (1 - weight) x cosine, after the MS MARCO v2 set-up of the papers.

    Divided by the idf of its query, a BM25 score lies between 0 and 1, so the weight means the same for every query.
    """

    def __init__(self, bm25: BM25, dense: Rescoring, settings: HybridSettings | None = None) -> None:
        self.bm25, self.dense = bm25, dense
        self.settings = settings or HybridSettings()

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        """At most ``depth`` documents a query, best first; equal scores by id falling."""
        return self._mix(self._parts(list(queries)), self.settings.bm25_weight).top(depth)

    def tuned(
        self, queries: Sequence[Query], objective: Objective, *, depth: int = 100, weights: Sequence[float] = WEIGHTS
    ) -> tuple["Hybrid", Tuned[float]]:
        """This retriever with the weight that makes the objective of the queries' run largest, and the trials."""
        parts = self._parts(queries)
        found = grid_search(weights, lambda weight: objective(self._mix(parts, weight).top(depth)))
        settings = self.settings.model_copy(update={"bm25_weight": found.best})
        return Hybrid(self.bm25, self.dense, settings), found

    def _parts(self, queries: Sequence[Query]) -> tuple[Run, Run]:
        """BM25 and cosine of the same candidates."""
        depth, chosen = self.settings.pool_depth, self.settings.candidates
        sources: list[Rescoring] = [self.bm25] if chosen == "bm25" else [self.dense]
        sources = [self.bm25, self.dense] if chosen == "union" else sources
        candidates = pool([source.retrieve(queries, depth=depth) for source in sources], depth=depth)
        lexical = self.bm25.rescore(queries, candidates)
        scale = {query.id: self.bm25.query_idf(query) for query in queries}
        rows = {q: {d: s / scale[q] if scale[q] else 0.0 for d, s in row.items()} for q, row in lexical.scores.items()}
        return Run("bm25", rows, candidates.notes), self.dense.rescore(queries, candidates)

    def _mix(self, parts: tuple[Run, Run], weight: float) -> Run:
        return linear(parts, [weight, 1 - weight], normalisation="none", name="hybrid")
