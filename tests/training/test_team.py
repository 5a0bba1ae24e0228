"""Two processes on one machine do what one does."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.training.examples import CandidateSampler
from longrank.training.settings import TrainSettings
from longrank.training.team import Team
from longrank.training.trainer import fit


def test_shares_are_disjoint_and_together_everything() -> None:
    shares = [Team(rank, 3).share(range(8)) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_train_to_the_weights_of_one(
    make_ranker: Callable[..., NeuralRanker],
    sampler: CandidateSampler,
    tmp_path: Path,
    weights: Callable[[NeuralRanker], torch.Tensor],
) -> None:
    # batches of 4 and 2; gradients of rounding size would become whole steps under Adam, so the rate is small
    settings = TrainSettings(batch_size=4, epochs=2, backbone_rate=1e-4, save_every=1)
    alone = make_ranker(dropout=False)
    log = fit(alone, sampler, settings=settings, folder=tmp_path / "alone", validate=lambda ranker: 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [os.fork() for _ in range(1)]
    rank = 1 if children[0] == 0 else None
    if rank is None:
        children.append(os.fork())
        rank = 0 if children[1] == 0 else None
    if rank is not None:  # pragma: no cover
        status = 1
        try:
            launcher = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in launcher.items()})
            ranker = make_ranker(dropout=False)
            found = fit(ranker, sampler, settings=settings, folder=tmp_path / "two", validate=lambda ranker: 0.5)
            assert found.losses == pytest.approx(log.losses, rel=1e-5)
            assert found.validation == log.validation
            status = 0
        finally:
            os._exit(status)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    together = checkpoint.load(tmp_path / "two" / "last")
    difference = weights(together) - weights(checkpoint.load(tmp_path / "alone" / "last"))
    assert difference.norm() / weights(alone).norm() < 1e-4
    assert (tmp_path / "two" / "metrics.jsonl").read_text().count("loss") == 4
    # a state of two processes is one that a single process can go on from
    resumed = make_ranker(dropout=False)
    again = fit(resumed, sampler, settings=settings, folder=tmp_path / "two", validate=lambda ranker: 0.5)
    assert again.losses == pytest.approx(log.losses, rel=1e-5)
