"""Two processes on one machine do what one does."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from longrank.core.types import Collection, Run
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import write_run
from longrank.corpora.splits import write_splits
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.training.examples import CandidateSampler
from longrank.training.settings import TrainSettings
from longrank.training.team import Team, own_device
from longrank.training.trainer import fit


def test_shares_are_disjoint_and_together_everything() -> None:
    shares = [Team(rank, 3).share(range(8)) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


TORCHRUN = ("RANK", "WORLD_SIZE")
OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")


def test_a_process_uses_the_card_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_device("cuda") == "cuda"
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert own_device("cuda") == "cuda:1"
    assert own_device("cuda:3") == "cuda:3"
    assert own_device("cpu") == "cpu"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("launcher", [TORCHRUN, OPEN_MPI], ids=["torchrun", "open-mpi"])
def test_two_processes_train_to_the_weights_of_one(
    launcher: tuple[str, str],
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
            names = (*launcher, "MASTER_ADDR", "MASTER_PORT")
            os.environ.update(zip(names, (str(rank), "2", "127.0.0.1", str(port)), strict=True))
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


CONFIG = """
collection = "{folder}/collection"
candidates = "{folder}/near.trec"
out = "{folder}/{out}"
validation_split = "dev"

[ranker]
name = "maxp"

[ranker.params]
size = 12
stride = 12
max_tokens = 36
query_tokens = 4
backbone = {{ name = "tiny", params = {{ layers = 1, dim = 16, positions = 32, vocabulary = 256 }} }}

[train]
batch_size = 4
epochs = 2
backbone_rate = 1e-4
dropout = 0.0
save_every = 1
"""


def longrank_train(folder: Path, out: str, *, launcher: Sequence[str] = ()) -> NeuralRanker:
    """The command as a person types it; gives the last checkpoint."""
    (folder / f"{out}.toml").write_text(CONFIG.format(folder=folder, out=out))
    command = [*launcher, str(Path(sys.executable).with_name("longrank")), "train", str(folder / f"{out}.toml")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert ("2 processes share" in done.stderr) == bool(launcher)
    return checkpoint.load(folder / out / "seed0/main/last")


@pytest.mark.slow
def test_accelerate_launches_the_same_command_to_the_same_result(
    tmp_path: Path, collection: Collection, candidates: Run, weights: Callable[[NeuralRanker], torch.Tensor]
) -> None:
    pytest.importorskip("accelerate", reason="needs the extra distributed")
    save_collection(collection, tmp_path / "collection")
    write_splits(tmp_path / "collection", {"train": ("q0", "q1", "q2", "q3", "q4"), "dev": ("q5",)})
    write_run(tmp_path / "near.trec", candidates)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no"
    start = [
        str(Path(sys.executable).with_name("accelerate")),
        "launch",
        *options.split(),
        f"--main_process_port={port}",
    ]
    alone, together = longrank_train(tmp_path, "alone"), longrank_train(tmp_path, "two", launcher=start)
    assert (weights(together) - weights(alone)).norm() / weights(alone).norm() < 1e-4
    logs = [json.loads((tmp_path / name / "seed0/main/log.json").read_text()) for name in ("alone", "two")]
    assert logs[1]["losses"] == pytest.approx(logs[0]["losses"], rel=1e-4)
    assert logs[1]["validation"] == logs[0]["validation"]
    # what two processes left, one finds finished, and their checkpoint starts another training
    before = (tmp_path / "two/seed0/main/metrics.jsonl").read_text()
    longrank_train(tmp_path, "two")
    assert (tmp_path / "two/seed0/main/metrics.jsonl").read_text() == before
