import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.core.errors import CheckpointError, DataError, ModelError, ServiceError, SettingsError
from longrank.core.types import Document, Query, Spec
from longrank.rankers import checkpoint
from longrank.rankers.adapters import resolve
from longrank.rankers.loading import load
from longrank.rankers.model_card import ModelCard
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.publishing import from_pretrained, push_folder, push_to_hub, save_pretrained
from longrank.rankers.zoo import build_ranker
from longrank.testing import tiny_spec

QUERY = Query("q", "where is the bridge")
DOCUMENTS = [Document("a", "the bridge over the river " * 90), Document("b", "no"), Document("c", "")]


class FakeHub:
    """Keeps what would be sent."""

    def __init__(self) -> None:
        self.made: list[tuple[str, bool]] = []
        self.sent: dict[str, bytes] = {}

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        assert exist_ok
        self.made.append((repo_id, private))

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str, allow_patterns: list[str]) -> None:
        assert (repo_id, bool(commit_message)) == (self.made[-1][0], True)
        for pattern in allow_patterns:
            for path in Path(folder_path).rglob(pattern):
                self.sent[str(path.relative_to(folder_path))] = path.read_bytes()


@pytest.fixture
def ranker() -> NeuralRanker:
    return build_ranker(tiny_spec("parade-attn", size=20, stride=15, max_tokens=100))


def test_a_saved_ranker_comes_back_with_the_same_scores_to_the_bit(ranker: NeuralRanker, tmp_path: Path) -> None:
    save_pretrained(ranker, tmp_path / "saved")
    again = from_pretrained(tmp_path / "saved")
    assert again.score(QUERY, DOCUMENTS) == ranker.score(QUERY, DOCUMENTS)
    assert again.spec == ranker.spec


def test_only_an_empty_folder_or_an_earlier_ranker_is_replaced(ranker: NeuralRanker, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    for _ in range(2):
        save_pretrained(ranker, tmp_path / "new")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "work.txt").write_text("years")
    for save in (save_pretrained, checkpoint.save):
        with pytest.raises(DataError, match="choose another folder"):
            save(ranker, tmp_path / "precious")
    assert (tmp_path / "precious" / "work.txt").read_text() == "years"


def test_a_published_folder_is_taken_wherever_a_ranker_is_named(ranker: NeuralRanker, tmp_path: Path) -> None:
    save_pretrained(ranker, tmp_path / "saved")
    for named in (load(tmp_path / "saved"), resolve(str(tmp_path / "saved"))):
        assert named.score(QUERY, DOCUMENTS) == ranker.score(QUERY, DOCUMENTS)


