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


def drops_attention(rate: float, layers: int) -> Backbone:
    """A backbone in training that drops attention weights and nothing else."""
    backbone = tiny(dim=32, heads=4, layers=layers).train()
    for name, part in backbone.named_modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = rate if name.endswith("attention.self.dropout") else 0.0
    return backbone


@torch.inference_mode()
def test_in_training_attention_weights_are_dropped_as_transformers_drops_them() -> None:
    backbone, batch = (
        drops_attention(0.3, layers=1),
        rows([9, 9, 9]),
    )  # one length and layer: both draw the same numbers
    torch.manual_seed(5)
    ours = encode_packed(backbone.model, batch, needs=Needs.TOKENS)
    torch.manual_seed(5)
    theirs = encode_padded(backbone.model, batch, needs=Needs.TOKENS, pad=0, pooling="cls")
    assert ours.tokens is not None and theirs.tokens is not None
    torch.testing.assert_close(ours.tokens, theirs.tokens, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(ours.pooled, encode_packed(backbone.eval().model, batch, needs=Needs.TOKENS).pooled)


@pytest.mark.parametrize("layers", [1, 2])  # the last layer alone, which is computed at [CLS] only, and one below it
@torch.inference_mode()
def test_attention_weights_are_dropped_by_the_seed_in_training_and_never_in_scoring(layers: int) -> None:
    backbone, batch = drops_attention(0.3, layers), rows([9, 4])

    def encoded(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return backbone.encode(batch, needs=Needs.CHUNKS).pooled

    assert torch.equal(encoded(1), encoded(1))
    assert not torch.allclose(encoded(1), encoded(2))
    backbone.eval()
    assert torch.equal(encoded(1), encoded(2))
    assert torch.equal(encoded(1), tiny(dim=32, heads=4, layers=layers).encode(batch, needs=Needs.CHUNKS).pooled)


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
