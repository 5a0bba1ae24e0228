"""Other ways to compute a ranker's states than PyTorch in single precision, each measured against it.

``fp32`` is the default and the only one whose scores are promised. ``bf16`` needs a CPU (or GPU) that computes in it.
``int8`` quantises the weights of linear layers once and their inputs batch by batch, so that a score depends on the
documents that share its batch. ``onnx`` runs BERT-type encoders by ONNX Runtime in single precision.
"""

import copy
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrank.core.errors import MissingExtra, ModelError
from longrank.core.types import Run
from longrank.encoders.backbone import Backbone
from longrank.encoders.packed import PACKABLE, type_embeddings
from longrank.encoders.padded import encode_padded
from longrank.encoders.rows import Encoded, Needs, Row
from longrank.rankers.embedding import EmbeddingRanker
from longrank.rankers.neural import NeuralRanker

R = TypeVar("R", bound=NeuralRanker | EmbeddingRanker)
Encode = Callable[[Sequence[Row], Needs], Encoded]


class Runtime(StrEnum):
    """What computes the states."""

    fp32 = "fp32"
    bf16 = "bf16"
    int8 = "int8"
    onnx = "onnx"


BATCH_WARNING = (
    "runtime int8: a score depends on the documents scored beside it, and rankings change; "
    "look at the comparison with fp32 before you use this run"
)


class ServedBackbone(nn.Module):
    """A backbone whose states another runtime computes; it scores, and is neither trained nor saved."""

    def __init__(self, origin: Backbone, encode: Encode, runtime: Runtime) -> None:
        super().__init__()
        self.tokenizer = origin.tokenizer
        self.specials = origin.specials
        self.pooling = origin.pooling
        self.dim = origin.dim
        self.layers = origin.layers
        self.heads = origin.heads
        self.max_tokens = origin.max_tokens
        self.runtime = runtime
        self._encode = encode

    def encode(self, rows: Sequence[Row], *, needs: Needs) -> Encoded:
        """States of the rows, in single precision."""
        return self._encode(rows, needs)

    def save(self, folder: object) -> None:
        """Refused: the origin is what a checkpoint holds."""
        raise ModelError(f"a ranker that runs in {self.runtime} cannot be saved to {folder}: save the fp32 one")


def with_runtime(ranker: R, runtime: Runtime | str) -> R:
    """The ranker with its backbone run otherwise; the one given is left as it is, and the rest is shared."""
    try:
        chosen = Runtime(runtime)
    except ValueError:
        raise ModelError(f"no runtime {runtime!r}: choose one of {', '.join(Runtime)}") from None
    if chosen is Runtime.fp32:
        return ranker
    backbone = ranker.backbone
    if not isinstance(backbone, Backbone):
        raise ModelError(f"a {type(backbone).__name__} spreads its positions and runs in fp32 only")
    makers = {Runtime.bf16: _bf16, Runtime.int8: _int8, Runtime.onnx: _onnx}
    changed = copy.copy(ranker)
    changed._modules = {**ranker._modules, "backbone": ServedBackbone(backbone, makers[chosen](backbone), chosen)}
    changed.eval()
    return changed


# -- agreement with fp32 -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """How near a run comes to another on the queries they share: means over queries."""

    queries: int
    rank_correlation: float
    top_overlap: float
    largest_difference: float

    def __str__(self) -> str:
        return (
            f"rank correlation {self.rank_correlation:.4f}, top-10 overlap {self.top_overlap:.1%}, "
            f"largest score difference {self.largest_difference:.2g} ({self.queries} queries)"
        )


