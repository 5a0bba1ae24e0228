"""Chunk vectors become one document vector, which a head scores: AvgP and PARADE's simple forms."""

from typing import Literal

from torch import Tensor, nn

from longrank.encoders.rows import Needs
from longrank.rankers import masked
from longrank.rankers.aggregators.contract import Head
from longrank.rankers.states import ChunkStates


class MeanVector(nn.Module):
    """Mean of the chunk vectors: AvgP, PARADE-Avg."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        scores: Tensor = self.head(masked.mean(states.chunks, states.chunk_mask, dim=1))
        return scores


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

    def __init__(self, dim: int, *, attention: Literal["scalar", "per-dimension"] = "scalar") -> None:
        super().__init__()
        scalar = attention == "scalar"
        self.weigh = nn.Linear(dim, 1 if scalar else dim, bias=not scalar)
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        weights = masked.softmax(self.weigh(states.chunks), states.chunk_mask, dim=1)  # [docs, chunks, 1 or dim]
        scores: Tensor = self.head(masked.total(weights * states.chunks, states.chunk_mask, dim=1))
        return scores
