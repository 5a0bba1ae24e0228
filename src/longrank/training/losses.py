"""Losses over scores [queries, 1 + negatives] whose first column is the positive; each gives one number.

Sums over queries are left to the trainer, which averages over an update's queries.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from longrank.core.registry import Registry

Loss = Callable[[Tensor], Tensor]
LOSSES: Registry[Loss] = Registry("loss")


@LOSSES.add("pairwise-margin", paper="positional-bias (margin 1)")
def pairwise_margin(*, margin: float = 1.0) -> Loss:
    """Mean of max(0, margin - positive + negative)."""
    return lambda scores: F.relu(margin - scores[:, :1] + scores[:, 1:]).mean()


@LOSSES.add("pairwise-softmax", paper="MacAvaney et al. 2019")
def pairwise_softmax() -> Loss:
    """Mean over pairs of -log softmax(positive against one negative)."""
    return lambda scores: F.softplus(scores[:, 1:] - scores[:, :1]).mean()


@LOSSES.add("ranknet", paper="Burges et al. 2005")
def ranknet(*, sigma: float = 1.0) -> Loss:
    """Mean over pairs of log(1 + exp(-sigma (positive - negative)))."""
    return lambda scores: F.softplus(sigma * (scores[:, 1:] - scores[:, :1])).mean()


@LOSSES.add("multi-margin", paper="positional-bias (multi-negative)")
def multi_margin(*, margin: float = 1.0) -> Loss:
    """Hinge losses against all negatives, summed and divided by the number of documents."""
    return lambda scores: F.multi_margin_loss(scores, _first(scores), margin=margin)


@LOSSES.add("cross-entropy", paper="Nogueira et al. 2020 (listwise)")
def cross_entropy() -> Loss:
    """-log softmax of the positive among all documents of the query."""
    return lambda scores: F.cross_entropy(scores, _first(scores))


@LOSSES.add("binary-cross-entropy", paper="Nogueira and Cho 2019 (pointwise)")
def binary_cross_entropy() -> Loss:
    """Each document on its own: the positive is 1, the others 0."""

    def loss(scores: Tensor) -> Tensor:
        labels = torch.zeros_like(scores)
        labels[:, 0] = 1.0
        return F.binary_cross_entropy_with_logits(scores, labels)

    return loss


def _first(scores: Tensor) -> Tensor:
    return torch.zeros(len(scores), dtype=torch.long, device=scores.device)
