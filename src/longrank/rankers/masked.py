"""Mean, maximum, sum and softmax over an axis with padding: they cannot forget the mask.

A mask is True where an entry is real. Where nothing is real the answer is 0.
"""

from typing import NamedTuple

import torch
from torch import Tensor


def total(values: Tensor, mask: Tensor, *, dim: int) -> Tensor:
    """Sum over the real entries."""
    return torch.where(_like(mask, values), values, 0.0).sum(dim)


def mean(values: Tensor, mask: Tensor, *, dim: int) -> Tensor:
    """Mean over the real entries."""
    count = _like(mask, values).expand_as(values).sum(dim).clamp(min=1)
    return total(values, mask, dim=dim) / count


def maximum(values: Tensor, mask: Tensor, *, dim: int) -> Tensor:
    """Largest real entry."""
    real = _like(mask, values)
    best = torch.where(real, values, torch.finfo(values.dtype).min).amax(dim)
    return torch.where(real.expand_as(values).any(dim), best, 0.0)


def softmax(logits: Tensor, mask: Tensor, *, dim: int) -> Tensor:
    """Weights that sum to one over the real entries."""
    real = _like(mask, logits)
    weights = torch.softmax(torch.where(real, logits, torch.finfo(logits.dtype).min), dim)
    return torch.where(real, weights, 0.0)


def top(values: Tensor, mask: Tensor, k: int) -> Tensor:
    """The k largest real entries of the last axis, falling; a missing one repeats the smallest real one."""
    lowest = torch.where(mask, values, torch.finfo(values.dtype).max).amin(-1, keepdim=True)
    lowest = torch.where(mask.any(-1, keepdim=True), lowest, 0.0)
    filled = torch.where(mask, values, lowest)
    missing = k - filled.shape[-1]
    if missing > 0:
        filled = torch.cat([filled, lowest.expand(*filled.shape[:-1], missing)], -1)
    return filled.topk(k, dim=-1).values


class Order(NamedTuple):
    """Where entries move, and the mask after the move."""

    place: Tensor
    mask: Tensor


def real_first(mask: Tensor) -> Order:
    """The order [docs, longest] that puts real entries first and keeps them in sequence."""
    longest = max(1, int(mask.sum(1).amax()))
    place = torch.argsort(~mask, dim=1, stable=True)[:, :longest]
    return Order(place, mask.gather(1, place))


def _like(mask: Tensor, values: Tensor) -> Tensor:
    """The mask with trailing axes of one, so that it lines up with the values' leading axes."""
    return mask.reshape(mask.shape + (1,) * (values.dim() - mask.dim()))
