"""An invented encyclopedia of any size: each passage states one attribute of one entity among sentences without facts.

Passage ``i`` depends on ``(seed, i)`` only, so any part can be made anywhere and in any order. Every entity has six
passages, one an attribute, and no pair of entity and attribute occurs twice. Names have two parts; sixty-four
neighbours use eight first and eight second parts in all combinations, so every name shares a part with fourteen others.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

import numpy as np

from longrank.core.errors import SettingsError
from longrank.core.seeds import generator
from longrank.corpora.catalog.encyclopedia_grammar import (
    ATTRIBUTES,
    FIRST_HEADS,
    FIRST_TAILS,
    KINDS,
    SECOND_HEADS,
    SECOND_TAILS,
    Kind,
)
from longrank.corpora.catalog.encyclopedia_words import COMMON_FILLER, GROUP_FILLER, NEIGHBOUR_FILLER, WORDS

ATTRIBUTES_PER_ENTITY = 6
MAX_PASSAGES = 1_000_000

_SIDE = 8  # side of the square of names; each cell has one other of its kind in its column: same second part
_BLOCK = _SIDE * _SIDE
_NAMESAKES = 2 * (_SIDE - 1)
_TOKEN = re.compile(r"\w+|[^\w\s]")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
_EXTRA_PIECES = 2  # word pieces of a two-part name under the BERT vocabulary, beyond its two words

# Length and difficulty, frozen: set by token counts and by BM25, before any model was trained.
_SHORTEST, _LONGEST = 28.0, 48.0
_NEIGHBOUR_SHARE = 0.5
_LEAD_SHARE = 0.4
_DRAWS = 96


@dataclass(frozen=True, slots=True)
class Entity:
    """Something the encyclopedia writes about; its name is unique."""

    index: int
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that states one attribute of one entity, the only one of its encyclopedia to do so."""

    index: int
    text: str
    entity: Entity
    attribute: str
    value: str

    @property
    def id(self) -> str:
        """The index as an id."""
        return f"p{self.index}"


@dataclass(frozen=True)
class Encyclopedia:
    """All passages of one seed; nothing is stored.

    >>> book = Encyclopedia(seed=7)
    >>> book.passage(12) == next(book.passages(13, start=12))
    True
    """

    seed: int

    def entity(self, index: int) -> Entity:
        """The entity whose passages are ``6 * index`` to ``6 * index + 5``."""
        block, cell = divmod(index, _BLOCK)
        row, column = divmod(cell, _SIDE)
        firsts, seconds = self._parts[block]
        return Entity(index, _kind(index).name, f"{firsts[row]} {seconds[column]}")

    def fact(self, index: int) -> tuple[int, str]:
        """Index of the entity and name of the attribute that passage ``index`` states."""
        entity, slot = divmod(index, ATTRIBUTES_PER_ENTITY)
        return entity, _kind(entity).attributes[slot]

    def passage(self, index: int) -> Passage:
        """Passage ``index``, a number below ``MAX_PASSAGES``."""
        if not 0 <= index < MAX_PASSAGES:
            raise SettingsError(f"passage {index} does not exist: an encyclopedia has passages 0 to {MAX_PASSAGES - 1}")
        number, attribute = self.fact(index)
        entity, draws = self.entity(number), _Draws(generator(f"encyclopedia/{index}", self.seed))
        value = _value(attribute, entity.kind, draws)
        slots = {"n": entity.name, "v": value}
        statement = _sentence(draws.pick(ATTRIBUTES[attribute].statements).format_map(slots))
        return Passage(index, self._text(statement, entity, draws), entity, attribute, value)

    def passages(self, count: int, *, start: int = 0) -> Iterator[Passage]:
        """Passages ``start`` to ``count - 1``, one after the other."""
        return (self.passage(index) for index in range(start, count))

    def neighbours(self, entity: int) -> tuple[int, ...]:
        """The sixty-three other entities of the block; the fourteen that share a part of the name come first."""
        block, cell = divmod(entity, _BLOCK)
        return tuple(block * _BLOCK + other for other in _neighbour_cells(cell))

    def _text(self, statement: str, entity: Entity, draws: "_Draws") -> str:
        """The statement among filler: at most one sentence before it, the others after."""
        target = _SHORTEST + (_LONGEST - _SHORTEST) * draws.next()
        kind = _kind(entity.index)
        unused = [*COMMON_FILLER, *GROUP_FILLER[kind.group]]
        before, after, last = [], [], []
        if draws.chance(_LEAD_SHARE):
            lead = draws.pick([template for template in unused if "{ref}" in template])
            unused.remove(lead)
            before.append(_fill(lead, draws, ref=entity.name))
        if draws.chance(_NEIGHBOUR_SHARE):
            other = self.entity(draws.pick(self.neighbours(entity.index)[:_NAMESAKES]))
            last.append(_fill(draws.pick(NEIGHBOUR_FILLER), draws, o=other.name))
        named = [*before, statement, *last]
        length = sum(map(_length, named)) + len(named) * _EXTRA_PIECES
        while length < target:
            sentence = _fill(unused.pop(draws.below(len(unused))), draws, ref=f"the {draws.pick(kind.nouns)}")
            after.append(sentence)
            length += _length(sentence)
        return " ".join([*before, statement, *after, *last])

    @cached_property
    def _parts(self) -> "_Parts":
        return _Parts(self.seed)


