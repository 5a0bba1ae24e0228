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
    TransformerVector,
    VectorReader,
    random_encoder,
)
from longrank.rankers.states import ChunkStates


def test_knrm_reads_143_counts_of_thirteen_layers_beside_the_chunk_vector() -> None:
    assert KernelPool(768, layers=12).combine.in_features == 143 + 768
    assert KernelPool(768, layers=12, summary="none").combine.in_features == 143


def test_pacrr_reads_960_features_and_drmm_911() -> None:
    first: Any = Pacrr(768, layers=12, query_tokens=32).combine[0]
    assert first.in_features == 192 + 768 == 960
    first = Drmm(768, layers=12).combine[0]
    assert first.in_features == 143 + 768 == 911


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
