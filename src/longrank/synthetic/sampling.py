"""Which training examples are shown how often: balanced by position, long ones more often, or several sets mixed."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from longrank.core.errors import SettingsError
from longrank.core.seeds import generator

T_co = TypeVar("T_co", covariant=True)


class Positioned(NamedTuple):
    """A training pair: where its evidence starts, and how long its document is, both in tokens."""

    query_id: str
    document_id: str
    start: int
    tokens: int


class Source(Protocol[T_co]):
    """Examples of an epoch, as the trainer's samplers give them."""

    def __len__(self) -> int: ...

    def epoch(self, number: int) -> Iterator[T_co]:
        """Examples of epoch 0, 1, ..."""
        ...


def position_bins(pairs: Sequence[Positioned], *, bins: int, cells: Sequence[int]) -> list[tuple[int, int]]:
    """Length cell and position bin of each pair; ``cells`` are the upper ends of all cells but the last.

    >>> position_bins([Positioned("q", "d", 30, 100), Positioned("q", "e", 900, 1000)], bins=4, cells=[512])
    [(0, 1), (1, 3)]
    """
    if bins < 1 or sorted(cells) != list(cells):
        raise SettingsError(f"at least one bin and rising cells are needed, got {bins} and {list(cells)}")
    lengths = np.searchsorted(np.asarray(cells), [pair.tokens for pair in pairs], side="left").tolist()
    starts = [min(bins - 1, bins * pair.start // max(1, pair.tokens)) for pair in pairs]
    return list(zip(lengths, starts, strict=True))


def balance_positions(
    pairs: Sequence[Positioned], *, bins: int, cells: Sequence[int], rng: np.random.Generator
) -> list[Positioned]:
    """Pairs such that every position bin that occurs in a length cell occurs there equally often; the rarest decides.

    Their order is kept. Bins that are empty in a cell stay empty: what is not there cannot be sampled.
    """
    groups = _grouped(position_bins(pairs, bins=bins, cells=cells))
    kept: list[int] = []
    for cell in sorted({cell for cell, _ in groups}):
        members = [row for key, row in sorted(groups.items()) if key[0] == cell]
        least = min(map(len, members))
        for row in members:
            kept += [row[i] for i in rng.choice(len(row), size=least, replace=False).tolist()]
    return [pairs[i] for i in sorted(kept)]


def inverse_propensity(
    pairs: Sequence[Positioned], *, bins: int, cells: Sequence[int], largest: float = 10.0
) -> list[float]:
    """A loss weight for each pair, one over the share of its position bin in its length cell; mean 1 before the cap.

    >>> pairs = [Positioned("q", "d", 0, 100)] * 3 + [Positioned("q", "d", 99, 100)]
    >>> [round(weight, 3) for weight in inverse_propensity(pairs, bins=2, cells=[])]
    [0.667, 0.667, 0.667, 2.0]
    """
    keys = position_bins(pairs, bins=bins, cells=cells)
    counts, sizes = Counter(keys), Counter(cell for cell, _ in keys)
    occupied = Counter(cell for cell, _ in counts)
    return [min(largest, sizes[cell] / (occupied[cell] * counts[cell, at])) for cell, at in keys]


def oversample_long(
    pairs: Sequence[Positioned], *, cells: Sequence[int], factors: Sequence[float], rng: np.random.Generator
) -> list[Positioned]:
    """Pairs repeated by their length cell's factor; a fraction is the chance of one more (or, below 1, of staying)."""
    if len(factors) != len(cells) + 1 or min(factors) < 0:
        raise SettingsError(f"{len(cells)} cell ends make {len(cells) + 1} cells; got {len(factors)} factors")
    found = []
    for pair, (cell, _) in zip(pairs, position_bins(pairs, bins=1, cells=cells), strict=True):
        whole, part = divmod(factors[cell], 1.0)
        found += [pair] * (int(whole) + int(rng.random() < part))
    return found


@dataclass(frozen=True)
class Mixed(Generic[T_co]):
    """Examples drawn from several sets with given probabilities; a set that ends begins its next epoch.

    As long as all sets together, and itself a set of examples for the trainer.
    """

    sources: tuple[Source[T_co], ...]
    probabilities: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.probabilities) or abs(sum(self.probabilities) - 1) > 1e-9:
            raise SettingsError(f"one probability a set, in all 1, is needed; got {self.probabilities}")
        if min(self.probabilities) < 0 or not all(map(len, self.sources)):
            raise SettingsError("probabilities must not be negative, and no set may be empty")

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def epoch(self, number: int) -> Iterator[T_co]:
        """Examples of an epoch, always the same for the same number."""
        rng = generator(f"mixed-examples-epoch-{number}", self.seed)
        streams = [_endless(source, number * 1000) for source in self.sources]
        for _ in range(len(self)):
            yield next(streams[int(rng.choice(len(streams), p=self.probabilities))])


def _endless(source: Source[T_co], first: int) -> Iterator[T_co]:
    while True:
        yield from source.epoch(first)
        first += 1


K = TypeVar("K", bound=Hashable)


def _grouped(keys: Sequence[K]) -> Mapping[K, list[int]]:
    groups: dict[K, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return groups
