"""How wide aggregators are, and what they refuse."""

from typing import Any

import pytest
import torch

from longrank.core.errors import ModelError, SettingsError
from longrank.rankers.aggregators import (
    Drmm,
    KernelPool,
    Model1,
    Pacrr,
    TopScores,
    TransformerVector,
    VectorReader,
    random_encoder,
)
from longrank.rankers.aggregators.contract import Head
from longrank.rankers.states import ChunkStates


def test_knrm_reads_143_counts_of_thirteen_layers_beside_the_chunk_vector() -> None:
    assert KernelPool(768, layers=12).combine.in_features == 143 + 768
    assert KernelPool(768, layers=12, summary="none").combine.in_features == 143


def test_pacrr_reads_960_features_and_drmm_911() -> None:
    first: Any = Pacrr(768, layers=12, query_tokens=32).combine[0]
    assert first.in_features == 192 + 768 == 960
    first = Drmm(768, layers=12).combine[0]
    assert first.in_features == 143 + 768 == 911


def test_knrm_starts_from_eleven_kernels_that_learn() -> None:
    module = KernelPool(768, layers=12)
    tenths = [-9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 10]
    assert [round(10 * mean, 4) for mean in module.means.tolist()] == tenths
    assert [round(spread, 4) for spread in module.spreads.tolist()] == [0.1] * 10 + [0.001]
    assert module.means.requires_grad and module.spreads.requires_grad


def test_the_three_best_scores_start_as_their_mean_without_a_bias() -> None:
    module = TopScores(768)
    assert module.combine.tolist() == pytest.approx([1 / 3] * 3)
    assert sum(p.numel() for p in module.parameters()) == 3 + (768 + 1)  # and the head


def test_neural_model1_reads_two_vectors_and_their_product_through_128_and_64() -> None:
    module = Model1(768)
    first, second, last = 3 * 768 * 128 + 128, 128 * 64 + 64, 64 + 1
    assert sum(p.numel() for p in module.parameters()) == 2 * 2 * 768 + first + second + last  # and two norms


def test_a_head_drops_a_tenth_and_starts_as_xavier_says() -> None:
    module = Head(768)
    assert module.dropout.p == 0.1
    bound = (6 / (768 + 1)) ** 0.5
    largest = module.linear.weight.abs().max().item()
    assert 0.9 * bound < largest <= bound  # uniform: of 768 draws the largest is near the bound
    assert module.linear.bias.item() == 0


def test_more_windows_than_positions_are_refused() -> None:
    module = TransformerVector(8, VectorReader(random_encoder(8, layers=1, heads=2)))
    with pytest.raises(ModelError, match="515 vectors do not fit an aggregator of 512 positions"):
        module(ChunkStates(torch.zeros(1, 512, 8), torch.ones(1, 512, dtype=torch.bool)))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ModelError, match="a width of 8 cannot be shared among 3 heads"):
        random_encoder(8, layers=1, heads=3)


def test_p_self_is_a_probability() -> None:
    with pytest.raises(SettingsError, match=r"p_self is a probability below 1, got 1\.5"):
        Model1(8, p_self=1.5)


def test_token_states_that_are_missing_are_named() -> None:
    with pytest.raises(ModelError, match="reads token states, and the layout gave none"):
        Drmm(8, layers=1)(ChunkStates(torch.zeros(1, 1, 8), torch.ones(1, 1, dtype=torch.bool)))
