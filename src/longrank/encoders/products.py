"""Linear layers in single precision, by the faster of two libraries inside torch.

Torch multiplies by MKL, which leaves the AVX-512 units of AMD processors idle. oneDNN, which torch has as well, uses
them: twice the speed for the same precision. Everywhere else nothing changes.
"""

import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_FEWEST_ROWS = 64  # of a product; one that is smaller is not worth a kernel of its own


def fast_products() -> AbstractContextManager[object]:
    """Within it, large linear layers run by oneDNN if that is faster on this processor."""
    return _ByOneDnn() if onednn_is_faster() else nullcontext()


def onednn_is_faster() -> bool:
    """Whether this is an AMD processor with AVX-512; not if ``torch.backends.mkldnn`` was switched off."""
    return bool(torch.backends.mkldnn.enabled) and _onednn_is_faster()


@cache
def _onednn_is_faster() -> bool:
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512" and "AuthenticAMD" in _processor()
    return wide and torch.backends.mkldnn.is_available() and _agrees()  # type: ignore[no-untyped-call]


def _processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()


def _agrees() -> bool:
    """Whether the operator, which is no public part of torch, is there and multiplies."""
    states, weight = torch.arange(24.0).view(8, 3), torch.arange(6.0).view(2, 3)
    try:
        return bool(torch.equal(_multiply(states, weight, torch.ones(2)), states @ weight.t() + 1))
    except (AttributeError, RuntimeError, TypeError):
        return False


def _multiply(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")  # type: ignore[no-any-return]


class _ByOneDnn(TorchFunctionMode):
    """Takes over the calls of ``F.linear`` that are worth it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is F.linear and not kwargs and by_onednn(*(part for part in args if part is not None)):
            return _linear(*args)
        return func(*args, **(kwargs or {}))


def by_onednn(*parts: Tensor) -> bool:
    """Whether ``fast_products`` takes over a product of these: single precision, on the CPU, many rows."""
    return (
        all(part.dtype is torch.float32 and part.device.type == "cpu" for part in parts)
        and parts[0].numel() >= _FEWEST_ROWS * parts[0].shape[-1]
        and onednn_is_faster()
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and not torch.compiler.is_compiling()
    )


def _linear(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    learning = torch.is_grad_enabled() and any(p is not None and p.requires_grad for p in (states, weight, bias))
    return _Linear.apply(states, weight, bias) if learning else _multiply(states, weight, bias)  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    """The product with its gradients, which are products too."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(states, weight)
        return _multiply(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        states, weight = ctx.saved_tensors
        gradient = gradients[0]
        of_states, of_weight, of_bias = ctx.needs_input_grad
        flat, rows = gradient.flatten(end_dim=-2), states.flatten(end_dim=-2)
        return (
            _multiply(gradient, weight.t()) if of_states else None,
            _multiply(flat.t(), rows.t()) if of_weight else None,
            flat.sum(0) if of_bias else None,
        )