def agreement(run: Run, reference: Run, *, top: int = 10) -> Agreement:
    """Spearman correlation of ranks and shared part of the top documents, over the reference's queries.

    >>> exact = Run("fp32", {"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    >>> print(agreement(Run("int8", {"q": {"a": 3.0, "b": 1.0, "c": 2.0}}), exact, top=1))
    rank correlation 0.5000, top-10 overlap 100.0%, largest score difference 1 (1 queries)
    """
    correlations, overlaps, largest = [], [], 0.0
    for query_id in reference:
        ids = reference.ranking(query_id)
        if not ids:
            continue
        found = run.ranking(query_id)
        place = {document_id: rank for rank, document_id in enumerate(found)}
        moved = sum((rank - place[document_id]) ** 2 for rank, document_id in enumerate(ids))
        count = len(ids)
        correlations.append(1 - 6 * moved / (count * (count**2 - 1)) if count > 1 else 1.0)
        overlaps.append(len(set(ids[:top]) & set(found[:top])) / min(top, count))
        gaps = (abs(run.scores[query_id][d] - score) for d, score in reference.scores[query_id].items())
        largest = max(largest, *gaps)
    if not correlations:
        return Agreement(0, 1.0, 1.0, 0.0)
    return Agreement(len(correlations), float(np.mean(correlations)), float(np.mean(overlaps)), largest)


# -- bf16 --------------------------------------------------------------------------------------------------------------


def _bf16(backbone: Backbone) -> Encode:
    device = next(backbone.parameters()).device
    if not has_bf16(device):
        raise ModelError(
            f"this {device.type} does not compute in bfloat16 (a CPU needs AVX512-BF16, AMX or ARM's BF16): "
            f"it would be slower and less exact than fp32, so use that"
        )
    changed = copy.copy(backbone)
    changed._modules = {"model": copy.deepcopy(backbone.model).to(torch.bfloat16).eval()}

    def encode(rows: Sequence[Row], needs: Needs) -> Encoded:
        found = changed.encode(rows, needs=needs)
        return Encoded(found.pooled.float(), None if found.tokens is None else found.tokens.float(), found.lengths)

    return encode


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type != "cpu":
        return False
    known: Mapping[str, Any] = torch.cpu.get_capabilities()
    return any(bool(known.get(name)) for name in ("avx512_bf16", "amx_bf16", "bf16", "arm_bf16"))


# -- int8 --------------------------------------------------------------------------------------------------------------


class Int8Linear(nn.Module):
    """A linear layer with eight-bit weights, a scale for each output, and inputs quantised by their range at hand."""

    def __init__(self, exact: nn.Linear) -> None:
        super().__init__()
        weight = exact.weight.detach()
        scales = weight.abs().amax(dim=1).clamp_min(1e-12).double() / 127
        zeros = torch.zeros(len(scales), dtype=torch.long)
        eight = torch.quantize_per_channel(weight, scales, zeros, axis=0, dtype=torch.qint8)
        bias = None if exact.bias is None else exact.bias.detach()
        self.packed = torch.ops.quantized.linear_prepack(eight, bias)

    def forward(self, states: Tensor) -> Tensor:
        """The product, in single precision."""
        # a reduced range keeps sums of CPUs without VNNI from running over
        found: Tensor = torch.ops.quantized.linear_dynamic(states, self.packed, True)
        return found


