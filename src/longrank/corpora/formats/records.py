"""JSON lines: one object a line, its fields checked by name."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from longrank.core.errors import BadLine
from longrank.corpora.formats.files import Refuse, decode_line, parse_lines, stop_at_it, writing

T = TypeVar("T")


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

    def table(self, name: str) -> Mapping[str, Any]:
        """A field that must be an object."""
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise self.bad(f"{name!r} must be an object, got {_shown(value)}; it has {self._names()}")
        return value

    def numbers(self, name: str) -> Mapping[str, Any]:
        """A field that must be an object of numbers."""
        table = self.table(name)
        wrong = next((key for key, value in table.items() if type(value) not in (int, float)), None)
        if wrong is not None:
            raise self.bad(f"{wrong!r} of {name!r} must be a number, got {_shown(table[wrong])}")
        return table

    def bad(self, reason: str) -> BadLine:
        """The exception that names this line."""
        return BadLine(self.path, self.number, reason)

    def _names(self) -> str:
        return "fields " + ", ".join(map(repr, self.fields)) if self.fields else "no fields"


def read_records(path: Path) -> Iterator[Record]:
    """The objects of a file of JSON lines; empty lines are passed over."""
    return parse_records(path, lambda record: record)


def parse_records(path: Path, parse: Callable[[Record], T], refuse: Refuse = stop_at_it) -> Iterator[T]:
    """What ``parse`` makes of each object of a file of JSON lines; empty lines are passed over, bad ones refused."""

    def parse_line(number: int, line: bytes) -> T | None:
        record = _record(path, number, decode_line(line, path, number))
        return None if record is None else parse(record)

    return parse_lines(path, parse_line, refuse)


def write_records(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Write one object a line; the file appears whole or not at all."""
    with writing(path) as stream:
        stream.writelines(to_line(record) for record in records)


def to_line(record: Mapping[str, object]) -> str:
    """The object as one line of JSON, line end included, with characters as they are."""
    return json.dumps(record, ensure_ascii=False) + "\n"


def _record(path: Path, number: int, line: str) -> Record | None:
    if not line or line.isspace():
        return None
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(path, number, f"not JSON ({error}); one object a line is needed") from None
    if not isinstance(fields, dict):
        raise BadLine(path, number, f"a JSON object is needed, got {_shown(fields)}")
    if "\\ud" in line.lower() and not _encodable(fields):
        raise BadLine(path, number, "an escape like \\ud83d is half of a surrogate pair; repair the text")
    return Record(path, number, fields)


def _encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
