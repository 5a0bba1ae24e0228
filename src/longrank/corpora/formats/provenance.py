"""Where a run comes from, in the fields of ir_metadata 0.1 (PRIMAD): for the comments at the head of a run file.

Only what is known is written. Nothing names the machine, its user or its folders: of every path the last name is kept.
"""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

from longrank.core.types import Run

LIBRARIES = ("bm25s", "faiss-cpu", "numpy", "onnxruntime", "tokenizers", "torch", "transformers")


def run_metadata(
    run: Run,
    *,
    collection: str,
    command: Sequence[str],
    stages: Sequence[Mapping[str, Any]],
    baseline: str = "",
) -> dict[str, Any]:
    """The block that ``write_run`` takes: ``stages`` are the steps of the ranking, each with a name and a method.

    ``command`` is the command line in words; ``baseline`` the tag of the run that this one is compared with.
    """
    goal = {"research goal": {"evaluation": {"baseline": [baseline]}}} if baseline else {}
    return {
        "schema-version": 0.1,
        "run-version": 1.0,
        "tag": run.name,
        "platform": {
            "hardware": {"cpu": {"architecture": platform.machine()}},
            "operating system": {"kernel": platform.system()},
            "software": {
                "libraries": {"python": [f"python=={platform.python_version()}", *map(_pinned, _installed())]},
                "retrieval toolkit": [_pinned("longrank")],
            },
        },
        **goal,
        "implementation": {
            "executable": {"cmd": " ".join(map(last_name, command))},
            "source": {"lang": ["python"]},
        },
        "method": {
            "automatic": True,
            "score ties": "by document id, falling",
            "retrieval": [{key: _plain(value) for key, value in stage.items()} for stage in stages],
        },
        "data": {"test collection": {"name": collection}},
    }


def last_name(word: str) -> str:
    """A word of a command line without the folders before it.

    >>> last_name("--out"), last_name("/home/me/runs/maxp.trec"), last_name("0.5")
    ('--out', 'maxp.trec', '0.5')
    """
    return PurePath(word).name or word if "/" in word or "\\" in word else word


def _plain(value: Any) -> Any:
    return last_name(value) if isinstance(value, str) else value


def _installed() -> list[str]:
    return [name for name in LIBRARIES if _version(name) is not None]


def _pinned(name: str) -> str:
    return f"{name}=={_version(name)}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
