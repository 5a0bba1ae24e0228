import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.encoders.backbone import Backbone
from longrank.encoders.packed import encode_packed
from longrank.encoders.padded import encode_padded
from longrank.encoders.pretrained import minilm
from longrank.encoders.rows import Needs, Row
from longrank.encoders.tiny import tiny

ALL = Needs.CHUNKS | Needs.TOKENS | Needs.LAYERS
TINY = tiny(dim=32, heads=4, layers=3)


def rows(lengths: list[int]) -> list[Row]:
    rng = np.random.default_rng(len(lengths))
    return [Row(rng.integers(4, 8000, n).astype(np.int32), rng.integers(0, 2, n).astype(np.int32)) for n in lengths]


@pytest.mark.parametrize("needs", [Needs.CHUNKS, Needs.CHUNKS | Needs.TOKENS, ALL])
@torch.inference_mode()
def test_packed_equals_the_padded_forward_of_transformers(needs: Needs) -> None:
    batch = rows([5, 40, 12, 40, 1, 7])
    packed = encode_packed(TINY.model, batch, needs=needs)
    padded = encode_padded(TINY.model, batch, needs=needs, pad=0, pooling="cls")
    torch.testing.assert_close(packed.pooled, padded.pooled, atol=1e-5, rtol=1e-5)
    assert (packed.tokens is None) == (padded.tokens is None) == (not needs & (Needs.TOKENS | Needs.LAYERS))
    if packed.tokens is not None and padded.tokens is not None:
        torch.testing.assert_close(packed.tokens, padded.tokens, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_a_model_of_one_token_type_gives_it_to_query_and_chunk() -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, type_vocab_size=1)
    model = BertModel(config, add_pooling_layer=False).eval()
    batch = rows([5, 8])
    packed = encode_packed(model, batch, needs=Needs.CHUNKS).pooled
    padded = encode_padded(model, batch, needs=Needs.CHUNKS, pad=0, pooling="cls").pooled
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_packed_mean_pooling_is_the_mean_over_a_rows_own_tokens() -> None:
    batch = rows([3, 9])
    found = encode_packed(TINY.model, batch, needs=Needs.CHUNKS | Needs.TOKENS, mean_pooling=True)
    assert found.tokens is not None
    torch.testing.assert_close(found.pooled[0], found.tokens[0, :3].mean(0))
    torch.testing.assert_close(found.pooled[1], found.tokens[0, 3:].mean(0))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
@torch.inference_mode()
def test_a_row_is_encoded_the_same_alone_and_in_any_company(lengths: list[int]) -> None:
    batch = rows(lengths)
    together = TINY.encode(batch, needs=Needs.CHUNKS).pooled
    for number, row in enumerate(batch):
        torch.testing.assert_close(
            TINY.encode([row], needs=Needs.CHUNKS).pooled[0], together[number], atol=1e-5, rtol=0
        )


def test_packed_gradients_equal_those_of_transformers() -> None:
    batch = rows([6, 11, 6])
    grads = []
    for encode in ("packed", "padded"):
        model = tiny(dim=16, heads=2, layers=2)
        out = (
            encode_packed(model.model, batch, needs=Needs.CHUNKS)
            if encode == "packed"
            else encode_padded(model.model, batch, needs=Needs.CHUNKS, pad=0, pooling="cls")
        )
        out.pooled.square().sum().backward()  # type: ignore[no-untyped-call]
        grads.append([p.grad for p in model.parameters() if p.grad is not None])
    assert len(grads[0]) == len(grads[1]) > 30
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_the_wheels_minilm_gives_its_own_numbers_packed() -> None:
    backbone = minilm()
    batch = [Row(row.ids % 30000, row.types * 0) for row in rows([8, 100, 31])]
    packed = backbone.encode(batch, needs=Needs.CHUNKS).pooled
    padded = encode_padded(backbone.model, batch, needs=Needs.CHUNKS, pad=0, pooling="cls").pooled
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=0)


def test_a_row_longer_than_the_positions_is_refused() -> None:
    from longrank.core.errors import ModelError

    short: Backbone = tiny(positions=8)
    with pytest.raises(ModelError, match=r"9 tokens.*8 positions"):
        short.encode(rows([9]), needs=Needs.CHUNKS)
