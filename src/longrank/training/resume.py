"""The state of a training run on disk: weights, optimizer, random state and progress; JSON and safetensors."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from longrank.core.disk import atomic_folder
from longrank.core.errors import TrainingError
from longrank.rankers.neural import NeuralRanker

_RANDOM = "torch-random-state"
_PROGRESS = "progress.json"


def save(
    folder: Path, ranker: NeuralRanker, optimizer: torch.optim.Optimizer, *, mark: str, progress: dict[str, Any]
) -> None:
    """Write the state in one step; the old one survives until the new one is whole."""
    from safetensors.torch import save_file

    with atomic_folder(folder, mark=_PROGRESS, what="the state of a training") as temporary:
        other = _other_names(ranker)
        weights = {name: value.contiguous() for name, value in ranker.state_dict().items() if name not in other}
        save_file(weights, temporary / "weights.safetensors")
        moments: dict[str, Tensor] = {_RANDOM: torch.get_rng_state()}
        for number, values in optimizer.state_dict()["state"].items():
            moments |= {f"{number}.{key}": value.contiguous() for key, value in values.items()}
        save_file(moments, temporary / "optimizer.safetensors")
        (temporary / _PROGRESS).write_text(json.dumps({"mark": mark, "progress": progress}), encoding="utf-8")


def load(folder: Path, ranker: NeuralRanker, optimizer: torch.optim.Optimizer, *, mark: str) -> dict[str, Any] | None:
    """Put a saved state back and give its progress; None where there is nothing to resume.

    What a killed run left half-written beside the state is removed; a state that it had moved aside to put a new one in
    its place is put back.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for aside in folder.parent.glob(f".[0-9]*-old-{folder.name}"):
        if not folder.is_dir():
            aside.rename(folder)
    for stale in folder.parent.glob(f".[0-9]*-{folder.name}"):
        shutil.rmtree(stale, ignore_errors=True)
    if not folder.is_dir():
        return None
    try:
        facts = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
        weights = load_file(folder / "weights.safetensors")
        moments = load_file(folder / "optimizer.safetensors")
        same, progress = facts["mark"] == mark, dict(facts["progress"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TrainingError(f"{folder} is damaged ({error}): remove it to start again") from None
    if not same:
        raise TrainingError(f"{folder} belongs to a run with other settings: remove it, or choose another folder")
    _put(weights, ranker)
    torch.set_rng_state(moments.pop(_RANDOM))
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in moments.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return progress


def put_saved_weights(folder: Path, ranker: NeuralRanker) -> bool:
    """Put the weights of a state into the ranker; False where nothing was saved or it cannot be read."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(folder / "weights.safetensors")
    except (OSError, SafetensorError):
        return False
    _put(weights, ranker)
    return True


def _put(weights: dict[str, Tensor], ranker: NeuralRanker) -> None:
    other = {name: weights[kept] for name, kept in _other_names(ranker).items() if kept in weights}
    ranker.load_state_dict({**weights, **other})


def _other_names(ranker: NeuralRanker) -> dict[str, str]:
    """Second names of weights that have several, as T5's embeddings do, and the name under which a file has them."""
    first: dict[int, str] = {}
    named = ranker.state_dict(keep_vars=True)
    return {name: kept for name, value in named.items() if (kept := first.setdefault(id(value), name)) != name}
