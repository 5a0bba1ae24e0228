"""The consistency loss by hand, and examples with two versions of the positive."""

import pytest
import torch

from longrank.core.errors import TrainingError
from longrank.core.types import Collection, Document, Qrels, Query
from longrank.training.consistency import MovedSampler, consistent_margin
from longrank.training.losses import Targets


def moved(queries: int, versions: int) -> Collection:
    names = {f"q{i}": [f"q{i}_s{k}" for k in range(versions)] for i in range(queries)}
    return Collection(
        "moved",
        {name: Document(name, name) for row in names.values() for name in row},
        {query_id: Query(query_id, query_id) for query_id in names},
        Qrels({query_id: dict.fromkeys(row, 1) for query_id, row in names.items()}),
    )


def test_the_loss_adds_the_gap_between_versions_to_the_hinge() -> None:
    # versions 2.0 and 0.5 against one negative 1.0: hinges max(0, 1 - 2 + 1) = 0 and 1 - .5 + 1 = 1.5, mean .75;
    # gap 1.5, weight .2: .75 + .3
    scores = torch.tensor([[2.0, 0.5, 1.0]])
    assert consistent_margin(weight=0.2)(scores, Targets()).item() == pytest.approx(1.05)
    assert consistent_margin(weight=0.0)(scores, Targets()).item() == pytest.approx(0.75)


def test_scores_without_a_second_version_are_refused() -> None:
    with pytest.raises(TrainingError, match="MovedSampler"):
        consistent_margin()(torch.zeros(1, 2), Targets())


def test_examples_hold_two_versions_of_the_positive_and_versions_of_other_queries() -> None:
    sampler = MovedSampler(moved(6, 4), tuple(f"q{i}" for i in range(6)), negatives=2)
    first, again, second = (list(sampler.epoch(number)) for number in (0, 0, 1))
    assert first == again != second
    assert sorted(example.query.id for example in first) == [f"q{i}" for i in range(6)]
    for example in first:
        other, *wrong = example.negatives
        assert example.positive.id.startswith(example.query.id) and other.id.startswith(example.query.id)
        assert example.positive != other
        assert len({name.id.split("_")[0] for name in wrong} - {example.query.id}) == 2


def test_queries_without_versions_cannot_be_trained_on() -> None:
    with pytest.raises(TrainingError, match="counterfactual"):
        MovedSampler(moved(6, 1), tuple(f"q{i}" for i in range(6)))
