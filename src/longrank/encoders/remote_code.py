"""Models that bring Python code of their own: it runs only if the caller names it, in one fixed version.

JINA's ALiBi encoders and MosaicBERT are such models: their configs say ``bert`` and their code is elsewhere.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longrank.core.errors import ModelError

_ENTRIES = ("AutoModel", "AutoModelForMaskedLM", "AutoModelForSequenceClassification", "AutoConfig")
_PINNED = re.compile(r"(?P<source>[^@]+)@(?P<commit>[0-9a-f]{40})")


def code_arguments(model: str, config: Mapping[str, Any], allowed: str | None) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` that run a model's own code; none for a class that transformers has itself.

    ``allowed`` is ``name@version``: for a folder its name and the hash of its ``.py`` files, else the hub repository
    that holds the code and the commit that was read. The error for code that is not allowed says which.
    """
    entry = foreign_class(config)
    if entry is None:
        if allowed is not None:
            raise ModelError(f"{model} needs no code but that of transformers: leave remote_code out")
        return {}
    source, _, path = entry.rpartition("--")
    folder = Path(source or model)
    if folder.is_dir():
        wanted = f"{folder.resolve().name}@{code_hash(folder)}"
        if allowed != wanted:
            raise _refused(model, path, allowed, wanted)
        return {"trust_remote_code": True}
    pinned = _PINNED.fullmatch(allowed or "")
    if pinned is None or pinned["source"] != (source or model):
        raise _refused(model, path, allowed, f"{source or model}@COMMIT")
    return {"trust_remote_code": True, "code_revision": pinned["commit"]}


def foreign_class(config: Mapping[str, Any]) -> str | None:
    """The class of its own that a config names, None where transformers has it by the same type and name."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    named = config.get("auto_map") or {}
    entry = next((str(named[name]) for name in _ENTRIES if named.get(name)), None)
    known: Any = MODEL_MAPPING_NAMES.get(str(config.get("model_type")))
    if entry is None or known is None:
        return entry
    name, stem = entry.rpartition(".")[2], str(known).removesuffix("Model")
    same = "AutoModel" in named and (name == known or name.startswith(f"{stem}For"))
    return None if same else entry


def code_hash(folder: Path) -> str:
    """Twelve hex digits that change when any Python file of the folder does.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     before = code_hash(Path(name))
    ...     _ = (Path(name) / "modeling.py").write_text("import os")
    ...     len(before), before == code_hash(Path(name))
    (12, False)
    """
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*.py")):
        for part in (path.relative_to(folder).as_posix().encode(), path.read_bytes()):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()


def _refused(model: str, path: str, allowed: str | None, wanted: str) -> ModelError:
    given = "" if allowed is None else f", and what is allowed is {allowed!r}"
    commit = " (COMMIT: the 40 digits of the commit you have read)" if wanted.endswith("@COMMIT") else ""
    return ModelError(
        f"{model} would run Python code of its own ({path}){given}: read the code, and if you trust it say "
        f"remote_code={wanted!r}{commit}"
    )
