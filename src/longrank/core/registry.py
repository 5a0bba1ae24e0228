"""One way to name things: a decorator puts in, a name takes out, a miss suggests."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Generic, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from longrank.core.errors import SettingsError, UnknownName
from longrank.core.types import Spec

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A named maker of ``T`` and the paper that describes it."""

    name: str
    make: Callable[..., T]
    paper: str

    @property
    def summary(self) -> str:
        """First line of the maker's docstring."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]


class Registry(Generic[T]):
    """Makers of one kind of thing by name.

    >>> fruits: Registry[str] = Registry("fruit")
    >>> @fruits.add("apple")
    ... def apple(colour: str = "red") -> str:
    ...     return colour + " apple"
    >>> fruits.build(Spec("apple", {"colour": "green"}))
    'green apple'
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, *, paper: str = "") -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Decorator that registers a maker under a name."""

        def register(make: Callable[P, T]) -> Callable[P, T]:
            if name in self._entries:
                raise SettingsError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = Entry(name, make, paper)
            return make

        return register

    def __getitem__(self, name: str) -> Entry[T]:
        if name not in self._entries:
            hint = _nearest(name, self._entries)
            raise UnknownName(f"no {self.kind} {name!r}.{hint} Known: {', '.join(sorted(self._entries))}")
        return self._entries[name]

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def build(self, spec: Spec, parts: Mapping[str, "Registry[Any]"] | None = None) -> T:
        """The thing a spec describes; a parameter that is itself a spec is built first, by the registry of its name."""
        self.check(spec.name, spec.params)
        make = self[spec.name].make
        known = inspect.signature(make).parameters
        missing = [n for n, p in known.items() if p.default is p.empty and n not in spec.params]
        if missing:
            raise SettingsError(f"{self.kind} {spec.name!r} needs {', '.join(missing)}")
        return make(**{name: _inner(name, value, parts or {}) for name, value in spec.params.items()})

    def check(self, name: str, params: Mapping[str, Any]) -> None:
        """Refuse parameters that a maker does not have, and values that its annotations (``Literal``) do not list."""
        known = inspect.signature(self[name].make).parameters
        for param, value in params.items():
            if param not in known:
                hint = _nearest(param, known) or f" Known: {', '.join(known) or 'none'}"
                raise SettingsError(f"{self.kind} {name!r} has no parameter {param!r}.{hint}")
            choices = _choices(known[param].annotation)
            if choices and value not in choices:
                named = [choice for choice in choices if choice is not None]
                allowed = " or ".join(map(repr, named)) + (", or left out" if None in choices else "")
                raise SettingsError(
                    f"{self.kind} {name!r}: {param} is {allowed}, not {value!r}.{_nearest(str(value), named)}"
                )


def _nearest(given: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The values that an annotation lists, None among them where it is optional; none where it lists no values."""
    if get_origin(annotation) in (Union, UnionType):
        parts = [(None,) if part is NoneType else _choices(part) for part in get_args(annotation)]
        return tuple(chain(*parts)) if all(parts) else ()
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _inner(name: str, value: Any, parts: Mapping[str, Registry[Any]]) -> Any:
    if not isinstance(value, Spec):
        return value
    if name not in parts:
        raise SettingsError(f"parameter {name!r} is a spec, but nothing builds a {name!r}")
    return parts[name].build(value, parts)
