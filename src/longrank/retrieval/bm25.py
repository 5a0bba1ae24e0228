"""BM25 with Lucene's idf over an index in the layout of bm25s: scores made at build time, summed at query time."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import SettingsError, StaleIndex
from longrank.core.types import Document, Query, Run, RunNotes
from longrank.retrieval import kernel
from longrank.retrieval.analysis import Analyzer
from longrank.retrieval.ids import documents_fingerprint
from longrank.retrieval.index import (
    BM25Settings,
    Floats,
    Ints,
    Postings,
    build_postings,
    length_norm,
    open_postings,
)

if TYPE_CHECKING:
    import bm25s

__all__ = ["BM25", "BM25Settings"]

Weights = Mapping[int, float]


class BM25:
    """Retriever: a document's score is the sum over query terms of count x idf x tf / (tf + k1 (1 - b + b |D| / mean)).

    Only documents that share a term with the query are returned, and those have scores above zero. A query that
    shares no term with any document gets an empty row and is listed in the run's dropped queries.

    >>> from tempfile import TemporaryDirectory
    >>> documents = [Document("a", "red fox"), Document("b", "red red hen"), Document("c", "a pond")]
    >>> with TemporaryDirectory() as folder:
    ...     index = BM25.build(documents, Path(folder) / "index", BM25Settings())
    ...     index.retrieve([Query("q", "red hen")], depth=10).ranking("q")
    ['b', 'a']
    """

    def __init__(self, postings: Postings, *, k1: float | None = None, b: float | None = None) -> None:
        stored = postings.settings
        self.postings = postings
        self.k1 = stored.k1 if k1 is None else k1
        self.b = stored.b if b is None else b
        if not (0 <= self.k1 < math.inf and 0 <= self.b <= 1):  # written so that NaN is refused too
            raise SettingsError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, got k1 = {self.k1} and b = {self.b}")
        self._as_stored = (self.k1, self.b) == (stored.k1, stored.b)

    @classmethod
    def build(cls, documents: Iterable[Document], folder: Path, settings: BM25Settings | None = None) -> "BM25":
        """The index of the documents, written to ``folder`` whole or not at all."""
        return cls(build_postings(documents, folder, settings or BM25Settings()))

    @classmethod
    def open(cls, folder: Path, *, documents: Iterable[Document] | None = None) -> "BM25":
        """The index in a folder; given documents, it is refused unless it was made from exactly these."""
        postings = open_postings(folder)
        if documents is not None and documents_fingerprint(documents) != postings.documents:
            raise StaleIndex(f"the index in {folder} was made from other documents: remove it and build again")
        return cls(postings)

    def suited(self, settings: BM25Settings) -> "BM25":
        """The same index with the settings' k1 and b; refused if it was built to read documents otherwise."""
        if self.postings.settings.model_copy(update={"k1": settings.k1, "b": settings.b}) != settings:
            folder = self.postings.folder
            raise StaleIndex(f"the index in {folder} was made with other settings: remove it and build again")
        return self.at(k1=settings.k1, b=settings.b)

    def at(self, *, k1: float, b: float) -> "BM25":
        """The same index scored with other parameters; nothing is rebuilt."""
        return BM25(self.postings, k1=k1, b=b)

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        """At most ``depth`` documents a query, best first; equal scores by id falling."""
        return self.retrieve_weighted({query.id: self.weights(query) for query in queries}, depth=depth)

    def retrieve_weighted(self, weights: Mapping[str, Weights], *, depth: int, name: str = "bm25") -> Run:
        """The run of queries given as term number -> weight."""
        ids, rows = self.postings.ids.by_rank, {}
        for query_id, found in zip(weights, self.search(list(weights.values()), depth=depth), strict=True):
            names = ids[kernel.key_ranks(found)].tolist()
            rows[query_id] = dict(zip(names, kernel.key_scores(found).tolist(), strict=True))
        return Run(name, rows, RunNotes(dropped_queries=tuple(q for q, row in rows.items() if not row)))

    def search(self, weights: Sequence[Weights], *, depth: int) -> list[kernel.Keys]:
        """Keys (score and id rank, see ``kernel``) of each query's best documents with a score above zero."""
        if depth < 1:
            raise SettingsError(f"depth must be at least 1, got {depth}")
        postings, ranks = self.postings, self.postings.ids.ranks
        depth = min(depth, max(len(ranks), 1))
        if self._as_stored and len(weights) * len(ranks) >= kernel.COMPILE_FROM:
            arrays = (postings.starts, postings.rows, postings.scores)
            found = kernel.rank_batch(_batch(weights), arrays, ranks, depth)
            if found is not None:
                return found
        return [kernel.best(self.scores(row), ranks, depth) for row in weights]

    def rescore(self, queries: Iterable[Query], candidates: Run) -> Run:
        """BM25 scores of another run's documents; one that shares no term with its query gets 0."""
        rows = {}
        for query in queries:
            scores = self.scores(self.weights(query))[self.postings.ids.rows(candidates, query.id)]
            rows[query.id] = dict(zip(candidates.scores.get(query.id, {}), scores.tolist(), strict=True))
        return Run("bm25", rows)

    def terms(self, query: Query) -> list[str]:
        """The query's terms in order, those that no document has included."""
        return self._analyzer.terms(query.text)

    def weights(self, query: Query) -> dict[int, float]:
        """Term number -> how often the query has it; terms that no document has are left out."""
        vocabulary = self.postings.vocabulary
        counts = Counter(vocabulary[term] for term in self.terms(query) if term in vocabulary)
        return {term: float(count) for term, count in counts.items()}

    def query_idf(self, query: Query) -> float:
        """Sum of the idf of the query's terms, an upper bound of its scores; 0 if no document has any of them."""
        return float(sum(count * self.postings.idf[term] for term, count in self.weights(query).items()))

    def scores(self, weights: Weights) -> Floats:
        """The score of every document, by row."""
        total = np.zeros(len(self.postings.lengths), dtype=np.float32)
        for term, weight in weights.items():
            rows, impacts = self._impacts(term)
            # a term names a document once, so no addition is lost
            total[rows] += impacts if weight == 1.0 else impacts * np.float32(weight)
        return total

    def as_bm25s(self) -> "bm25s.BM25":
        """The index as an object of the bm25s package, memory-mapped."""
        import bm25s

        return bm25s.BM25.load(self.postings.folder, mmap=True)

    def _impacts(self, term: int) -> tuple[Ints, Floats]:
        postings = self.postings
        part = slice(postings.starts[term], postings.starts[term + 1])
        rows = postings.rows[part]
        if self._as_stored:
            return rows, postings.scores[part]
        counts = postings.counts[part].astype(np.float64)
        return rows, (postings.idf[term] * counts / (counts + self._norm[rows])).astype(np.float32)

    @cached_property
    def _norm(self) -> NDArray[np.float64]:
        return length_norm(self.postings.lengths, self.postings.mean_length, k1=self.k1, b=self.b)

    @cached_property
    def _analyzer(self) -> Analyzer:
        return Analyzer(self.postings.settings.analysis)


def _batch(weights: Sequence[Weights]) -> kernel.Batch:
    starts = np.zeros(len(weights) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in weights], out=starts[1:])
    return kernel.Batch(
        starts,
        np.fromiter((term for row in weights for term in row), dtype=np.int64, count=int(starts[-1])),
        np.fromiter((weight for row in weights for weight in row.values()), dtype=np.float32, count=int(starts[-1])),
    )
