"""Products by oneDNN: asked for on any processor here, since torch has it on all of them."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from longrank.encoders.products import by_onednn, fast_products, onednn_is_faster
from longrank.encoders.rows import Needs, Row
from longrank.encoders.tiny import tiny

ALL = Needs.CHUNKS | Needs.TOKENS | Needs.LAYERS


@pytest.fixture
def onednn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr("longrank.encoders.products.onednn_is_faster", lambda: True)
    yield


def with_gradients(states: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    """The product and the gradients of the sum of its squares."""
    leaves = [part.detach().clone().requires_grad_() for part in (states, weight, bias) if part is not None]
    out = F.linear(*leaves)
    out.square().sum().backward()  # type: ignore[no-untyped-call]
    return [out, *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@pytest.mark.parametrize("shape", [(64, 24), (4, 32, 24)])
@pytest.mark.parametrize("biased", [True, False])
def test_products_and_gradients_are_exact_to_single_precision(
    onednn: None, shape: tuple[int, ...], biased: bool
) -> None:
    drawn = torch.Generator().manual_seed(0)
    states, weight = torch.randn(shape, generator=drawn), torch.randn(40, 24, generator=drawn)
    bias = torch.randn(40, generator=drawn) if biased else None
    exact = with_gradients(states.double(), weight.double(), None if bias is None else bias.double())
    with fast_products():
        assert by_onednn(states, weight)
        found = with_gradients(states, weight, bias)
    assert len(found) == len(exact) == (4 if biased else 3)
    for ours, reference in zip(found, exact, strict=True):
        torch.testing.assert_close(ours.double(), reference, rtol=1e-5, atol=1e-3)


def test_a_frozen_weight_gets_no_gradient(onednn: None) -> None:
    states, weight = torch.ones(64, 4, requires_grad=True), torch.ones(3, 4)
    with fast_products():
        F.linear(states, weight).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is None
    assert states.grad is not None and bool((states.grad == 3).all())


def test_transposed_inputs_are_multiplied_as_they_are_read(onednn: None) -> None:
    states, weight = torch.randn(24, 80).t(), torch.randn(24, 8).t()
    with fast_products():
        assert by_onednn(states, weight)
        torch.testing.assert_close(F.linear(states, weight), states @ weight.t(), rtol=1e-5, atol=1e-5)


def test_small_products_other_precisions_and_autocast_are_left_to_torch(onednn: None) -> None:
    states, weight = torch.randn(64, 16), torch.randn(8, 16)
    assert by_onednn(states, weight)
    assert not by_onednn(states[:2], weight)
    assert not by_onednn(states.double(), weight.double())
    with fast_products(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert not by_onednn(states, weight)
        assert F.linear(states, weight).dtype is torch.bfloat16


def test_switched_off_with_torchs_own_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert not onednn_is_faster()
    assert not by_onednn(torch.randn(64, 16))


@pytest.mark.parametrize("lengths", [[5, 40, 12, 40, 1, 7], [64], [63, 1], [3, 70]])
@pytest.mark.parametrize("mean", [True, False])
@torch.inference_mode()
def test_states_do_not_depend_on_who_multiplies(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int], mean: bool
) -> None:
    backbone = tiny(dim=32, heads=4, layers=3, pooling="mean" if mean else "cls")
    rng = np.random.default_rng(0)
    rows = [Row(rng.integers(4, 8000, n).astype(np.int32), np.zeros(n, np.int32)) for n in lengths]
    for needs in (Needs.CHUNKS, ALL):
        found = []
        for answer in (True, False):
            monkeypatch.setattr("longrank.encoders.products.onednn_is_faster", lambda answer=answer: answer)
            found.append(backbone.encode(rows, needs=needs))
        ours, torchs = found
        assert ours.pooled.shape == torchs.pooled.shape == (len(lengths), 32)
        torch.testing.assert_close(ours.pooled, torchs.pooled, rtol=1e-5, atol=1e-5)
        if ours.tokens is not None and torchs.tokens is not None:
            torch.testing.assert_close(ours.tokens, torchs.tokens, rtol=1e-5, atol=1e-5)
        assert (ours.tokens is None) == (needs is Needs.CHUNKS)
