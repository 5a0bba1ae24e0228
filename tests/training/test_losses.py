"""Every loss against an example worked by hand."""

import math

import pytest
import torch

from longrank.core.errors import SettingsError, TrainingError
from longrank.core.types import Spec
from longrank.training.losses import LOSSES, Targets

SCORES = torch.tensor([[2.0, 1.5, 0.0]])
TEACHER = Targets(torch.tensor([[4.0, 1.0, 1.0]]))
HERE = [entry.name for entry in LOSSES if entry.make.__module__ == "longrank.training.losses"]
SUM_EXP = math.exp(2) + math.exp(1.5) + math.exp(0)

WORKED = [
    # margins 0.5 and 2: max(0, 1 - 0.5) = 0.5 and max(0, 1 - 2) = 0
    ("pairwise-margin", {}, 0.25),
    ("pairwise-margin", {"reduction": "sum"}, 0.5),
    ("pairwise-margin", {"margin": 3.0}, (2.5 + 1.0) / 2),
    # -log(e^2 / (e^2 + e^1.5)) = log(1 + e^-0.5), and log(1 + e^-2)
    ("pairwise-softmax", {}, (math.log(1 + math.exp(-0.5)) + math.log(1 + math.exp(-2))) / 2),
    ("pairwise-softmax", {"reduction": "sum"}, math.log(1 + math.exp(-0.5)) + math.log(1 + math.exp(-2))),
    ("ranknet", {"sigma": 2.0}, (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-4))) / 2),
    # the hinges of pairwise-margin, over three documents
    ("multi-margin", {}, 0.5 / 3),
    ("cross-entropy", {}, math.log(SUM_EXP) - 2),
    # -log sigmoid(2), -log(1 - sigmoid(1.5)), -log(1 - sigmoid(0))
    ("binary-cross-entropy", {}, (math.log1p(math.exp(-2)) + math.log1p(math.exp(1.5)) + math.log(2)) / 3),
    # student's margins 0.5 and 2, teacher's 3 and 3
    ("margin-mse", {}, (2.5**2 + 1.0**2) / 2),
    # differences -2, 0.5, -1
    ("mse", {}, (4 + 0.25 + 1) / 3),
    ("parade-distillation", {}, 0.75 * (math.log(SUM_EXP) - 2) + 0.25 * (4 + 0.25 + 1) / 3),
    ("parade-distillation", {"alpha": 1.0}, math.log(SUM_EXP) - 2),
    (
        "parade-distillation",
        {"alpha": 1.0, "truth": "binary-cross-entropy"},
        (math.log1p(math.exp(-2)) + math.log1p(math.exp(1.5)) + math.log(2)) / 3,
    ),
]


@pytest.mark.parametrize(("name", "params", "expected"), WORKED)
def test_the_loss_is_what_the_hand_gets(name: str, params: dict[str, float | str], expected: float) -> None:
    assert LOSSES.build(Spec(name, params))(SCORES, TEACHER).item() == pytest.approx(expected, rel=1e-6)


def test_every_loss_has_a_worked_example() -> None:
    assert set(HERE) == {name for name, _, _ in WORKED}


@pytest.mark.parametrize("name", HERE)
def test_the_gradient_raises_a_positive_that_scores_too_low(name: str) -> None:
    scores = torch.zeros(1, 4, requires_grad=True)
    targets = Targets(torch.tensor([[3.0, -1.0, -1.0, -1.0]]))
    LOSSES.build(Spec(name))(scores, targets).backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert scores.grad[0, 0] < 0
    assert (scores.grad[0, 1:] > 0).all()


@pytest.mark.parametrize("name", ["margin-mse", "mse", "parade-distillation"])
def test_distillation_without_a_teacher_is_refused(name: str) -> None:
    with pytest.raises(TrainingError, match="no teacher"):
        LOSSES.build(Spec(name))(SCORES, Targets())


def test_a_share_above_one_and_an_unknown_reduction_are_refused() -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        LOSSES.build(Spec("parade-distillation", {"alpha": 1.5}))
    with pytest.raises(SettingsError, match="not 'hinge'"):
        LOSSES.build(Spec("parade-distillation", {"truth": "hinge"}))
    with pytest.raises(SettingsError, match="'median'"):
        LOSSES.build(Spec("pairwise-margin", {"reduction": "median"}))
