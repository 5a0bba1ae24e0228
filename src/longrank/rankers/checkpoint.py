"""A ranker on disk and back: a spec, safetensors and JSON; never a pickle.

A checkpoint is a folder: ``ranker.json`` (format, spec, hashes), ``backbone/`` (which transformers itself can load)
and ``aggregator.safetensors``. The pretrained weights it started from are not looked for again.
"""

import json
from pathlib import Path
from typing import Any

from longrank.core.disk import atomic_path
from longrank.core.errors import CheckpointError
from longrank.core.fingerprint import file_hash, plain
from longrank.core.settings import to_spec
from longrank.core.types import Spec
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker

FORMAT = 1


def save(ranker: NeuralRanker, folder: Path) -> None:
    """Write a checkpoint in one step; an old one of the same name is replaced only by a whole new one."""
    from safetensors.torch import save_file

    if ranker.spec is None:
        raise CheckpointError("this ranker was composed by hand: build it with build_ranker(spec) to save it")
    with atomic_path(folder) as temporary:
        (temporary / "backbone").mkdir(parents=True)
        ranker.backbone.save(temporary / "backbone")
        state = {name: value.contiguous() for name, value in ranker.aggregator.state_dict().items()}
        save_file(state, temporary / "aggregator.safetensors")
        facts = {
            "format": FORMAT,
            "ranker": plain(ranker.spec),
            "trained": ranker.trained,
            "sha256": {name: file_hash(temporary / name) for name in _WEIGHTS},
        }
        (temporary / "ranker.json").write_text(json.dumps(facts, indent=1, sort_keys=True), encoding="utf-8")


def load(folder: Path | str) -> NeuralRanker:
    """The ranker of a checkpoint, ready to score: the same scores to the bit."""
    from safetensors.torch import load_file

    folder = Path(folder)
    facts = _facts(folder)
    for name, expected in facts["sha256"].items():
        if not (folder / name).is_file() or file_hash(folder / name) != expected:
            raise CheckpointError(f"{folder / name} is missing or was changed after it was saved: restore or retrain")
    spec = to_spec(facts["ranker"])
    inside = Spec("pretrained", {"model": str(folder / "backbone")})
    ranker = build_ranker(Spec(spec.name, {**spec.params, "backbone": inside}))
    ranker.aggregator.load_state_dict(load_file(folder / "aggregator.safetensors"))
    ranker.spec = spec
    ranker.trained = bool(facts["trained"])
    return ranker.eval()


_WEIGHTS = ("aggregator.safetensors", "backbone/model.safetensors", "backbone/config.json")


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / "ranker.json"
    if not path.is_file():
        pickled = next((p.name for p in folder.glob("*") if p.suffix in {".bin", ".pt", ".pkl", ".pth"}), None)
        hint = f"; {pickled} may be a pickle, which is never loaded" if pickled else ""
        raise CheckpointError(f"{folder} is not a checkpoint: it has no ranker.json{hint}")
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from None
    if facts.get("format") != FORMAT:
        raise CheckpointError(f"{folder} has checkpoint format {facts.get('format')!r}, this version reads {FORMAT}")
    return facts
