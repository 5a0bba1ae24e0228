"""Scores for training: the same numbers and gradients however they are computed."""

from collections.abc import Callable

import pytest
import torch

from longrank.core.errors import TrainingError
from longrank.core.types import Collection, Document, Query
from longrank.rankers.neural import NeuralRanker
from longrank.training.forward import Asked, check_forward, train_scores
from longrank.training.settings import TrainSettings

MakeRanker = Callable[..., NeuralRanker]


@pytest.fixture(scope="module")
def batch(collection: Collection) -> list[Asked]:
    documents = list(collection.documents.values())
    short = Document("short", "yes")
    return [
        Asked(collection.queries["q0"], [documents[0], documents[3], short]),
        Asked(collection.queries["q1"], [documents[5], documents[10]]),
    ]


def gradient(ranker: NeuralRanker, batch: list[Asked], settings: TrainSettings) -> torch.Tensor:
    ranker.zero_grad(set_to_none=True)
    scores = torch.cat(train_scores(ranker, batch, settings=settings).scores)
    (scores * torch.arange(1.0, len(scores) + 1)).sum().backward()  # type: ignore[no-untyped-call]
    return torch.cat([p.grad.flatten() for p in ranker.parameters() if p.grad is not None])


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", ["maxp", "parade-attn", "cedr-knrm"])
def test_the_plain_way_is_the_rankers_own_to_the_bit(make_ranker: MakeRanker, batch: list[Asked], name: str) -> None:
    ranker = make_ranker(name).train()
    torch.manual_seed(0)
    expected = ranker(*batch[0])
    torch.manual_seed(0)
    found = train_scores(ranker, batch[:1], settings=TrainSettings())
    assert torch.equal(found.scores[0], expected)


@pytest.mark.parametrize("name", ["maxp", "parade-transformer", "cedr-knrm"])
@pytest.mark.parametrize("changes", [{"recompute_tokens": 20}, {"recompute_tokens": 1}])
def test_recomputing_gives_the_same_gradient(
    make_ranker: MakeRanker, batch: list[Asked], name: str, changes: dict[str, int]
) -> None:
    ranker = make_ranker(name, dropout=False).train()
    expected = gradient(ranker, batch, TrainSettings())
    found = gradient(ranker, batch, TrainSettings.model_validate(changes))
    assert relative(found, expected) < 1e-5


def test_recomputing_draws_the_same_dropout_twice(make_ranker: MakeRanker, batch: list[Asked]) -> None:
    ranker = make_ranker("parade-attn").train()
    settings = TrainSettings(recompute_tokens=10_000)  # one piece: the same draws as without
    torch.manual_seed(3)
    expected = gradient(ranker, batch, TrainSettings())
    torch.manual_seed(3)
    assert relative(gradient(ranker, batch, settings), expected) < 1e-5


def test_queries_together_and_apart_give_the_same_gradient(make_ranker: MakeRanker, batch: list[Asked]) -> None:
    ranker = make_ranker("cedr-knrm", dropout=False).train()
    together = torch.cat(train_scores(ranker, batch, settings=TrainSettings()).scores)
    apart = torch.cat([train_scores(ranker, [one], settings=TrainSettings()).scores[0] for one in batch])
    assert torch.allclose(together, apart, rtol=1e-6, atol=1e-6)


def test_the_winning_chunk_alone_gives_maxps_gradient(make_ranker: MakeRanker, batch: list[Asked]) -> None:
    ranker = make_ranker("maxp", dropout=False, layers=2).train()
    expected = gradient(ranker, batch, TrainSettings())
    found = gradient(ranker, batch, TrainSettings(winner_only=True))
    assert relative(found, expected) < 1e-4
    assert ranker.training
    plain = train_scores(ranker, batch, settings=TrainSettings())
    winners = train_scores(ranker, batch, settings=TrainSettings(winner_only=True))
    assert torch.allclose(torch.cat(winners.scores), torch.cat(plain.scores), atol=1e-6)
    assert winners.tokens < plain.tokens


def test_only_maxp_has_a_winning_chunk(make_ranker: MakeRanker) -> None:
    with pytest.raises(TrainingError, match="MaxP only"):
        check_forward(make_ranker("parade-attn"), TrainSettings(winner_only=True))
    with pytest.raises(ValueError, match="recompute_tokens"):
        TrainSettings(winner_only=True, recompute_tokens=64)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_stays_close_and_scores_in_single(
    make_ranker: MakeRanker, batch: list[Asked], precision: str
) -> None:
    ranker = make_ranker("parade-attn", dropout=False).train()
    settings = TrainSettings.model_validate({"precision": precision})
    expected = torch.cat(train_scores(ranker, batch, settings=TrainSettings()).scores)
    found = torch.cat(train_scores(ranker, batch, settings=settings).scores)
    assert found.dtype == torch.float32
    assert not torch.equal(found, expected)
    assert torch.allclose(found, expected, atol=0.05)
    assert relative(gradient(ranker, batch, settings), gradient(ranker, batch, TrainSettings())) < 0.1


def test_recomputing_bounds_what_the_graph_holds(make_ranker: MakeRanker) -> None:
    ranker = make_ranker("maxp").train()
    ranker.splitter = type(ranker.splitter)(12, 12, 12 * 64)  # type: ignore[call-arg]
    long = Document("long", " ".join(f"w{n % 30}" for n in range(12 * 64)))
    held = []
    for settings in (TrainSettings(), TrainSettings(recompute_tokens=64)):
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor, sizes: dict[int, int] = sizes) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            scored = train_scores(ranker, [Asked(Query("q", "find"), [long])], settings=settings)
        assert scored.tokens == 64 * (12 + 1 + 3)
        held.append(sum(sizes.values()))
    assert held[1] < held[0] / 5
