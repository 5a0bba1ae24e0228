"""Sixteen queries one by one, or all at once: the same gradient."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from longrank.rankers.neural import NeuralRanker
from longrank.training.examples import CandidateSampler
from longrank.training.settings import TrainSettings
from longrank.training.trainer import fit

MakeRanker = Callable[..., NeuralRanker]


def first_gradient(ranker: NeuralRanker, sampler: CandidateSampler, folder: Path, *, at_once: int) -> torch.Tensor:
    """The gradient of the first update of sixteen queries, all parameters in one row."""
    table = {"batch_size": 16, "epoch_repeats": 3, "drop_last": True, "queries_at_once": at_once}
    found: list[torch.Tensor] = []

    def keep(optimizer: torch.optim.Optimizer, *_: object) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        found.append(torch.cat([p.grad.flatten().clone() for p in parameters if p.grad is not None]))

    handle = register_optimizer_step_pre_hook(keep)
    try:
        settings = TrainSettings.model_validate({**table, "backbone_rate": 1e-3, "max_gradient_norm": None})
        fit(ranker, sampler, settings=settings, folder=folder)
    finally:
        handle.remove()
    return found[0]


@pytest.mark.parametrize("name", ["firstp", "maxp", "parade-attn", "parade-transformer", "cedr-knrm"])
def test_one_by_sixteen_equals_sixteen_by_one(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # in double precision nothing but the order of sums differs, so every number of the gradient must agree
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # heads and losses compute in single precision
    one, all_at_once = (
        first_gradient(make_ranker(name, dropout=False).double(), sampler, tmp_path / str(n), at_once=n)
        for n in (1, 16)
    )
    assert one.dtype == torch.float64
    assert (one - all_at_once).norm() <= 1e-6 * one.norm()
    assert one.norm() > 0


@pytest.mark.parametrize("name", ["firstp", "parade-attn"])
def test_single_precision_adds_only_rounding(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, name: str
) -> None:
    one, all_at_once = (
        first_gradient(make_ranker(name, dropout=False), sampler, tmp_path / str(n), at_once=n) for n in (1, 16)
    )
    assert (one - all_at_once).norm() <= 1e-4 * one.norm()
