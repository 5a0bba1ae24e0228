"""Approximate search over a dense index with faiss (extra ``ann``), and how much of the exact result it finds."""

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from longrank.core.disk import atomic_file
from longrank.core.errors import DataError, MissingExtra
from longrank.core.settings import Settings
from longrank.core.types import Query, Run
from longrank.retrieval import kernel
from longrank.retrieval.dense import BLOCK_ROWS, Dense, Floats

GRAPH = "hnsw.faiss"


class HNSWSettings(Settings):
    """Size of the graph, and effort at building and at searching."""

    neighbours: int = Field(16, ge=2)
    build_effort: int = Field(100, ge=1)
    search_effort: int = Field(100, ge=1)


class Approximate:
    """Retriever: the documents of a dense index found through a graph of near neighbours (HNSW, inner product)."""

    def __init__(self, dense: Dense, graph: Any, settings: HNSWSettings) -> None:
        self.dense, self.settings = dense, settings
        self._graph = graph

    @classmethod
    def build(cls, dense: Dense, settings: HNSWSettings | None = None) -> "Approximate":
        """The graph over an index's vectors, stored beside them."""
        faiss, settings = _faiss(), settings or HNSWSettings()
        graph = faiss.IndexHNSWFlat(dense.vectors.shape[1], settings.neighbours, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = settings.build_effort
        for start in range(0, len(dense.vectors), BLOCK_ROWS):
            graph.add(np.ascontiguousarray(dense.vectors[start : start + BLOCK_ROWS], dtype=np.float32))
        with atomic_file(dense.folder / GRAPH) as temporary:
            faiss.write_index(graph, str(temporary))
        return cls(dense, graph, settings)

    @classmethod
    def open(cls, dense: Dense, settings: HNSWSettings | None = None) -> "Approximate":
        """The graph stored beside an index."""
        path: Path = dense.folder / GRAPH
        if not path.is_file():
            raise DataError(f"{dense.folder} holds no graph {GRAPH}: build it first")
        graph = _faiss().read_index(str(path))
        if graph.ntotal != len(dense.vectors):
            raise DataError(f"{path} has {graph.ntotal} vectors, the index {len(dense.vectors)}: build it again")
        return cls(dense, graph, settings or HNSWSettings())

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        """About the ``depth`` nearest documents of each query, best first; equal scores by id falling."""
        queries = list(queries)
        found = self.search(self.dense.query_vectors(queries), depth=depth)
        return Run("dense-hnsw", dict(zip((query.id for query in queries), self.dense.rows(found), strict=True)))

    def rescore(self, queries: Iterable[Query], candidates: Run) -> Run:
        """Similarities of another run's documents, which are exact."""
        return self.dense.rescore(queries, candidates)

    def search(self, vectors: Floats, *, depth: int) -> list[kernel.Keys]:
        """Keys (score and id rank, see ``kernel``) of near documents of each query vector."""
        total, documents = len(self.dense.vectors), len(self.dense.ids)
        if not total or not len(vectors):
            return [np.zeros(0, dtype=np.int64) for _ in vectors]
        # several vectors may belong to one document: ask for as many more as a document has on average
        wanted = min(total, -(-depth * total // documents))
        self._graph.hnsw.efSearch = max(self.settings.search_effort, wanted)
        scores, places = self._graph.search(np.ascontiguousarray(vectors, dtype=np.float32), wanted)
        if total == documents:  # one vector a document: nothing to group
            values = kernel.keys(scores, self.dense.ids.ranks[places])
            values[places < 0] = np.iinfo(np.int64).min  # faiss found fewer
            values = np.sort(values, axis=1)[:, ::-1]
            return [row[:count] for row, count in zip(values, (places >= 0).sum(axis=1), strict=True)]
        return [self._documents(*row, depth) for row in zip(scores, places, strict=True)]

    def recall(self, queries: Sequence[Query], *, depth: int) -> float:
        """Share of the exact search's documents that are found, the mean over these queries."""
        vectors = self.dense.query_vectors(queries)
        near, exact = self.search(vectors, depth=depth), self.dense.search(vectors, depth=depth)
        shares = [
            len(np.intersect1d(kernel.key_ranks(a), kernel.key_ranks(b))) / max(len(b), 1)
            for a, b in zip(near, exact, strict=True)
        ]
        return float(np.mean(shares)) if shares else 1.0

    def _documents(self, scores: Floats, places: Any, depth: int) -> kernel.Keys:
        """Keys of the vectors' documents, each with its best vector."""
        real = places >= 0
        owners = self.dense.owners[places[real]]
        order = np.lexsort((-scores[real], owners))
        rows, firsts = np.unique(owners[order], return_index=True)
        best = np.ascontiguousarray(scores[real][order][firsts], dtype=np.float32)
        return kernel.largest(kernel.keys(best, self.dense.ids.ranks[rows]), depth)


def _faiss() -> Any:
    try:
        return importlib.import_module("faiss")
    except ImportError:
        raise MissingExtra("faiss-cpu", "ann", purpose="approximate search") from None
