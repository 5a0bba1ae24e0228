"""Writes docs/reference.md from signatures and docstrings: `python docs/make_reference.py`."""

import inspect
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import longrank
from longrank.core.settings import Settings

ROOT = Path(__file__).parent.parent
HEAD = """# Reference

Made from signatures and docstrings by `docs/make_reference.py`; a test compares the two. Names of the first part are
promises: `from longrank import ...`. The other parts are what a spec, a TOML file or a command may name.
`longrank COMMAND --help` explains the [commands](commands.md), the [architecture](architecture.md) page lists every
module.
"""
REGISTRIES = (
    ("Rankers to train", "longrank.rankers.zoo", "RANKERS"),
    ("Rankers that need no training", "longrank.rankers.ready", "READY"),
    ("Backbones", "longrank.encoders.registry", "BACKBONES"),
    ("Losses", "longrank.training.registry", "LOSSES"),
    ("Wrappers that make a ranker read to the end", "longrank.audit.wrappers", "WRAPPERS"),
    ("Chat models", "longrank.chat.registry", "CHATS"),
)
SETTINGS = (
    ("Experiment files (`longrank run`)", "longrank.experiments.settings", "Experiment"),
    ("Training", "longrank.training.settings", "TrainSettings"),
    ("Audits", "longrank.audit.settings", "AuditSettings"),
)


def sentence(thing: Any) -> str:
    """First sentence of a docstring, on one line."""
    text = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(text.split())


def parameters(make: Callable[..., object]) -> str:
    """Names and defaults as one would type them; ``self`` and types are left out."""
    shown = []
    for parameter in inspect.signature(make).parameters.values():
        if parameter.name != "self":
            default = "" if parameter.default is parameter.empty else f"={_value(parameter.default)}"
            shown.append(parameter.name + default)
    return ", ".join(shown)


def public() -> Iterable[str]:
    """Every public name with its signature, and the methods of its own class."""
    for name in longrank.__all__:
        thing = getattr(longrank, name)
        yield f"\n### `{name}({parameters(thing)})`\n\n{sentence(thing)}"
        methods = [
            f"- `.{each}({parameters(member)})`: {sentence(member)}"
            for each, member in vars(thing).items()
            if inspect.isfunction(member) and not each.startswith("_")
        ]
        if inspect.isclass(thing) and methods:
            yield "\n" + "\n".join(methods)


def registry(module: str, name: str) -> Iterable[str]:
    """A line an entry: name, parameters, what it does, paper."""
    yield "\n| name | what it does | parameters |\n|---|---|---|"
    for entry in getattr(import_module(module), name):
        paper = f" ({entry.paper})" if entry.paper else ""
        taken = parameters(entry.make)
        cells = (f"`{entry.name}`", f"{sentence(entry.make)}{paper}", f"`{taken}`" if taken else "")
        yield "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def settings(module: str, name: str) -> Iterable[str]:
    """A line a key: its default, and what its description says."""
    model = getattr(import_module(module), name)
    yield f"\n{sentence(model)}\n\n| key | default | |\n|---|---|---|"
    for key, field in model.model_fields.items():
        default = "required" if field.is_required() else f"`{_value(field.get_default(call_default_factory=True))}`"
        yield f"| `{key}` | {_cell(default)} | {_cell(field.description or '')} |"


def page() -> str:
    """The whole page."""
    parts = [HEAD, "\n## Public names", *public()]
    for heading, module, name in REGISTRIES:
        parts += [f"\n## {heading}", *registry(module, name)]
    for heading, module, name in SETTINGS:
        parts += [f"\n## {heading}", *settings(module, name)]
    return "\n".join(parts) + "\n"


def _value(value: object) -> str:
    """A default as text that is the same everywhere: no addresses, no long models."""
    if isinstance(value, Settings):
        return "{...}" if value.model_fields_set else "{}"
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {_value(item)}' for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    text = repr(value).replace("'", '"').replace("<factory>", "...")
    return text if not re.search(r"0x[0-9a-f]+", text) else type(value).__name__


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    (ROOT / "docs" / "reference.md").write_text(page(), encoding="utf-8")
