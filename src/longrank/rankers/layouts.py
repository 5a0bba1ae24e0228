"""How query and chunk meet in the model's input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from longrank.core.types import IntArray, SplitText, TokenizedText
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Encoded, Row, Specials
from longrank.rankers.states import ChunkStates


class Layout(Protocol):
    """Rows for a query and its split documents, and the way back from encoded rows to states."""

    @property
    def query_tokens(self) -> int:
        """Longest query read."""
        ...

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """Every row that must be encoded."""
        ...

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """States of the documents from their encoded rows."""
        ...


@dataclass(frozen=True)
class Joint:
    """One row a chunk: [CLS] query [SEP] chunk [SEP], the query cropped to ``query_tokens``."""

    query_tokens: int = 32

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """One row for each span of each document, documents one after another."""
        asked = query.ids[: self.query_tokens]
        return [
            _joint_row(backbone.specials, asked, document.source.ids[span.start : span.stop])
            for document in documents
            for span in document.spans
        ]

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """Pooled rows as chunks; token states of chunk and query where they were encoded."""
        counts = [len(document.spans) for document in documents]
        chunks, chunk_mask = _stack(torch.split(encoded.pooled, counts))
        if encoded.tokens is None:
            return ChunkStates(chunks, chunk_mask)
        before = (specials.cls is not None) + min(len(query), self.query_tokens) + (specials.sep is not None)
        after = int(specials.sep is not None)
        at = [
            (start + before, start + length - after)
            for start, length in zip(encoded.starts, encoded.lengths, strict=True)
        ]
        tokens, token_mask = _gather_tokens(encoded.tokens, at, counts)
        first = np.cumsum([0, *counts])[:-1]
        begin = int(specials.cls is not None)
        asked = [(encoded.starts[i] + begin, encoded.starts[i] + before - after) for i in first]
        states, mask = _gather_tokens(encoded.tokens, asked, [1] * len(documents))
        return ChunkStates(chunks, chunk_mask, tokens, token_mask, states[:, :, 0], mask[:, 0])


def _joint_row(specials: Specials, query: IntArray, chunk: IntArray) -> Row:
    cls = [specials.cls] if specials.cls is not None else []
    sep = [specials.sep] if specials.sep is not None else []
    head = np.concatenate([cls, query, sep]).astype(np.int32)
    tail = np.concatenate([chunk, sep]).astype(np.int32)
    types = np.repeat(np.array([0, 1], dtype=np.int32), [len(head), len(tail)])
    return Row(np.concatenate([head, tail]), types, global_tokens=len(head))


def _stack(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Tensors [n_i, dim] as [docs, max n, dim] with their mask."""
    padded = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
    counts = torch.tensor([len(part) for part in parts], device=padded.device)
    return padded, torch.arange(padded.shape[1], device=padded.device) < counts[:, None]


def _gather_tokens(tokens: Tensor, bounds: Sequence[tuple[int, int]], counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Token ranges [start, stop) of packed states as [layers, docs, chunks, length, dim] with their mask."""
    docs, chunks = len(counts), max(counts)
    length = max(1, *(stop - start for start, stop in bounds)) if bounds else 1
    index = np.zeros((docs, chunks, length), dtype=np.int64)
    mask = np.zeros((docs, chunks, length), dtype=bool)
    place = iter(bounds)
    for doc, count in enumerate(counts):
        for chunk in range(count):
            start, stop = next(place)
            index[doc, chunk, : stop - start] = np.arange(start, stop)
            mask[doc, chunk, : stop - start] = True
    real = torch.from_numpy(mask).to(tokens.device)
    found = tokens[:, torch.from_numpy(index).to(tokens.device)]
    return torch.where(real[None, ..., None], found, 0.0), real
