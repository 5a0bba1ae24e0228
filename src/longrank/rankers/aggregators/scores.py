"""A head scores every chunk; the document's score is one of them, or a combination."""

import torch
from torch import Tensor, nn

from longrank.encoders.rows import Needs
from longrank.rankers import masked
from longrank.rankers.aggregators.contract import Head
from longrank.rankers.states import ChunkStates


class FirstScore(nn.Module):
    """Score of the first chunk: FirstP, and LongP when that chunk is the whole document."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        scores: Tensor = self.head(states.chunks[:, 0])
        return scores


class MaxScore(nn.Module):
    """Best chunk score: MaxP."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        return masked.maximum(self.head(states.chunks), states.chunk_mask, dim=1)


class SumScore(nn.Module):
    """Sum of the chunk scores: SumP."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        return masked.total(self.head(states.chunks), states.chunk_mask, dim=1)


class MeanScore(nn.Module):
    """Mean of the chunk scores."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        return masked.mean(self.head(states.chunks), states.chunk_mask, dim=1)


class TopScores(nn.Module):
    """Learned combination of the k best chunk scores: k-max, Birch-Passage; starts as their mean."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int, *, k: int = 3) -> None:
        super().__init__()
        self.k = k
        self.head = Head(dim)
        self.combine = nn.Parameter(torch.full((k,), 1 / k))

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        best = masked.top(self.head(states.chunks), states.chunk_mask, self.k)  # [docs, k]
        return best @ self.combine
