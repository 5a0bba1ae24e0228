"""JSON lines: one object a line, its fields checked by name."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from longrank.core.errors import BadLine
from longrank.corpora.formats.files import numbered_lines, writing


class Record:
    """One line's object, which knows where it stands so that a bad field can say so."""

    def __init__(self, path: Path, number: int, fields: Mapping[str, Any]) -> None:
        self.path, self.number, self.fields = path, number, fields

    def text(self, name: str, *, default: str | None = None) -> str:
        """A field that must be a string; absent or null is allowed only with a default."""
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.bad(f"{name!r} must be a string, got {_shown(value)}; it has {self._names()}")
        return value

    def id(self, name: str) -> str:
        """A field that must be a string of at least one character."""
        value = self.text(name)
        if not value:
            raise self.bad(f"{name!r} is empty; every id needs at least one character")
        return value

    def integer(self, name: str) -> int:
        """A field that must be a whole number."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.bad(f"{name!r} must be a whole number, got {_shown(value)}; it has {self._names()}")
        return value

    def bad(self, reason: str) -> BadLine:
        """The exception that names this line."""
        return BadLine(self.path, self.number, reason)

    def _names(self) -> str:
        return "fields " + ", ".join(map(repr, self.fields)) if self.fields else "no fields"


def read_records(path: Path) -> Iterator[Record]:
    """The objects of a file of JSON lines; empty lines are passed over."""
    for number, line in numbered_lines(path):
        if not line or line.isspace():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadLine(path, number, f"not JSON ({error}); one object a line is needed") from None
        if not isinstance(fields, dict):
            raise BadLine(path, number, f"a JSON object is needed, got {_shown(fields)}")
        if "\\ud" in line.lower() and not _encodable(fields):
            raise BadLine(path, number, "an escape like \\ud83d is half of a surrogate pair; repair the text")
        yield Record(path, number, fields)


def write_records(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Write one object a line; the file appears whole or not at all."""
    with writing(path) as stream:
        stream.writelines(to_line(record) for record in records)


def to_line(record: Mapping[str, object]) -> str:
    """The object as one line of JSON, line end included, with characters as they are."""
    return json.dumps(record, ensure_ascii=False) + "\n"


def _encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
