"""How query and chunk meet in the model's input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from longrank.chunking.splitters import positive
from longrank.core.types import IntArray, SplitText, TokenizedText
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Encoded, Row, Specials
from longrank.rankers.states import ChunkStates, TokenStates


class Layout(Protocol):
    """Rows for a query and its split documents, and the way back from encoded rows to states."""

    @property
    def query_tokens(self) -> int:
        """Room for the query in a row."""
        ...

    def unread(self, query: TokenizedText) -> int:
        """Tokens of the query that are cropped."""
        ...

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """Every row that must be encoded."""
        ...

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """States of the documents from their encoded rows."""
        ...


class Place(NamedTuple):
    """Tokens that lie side by side in packed states."""

    start: int
    ids: IntArray


@dataclass(frozen=True)
class Joint:
    """One row a chunk: [CLS] query [SEP] chunk [SEP], the query cropped to ``query_tokens``."""

    query_tokens: int = 32

    def unread(self, query: TokenizedText) -> int:
        """Tokens of the query that are cropped."""
        return max(0, len(query) - self.query_tokens)

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """One row for each span of each document, documents one after another."""
        asked = query.ids[: self.query_tokens]
        return [framed_row(backbone.specials, asked, chunk) for document in documents for chunk in chunk_ids(document)]

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """Pooled rows as chunks; token states of chunk and query where they were encoded."""
        chunks, chunk_mask, sizes = stack_chunks(encoded.pooled, documents)
        if encoded.tokens is None:
            return ChunkStates(chunks, chunk_mask, sizes=sizes)
        asked = query.ids[: self.query_tokens]
        begin = int(specials.cls is not None)
        before = begin + len(asked) + (specials.sep is not None)
        starts = iter(encoded.starts)
        found = [[Place(next(starts), ids) for ids in chunk_ids(document)] for document in documents]
        tokens = token_states(encoded.tokens, [[Place(p.start + before, p.ids) for p in places] for places in found])
        return ChunkStates(
            chunks,
            chunk_mask,
            tokens,
            query_states(encoded.tokens, [Place(places[0].start + begin, asked) for places in found]),
            sizes,
        )


@dataclass(frozen=True)
class Separate:
    """The query in a row of its own, [CLS] [SEP] query [SEP], and every chunk in another: they meet later."""

    query_tokens: int = 32

    def unread(self, query: TokenizedText) -> int:
        """Tokens of the query that are cropped."""
        return max(0, len(query) - self.query_tokens)

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """The query's row, then one for each span of each document."""
        nothing = query.ids[:0]
        asked = framed_row(backbone.specials, nothing, query.ids[: self.query_tokens])
        alone = Row(asked.ids, np.zeros_like(asked.types), asked.global_tokens)
        chunks = [framed_row(backbone.specials, nothing, ids) for document in documents for ids in chunk_ids(document)]
        return [alone, *chunks]

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """Pooled chunk rows; token states of chunks, and of the query, the same for all documents."""
        chunks, chunk_mask, sizes = stack_chunks(encoded.pooled[1:], documents)
        if encoded.tokens is None:
            return ChunkStates(chunks, chunk_mask, sizes=sizes)
        before = (specials.cls is not None) + (specials.sep is not None)
        starts = iter(encoded.starts[1:])
        places = [[Place(next(starts) + before, ids) for ids in chunk_ids(document)] for document in documents]
        asked = Place(before, query.ids[: self.query_tokens])
        return ChunkStates(
            chunks,
            chunk_mask,
            token_states(encoded.tokens, places),
            query_states(encoded.tokens, [asked] * len(documents)),
            sizes,
        )


@dataclass(frozen=True)
class Uncontextual:
    """Token ids alone, for aggregators with word vectors of their own: one row is encoded, and not read."""

    query_tokens: int = 32

    def unread(self, query: TokenizedText) -> int:
        """Tokens of the query that are cropped."""
        return max(0, len(query) - self.query_tokens)

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """A single short row, whatever the documents."""
        return [framed_row(backbone.specials, query.ids[:0], query.ids[:0])]

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """Ids of chunk and query; the chunk vectors are zeros."""
        count = sum(len(document.spans) for document in documents)
        chunks, chunk_mask, sizes = stack_chunks(torch.zeros_like(encoded.pooled[:1]).expand(count, -1), documents)
        none = encoded.pooled.new_zeros(0, 0, encoded.pooled.shape[-1])
        tokens = token_states(none, [[Place(0, ids) for ids in chunk_ids(document)] for document in documents])
        asked = query_states(none, [Place(0, query.ids[: self.query_tokens])] * len(documents))
        return ChunkStates(chunks, chunk_mask, tokens, asked, sizes)


