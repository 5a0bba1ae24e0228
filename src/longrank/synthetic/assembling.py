"""Documents of filler with planted passages: which filler, how much, and where the planted ones stand.

Blocks of documents are drawn together, in arrays; a block's stream depends on its purpose, number and seed only, so the
same documents come out however the blocks are shared among workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from longrank.core.errors import DataError
from longrank.core.settings import Settings
from longrank.core.types import CharSpan, TokenSpan
from longrank.synthetic.passages import Passages
from longrank.synthetic.placing import MSMARCO_START_SHARES

Policy = Literal["beyond", "msmarco", "uniform", "early", "middle", "late"]
Reading = Literal["consistent", "literal"]
Numbers = NDArray[np.int64]

_THIRDS = {"uniform": (0, 3), "early": (0, 1), "middle": (1, 2), "late": (2, 3)}
_TRIES = 200


class Placing(Settings):
    """Where planted passages go, and how long documents get; the defaults are the positional-bias paper's.

    ``beyond`` puts them behind ``boundary`` tokens of filler (FarRelevant); ``msmarco`` into the first, second, ...
    ``boundary`` tokens by the shares of MS MARCO's chunks, side by side, what would start behind the document in the
    last chunk that has room; ``early``, ``middle`` and ``late`` into a third of the places between filler passages;
    ``uniform`` into any of them. Lengths are uniform up to ``max_tokens``,
    from the shortest that can be or ``min_tokens``; with ``lengths``, documents take these in turn. The ``literal``
    reading of the paper's recipe fills every document up to ``max_tokens``: its bound forgets the drawn length.
    """

    policy: Policy = "beyond"
    reading: Reading = "consistent"
    boundary: int = Field(default=512, ge=0)
    max_tokens: int = Field(default=1431, ge=1)
    min_tokens: int = Field(default=0, ge=0)
    lengths: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _lengths_fit(self) -> "Placing":
        if self.policy == "msmarco" and not self.boundary:
            raise ValueError("boundary is the length of a chunk for the policy 'msmarco', and must be at least 1")
        if self.policy == "beyond" and self.boundary >= self.max_tokens:
            raise ValueError(f"boundary {self.boundary} leaves no room in documents of {self.max_tokens} tokens")
        if self.min_tokens > self.max_tokens or any(not 1 <= length <= self.max_tokens for length in self.lengths):
            raise ValueError(f"lengths must be between 1 and max_tokens, which is {self.max_tokens}")
        return self


@dataclass(frozen=True, slots=True)
class Assembled:
    """One document: passage numbers in reading order, and where among them the planted ones stand."""

    rows: tuple[int, ...]
    planted: tuple[int, ...]

    def text(self, passages: Passages) -> str:
        """Passages joined by a space."""
        return " ".join([passages.texts[row] for row in self.rows])

    def tokens(self, passages: Passages) -> int:
        """Length, as the sum of the passages'."""
        return int(passages.tokens[list(self.rows)].sum())

    def char_spans(self, passages: Passages) -> tuple[CharSpan, ...]:
        """Characters of the planted passages, in reading order."""
        sizes = [len(passages.texts[row]) for row in self.rows[: self.planted[-1] + 1]]
        starts = [sum(sizes[:place]) + place for place in self.planted]  # a space before each but the first
        return tuple(CharSpan(a, a + sizes[place]) for a, place in zip(starts, self.planted, strict=True))

    def token_spans(self, passages: Passages) -> tuple[TokenSpan, ...]:
        """Tokens of the planted passages, in reading order."""
        sizes = [int(passages.tokens[row]) for row in self.rows[: self.planted[-1] + 1]]
        starts = [sum(sizes[:place]) for place in self.planted]
        return tuple(
            TokenSpan(a, a + sizes[place], passages.tokenizer) for a, place in zip(starts, self.planted, strict=True)
        )

    @property
    def places(self) -> int:
        """Where planted passages could stand, side by side: before, between and after the filler passages."""
        return len(self.rows) - len(self.planted) + 1

    def at(self, place: int) -> "Assembled":
        """The document with its planted passages, side by side, behind ``place`` filler passages."""
        own = tuple(self.rows[i] for i in self.planted)
        filler = tuple(row for i, row in enumerate(self.rows) if i not in self.planted)
        return Assembled((*filler[:place], *own, *filler[place:]), tuple(range(place, place + len(own))))

    def moved(self, slots: int) -> list["Assembled"]:
        """The document with its planted passages before the first filler passage, ..., after the last.

        Fewer than ``slots`` come back where there are fewer places; the filler keeps its order.
        """
        last, steps = self.places - 1, max(1, slots - 1)
        return [self.at(place) for place in dict.fromkeys((2 * k * last + steps) // (2 * steps) for k in range(slots))]


@dataclass(frozen=True, eq=False)
class Pool:
    """Filler: numbers of passages that are nobody's evidence, each with at least one token."""

    passages: Passages
    rows: Numbers

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise DataError(
                "no passage is left as filler: every one is evidence for a query. Divide them first: evidence=800 "
                "keeps 800 passages as evidence and gives all others, with their queries left out, to the filler"
            )

    @cached_property
    def mean_tokens(self) -> float:
        """Of the first ten thousand."""
        return max(1.0, float(self.passages.tokens[self.rows[:10_000]].mean()))


def assemble(
    planted: Sequence[tuple[int, ...]],
    pool: Pool,
    placing: Placing,
    *,
    numbers: Sequence[int],
    rng: np.random.Generator,
) -> list[Assembled | None]:
    """One document for each group of planted passages; None where no filler fits.

    Each group holds equally many passages. Planted passages of a group come in a random order, at independent draws of
    the policy's places; no passage stands twice in a document. ``numbers`` say whose turn among ``lengths`` it is.
    """
    own = np.asarray(planted, dtype=np.int64).reshape(len(planted), -1)
    own_tokens = pool.passages.tokens[own].sum(axis=1, dtype=np.int64)
    targets = _targets(own_tokens, placing, numbers=numbers, rng=rng)
    # a head may pass a drawn length, as in the paper, but neither the limit nor a chosen length
    limits = (targets if placing.lengths else placing.max_tokens) - own_tokens
    before = _before(limits, placing, pool, rng)
    found: list[Assembled | None] = [None] * len(own)
    open_ = np.flatnonzero(targets > 0)
    for _ in range(_TRIES):
        if not len(open_):
            break
        filler, ends = _filler(len(open_), int(max(targets[open_].max(), before[open_].max())), pool, rng)
        room = targets[open_] - own_tokens[open_]
        counts = (ends <= room[:, None]).sum(axis=1)
        if placing.policy in _THIRDS:
            low, high = _third(counts, placing.policy)
            fits = room >= 0
        else:
            low, fits = _behind(ends, limits[open_], before[open_], placing)
            high = np.maximum(low, counts) if placing.policy == "beyond" else low
        slots = low[:, None] + (rng.random(own[open_].shape) * (high - low + 1)[:, None]).astype(np.int64)
        order = rng.permuted(own[open_], axis=1)
        counts = np.maximum(counts, low)
        fits &= ~(filler[:, :, None] == own[open_][:, None, :]).any(axis=(1, 2))  # a planted passage is no filler
        for i in np.flatnonzero(fits).tolist():
            found[int(open_[i])] = _document(
                filler[i, : counts[i]].tolist(), order[i].tolist(), sorted(slots[i].tolist())
            )
        open_ = open_[~fits]
    return found


def _targets(own_tokens: Numbers, placing: Placing, *, numbers: Sequence[int], rng: np.random.Generator) -> Numbers:
    """Tokens each document may have; 0 where the planted passages cannot fit."""
    needed = own_tokens + (placing.boundary if placing.policy == "beyond" else 0)
    least = np.maximum(needed, placing.min_tokens)
    drawn = least + (rng.random(len(own_tokens)) * (placing.max_tokens - least + 1)).astype(np.int64)
    if placing.lengths:
        cells = np.asarray(placing.lengths, dtype=np.int64)
        drawn = cells[np.asarray(numbers) % len(cells)]
    elif placing.reading == "literal":
        drawn = np.full(len(own_tokens), placing.max_tokens, dtype=np.int64)
    return np.where((drawn >= needed) & (drawn <= placing.max_tokens), drawn, 0)


def _filler(count: int, tokens: int, pool: Pool, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Filler numbers [documents, places], none twice in a row, and where each ends; enough to pass ``tokens``."""
    width = min(len(pool.rows), int(1.3 * tokens / pool.mean_tokens) + 4)
    while True:
        drawn = _distinct(rng, count, width, len(pool.rows))
        filler = pool.rows[drawn]
        ends = np.cumsum(pool.passages.tokens[filler], axis=1, dtype=np.int64)
        if width == len(pool.rows) or (ends[:, -1] > tokens).all():
            return filler, ends
        width = min(len(pool.rows), 2 * width)


def _distinct(rng: np.random.Generator, count: int, width: int, below: int) -> Numbers:
    """``width`` different numbers in each of ``count`` rows."""
    if 2 * width > below:
        return rng.permuted(np.tile(np.arange(below), (count, 1)), axis=1)[:, :width]
    drawn = rng.integers(below, size=(count, width))
    ordered = np.sort(drawn, axis=1)
    for row in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)).tolist():
        kept = dict.fromkeys(drawn[row].tolist())
        while len(kept) < width:
            kept.setdefault(int(rng.integers(below)))
        drawn[row] = list(kept)
    return drawn


def _before(limits: Numbers, placing: Placing, pool: Pool, rng: np.random.Generator) -> Numbers:
    """Tokens of filler that the planted passages must have before them, and may have: [documents, 2]."""
    if placing.policy != "msmarco":
        return np.full((len(limits), 2), placing.boundary if placing.policy == "beyond" else 0, dtype=np.int64)
    last = np.maximum(0, limits - int(pool.mean_tokens)) // placing.boundary  # in which a filler passage can end
    chunks = np.minimum(rng.choice(len(MSMARCO_START_SHARES), size=len(limits), p=MSMARCO_START_SHARES), last)
    offsets = (rng.random(len(limits)) * placing.boundary).astype(np.int64)
    return np.stack([chunks * placing.boundary, np.minimum(chunks * placing.boundary + offsets, limits)], axis=1)


def _behind(ends: Numbers, limits: Numbers, before: Numbers, placing: Placing) -> tuple[Numbers, NDArray[np.bool_]]:
    """How many filler passages stand before the planted ones, and where that can be done."""
    least, most = before[:, 0], before[:, 1]
    head = (ends <= least[:, None]).sum(axis=1) + 1  # the first filler that passes the boundary is the last before
    if placing.policy == "msmarco":
        head[least == 0] = 0
    place = np.minimum(np.maximum(head, (ends <= most[:, None]).sum(axis=1)), ends.shape[1])
    starts = np.take_along_axis(ends, np.maximum(place, 1)[:, None] - 1, axis=1)[:, 0] * (place > 0)
    fits = (head <= place) & (starts <= limits)
    return place, fits & (starts < least + placing.boundary) if placing.policy == "msmarco" else fits


def _third(counts: Numbers, policy: Policy) -> tuple[Numbers, Numbers]:
    """First and last place of the planted passages, as filler before them."""
    low_third, high_third = _THIRDS[policy]
    low, high = -(-low_third * counts // 3), high_third * counts // 3
    middle, empty = (counts + 1) // 2, low > high
    return np.where(empty, middle, low), np.where(empty, middle, high)


def _document(filler: list[int], own: list[int], slots: list[int]) -> Assembled:
    rows: list[int] = []
    places: list[int] = []
    before = 0
    for passage, slot in zip(own, slots, strict=True):
        rows += filler[before:slot]
        places.append(len(rows))
        rows.append(passage)
        before = slot
    return Assembled((*rows, *filler[before:]), tuple(places))
