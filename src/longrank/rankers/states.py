"""What a backbone hands to an aggregator, masks included."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from longrank.rankers import masked


@dataclass(frozen=True, eq=False)
class TokenStates:
    """Token states by layer, gathered only when a layer is read: thirteen layers take the memory of one."""

    packed: Tensor  # [layers, all tokens, dim]; no layers where only ids are read
    index: Tensor  # [docs, (chunks,) length]: places in ``packed``, any place on padding
    mask: Tensor  # the same shape, False on padding
    ids: Tensor  # the same shape

    @property
    def layers(self) -> int:
        """Number of layers held: one, or all with the embeddings."""
        return len(self.packed)

    def layer(self, number: int = -1) -> Tensor:
        """States [docs, (chunks,) length, dim] of one layer, 0 on padding."""
        return torch.where(self.mask[..., None], self.packed[number][self.index], 0.0)

    def by_document(self) -> "TokenStates":
        """The same tokens as [docs, length]: the chunks of a document touch, padding comes last."""
        order, mask = masked.real_first(self.mask.flatten(1))
        index, ids = (part.flatten(1).gather(1, order) for part in (self.index, self.ids))
        return TokenStates(self.packed, index, mask, ids)


@dataclass(frozen=True, eq=False)
class ChunkStates:
    """States of the documents of one query; a mask is False on padding."""

    chunks: Tensor  # [docs, chunks, dim]
    chunk_mask: Tensor  # [docs, chunks]
    tokens: TokenStates | None = None  # [docs, chunks, length]
    query: TokenStates | None = None  # [docs, query length], from the first chunk
    sizes: Tensor | None = None  # [docs, chunks]: tokens of the text in every chunk

    def without(self, chunk: int) -> "ChunkStates":
        """The states as if this chunk were padding."""
        keep = torch.arange(self.chunk_mask.shape[1], device=self.chunk_mask.device) != chunk
        tokens = self.tokens and replace(self.tokens, mask=self.tokens.mask & keep[:, None])
        return replace(self, chunk_mask=self.chunk_mask & keep, tokens=tokens)