@dataclass(frozen=True)
class Selected:
    """Another layout over the ``keep`` chunks of each document that share most with the query, in reading order."""

    inner: Layout
    keep: int

    def __post_init__(self) -> None:
        positive(keep=self.keep)

    @property
    def query_tokens(self) -> int:
        """Room for the query in a row."""
        return self.inner.query_tokens

    def unread(self, query: TokenizedText) -> int:
        """Tokens of the query that are cropped."""
        return self.inner.unread(query)

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """Rows of the chosen chunks only."""
        return self.inner.rows(backbone, query, self.choose(query, documents))

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """States of the chosen chunks only."""
        return self.inner.states(encoded, specials, query, self.choose(query, documents))

    def choose(self, query: TokenizedText, documents: Sequence[SplitText]) -> list[SplitText]:
        """The documents with the chosen spans; of equal chunks the earlier is kept."""
        asked = query.ids[: self.query_tokens]
        return [
            SplitText(document.source, tuple(document.spans[i] for i in best_chunks(asked, document, keep=self.keep)))
            for document in documents
        ]


def chosen(layout: Layout, query: TokenizedText, documents: Sequence[SplitText]) -> list[SplitText]:
    """The documents with the spans that are encoded: a layout may choose among them."""
    return layout.choose(query, documents) if isinstance(layout, Selected) else list(documents)


def best_chunks(query: IntArray, document: SplitText, *, keep: int) -> list[int]:
    """Numbers of the ``keep`` chunks with the highest BM25 for the query, rising; a term's weight is counted over
    the chunks of this document alone, so that no other text matters."""
    chunks = chunk_ids(document)
    terms = np.unique(query)
    counts = np.array([[np.count_nonzero(ids == term) for term in terms] for ids in chunks], dtype=np.float64)
    found = (counts > 0).sum(0)
    idf = np.log1p((len(chunks) - found + 0.5) / (found + 0.5))
    sizes = np.array([len(ids) for ids in chunks], dtype=np.float64)
    norm = 1.2 * (0.25 + 0.75 * sizes / max(1.0, float(sizes.mean())))
    scores = (idf * counts / (counts + norm[:, None] + 1e-9)).sum(1)
    return sorted(np.argsort(-scores, kind="stable")[:keep].tolist())


def chunk_ids(document: SplitText) -> list[IntArray]:
    """Token ids of every span."""
    return [document.source.ids[span.start : span.stop] for span in document.spans]


def framed_row(specials: Specials, query: IntArray, chunk: IntArray) -> Row:
    """[CLS] query [SEP] chunk [SEP], as far as the model has these tokens; a row is never empty."""
    cls = [specials.cls] if specials.cls is not None else []
    sep = [specials.sep] if specials.sep is not None else []
    head = np.concatenate([cls, query, sep]).astype(np.int32)
    tail = np.concatenate([chunk, sep]).astype(np.int32)
    if not len(head) + len(tail):
        tail = np.array([specials.pad], dtype=np.int32)
    types = np.repeat(np.array([0, 1], dtype=np.int32), [len(head), len(tail)])
    return Row(np.concatenate([head, tail]), types, global_tokens=len(head))


class _Stacked(NamedTuple):
    chunks: Tensor
    mask: Tensor
    sizes: Tensor


def stack_chunks(pooled: Tensor, documents: Sequence[SplitText]) -> _Stacked:
    """Vectors of all rows as [docs, chunks, dim], with their mask and the number of tokens of each chunk."""
    counts = [len(document.spans) for document in documents]
    padded = torch.nn.utils.rnn.pad_sequence(list(torch.split(pooled, counts)), batch_first=True)
    real = torch.arange(padded.shape[1]) < torch.tensor(counts)[:, None]
    sizes = torch.zeros(real.shape, dtype=torch.long)
    sizes[real] = torch.tensor([len(span) for document in documents for span in document.spans])
    return _Stacked(padded, real.to(padded.device), sizes.to(padded.device))


def token_states(packed: Tensor, places: Sequence[Sequence[Place]]) -> TokenStates:
    """States [docs, chunks, length] of the tokens at these places."""
    shape = (
        len(places),
        max(len(row) for row in places),
        max(1, *(len(place.ids) for row in places for place in row), 1),
    )
    index, ids = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    mask = np.zeros(shape, dtype=bool)
    for doc, row in enumerate(places):
        for chunk, place in enumerate(row):
            size = len(place.ids)
            index[doc, chunk, :size] = np.arange(place.start, place.start + size)
            ids[doc, chunk, :size] = place.ids
            mask[doc, chunk, :size] = True
    return TokenStates(packed, *(torch.from_numpy(part).to(packed.device) for part in (index, mask, ids)))


def query_states(packed: Tensor, places: Sequence[Place]) -> TokenStates:
    """States [docs, length] of the query of each document."""
    found = token_states(packed, [[place] for place in places])
    return TokenStates(packed, found.index[:, 0], found.mask[:, 0], found.ids[:, 0])
