"""One way to name things: a decorator puts in, a name takes out, a miss suggests."""

import difflib
import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from types import NoneType, UnionType
from typing import Any, Generic, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from longrank.core.errors import SettingsError, UnknownName
from longrank.core.settings import to_spec
from longrank.core.types import Spec

T = TypeVar("T")
P = ParamSpec("P")
_PLAIN: Mapping[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


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
        """The thing a spec describes; a parameter that is itself a spec is built first, by the registry of its name.

        Such a part may also be given by its name alone, or as a table ``{"name": ..., "params": {...}}``.
        """
        self.check(spec.name, spec.params)
        make = self[spec.name].make
        known = inspect.signature(make).parameters
        # a part that may also be something else (a config, say) keeps what was given
        spec = spelled_out(spec, [n for n, p in known.items() if n in (parts or {}) and not _is_union(p.annotation)])
        missing = [n for n, p in known.items() if p.default is p.empty and n not in spec.params]
        if missing:
            raise SettingsError(f"{self.kind} {spec.name!r} needs {', '.join(missing)}")
        return make(**{name: _inner(name, value, parts or {}) for name, value in spec.params.items()})

    def check(self, name: str, params: Mapping[str, Any]) -> None:
        """Refuse parameters that a maker does not have, and values that its annotations do not allow.

        Only numbers, truth values, texts and ``Literal`` are looked at: anything else its maker has to judge.
        """
        known = inspect.signature(self[name].make).parameters
        for param, value in params.items():
            if param not in known:
                hint = _nearest(param, known) or f" Known: {', '.join(known) or 'none'}"
                raise SettingsError(f"{self.kind} {name!r} has no parameter {param!r}.{hint}")
            wrong = _misfit(value, known[param].annotation)
            if wrong:
                raise SettingsError(f"{self.kind} {name!r}: {param} is {wrong}")


def spelled_out(spec: Spec, parts: Container[str]) -> Spec:
    """The spec with those of its parts that were given as a name or a table as specs.

    >>> spelled_out(Spec("maxp", {"backbone": "tiny", "compat": "published"}), {"backbone"}).params
    {'backbone': Spec(name='tiny', params={}), 'compat': 'published'}
    """
    return Spec(spec.name, {k: _part(v) if k in parts else v for k, v in spec.params.items()})


def _part(value: Any) -> Any:
    if isinstance(value, str):
        return Spec(value)
    if isinstance(value, Real | list):
        raise SettingsError(f"a part is given by its name or as a table with name and params, not as {value!r}")
    return to_spec(value) if isinstance(value, Mapping) else value


def _nearest(given: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _misfit(value: Any, annotation: Any) -> str:
    """What an annotation allows and this value is not; empty where it fits or the annotation is not a plain one."""
    kinds = get_args(annotation) if _is_union(annotation) else (annotation,)
    if not all(kind is NoneType or kind in _PLAIN or get_origin(kind) is Literal for kind in kinds):
        return ""
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if any(_fits(value, kind) for kind in kinds) or (value is None and not choices):  # None is 'no limit' of a length
        return ""
    allowed = " or ".join([*map(repr, choices), *(_PLAIN[kind] for kind in kinds if kind in _PLAIN)])
    left_out = ", or left out" if NoneType in kinds else ""
    return f"{allowed}{left_out}, not {value!r}.{_nearest(str(value), map(str, choices))}"


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return isinstance(value, str | PathLike if kind is str else kind)


def _inner(name: str, value: Any, parts: Mapping[str, Registry[Any]]) -> Any:
    if not isinstance(value, Spec):
        return value
    if name not in parts:
        raise SettingsError(f"parameter {name!r} is a spec, but nothing builds a {name!r}")
    return parts[name].build(value, parts)