def test_the_config_says_how_documents_are_read(ranker: NeuralRanker, tmp_path: Path) -> None:
    save_pretrained(ranker, tmp_path / "saved", card=ModelCard(title="Toy"))
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["splitter"] == {"name": "Sliding", "size": 20, "stride": 15, "max_tokens": 100}
    assert config["layout"] == {"name": "Joint", "query_tokens": 32}
    assert config["aggregator"] == {"name": "AttentionVector"}
    assert (tmp_path / "saved" / "README.md").read_text().count("# Toy") == 1
    kinds = {path.suffix for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert kinds == {".json", ".safetensors", ".md"}


def test_no_folder_of_the_machine_is_published_and_the_ranker_keeps_its_own_spec(tmp_path: Path) -> None:
    build_ranker(tiny_spec("maxp")).backbone.save(_made(tmp_path / "secret" / "base"))
    spec = Spec("maxp", {"backbone": Spec("pretrained", {"model": str(tmp_path / "secret" / "base")})})
    ranker = build_ranker(spec)
    save_pretrained(ranker, tmp_path / "saved")
    for path in (tmp_path / "saved").rglob("*.*"):
        if path.suffix in {".json", ".md"}:
            assert "secret" not in path.read_text(encoding="utf-8")
    assert ranker.spec == spec
    assert from_pretrained(tmp_path / "saved").score(QUERY, DOCUMENTS) == ranker.score(QUERY, DOCUMENTS)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_a_ranker_composed_by_hand_leaves_nothing_behind(ranker: NeuralRanker, tmp_path: Path) -> None:
    ranker.spec = None
    with pytest.raises(CheckpointError, match="by hand"):
        save_pretrained(ranker, tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_pushing_sends_every_file_once_and_the_readme_names_the_repository(ranker: NeuralRanker) -> None:
    hub = FakeHub()
    assert push_to_hub(ranker, "me/toy", private=True, api=hub) == "me/toy"
    assert hub.made == [("me/toy", True)]
    assert set(hub.sent) == {
        *("README.md", "config.json", "ranker.json", "aggregator.safetensors"),
        *("backbone/config.json", "backbone/encoder.json", "backbone/model.safetensors"),
    }
    assert b'from_pretrained("me/toy")' in hub.sent["README.md"]


def test_what_was_pushed_can_be_fetched_again(ranker: NeuralRanker, tmp_path: Path) -> None:
    hub = FakeHub()
    push_to_hub(ranker, "me/toy", api=hub)

    def download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        assert (name, revision) == ("me/toy", "v1")
        assert "*.safetensors" in allow_patterns
        assert not any(pattern in {"*", "*.py", "*.bin", "*.pt"} for pattern in allow_patterns)
        for path, data in hub.sent.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(data)
        return str(tmp_path)

    again = from_pretrained("me/toy", revision="v1", download=download)
    assert again.score(QUERY, DOCUMENTS) == ranker.score(QUERY, DOCUMENTS)


def test_the_fake_hub_is_called_as_the_real_one_would_be() -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")
    for name in ("create_repo", "upload_folder"):
        ours, theirs = (set(inspect.signature(getattr(kind, name)).parameters) for kind in (FakeHub, hub.HfApi))
        assert ours <= theirs
    assert {"revision", "allow_patterns"} <= set(inspect.signature(hub.snapshot_download).parameters)
    assert issubclass(hub.errors.HfHubHTTPError, OSError)


def test_a_refused_upload_is_told_in_a_sentence(ranker: NeuralRanker) -> None:
    class Closed(FakeHub):
        def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
            raise OSError("401 Unauthorized")

    with pytest.raises(ServiceError, match="me/toy could not be uploaded: 401 Unauthorized"):
        push_to_hub(ranker, "me/toy", api=Closed())


def test_a_name_that_is_neither_folder_nor_hub_id_is_refused(tmp_path: Path) -> None:
    def offline(*_: Any, **__: Any) -> str:
        raise OSError("no connection")

    with pytest.raises(ModelError, match="no hub id"):
        from_pretrained(tmp_path / "deep" / "down" / "nowhere")
    with pytest.raises(ModelError, match="could not be fetched: no connection"):
        from_pretrained("me/toy", download=offline)
    with pytest.raises(SettingsError, match="maker/name"):
        push_to_hub(build_ranker(tiny_spec()), "toy", api=FakeHub())


def test_a_folder_without_readme_is_not_pushed(ranker: NeuralRanker, tmp_path: Path) -> None:
    checkpoint.save(ranker, tmp_path / "bare")
    hub = FakeHub()
    with pytest.raises(ModelError, match=r"README\.md"):
        push_folder(tmp_path / "bare", "me/toy", api=hub)
    assert hub.made == []


def test_the_command_writes_a_ranker_with_the_card_given(ranker: NeuralRanker, tmp_path: Path) -> None:
    checkpoint.save(ranker, tmp_path / "run")
    (tmp_path / "card.toml").write_text('title = "Toy ranker"\nlimits = "Toys only."\n')
    asked = ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--card", str(tmp_path / "card.toml")]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "Toys only." in (tmp_path / "out" / "README.md").read_text()
    assert from_pretrained(tmp_path / "out").score(QUERY, DOCUMENTS) == ranker.score(QUERY, DOCUMENTS)
    with pytest.raises(SettingsError, match="--form classifier"):
        CliRunner().invoke(app, [*asked, "--onnx"], catch_exceptions=False)
    with pytest.raises(SettingsError, match="--private goes with --push"):
        CliRunner().invoke(app, [*asked, "--private"], catch_exceptions=False)
