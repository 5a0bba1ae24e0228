"""Where models compute: devices that are not there are refused by every command, before anything is loaded."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import Document, Query
from longrank.encoders.device import usable_device
from longrank.rankers import checkpoint
from longrank.rankers.adapters import FunctionRanker
from longrank.rankers.embedding import embedding_ranker
from longrank.rankers.loading import load, on_device
from longrank.rankers.zoo import build_ranker
from longrank.testing import tiny_spec

no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
QUERY = Query("q", "w1 w5")
DOCUMENTS = [Document(f"d{n}", " ".join(f"w{i}" for i in range(9 * n))) for n in range(5)]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:1", "mps:0", "meta", ""])
def test_a_device_of_no_known_kind_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=r"no device .*choose cpu, cuda, mps"):
        usable_device(name)


def test_a_device_that_is_not_there_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ModelError, match=r"'cuda' cannot be used here: install a PyTorch built for CUDA.*or use cpu"):
        usable_device("cuda")
    with pytest.raises(ModelError, match=r"'mps' cannot be used here: it needs a Mac.*or use cpu"):
        usable_device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert usable_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ModelError, match="cuda:0 to cuda:1"):
        usable_device("cuda:2")


COMMANDS = {
    "rerank": ["{ranker}", "{folder}", "--candidates", "{file}", "--out", "{out}"],
    "explain": ["{ranker}", "{file}", "--query", "x"],
    "retrieve": ["{folder}", "--method", "dense", "--out", "{out}"],
    "expand": ["{folder}", "--model", "{folder}", "--out", "{out}"],
    "train": ["{config}"],
    "audit": ["{ranker}", "--quick", "--out", "{out}"],
    "probe": ["{ranker}"],
    "harden": ["{ranker}", "--quick", "--out", "{out}"],
}


@no_cuda
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_runs_a_model_takes_a_device(command: str, tmp_path: Path) -> None:
    from longrank.core.types import Collection, Qrels
    from longrank.corpora.catalog.folder import save_collection

    documents = {document.id: document for document in DOCUMENTS}
    save_collection(Collection("c", documents, {"q": QUERY}, Qrels({"q": {"d1": 1}})), tmp_path / "c")
    checkpoint.save(build_ranker(tiny_spec("firstp", tokens=40)), tmp_path / "firstp")
    (tmp_path / "run.trec").write_text("q Q0 d1 1 1.0 r\n")
    (tmp_path / "train.toml").write_text(
        f"collection = {json.dumps(str(tmp_path / 'c'))}\nout = {json.dumps(str(tmp_path / 'out'))}\n"
        f"candidates = {json.dumps(str(tmp_path / 'run.trec'))}\n[ranker]\nname = 'firstp'\n"
    )
    places = {"ranker": "firstp", "folder": "c", "file": "run.trec", "config": "train.toml", "out": "out"}
    words = [word.format(**{name: tmp_path / place for name, place in places.items()}) for word in COMMANDS[command]]
    result = CliRunner().invoke(app, [command, *words, "--device", "cuda"])
    assert isinstance(result.exception, ModelError), result.output
    assert "'cuda' cannot be used here" in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["firstp", "maxp", "k-max", "parade-attn", "parade-max"])
def test_all_that_a_ranker_computes_with_is_on_its_device(name: str) -> None:
    """The device without numbers stands in for one that is not here: it refuses tensors of any other."""
    ranker = build_ranker(tiny_spec(name, **({"tokens": 40} if name == "firstp" else {"size": 30, "stride": 20}))).to(
        "meta"
    )
    assert ranker(QUERY, DOCUMENTS).device.type == "meta"


def test_embeddings_are_computed_on_the_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from longrank.encoders.tiny import tiny

    ranker = embedding_ranker(tiny(dim=16, pooling="mean").to("meta"), size=30, stride=20)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: torch.ones(tensor.shape))  # what is there cannot be copied
    assert ranker.score(QUERY, DOCUMENTS).values == pytest.approx([1.0] * 5)


def test_a_ranker_that_computes_elsewhere_takes_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(SettingsError, match="computes elsewhere, and cannot be put on 'mps'"):
        on_device(FunctionRanker(lambda query, texts: [0.0] * len(texts)), "mps")


@no_cuda
def test_loading_looks_at_the_device_first() -> None:
    with pytest.raises(ModelError, match="cannot be used here"):
        load("no-such-ranker", device="cuda")
