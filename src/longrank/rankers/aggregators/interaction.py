"""Similarities of query and document tokens in every layer, pooled: the CEDR family.

Layers are read one after another, so a document of 1,431 tokens in 13 layers takes the memory of one layer.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrank.chunking.splitters import positive
from longrank.encoders.rows import Needs
from longrank.rankers import masked
from longrank.rankers.aggregators.contract import text_states
from longrank.rankers.aggregators.vectors import ChunkSummary, Summary
from longrank.rankers.states import ChunkStates

_NEEDS = Needs.CHUNKS | Needs.TOKENS | Needs.LAYERS | Needs.QUERY
_MEANS = (*(tenths / 10 for tenths in range(-9, 10, 2)), 1.0)
_BINS = 11
_NGRAMS = (1, 2, 3)


Kernels = Literal["cedr", "capreolus"]


class _Similarity(NamedTuple):
    values: Tensor  # [docs, query length, document length]: cosines, 0 where either token is padding
    pairs: Tensor  # the same shape: both tokens are real
    query: Tensor  # [docs, query length]


def similarities(states: ChunkStates) -> Iterator[_Similarity]:
    """Cosines of query and document tokens, a layer at a time, the embeddings first."""
    chunked, query = text_states(states)
    tokens = chunked.by_document()
    pairs = query.mask[:, :, None] & tokens.mask[:, None, :]
    for number in range(tokens.layers):
        cosines = _unit(query.layer(number)) @ _unit(tokens.layer(number)).transpose(1, 2)
        yield _Similarity(torch.where(pairs, cosines, 0.0), pairs, query.mask)


def _unit(vectors: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / (length + 1e-9)


class KernelPool(nn.Module):
    """Eleven soft counts of similar pairs in every layer, beside the chunk vectors: CEDR-KNRM.

    With ``summary="none"`` it is KNRM over contextual states (ELECTRA-KNRM). ``kernels="capreolus"`` is what the PARADE
    paper compares with: a wider kernel for equal tokens, smaller logarithms, and 1,024 sums between features and score.
    """

    needs = _NEEDS

    def __init__(
        self,
        dim: int,
        *,
        layers: int,
        summary: ChunkSummary = "mean",
        kernels: Kernels = "cedr",
        over_real: bool = False,
    ) -> None:
        super().__init__()
        self.kernels = kernels
        self.means = nn.Parameter(torch.tensor(_MEANS))
        self.spreads = nn.Parameter(torch.tensor([0.1] * 10 + [0.001 if kernels == "cedr" else 0.01]))
        self.summary = Summary(summary, over_real=over_real)
        features = len(_MEANS) * (layers + 1) + (0 if summary == "none" else dim)
        self.combine = (
            nn.Linear(features, 1)
            if kernels == "cedr"
            else nn.Sequential(nn.Linear(features, 1024), nn.Linear(1024, 1))  # no bend between them, as published
        )

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        counts = torch.cat([self._count(found) for found in similarities(states)], 1)
        scores: Tensor = self.combine(torch.cat([counts, self.summary(states)], 1).float())
        return scores.squeeze(-1)

    def _count(self, found: _Similarity) -> Tensor:
        """[docs, kernels]; a kernel at a time, so that no [kernels, query, document] array is made."""
        features = []
        for mean, spread in zip(self.means, self.spreads, strict=True):
            near = torch.exp(-0.5 * ((found.values - mean) / spread) ** 2)
            soft = masked.total(near, found.pairs, dim=2)  # [docs, query length]
            features.append(masked.total(self._log(soft), found.query, dim=1))
        return torch.stack(features, 1)

    def _log(self, soft: Tensor) -> Tensor:
        return torch.log(soft + 1e-6) if self.kernels == "cedr" else 0.01 * torch.log(soft.clamp(min=1e-10))


class Pacrr(nn.Module):
    """The two strongest 1-, 2- and 3-gram matches of every query position, beside the chunk vectors: CEDR-PACRR."""

    needs = _NEEDS
    best = 2

    def __init__(self, dim: int, *, layers: int, query_tokens: int = 32, over_real: bool = False) -> None:
        super().__init__()
        positive(query_tokens=query_tokens)
        self.query_tokens = query_tokens
        self.ngrams = nn.ModuleList(nn.Conv2d(layers + 1, 32, size) for size in _NGRAMS)
        self.summary = Summary("mean", over_real=over_real)
        features = query_tokens * self.best * len(self.ngrams) + dim
        self.combine = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        every = list(similarities(states))
        cube = torch.stack([found.values for found in every], 1)  # [docs, layers, query length, document length]
        matches = torch.cat(
            [self._strongest(cube, every[0].pairs, conv, n) for n, conv in zip(_NGRAMS, self.ngrams, strict=True)], 2
        )
        matches = F.pad(matches, (0, 0, 0, self.query_tokens - matches.shape[1]))  # shorter queries match nothing
        features = torch.cat([matches.flatten(1), self.summary(states)], 1)
        scores: Tensor = self.combine(features.float())
        return scores.squeeze(-1)

    def _strongest(self, cube: Tensor, pairs: Tensor, conv: nn.Module, n: int) -> Tensor:
        """[docs, query length, 2]; a match is never negative, so 0 stands for a missing one."""
        found = torch.relu(conv(F.pad(cube, (0, n - 1, 0, n - 1)))).amax(1)  # no padding: over filters
        found = torch.where(pairs, found, 0.0)
        return F.pad(found, (0, max(0, self.best - found.shape[2]))).topk(self.best, dim=2).values


class Drmm(nn.Module):
    """Histograms of similarities of every query token in every layer, beside the chunk vectors: CEDR-DRMM.

    Counts have no gradient: the encoder learns through the chunk vectors alone.
    """

    needs = _NEEDS

    def __init__(self, dim: int, *, layers: int, over_real: bool = False) -> None:
        super().__init__()
        self.summary = Summary("mean", over_real=over_real)
        self.combine = nn.Sequential(nn.Linear(_BINS * (layers + 1) + dim, 5), nn.ReLU(), nn.Linear(5, 1))

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        every = [self._histogram(found) for found in similarities(states)]
        rows = text_states(states).query.mask
        summary = self.summary(states)[:, None].expand(-1, rows.shape[1], -1)
        scores = self.combine(torch.cat([*every, summary], 2).float()).squeeze(-1)  # [docs, query length]
        return masked.total(scores, rows, dim=1)

    def _histogram(self, found: _Similarity) -> Tensor:
        """[docs, query length, bins]: logarithms of counts; the last bin holds exact matches."""
        bins = ((found.values.detach() + 1.000001) / 2 * (_BINS - 1)).long().clamp(0, _BINS - 1)
        counts = bins.new_zeros(*bins.shape[:2], _BINS, dtype=torch.float32)
        return torch.log(counts.scatter_add(2, bins, found.pairs.float()) + 1e-5)
