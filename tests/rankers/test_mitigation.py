"""Position ids drawn in training only; calibrated attention with equal baskets, and nothing changed at strength 0."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.errors import SettingsError
from longrank.core.types import Document, Query, Spec
from longrank.rankers.mitigation import (
    CalibratedAttention,
    calibrate,
    random_offsets,
    shifted,
    sorted_random_positions,
    spread,
)
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker

QUERY = Query("q", "where is the otter")
DOCUMENTS = [Document(f"d{i}", " ".join(f"word{i * j % 17}" for j in range(5 + 30 * i))) for i in range(4)]


def ranker(name: str = "firstp", *, pooling: str = "cls", **params: Any) -> NeuralRanker:
    backbone = Spec("tiny", {"layers": 2, "dim": 16, "positions": 128, "pooling": pooling})
    return build_ranker(Spec(name, {"backbone": backbone, "query_tokens": 8, **params}))


def packed(*lengths: int) -> torch.Tensor:
    return torch.cat([torch.arange(n) for n in lengths])


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6), seed=st.integers(0, 999))
def test_shifted_rows_keep_their_steps_and_fit_the_table(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    rows = torch.split(shifted(packed(*lengths), 24), lengths)
    for row in rows:
        assert torch.equal(row - row[0], torch.arange(len(row)))
        assert int(row[0]) >= 0 and int(row[-1]) < 24


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6), seed=st.integers(0, 999))
def test_spread_rows_rise_strictly_within_the_table(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    for row in torch.split(spread(packed(*lengths), 24), lengths):
        assert bool((row.diff() > 0).all())
        assert int(row[0]) >= 0 and int(row[-1]) < 24


def test_every_offset_that_fits_is_drawn() -> None:
    torch.manual_seed(0)
    assert {int(shifted(packed(5), 8)[0]) for _ in range(200)} == {0, 1, 2, 3}


@pytest.mark.parametrize("mitigation", [random_offsets, sorted_random_positions])
def test_positions_are_drawn_in_training_and_left_alone_in_evaluation_and_afterwards(mitigation: Any) -> None:
    model = ranker(tokens=40)
    plain = model.score(QUERY, DOCUMENTS).values
    before = model(QUERY, DOCUMENTS).tolist()
    with mitigation(model):
        assert model.score(QUERY, DOCUMENTS).values == plain
        model.train()
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        drawn = {tuple(model(QUERY, DOCUMENTS).tolist()) for _ in range(3)}
    assert len(drawn) == 3
    assert model(QUERY, DOCUMENTS).tolist() == before


@settings(max_examples=40)
@given(seed=st.integers(0, 999), length=st.integers(4, 30), basket=st.integers(1, 9), strength=st.floats(0, 1))
def test_calibrated_attention_keeps_all_masses_and_evens_the_baskets(
    seed: int, length: int, basket: int, strength: float
) -> None:
    rng = np.random.default_rng(seed)
    attention = torch.from_numpy(rng.dirichlet(np.ones(length), size=(1, 2)))
    chunk = torch.zeros(1, length, dtype=torch.bool)
    chunk[0, 2:-1] = True
    mixed = calibrate(attention, chunk, basket_tokens=basket, strength=strength)
    assert torch.allclose(mixed.sum(-1), torch.ones(1, 2, dtype=mixed.dtype))
    assert torch.allclose(mixed[..., ~chunk[0]], attention[..., ~chunk[0]])
    even = calibrate(attention, chunk, basket_tokens=basket, strength=1.0)[..., chunk[0]]
    sums = torch.stack([part.sum(-1) for part in torch.split(even, basket, dim=-1)], dim=-1)  # [1, heads, baskets]
    share = sums / sums.sum(-1, keepdim=True)
    assert torch.allclose(share, torch.full_like(share, 1 / share.shape[-1]))


def test_calibration_by_hand() -> None:
    # chunk attention .1 .3 | .2 .2 with baskets of two: sums .4 and .4 -> already even;
    # .1 .1 | .5 .1: sums .2 and .6, half of .8 is .4: .2 .2 | .4 * 5/6 = .3333 .0667; [CLS] keeps .2
    chunk = torch.tensor([[False, True, True, True, True]])
    attention = torch.tensor([[[0.2, 0.1, 0.1, 0.5, 0.1]]])
    even = calibrate(attention, chunk, basket_tokens=2, strength=1.0)
    assert even[0, 0].tolist() == pytest.approx([0.2, 0.2, 0.2, 1 / 3, 1 / 15])
    half = calibrate(attention, chunk, basket_tokens=2, strength=0.5)
    assert half[0, 0].tolist() == pytest.approx([0.2, 0.15, 0.15, 5 / 12, 1 / 12])


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("firstp", {"tokens": 100}),
        ("maxp", {"size": 30, "stride": 20}),
        ("maxp", {"size": 30, "stride": 20, "pooling": "mean"}),
    ],
)
def test_strength_zero_is_identical_to_the_bit_and_a_little_changes_little(name: str, params: dict[str, Any]) -> None:
    model = ranker(name, **params)
    plain = model.score(QUERY, DOCUMENTS)
    assert CalibratedAttention(model, strength=0.0).score(QUERY, DOCUMENTS) == plain
    little = CalibratedAttention(model, strength=1e-7, basket_tokens=8).score(QUERY, DOCUMENTS)
    assert little.values == pytest.approx(plain.values, abs=1e-4)
    assert little[1:] == plain[1:]
    full = CalibratedAttention(model, strength=1.0, basket_tokens=8).score(QUERY, DOCUMENTS)
    assert max(abs(a - b) for a, b in zip(full.values, plain.values, strict=True)) > 1e-6


def test_calibrated_scores_do_not_depend_on_the_batch_and_leave_no_hook_behind() -> None:
    model = ranker("maxp", size=30, stride=20)
    calibrated = CalibratedAttention(model, strength=0.7, basket_tokens=8)
    together = calibrated.score(QUERY, DOCUMENTS).values
    alone = [calibrated.score(QUERY, [document]).values[0] for document in DOCUMENTS]
    assert together == alone
    assert not any(part._forward_hooks for part in model.modules())


def test_strengths_outside_zero_to_one_are_refused() -> None:
    with pytest.raises(SettingsError):
        CalibratedAttention(ranker(tokens=40), strength=1.5)
