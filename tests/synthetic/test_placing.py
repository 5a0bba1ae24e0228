"""Where the relevant passage is put, on pieces whose lengths are set by hand."""

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.synthetic.placing import (
    MAX_CHUNKS,
    MSMARCO_START_SHARES,
    Piece,
    Placed,
    place_as_msmarco,
    place_far,
)

RELEVANT = Piece("here it is", 45)
SEEDS = st.integers(0, 2**32 - 1)


def filler(seed: int) -> Iterator[Piece]:
    rng = np.random.default_rng(seed)
    while True:
        yield Piece("filler", int(rng.integers(25, 71)))


def test_spans_and_starts_are_counted_over_what_stands_before() -> None:
    placed = Placed((Piece("one two.", 3), Piece("three.", 2), Piece("four", 1)), relevant=1)
    text, span = placed.joined()
    assert text == "one two. three. four"
    assert (span.start, span.stop) == (9, 15)  # eight characters and a space before it, six of its own
    assert (placed.start, placed.tokens) == (3, 6)


@given(seed=SEEDS, relevant=st.integers(25, 70))
def test_far_starts_behind_the_boundary_and_ends_before_the_limit(seed: int, relevant: int) -> None:
    rng = np.random.default_rng(seed)
    piece = Piece("here it is", relevant)
    for boundary, limit in ((128, 327), (512, 1431)):
        placed = place_far(piece, filler(seed), boundary=boundary, max_tokens=limit, rng=rng)
        assert placed.pieces[placed.relevant] is piece
        assert placed.pieces.count(piece) == 1
        assert placed.start >= boundary
        assert placed.tokens <= limit


def test_far_stops_at_the_drawn_length() -> None:
    # pieces of 30: the head is 30 * 5 = 150 > 128; with 45 of its own the least total is 195, and steps are of 30
    rng = np.random.default_rng(5)
    pieces = itertools.repeat(Piece("filler", 30))
    totals = Counter(place_far(RELEVANT, pieces, boundary=128, max_tokens=327, rng=rng).tokens for _ in range(4_000))
    # length is uniform on 173..327 (155 values): 195 for 173..224 (52), then 225, 255, 285 (30 each), 315 (13)
    expected = {195: 52 / 155, 225: 30 / 155, 255: 30 / 155, 285: 30 / 155, 315: 13 / 155}
    assert totals.keys() == expected.keys()
    for total, share in expected.items():
        assert totals[total] / 4_000 == pytest.approx(share, abs=4 * (share * (1 - share) / 4_000) ** 0.5)


def test_far_puts_the_relevant_piece_in_every_place_after_the_head_equally_often() -> None:
    rng = np.random.default_rng(6)
    slots = Counter[int]()
    for _ in range(6_000):
        placed = place_far(RELEVANT, itertools.repeat(Piece("f", 30)), boundary=128, max_tokens=327, rng=rng)
        if placed.tokens == 285:  # three pieces after the head of five: four places
            slots[placed.relevant - 5] += 1
    assert slots.keys() == {0, 1, 2, 3}
    total = slots.total()
    assert all(count / total == pytest.approx(0.25, abs=4 * (0.1875 / total) ** 0.5) for count in slots.values())


@pytest.mark.parametrize("chunk_tokens", [109, 477])
def test_shares_by_chunk_are_those_of_msmarco_within_binomial_noise(chunk_tokens: int) -> None:
    draws, rng = 8_000, np.random.default_rng(7)
    placed = [place_as_msmarco(RELEVANT, filler(i), chunk_tokens=chunk_tokens, rng=rng) for i in range(draws)]
    starts = Counter(one.start // chunk_tokens for one in placed)
    assert starts.keys() == set(range(len(MSMARCO_START_SHARES)))
    for chunk, share in enumerate(MSMARCO_START_SHARES):
        assert starts[chunk] / draws == pytest.approx(share, abs=4 * (share * (1 - share) / draws) ** 0.5)


@pytest.mark.parametrize("chunk_tokens", [109, 477])
def test_documents_like_msmarco_have_a_long_tail_of_at_most_eight_chunks(chunk_tokens: int) -> None:
    rng = np.random.default_rng(8)
    lengths = np.array(
        [place_as_msmarco(RELEVANT, filler(i), chunk_tokens=chunk_tokens, rng=rng).tokens for i in range(3_000)]
    )
    assert lengths.max() <= MAX_CHUNKS * chunk_tokens
    assert lengths.max() > 7 * chunk_tokens
    assert np.median(lengths) < lengths.mean() < 0.5 * np.percentile(lengths, 99)
