"""A trained ranker as others exchange models: a folder with weights, config, tokenizer and README, here or on a hub.

The folder is a checkpoint of ``rankers/checkpoint.py`` with a ``config.json`` that says in words how documents are
read, and a README. Nothing in it is a pickle, and nothing in it names a folder of the machine it was made on.
"""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from longrank import __version__
from longrank.core.disk import atomic_folder
from longrank.core.errors import ModelError, ServiceError, SettingsError
from longrank.core.fingerprint import plain
from longrank.core.types import Spec
from longrank.rankers import checkpoint
from longrank.rankers.model_card import ModelCard, Reading, readme
from longrank.rankers.neural import NeuralRanker

FILES = ("*.json", "*.safetensors", "*.md", "*.txt", "*.onnx")
_WITHOUT_CODE = ("*.json", "*.safetensors", "*.md", "*.txt")


class HubApi(Protocol):
    """What of ``huggingface_hub.HfApi`` is called."""

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> Any:
        """Make the repository unless it is there."""
        ...

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str, allow_patterns: list[str]) -> Any:
        """Send the files in one commit."""
        ...


def save_pretrained(
    ranker: NeuralRanker, folder: Path | str, *, card: ModelCard | None = None, repo_id: str = ""
) -> None:
    """Write a ranker whole or not at all; ``from_pretrained`` gives it back with the same scores to the bit.

    ``repo_id`` is what the README's example loads, where the folder is meant for a hub.
    """
    own, reading = ranker.spec, reading_of(ranker)
    with atomic_folder(Path(folder), mark=checkpoint.MARK, what="a saved ranker") as temporary:
        try:
            ranker.spec = None if own is None else _without_places(own)
            checkpoint.save(ranker, temporary)
        finally:
            ranker.spec = own
        config = {
            "model_type": "longrank",
            "architectures": ["NeuralRanker"],
            "longrank_version": __version__,
            "ranker": reading.ranker,
            "splitter": reading.splitter,
            "layout": reading.layout,
            "aggregator": reading.aggregator,
            "backbone": {"name": ranker.backbone.model.config.model_type, "pooling": ranker.backbone.pooling},
            "trained": reading.trained,
        }
        (temporary / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        text = readme(card or ModelCard(), reading, repo_id=repo_id)
        (temporary / "README.md").write_text(text, encoding="utf-8")


def from_pretrained(
    name: Path | str, *, revision: str | None = None, download: Callable[..., str] | None = None
) -> NeuralRanker:
    """The ranker in a folder, or of a hub id such as 'maker/name', ready to score.

    Of a hub only JSON, safetensors and text are fetched, into the hub's own cache; ``download`` is
    ``huggingface_hub.snapshot_download`` unless given.
    """
    folder = Path(name)
    if folder.is_dir():
        return checkpoint.load(folder)
    if not _is_hub_id(str(name)):
        raise ModelError(f"no folder {str(name)!r}, and it is no hub id: those read 'maker/name'")
    try:
        place = (download or _snapshot)(str(name), revision=revision, allow_patterns=list(_WITHOUT_CODE))
    except (OSError, ValueError) as error:
        raise ModelError(f"{name} could not be fetched: {error}") from None
    return checkpoint.load(place)


def push_to_hub(
    ranker: NeuralRanker,
    repo_id: str,
    *,
    card: ModelCard | None = None,
    private: bool = False,
    message: str = "Add the ranker",
    api: HubApi | None = None,
) -> str:
    """Save a ranker and upload it; the hub id comes back. ``api`` is ``huggingface_hub.HfApi()`` unless given."""
    _check_hub_id(repo_id)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "ranker"
        save_pretrained(ranker, folder, card=card, repo_id=repo_id)
        return push_folder(folder, repo_id, private=private, message=message, api=api)


def push_folder(
    folder: Path | str,
    repo_id: str,
    *,
    private: bool = False,
    message: str = "Add the model",
    api: HubApi | None = None,
) -> str:
    """Upload a folder that ``save_pretrained`` or ``export_classifier`` wrote; the hub id comes back."""
    _check_hub_id(repo_id)
    folder = Path(folder)
    missing = [name for name in ("README.md", "config.json") if not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{folder} has no {' and no '.join(missing)}: write it with save_pretrained first")
    if api is None:
        from huggingface_hub import HfApi

        api = HfApi()
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=str(folder), commit_message=message, allow_patterns=list(FILES))
    except OSError as error:  # what the hub's client raises: no connection, no token, no right
        raise ServiceError(f"{repo_id} could not be uploaded: {error}. Is `hf auth login` done?") from None
    return repo_id


def reading_of(ranker: NeuralRanker) -> Reading:
    """How a ranker reads: the parts it is made of, with their settings."""
    aggregator: nn.Module = ranker.aggregator
    return Reading(
        ranker=ranker.spec.name if ranker.spec is not None else type(aggregator).__name__,
        splitter=_described(ranker.splitter),
        layout=_described(ranker.layout),
        aggregator={"name": type(aggregator).__name__},
        row_tokens=ranker.layout.query_tokens + ranker.splitter.longest + ranker.backbone.specials.framing,
        trained=ranker.trained,
    )


def _described(part: object) -> Mapping[str, Any]:
    """Name and settings of a frozen part, inner parts the same."""
    found: dict[str, Any] = {"name": type(part).__name__}
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return found
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        found[field.name] = _described(value) if dataclasses.is_dataclass(value) else plain(value)
    return found


def _without_places(spec: Spec) -> Spec:
    """The spec with folders of this machine shortened to their last name; a checkpoint brings its own weights."""
    return Spec(spec.name, {name: _without_place(value) for name, value in spec.params.items()})


def _without_place(value: Any) -> Any:
    if isinstance(value, Spec):
        return _without_places(value)
    if isinstance(value, (str, Path)) and (Path(value).is_absolute() or Path(value).exists()):
        return Path(value).name
    return value


def _snapshot(name: str, **settings: Any) -> str:
    from huggingface_hub import snapshot_download

    return str(snapshot_download(name, **settings))


def _is_hub_id(name: str) -> bool:
    parts = name.split("/")
    return len(parts) == 2 and all(part and not part.startswith((".", "~")) for part in parts)


def _check_hub_id(repo_id: str) -> None:
    if not _is_hub_id(repo_id):
        raise SettingsError(f"{repo_id!r} is no hub id: those read 'maker/name'")
