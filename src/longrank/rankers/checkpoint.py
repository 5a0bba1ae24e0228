"""A ranker on disk and back: a spec, safetensors and JSON; never a pickle.

A checkpoint is a folder: ``ranker.json`` (format, spec, hashes), ``backbone/`` (which transformers itself can load)
and ``aggregator.safetensors``. The pretrained weights it started from are not looked for again.
"""

import json
from pathlib import Path
from typing import Any

from longrank.core.disk import atomic_folder
from longrank.core.errors import CheckpointError
from longrank.core.fingerprint import file_hash, plain
from longrank.core.settings import to_spec
from longrank.core.types import Spec
from longrank.encoders.pretrained import safe_weights
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker

FORMAT = 1
MARK = "ranker.json"


def save(ranker: NeuralRanker, folder: Path) -> None:
    """Write a checkpoint in one step; an old one of the same name is replaced only by a whole new one."""
    from safetensors.torch import save_file

    from longrank import __version__

    if ranker.spec is None:
        raise CheckpointError("this ranker was composed by hand: build it with build_ranker(spec) to save it")
    with atomic_folder(folder, mark=MARK, what="a checkpoint") as temporary:
        (temporary / "backbone").mkdir()
        ranker.backbone.save(temporary / "backbone")
        state = {name: value.contiguous() for name, value in ranker.aggregator.state_dict().items()}
        save_file(state, temporary / "aggregator.safetensors")
        facts = {
            "format": FORMAT,
            "ranker": plain(ranker.spec),
            "trained": ranker.trained,
            "version": __version__,
            "sha256": {name: file_hash(temporary / name) for name in _names(temporary)},
        }
        (temporary / MARK).write_text(json.dumps(facts, indent=1, sort_keys=True), encoding="utf-8")


def load(folder: Path | str, *, remote_code: str | None = None) -> NeuralRanker:
    """The ranker of a checkpoint, ready to score: the same scores to the bit.

    A backbone with Python code of its own needs ``remote_code`` as in ``pretrained``: no checkpoint allows itself.
    """
    from safetensors.torch import load_file

    folder = Path(folder)
    facts = _checked_facts(folder)
    spec = to_spec(facts["ranker"])
    inside = Spec("pretrained", {"model": str(folder / "backbone"), "remote_code": remote_code})
    ranker = build_ranker(Spec(spec.name, {**spec.params, "backbone": inside}))
    ranker.aggregator.load_state_dict(load_file(folder / "aggregator.safetensors"))
    ranker.spec = spec
    ranker.trained = bool(facts["trained"])
    return ranker.eval()


def put_back(ranker: NeuralRanker, folder: Path) -> None:
    """Put the weights of a checkpoint into a ranker built by the same spec; no code that the checkpoint brings runs."""
    from safetensors.torch import load_file

    facts, model = _checked_facts(folder), ranker.backbone.model
    held, missing = safe_weights(type(model), str(folder / "backbone"), config=model.config)
    read = {name: value for name, value in held.state_dict().items() if name not in missing}
    model.load_state_dict({name: read[name] for name in model.state_dict() if name in read})  # no pooler, which is new
    ranker.aggregator.load_state_dict(load_file(folder / "aggregator.safetensors"))
    ranker.trained = bool(facts["trained"])


_WEIGHTS = ("aggregator.safetensors", "backbone/model.safetensors", "backbone/config.json")


def _names(folder: Path) -> list[str]:
    """Every file of a checkpoint that decides a score: the weights, and what cuts text into tokens."""
    inside = (path for path in (folder / "backbone").rglob("*") if path.is_file())
    return sorted({*_WEIGHTS, *(path.relative_to(folder).as_posix() for path in inside)})


def _checked_facts(folder: Path) -> dict[str, Any]:
    facts = _facts(folder)
    for name in {**dict.fromkeys(_WEIGHTS), **facts["sha256"]}:
        if not (folder / name).is_file() or file_hash(folder / name) != facts["sha256"].get(name):
            raise CheckpointError(f"{folder / name} is missing or was changed after it was saved: restore or retrain")
    return facts


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / MARK
    if not path.is_file():
        pickled = next((p.name for p in folder.glob("*") if p.suffix in {".bin", ".pt", ".pkl", ".pth"}), None)
        hint = f"; {pickled} may be a pickle, which is never loaded" if pickled else ""
        raise CheckpointError(f"{folder} is not a checkpoint: it has no ranker.json{hint}")
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from None
    if facts.get("format") != FORMAT:
        by = f" (written by longrank {facts['version']})" if facts.get("version") else ""
        raise CheckpointError(
            f"{folder} has checkpoint format {facts.get('format')!r}{by}, and this version reads {FORMAT}: load it "
            f"with the longrank that wrote it, or train again"
        )
    if not isinstance(facts.get("sha256"), dict) or "ranker" not in facts:
        raise CheckpointError(f"{path} lacks its spec or its hashes: it was changed after it was saved, restore it")
    return facts
