"""Losses over scores [queries, 1 + negatives] whose first column is the positive; each gives one number.

Sums over queries are left to the trainer, which averages over an update's queries, each times its weight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from longrank.core.errors import SettingsError, TrainingError
from longrank.core.registry import Registry


@dataclass(frozen=True, eq=False)
class Targets:
    """What the scores of a batch are held against, beside the rule that the first column is the positive."""

    teacher: Tensor | None = None  # [queries, 1 + negatives]: scores of a larger ranker


Loss = Callable[[Tensor, Targets], Tensor]
Reduction = Literal["mean", "sum"]
LOSSES: Registry[Loss] = Registry("loss")


@LOSSES.add("pairwise-margin", paper="positional-bias (margin 1)")
def pairwise_margin(*, margin: float = 1.0, reduction: Reduction = "mean") -> Loss:
    """Mean or sum over pairs of max(0, margin - positive + negative)."""
    reduce = _reduction(reduction)
    return lambda scores, targets: reduce(F.relu(margin - scores[:, :1] + scores[:, 1:]))


@LOSSES.add("pairwise-softmax", paper="MacAvaney et al. 2019")
def pairwise_softmax(*, reduction: Reduction = "mean") -> Loss:
    """Mean or sum over pairs of -log softmax(positive against one negative)."""
    reduce = _reduction(reduction)
    return lambda scores, targets: reduce(F.softplus(scores[:, 1:] - scores[:, :1]))


@LOSSES.add("ranknet", paper="Burges et al. 2005")
def ranknet(*, sigma: float = 1.0) -> Loss:
    """Mean over pairs of log(1 + exp(-sigma (positive - negative)))."""
    return lambda scores, targets: F.softplus(sigma * (scores[:, 1:] - scores[:, :1])).mean()


@LOSSES.add("multi-margin", paper="positional-bias (multi-negative)")
def multi_margin(*, margin: float = 1.0) -> Loss:
    """Hinge losses against all negatives, summed and divided by the number of documents."""
    return lambda scores, targets: F.multi_margin_loss(scores, _first(scores), margin=margin)


@LOSSES.add("cross-entropy", paper="Nogueira et al. 2020 (listwise)")
def cross_entropy() -> Loss:
    """-log softmax of the positive among all documents of the query."""
    return lambda scores, targets: F.cross_entropy(scores, _first(scores))


@LOSSES.add("binary-cross-entropy", paper="Nogueira and Cho 2019 (pointwise)")
def binary_cross_entropy() -> Loss:
    """Each document on its own: the positive is 1, the others 0."""

    def loss(scores: Tensor, targets: Targets) -> Tensor:
        labels = torch.zeros_like(scores)
        labels[:, 0] = 1.0
        return F.binary_cross_entropy_with_logits(scores, labels)

    return loss


@LOSSES.add("margin-mse", paper="Hofstätter et al. 2020 (distillation)")
def margin_mse() -> Loss:
    """Mean squared difference of the student's and the teacher's margins, positive over negative."""

    def loss(scores: Tensor, targets: Targets) -> Tensor:
        teacher = _teacher(targets)
        return F.mse_loss(scores[:, :1] - scores[:, 1:], teacher[:, :1] - teacher[:, 1:])

    return loss


@LOSSES.add("mse", paper="distillation of scores")
def mse() -> Loss:
    """Mean squared difference of the student's and the teacher's scores."""
    return lambda scores, targets: F.mse_loss(scores, _teacher(targets))


@LOSSES.add("parade-distillation", paper="Li et al. 2023 (Eq. 12)")
def parade_distillation(*, alpha: float = 0.75, truth: str = "cross-entropy") -> Loss:
    """``alpha`` times the loss on the judgements plus ``1 - alpha`` times the mean squared logit difference.

    ``truth`` is "cross-entropy", of the positive among the query's documents, or "binary-cross-entropy", of each alone.
    """
    if not 0 <= alpha <= 1:
        raise SettingsError(f"alpha is a share between 0 and 1, got {alpha}")
    kinds = {"cross-entropy": cross_entropy, "binary-cross-entropy": binary_cross_entropy}
    if truth not in kinds:
        raise SettingsError(f"judgements are learned by {' or '.join(map(repr, kinds))}, not {truth!r}")
    judged = kinds[truth]()

    def loss(scores: Tensor, targets: Targets) -> Tensor:
        return alpha * judged(scores, targets) + (1 - alpha) * F.mse_loss(scores, _teacher(targets))

    return loss


def _teacher(targets: Targets) -> Tensor:
    if targets.teacher is None:
        raise TrainingError("this loss compares with a teacher's scores, and there is no teacher: name one, or its run")
    return targets.teacher


def _reduction(name: str) -> Callable[[Tensor], Tensor]:
    if name not in {"mean", "sum"}:
        raise SettingsError(f"a loss is reduced by 'mean' or 'sum', not {name!r}")
    return torch.mean if name == "mean" else torch.sum


def _first(scores: Tensor) -> Tensor:
    return torch.zeros(len(scores), dtype=torch.long, device=scores.device)
