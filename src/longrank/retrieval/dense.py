"""Retrieval by embeddings: vectors of documents or their chunks on disk, searched exactly."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from longrank.core.disk import atomic_folder
from longrank.core.errors import DataError, ModelError, SettingsError, StaleIndex
from longrank.core.progress import track
from longrank.core.settings import Settings, parse_settings
from longrank.core.types import Document, Query, Run
from longrank.retrieval import kernel
from longrank.retrieval.ids import DocumentIds, DocumentsHash, documents_fingerprint, mapped, read_ids, write_ids

Floats = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Floats]  # texts -> [texts, dim]
Chunk = Callable[[str], Sequence[str]]  # one text -> the texts that are embedded for it

FORMAT = 1
META, VECTORS, STARTS = "longrank.json", "vectors.raw", "starts.npy"
BLOCK_ROWS = 1 << 15  # vectors multiplied at once
QUERY_BATCH = 128


class DenseSettings(Settings):
    """How a document becomes vectors; ``model`` names the embedder, so that two indexes are not mixed up."""

    model: str = ""
    # max: best chunk; mean: average over chunks; first: the first chunk alone
    pooling: Literal["max", "mean", "first"] = "max"
    dtype: Literal["float32", "float16"] = "float32"
    batch_texts: int = Field(256, ge=1)


class EncoderSettings(Settings):
    """Which model embeds, and how long documents are cut for it."""

    model: str | None = None  # folder or hub id of a transformers model; None: MiniLM from its wheel
    token_pooling: Literal["mean", "cls", "last"] = "mean"
    chunk_tokens: int = Field(200, ge=1)
    title: bool = False  # put before the text


def whole(text: str) -> Sequence[str]:
    """The text as its own only chunk."""
    return (text,)


@dataclass(frozen=True, eq=False)
class Dense:
    """Retriever: cosine of the query with a document's best chunk, with all its chunks on average, or with its first.

    Every document has a score, so every query gets ``depth`` documents if there are as many.
    """

    folder: Path
    settings: DenseSettings
    documents: str  # fingerprint of the documents
    embed: Embed
    ids: DocumentIds
    vectors: NDArray[np.float32] | NDArray[np.float16]  # [vectors, dim], document by document
    starts: NDArray[np.int64]  # [documents + 1], where each document's vectors begin

    @classmethod
    def build(
        cls,
        documents: Iterable[Document],
        folder: Path,
        embed: Embed,
        *,
        chunk: Chunk = whole,
        settings: DenseSettings | None = None,
    ) -> "Dense":
        """The vectors of the documents, written to ``folder`` whole or not at all; documents are read once."""
        settings = settings or DenseSettings()
        with atomic_folder(folder, mark=META, what="an index of embeddings") as temporary:
            _write(temporary, documents, embed, chunk, settings)
        return cls.open(folder, embed)

    @classmethod
    def open(
        cls, folder: Path, embed: Embed, *, model: str | None = None, documents: Iterable[Document] | None = None
    ) -> "Dense":
        """The vectors in a folder, memory-mapped; refused if made by another model or from other documents."""
        try:
            meta = json.loads((folder / META).read_text(encoding="utf-8"))
            ids, starts = read_ids(folder), mapped(folder / STARTS)
        except (OSError, ValueError) as error:
            raise DataError(f"{folder} holds no readable dense index ({error}): build it again") from None
        if meta.get("format") != FORMAT or "dim" not in meta:
            raise DataError(f"{folder} holds another kind or version of index: build it again")
        settings = parse_settings(DenseSettings, meta["settings"], source=str(folder / META))
        if model is not None and model != settings.model:
            raise StaleIndex(f"the vectors in {folder} were made by {settings.model!r}, not {model!r}: build again")
        if documents is not None and documents_fingerprint(documents) != meta["documents"]:
            raise StaleIndex(f"the vectors in {folder} were made from other documents: remove it and build again")
        shape = (int(starts[-1]), int(meta["dim"]))
        path, dtype = folder / VECTORS, np.dtype(settings.dtype)
        if path.stat().st_size != shape[0] * shape[1] * dtype.itemsize:
            raise DataError(f"{path} is damaged: it should hold {shape[0]} vectors of {shape[1]} numbers")
        vectors = np.memmap(path, dtype=dtype, mode="r", shape=shape) if shape[0] else np.zeros(shape, dtype)
        return cls(folder, settings, meta["documents"], embed, ids, np.asarray(vectors), starts)

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        """The ``depth`` nearest documents of each query, best first; equal scores by id falling."""
        if depth < 1:
            raise SettingsError(f"depth must be at least 1, got {depth}")
        queries = list(queries)
        rows: dict[str, dict[str, float]] = {}
        for start in range(0, len(queries), QUERY_BATCH):
            batch = queries[start : start + QUERY_BATCH]
            found = self.search(self.query_vectors(batch), depth=depth)
            rows.update(zip((query.id for query in batch), self.rows(found), strict=True))
        return Run("dense", rows)

    def search(self, vectors: Floats, *, depth: int) -> kernel.Keys:
        """Keys (score and id rank, see ``kernel``) of the nearest documents [queries, depth], best first, by exact
        search; all queries are held together, since one at a time a small index is searched mostly by Python."""
        held: kernel.Keys = np.zeros((len(vectors), 0), dtype=np.int64)
        for first, last in self._blocks():
            similar = self._similarities(vectors, first, last)
            bounds = _reached(similar, depth)
            if held.shape[1] == depth:
                bounds = np.maximum(bounds, kernel.key_scores(held.min(axis=1)))
            held = np.concatenate([held, _keys_from(similar, bounds, self.ids.ranks[first:last])], axis=1)
            if held.shape[1] > depth:
                held = np.partition(held, held.shape[1] - depth, axis=1)[:, held.shape[1] - depth :]
        return np.sort(held, axis=1)[:, ::-1]

    def rescore(self, queries: Iterable[Query], candidates: Run) -> Run:
        """Similarities of another run's documents."""
        queries, rows = list(queries), {}
        vectors = self.query_vectors(queries)
        for query, vector in zip(queries, vectors, strict=True):
            places = np.array(self.ids.rows(candidates, query.id), dtype=np.int64)
            scores = self._scores(vector, places)
            rows[query.id] = dict(zip(candidates.scores.get(query.id, {}), scores.tolist(), strict=True))
        return Run("dense", rows)

    def query_vectors(self, queries: Sequence[Query]) -> Floats:
        """Unit vectors of the queries."""
        if not queries:
            return np.zeros((0, self.vectors.shape[1]), dtype=np.float32)
        vectors = unit(self.embed([query.text for query in queries]), len(queries))
        if len(self.vectors) and vectors.shape[1] != self.vectors.shape[1]:
            raise ModelError(
                f"the embedder gives {vectors.shape[1]} numbers a text, the index in {self.folder} holds "
                f"{self.vectors.shape[1]}: use the model it was built with"
            )
        return vectors

    def rows(self, found: Sequence[kernel.Keys] | kernel.Keys) -> list[dict[str, float]]:
        """Document ids and scores behind the keys of each query."""
        if not len(found):
            return []
        ends = np.cumsum([len(best) for best in found])[:-1]  # all at once: single rows cost more than their content
        keys = np.concatenate(found)
        names, scores = self.ids.by_rank[kernel.key_ranks(keys)].tolist(), kernel.key_scores(keys).tolist()
        bounds = [0, *ends.tolist(), len(keys)]
        return [dict(zip(names[a:b], scores[a:b], strict=True)) for a, b in pairwise(bounds)]

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The document of each vector."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.starts))

    def _blocks(self) -> Iterator[tuple[int, int]]:
        first = 0
        while first < len(self.ids):
            last = int(np.searchsorted(self.starts, self.starts[first] + BLOCK_ROWS, side="right")) - 1
            last = max(last, first + 1)
            yield first, last
            first = last

    def _similarities(self, vectors: Floats, first: int, last: int) -> Floats:
        """[queries, documents] of a block of documents."""
        begin, end = self.starts[first], self.starts[last]
        similar: Floats = vectors @ self.vectors[begin:end].astype(np.float32, copy=False).T
        if end - begin == last - first:
            return similar
        pooled: Floats = np.maximum.reduceat(similar, self.starts[first:last] - begin, axis=1)
        return pooled

    def _scores(self, vector: Floats, rows: NDArray[np.int64]) -> Floats:
        """Similarities of one query vector with the documents in these rows."""
        if not len(rows):
            return np.zeros(0, dtype=np.float32)
        widths = self.starts[rows + 1] - self.starts[rows]
        places = np.concatenate([np.arange(self.starts[row], self.starts[row + 1]) for row in rows])
        similar = self.vectors[places].astype(np.float32, copy=False) @ vector
        scores: Floats = np.maximum.reduceat(similar, np.cumsum(widths) - widths)
        return scores


