"""What a backbone hands to an aggregator, masks included."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class ChunkStates:
    """States of the documents of one query; a mask is False on padding."""

    chunks: Tensor  # [docs, chunks, dim]
    chunk_mask: Tensor  # [docs, chunks]
    tokens: Tensor | None = None  # [layers, docs, chunks, length, dim]
    token_mask: Tensor | None = None  # [docs, chunks, length]
    query: Tensor | None = None  # [layers, docs, query length, dim], from the first chunk
    query_mask: Tensor | None = None  # [docs, query length]
