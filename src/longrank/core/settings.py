"""People write TOML; it becomes frozen pydantic models in which an unknown key is an error."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from longrank.core.errors import SettingsError
from longrank.core.types import Spec


class Settings(BaseModel):
    """What every settings model inherits: frozen, and strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


S = TypeVar("S", bound=Settings)


def load_settings(model: type[S], path: Path, overrides: Sequence[str] = ()) -> S:
    """Settings from a TOML file, with ``dotted.key=value`` overrides applied on top."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"no settings file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    return parse_settings(model, apply_overrides(table, overrides), source=str(path))


def parse_settings(model: type[S], table: Mapping[str, Any], *, source: str) -> S:
    """Settings from a table; every problem is listed with its key."""
    try:
        return model.model_validate(dict(table))
    except ValidationError as error:
        raise SettingsError(f"{source}: {'; '.join(map(_problem, error.errors()))}") from None


def apply_overrides(table: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of the table with each ``dotted.key=value`` set; values are read as TOML, else as plain text.

    >>> apply_overrides({"train": {"epochs": 1}}, ["train.epochs=3", "name=fast"])
    {'train': {'epochs': 3}, 'name': 'fast'}
    """
    result = _copy(table)
    for override in overrides:
        key, sign, raw = override.partition("=")
        if not sign or not key.strip():
            raise SettingsError(f"override {override!r} is not of the form key.subkey=value")
        *path, last = key.strip().split(".")
        place = result
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise SettingsError(f"override {override!r}: {part!r} is a value, not a table")
        place[last] = _toml_value(raw.strip())
    return result


def to_spec(value: Mapping[str, Any]) -> Spec:
    """A ``{name, params}`` table as a Spec, inner tables of the same shape included."""
    if not isinstance(value.get("name"), str) or set(value) - {"name", "params"}:
        raise SettingsError(f"a spec is a table with a name and params, got {dict(value)!r}")
    params = value.get("params", {})
    return Spec(value["name"], {k: to_spec(v) if _is_spec(v) else v for k, v in params.items()})


def _problem(error: Mapping[str, Any]) -> str:
    message = error["msg"].removeprefix("Value error, ")
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {message}" if place else message


def _is_spec(value: Any) -> bool:
    return isinstance(value, Mapping) and "name" in value and not set(value) - {"name", "params"}


def _copy(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in table.items()}


def _toml_value(raw: str) -> Any:
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return raw
