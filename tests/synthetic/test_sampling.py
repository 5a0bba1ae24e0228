"""Which examples are shown: balanced, weighted, repeated, mixed."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import SettingsError
from longrank.synthetic.sampling import (
    Mixed,
    Positioned,
    balance_positions,
    inverse_propensity,
    oversample_long,
    position_bins,
)

CELLS = (512, 2048)


def pairs_from(starts: list[tuple[float, int]]) -> list[Positioned]:
    return [Positioned(f"q{i}", f"d{i}", int(depth * n), n) for i, (depth, n) in enumerate(starts)]


some_pairs = st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 5000)), min_size=1, max_size=80).map(pairs_from)


@given(pairs=some_pairs, bins=st.integers(1, 6), seed=st.integers(0, 99))
def test_balanced_pairs_have_equal_bins_within_each_cell_and_nothing_is_lost_from_the_rarest(
    pairs: list[Positioned], bins: int, seed: int
) -> None:
    kept = balance_positions(pairs, bins=bins, cells=CELLS, rng=np.random.default_rng(seed))
    before = Counter(position_bins(pairs, bins=bins, cells=CELLS))
    after = Counter(position_bins(kept, bins=bins, cells=CELLS))
    assert after.keys() == before.keys()
    for cell in {cell for cell, _ in before}:
        rarest = min(count for (c, _), count in before.items() if c == cell)
        assert {count for (c, _), count in after.items() if c == cell} == {rarest}


@given(pairs=some_pairs, bins=st.integers(1, 6))
def test_weights_make_every_bin_of_a_cell_count_the_same_and_average_one(pairs: list[Positioned], bins: int) -> None:
    weights = inverse_propensity(pairs, bins=bins, cells=CELLS, largest=float("inf"))
    sums: dict[tuple[int, int], float] = {}
    for key, weight in zip(position_bins(pairs, bins=bins, cells=CELLS), weights, strict=True):
        sums[key] = sums.get(key, 0.0) + weight
    for cell in {cell for cell, _ in sums}:
        inside = [total for (c, _), total in sums.items() if c == cell]
        assert inside == pytest.approx([inside[0]] * len(inside))
    assert np.mean(weights) == pytest.approx(1.0)


def test_weights_are_capped() -> None:
    pairs = pairs_from([(0.0, 100)] * 99 + [(0.9, 100)])
    assert inverse_propensity(pairs, bins=2, cells=[], largest=5.0)[-1] == 5.0


def test_long_pairs_are_repeated_by_their_factor() -> None:
    pairs = pairs_from([(0.0, 100)] * 400 + [(0.0, 1000)] * 100 + [(0.0, 4000)] * 50)
    found = oversample_long(pairs, cells=CELLS, factors=(0.5, 1, 3), rng=np.random.default_rng(1))
    counts = Counter(pair.tokens for pair in found)
    assert counts[1000] == 100 and counts[4000] == 150
    assert counts[100] == pytest.approx(200, abs=40)  # four standard deviations of Binomial(400, 0.5)


@dataclass(frozen=True)
class Letters:
    letter: str
    size: int

    def __len__(self) -> int:
        return self.size

    def epoch(self, number: int) -> Iterator[str]:
        return (f"{self.letter}{number}.{i}" for i in range(self.size))


def test_mixed_sets_are_drawn_with_their_probabilities_and_start_again_when_they_end() -> None:
    mixed = Mixed((Letters("a", 900), Letters("b", 100)), (0.3, 0.7))
    drawn = list(mixed.epoch(0))
    counts = Counter(one[0] for one in drawn)
    assert len(drawn) == len(mixed) == 1000
    assert counts["b"] == pytest.approx(700, abs=60)
    assert [one for one in drawn if one[0] == "b"][:101][-1] == "b1.0"  # a second epoch of the small set
    assert drawn == list(mixed.epoch(0)) != list(mixed.epoch(1))


def test_probabilities_must_fit_the_sets() -> None:
    with pytest.raises(SettingsError):
        Mixed((Letters("a", 9),), (0.5,))
    with pytest.raises(SettingsError):
        Mixed((Letters("a", 9), Letters("b", 0)), (0.5, 0.5))
    with pytest.raises(SettingsError):
        oversample_long([], cells=CELLS, factors=(1.0,), rng=np.random.default_rng(0))