def questions(passage: Passage) -> tuple[str, str, str]:
    """The three questions that a passage answers, one a phrasing.

    >>> questions(Encyclopedia(seed=7).passage(0))[0]
    'Who founded Lansa Kimby?'
    """
    first, second, third = ATTRIBUTES[passage.attribute].questions
    name = passage.entity.name
    return first.format(n=name), second.format(n=name), third.format(n=name)


T = TypeVar("T")


class _Draws:
    """A stream of uniform numbers, drawn in one call because single draws of numpy are slow."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[float] = []

    def next(self) -> float:
        if not self._left:
            self._left = self._rng.random(_DRAWS).tolist()
        return self._left.pop()

    def chance(self, probability: float) -> bool:
        return self.next() < probability

    def below(self, count: int) -> int:
        return int(self.next() * count)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]


class _Words:
    """Slots of a template: a key that was not set is drawn from ``WORDS``."""

    def __init__(self, draws: _Draws, fixed: dict[str, str]) -> None:
        self._draws, self._fixed = draws, fixed

    def __getitem__(self, key: str) -> str:
        return self._fixed[key] if key in self._fixed else self._draws.pick(WORDS[key])


class _Parts:
    """The eight first and eight second parts of each block, no pair of groups twice."""

    def __init__(self, seed: int) -> None:
        rng = generator("encyclopedia/names", seed)
        self._firsts = _groups(FIRST_HEADS, FIRST_TAILS, rng)
        self._seconds = _groups(SECOND_HEADS, SECOND_TAILS, rng)
        self._order: list[int] = rng.permutation(len(self._firsts) * len(self._seconds)).tolist()

    def __getitem__(self, block: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        first, second = divmod(self._order[block], len(self._seconds))
        return self._firsts[first], self._seconds[second]


def _groups(heads: Sequence[str], tails: Sequence[str], rng: np.random.Generator) -> list[tuple[str, ...]]:
    parts = [(head + tail).capitalize() for head in heads for tail in tails]
    mixed = [parts[place] for place in rng.permutation(len(parts)).tolist()]
    return [tuple(mixed[at : at + _SIDE]) for at in range(0, len(mixed), _SIDE)]


@cache
def _neighbour_cells(cell: int) -> tuple[int, ...]:
    row, column = divmod(cell, _SIDE)

    def apart(other: int) -> bool:
        return other // _SIDE != row and other % _SIDE != column

    return tuple(sorted((other for other in range(_BLOCK) if other != cell), key=apart))


def _kind(entity: int) -> Kind:
    row, column = divmod(entity % _BLOCK, _SIDE)
    return KINDS[(row // 2 + column) % len(KINDS)]


def _value(attribute: str, kind: str, draws: _Draws) -> str:
    template = ATTRIBUTES[attribute].value
    if template == "{distance}":
        template = "{miles}" if kind in ("river", "island") else "{feet}"
    return template.format_map(_Words(draws, {}))


def _fill(template: str, draws: _Draws, **fixed: str) -> str:
    return _sentence(template.format_map(_Words(draws, fixed)))


def _sentence(text: str) -> str:
    return _ARTICLE.sub(r"\1n ", text[0].upper() + text[1:])


def _length(sentence: str) -> int:
    return len(_TOKEN.findall(sentence))