def unit(vectors: Floats, texts: int) -> Floats:
    """The vectors scaled to length one, zero left as it is; shape and numbers are checked."""
    vectors = np.asarray(vectors, dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != texts:
        raise ModelError(f"the embedder gave an array of shape {vectors.shape} for {texts} texts, not [{texts}, dim]")
    if not np.isfinite(vectors).all():
        raise ModelError("the embedder gave numbers that are not finite")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _write(folder: Path, documents: Iterable[Document], embed: Embed, chunk: Chunk, settings: DenseSettings) -> None:
    digest, ids, widths, dim = DocumentsHash(), list[str](), list[int](), 0
    with (folder / VECTORS).open("wb") as stream:
        for batch in _batches(track(documents, "embedding documents"), chunk, settings):
            vectors = unit(embed([text for _, texts in batch for text in texts]), sum(len(t) for _, t in batch))
            sizes = [len(texts) for _, texts in batch]
            if settings.pooling == "mean":
                vectors, sizes = _means(vectors, np.array(sizes, dtype=np.int64)), [1] * len(batch)
            if dim not in (0, vectors.shape[1]):
                raise ModelError(f"the embedder gave {dim} numbers a text, and then {vectors.shape[1]}")
            dim = vectors.shape[1]
            vectors.astype(settings.dtype).tofile(stream)
            widths.extend(sizes)
            for document, _ in batch:
                digest.add(document)
                ids.append(document.id)
    write_ids(folder, ids)
    np.save(folder / STARTS, np.concatenate([[0], np.cumsum(widths, dtype=np.int64)]).astype(np.int64))
    meta = {"format": FORMAT, "dim": dim, "settings": settings.model_dump(), "documents": digest.hexdigest()}
    (folder / META).write_text(json.dumps(meta, indent=2), encoding="utf-8")


def _keys_from(scores: Floats, bounds: Floats, ranks: NDArray[np.int32]) -> kernel.Keys:
    """Keys of the scores that reach their row's bound, as a table; shorter rows are filled with keys below all."""
    flat = np.flatnonzero(scores >= bounds[:, None])
    rows, columns = np.divmod(flat, scores.shape[1])
    counts = np.bincount(rows, minlength=len(scores))
    table = np.full((len(scores), int(counts.max(initial=0))), np.iinfo(np.int64).min)
    places = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[rows, places] = kernel.keys(scores.ravel()[flat], ranks[columns])
    return table


def _reached(scores: Floats, depth: int) -> Floats:
    """For each row a score that at least ``depth`` of its scores reach, and not many more; minus infinity if all do.

    The columns are laid over one another in strips, and only the largest of each pile are partitioned: as many piles
    as ``depth`` hold at least as many scores.
    """
    columns = scores.shape[1]
    strips = max(1, min(16, columns // (4 * depth)))
    width = columns // strips
    if width <= depth:
        return np.full(len(scores), -np.inf, dtype=np.float32)
    tops: Floats = scores[:, :width].copy()
    for start in range(width, strips * width, width):
        np.maximum(tops, scores[:, start : start + width], out=tops)
    tops.partition(width - depth, axis=1)
    return tops[:, width - depth]


def _means(vectors: Floats, sizes: NDArray[np.int64]) -> Floats:
    """The mean of each group of rows that lie together."""
    sums: Floats = np.add.reduceat(vectors, np.cumsum(sizes) - sizes, axis=0)
    return (sums / sizes[:, None]).astype(np.float32)


def _batches(
    documents: Iterable[Document], chunk: Chunk, settings: DenseSettings
) -> Iterator[list[tuple[Document, Sequence[str]]]]:
    """Documents with their chunks, about ``batch_texts`` chunks at a time."""
    batch: list[tuple[Document, Sequence[str]]] = []
    size = 0
    for document in documents:
        texts = chunk(document.text) or ("",)
        batch.append((document, texts[:1] if settings.pooling == "first" else texts))
        size += len(batch[-1][1])
        if size >= settings.batch_texts:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