def _int8(backbone: Backbone) -> Encode:
    _cpu_only(backbone, Runtime.int8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch means to move these operators to another package
        model = _quantised(copy.deepcopy(backbone.model)).eval()

    def encode(rows: Sequence[Row], needs: Needs) -> Encoded:
        return encode_padded(model, rows, needs=needs, pad=backbone.specials.pad, pooling=backbone.pooling)

    return encode


def _quantised(module: nn.Module) -> nn.Module:
    for name, child in module.named_children():
        setattr(module, name, Int8Linear(child) if type(child) is nn.Linear else _quantised(child))
    return module


def _cpu_only(backbone: Backbone, runtime: Runtime) -> None:
    device = next(backbone.parameters()).device
    if device.type != "cpu":
        raise ModelError(f"runtime {runtime} runs on the CPU, and the ranker is on {device.type}: use fp32 or bf16")


# -- ONNX Runtime ------------------------------------------------------------------------------------------------------


def _onnx(backbone: Backbone) -> Encode:
    _cpu_only(backbone, Runtime.onnx)
    session = onnx_session(backbone, threads=torch.get_num_threads())

    def encode(rows: Sequence[Row], needs: Needs) -> Encoded:
        if needs & Needs.LAYERS:
            raise ModelError("runtime onnx gives the last layer's states, and this ranker reads all layers: use fp32")
        inputs = padded_inputs(rows, pad=backbone.specials.pad)
        states = torch.from_numpy(session.run(None, inputs)[0])
        return _last_layer(states, rows, needs, mean=backbone.pooling == "mean")

    return encode


def onnx_session(backbone: Backbone, *, threads: int) -> Any:
    """An ONNX Runtime session of a BERT-type backbone: ids, types and mask [rows, tokens] to last states."""
    for package in ("onnxruntime", "onnx"):  # the second writes the file that the first runs
        if find_spec(package) is None:
            raise MissingExtra(package, "onnx", purpose="runtime onnx")
    onnxruntime = import_module("onnxruntime")
    kind = backbone.model.config.model_type
    if not backbone.packable or backbone.pooling == "last":
        raise ModelError(f"runtime onnx runs encoders of type {', '.join(sorted(PACKABLE))}, not {kind!r}: use fp32")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(_exported(backbone), options, providers=["CPUExecutionProvider"])


def padded_inputs(rows: Sequence[Row], *, pad: int) -> dict[str, Any]:
    """Ids, types and mask of rows, padded to the longest."""
    shape = (len(rows), max(len(row) for row in rows))
    ids, types, mask = np.full(shape, pad, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    for i, row in enumerate(rows):
        ids[i, : len(row)], types[i, : len(row)] = row.ids, row.types
        mask[i, : len(row)] = 1 if row.attended is None else row.attended
    return {"ids": ids, "types": types, "mask": mask}


def _last_layer(states: Tensor, rows: Sequence[Row], needs: Needs, *, mean: bool) -> Encoded:
    lengths = tuple(len(row) for row in rows)
    pooled = torch.stack([s[:n].mean(0) for s, n in zip(states, lengths, strict=True)]) if mean else states[:, 0]
    if not needs & (Needs.TOKENS | Needs.QUERY):
        return Encoded(pooled, None, lengths)
    tokens = torch.cat([s[:n] for s, n in zip(states, lengths, strict=True)])
    return Encoded(pooled, tokens[None], lengths)


class PlainBert(nn.Module):
    """The forward pass of a BERT-type encoder in operations that every exporter knows."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        """States of the last layer [rows, tokens, dim]."""
        parts = self.model.embeddings
        positions = torch.arange(ids.shape[1])
        summed = parts.word_embeddings(ids) + parts.position_embeddings(positions) + type_embeddings(parts, types)
        project = getattr(self.model, "embeddings_project", None) or nn.Identity()
        states: Tensor = project(parts.LayerNorm(summed))
        shut = (1 - mask)[:, None, None, :] * -1e9
        for layer in self.model.encoder.layer:
            states = self._layer(layer, states, shut)
        return states

    def _layer(self, layer: Any, states: Tensor, shut: Tensor) -> Tensor:
        own = layer.attention.self
        query, key, value = (
            part(states).unflatten(-1, (own.num_attention_heads, -1)).transpose(1, 2)
            for part in (own.query, own.key, own.value)
        )
        weights = F.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + shut, dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(-2)
        out = layer.attention.output
        states = out.LayerNorm(out.dense(context) + states)
        inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(states))
        return layer.output.LayerNorm(layer.output.dense(inner) + states)  # type: ignore[no-any-return]


def _exported(backbone: Backbone) -> bytes:
    example = (torch.ones(2, 5, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 5))
    names = ["ids", "types", "mask"]
    stream: Any = io.BytesIO()
    with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter that needs no further package says it is the older one
        torch.onnx.export(
            PlainBert(backbone.model).eval(),
            example,
            stream,
            dynamo=False,
            input_names=names,
            output_names=["states"],
            dynamic_axes={name: {0: "rows", 1: "tokens"} for name in (*names, "states")},
            opset_version=20,
        )
    return bytes(stream.getvalue())
