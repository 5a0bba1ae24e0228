"""A head scores every chunk; the document's score is one of them, or a combination."""

import torch
from torch import Tensor, nn

from longrank.chunking.splitters import positive
from longrank.encoders.rows import Needs
from longrank.rankers import masked
from longrank.rankers.aggregators.contract import Head, Parts
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

    def parts(self, states: ChunkStates) -> Parts:
        """The first chunk's score; the others count nothing."""
        first = torch.arange(states.chunks.shape[1], device=states.chunks.device) == 0
        return Parts(torch.where(first, self.head(states.chunks), 0.0), "first")


class MaxScore(nn.Module):
    """Best chunk score: MaxP."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        return masked.maximum(self.head(states.chunks), states.chunk_mask, dim=1)

    def parts(self, states: ChunkStates) -> Parts:
        """Every chunk's score."""
        return Parts(torch.where(states.chunk_mask, self.head(states.chunks), 0.0), "maximum")


class SumScore(nn.Module):
    """Sum of the chunk scores: SumP."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        return masked.total(self.head(states.chunks), states.chunk_mask, dim=1)

    def parts(self, states: ChunkStates) -> Parts:
        """Every chunk's score."""
        return Parts(torch.where(states.chunk_mask, self.head(states.chunks), 0.0), "sum")


class MeanScore(nn.Module):
    """Mean of the chunk scores."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        return masked.mean(self.head(states.chunks), states.chunk_mask, dim=1)

    def parts(self, states: ChunkStates) -> Parts:
        """Every chunk's score over the number of chunks."""
        shares = self.head(states.chunks) / states.chunk_mask.sum(1, keepdim=True)
        return Parts(torch.where(states.chunk_mask, shares, 0.0), "sum")


class TopScores(nn.Module):
    """Learned combination of the k best chunk scores: k-max, Birch-Passage; starts as their mean."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int, *, k: int = 3) -> None:
        super().__init__()
        positive(k=k)
        self.k = k
        self.head = Head(dim)
        self.combine = nn.Parameter(torch.full((k,), 1 / k))

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        best = masked.top(self.head(states.chunks), states.chunk_mask, self.k)  # [docs, k]
        return best @ self.combine

    def parts(self, states: ChunkStates) -> Parts:
        """The weighted scores of the k best; the worst also stands for the ones that are missing."""
        mask = states.chunk_mask
        scores = torch.where(mask, self.head(states.chunks), torch.finfo(torch.float32).min)
        places = scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1)  # 0 is the best chunk
        weights = torch.where(places < self.k, self.combine[places.clamp(max=self.k - 1)], 0.0)
        count = mask.sum(1, keepdim=True)
        spare = torch.cat([self.combine.flip(0).cumsum(0).flip(0), self.combine.new_zeros(1)])[count.clamp(max=self.k)]
        weights = weights + torch.where(places == count - 1, spare, 0.0)
        return Parts(torch.where(mask, weights * scores, 0.0), "sum")
