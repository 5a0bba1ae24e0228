"""Chunk vectors become one document vector, which a head scores: AvgP and PARADE's simple forms."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrank.encoders.rows import Needs
from longrank.rankers import masked
from longrank.rankers.aggregators.contract import Head, Parts
from longrank.rankers.states import ChunkStates

Attention = Literal["scalar", "per-dimension"]
ChunkSummary = Literal["mean", "max", "none"]


class Summary(nn.Module):
    """One vector for the chunks of a document: their mean, their largest values, or nothing.

    ``over_real`` divides the sum of all chunk vectors by the number of chunks that hold text, as the published
    code does: it differs from the mean where chunks of padding are encoded.
    """

    def __init__(self, kind: ChunkSummary, *, over_real: bool = False) -> None:
        super().__init__()
        self.kind = kind
        self.over_real = over_real

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs, dim], or [docs, 0] for ``none``."""
        if self.kind == "none":
            return states.chunks[:, 0, :0]
        if self.kind == "max":
            return masked.maximum(states.chunks, states.chunk_mask, dim=1)
        return masked.total(states.chunks, states.chunk_mask, dim=1) / self.divisor(states)

    def divisor(self, states: ChunkStates) -> Tensor:
        """[docs, 1]: what the mean divides by; at least 1."""
        counted = states.sizes > 0 if self.over_real and states.sizes is not None else states.chunk_mask
        return counted.sum(1, keepdim=True).clamp(min=1)


class MeanVector(nn.Module):
    """Mean of the chunk vectors: AvgP, PARADE-Avg; for ``over_real`` see ``Summary``."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int, *, over_real: bool = False) -> None:
        super().__init__()
        self.summary = Summary("mean", over_real=over_real)
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        scores: Tensor = self.head(self.summary(states))
        return scores

    def parts(self, states: ChunkStates) -> Parts:
        """What each chunk adds through the linear head."""
        return _linear_parts(self.head, states, divisor=self.summary.divisor(states))


class SumVector(nn.Module):
    """Sum of the chunk vectors: PARADE-Sum."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        scores: Tensor = self.head(masked.total(states.chunks, states.chunk_mask, dim=1))
        return scores

    def parts(self, states: ChunkStates) -> Parts:
        """What each chunk adds through the linear head."""
        return _linear_parts(self.head, states, divisor=torch.ones_like(states.chunk_mask[:, :1], dtype=torch.long))


def _linear_parts(head: Head, states: ChunkStates, *, divisor: Tensor) -> Parts:
    """Each chunk through the weights, and an equal share of the bias."""
    bias = head.linear.bias
    shares = (head(states.chunks) - bias) / divisor + bias / states.chunk_mask.sum(1, keepdim=True)
    return Parts(torch.where(states.chunk_mask, shares, 0.0), "sum")


class MaxVector(nn.Module):
    """Largest value of every dimension: PARADE-Max."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        scores: Tensor = self.head(masked.maximum(states.chunks, states.chunk_mask, dim=1))
        return scores


class AttentionVector(nn.Module):
    """Weighted sum of the chunk vectors: PARADE-Attn.

    ``scalar`` is the papers' formula, one weight a chunk; ``per-dimension`` is the published code's, a weight for
    each chunk and dimension from a square matrix.
    """

    needs = Needs.CHUNKS

    def __init__(self, dim: int, *, attention: Attention = "scalar") -> None:
        super().__init__()
        scalar = attention == "scalar"
        self.weigh = nn.Linear(dim, 1 if scalar else dim, bias=not scalar)
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        weighted = self._weights(states) * states.chunks
        scores: Tensor = self.head(masked.total(weighted, states.chunk_mask, dim=1))
        return scores

    def parts(self, states: ChunkStates) -> Parts:
        """The attention weights; over the dimensions, their mean."""
        weights = self._weights(states)
        return Parts(weights.sum(-1) / weights.shape[-1], "weights")

    def _weights(self, states: ChunkStates) -> Tensor:
        return masked.softmax(self.weigh(states.chunks), states.chunk_mask, dim=1)  # [docs, chunks, 1 or dim]


class ConvolutionVector(nn.Module):
    """Neighbouring chunks are merged two by two, four times (16 to 8, 4, 2, 1), and every merger is scored: PARADE-CNN.

    The document's score is the sum. Fewer than 16 chunks are filled with zeros, and a merger of zeros alone counts
    nothing; of more than 16, neighbours are first reduced to their largest values. Such a merger still hands its bias
    on to the next level, unless ``keep_zeros`` makes it a zero there too.
    """

    needs = Needs.CHUNKS
    width = 16

    def __init__(self, dim: int, *, dropout: float = 0.1, keep_zeros: bool = False) -> None:
        super().__init__()
        self.keep_zeros = keep_zeros
        self.merge = nn.ModuleList(nn.Conv1d(dim, dim, 2, stride=2) for _ in range(4))
        self.hidden = nn.Linear(dim, dim)
        self.head = Head(dim, dropout=dropout)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        vectors, mask = self._sixteen(states)
        scores = vectors.new_zeros(len(vectors))
        states_by_chunk = vectors.transpose(1, 2)  # [docs, dim, chunks]
        for merge in self.merge:
            states_by_chunk = torch.relu(merge(states_by_chunk))
            mask = mask[:, 0::2] | mask[:, 1::2]
            merged = torch.where(mask[..., None], states_by_chunk.transpose(1, 2), 0.0)
            scores = scores + masked.total(self.head(torch.relu(self.hidden(merged))), mask, dim=1)
            if self.keep_zeros:
                states_by_chunk = merged.transpose(1, 2)
        return scores

    def _sixteen(self, states: ChunkStates) -> tuple[Tensor, Tensor]:
        """[docs, 16, dim] and its mask; each document is reduced by its own number of chunks."""
        rows = []
        for vectors, mask in zip(states.chunks, states.chunk_mask, strict=True):
            real = vectors[mask].float()
            if len(real) > self.width:
                real = F.adaptive_max_pool1d(real.T, self.width).T
            rows.append(F.pad(real, (0, 0, 0, self.width - len(real))))
        counts = states.chunk_mask.sum(1, keepdim=True)
        return torch.stack(rows), torch.arange(self.width, device=counts.device) < counts
