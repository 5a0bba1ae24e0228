"""The forward pass of any transformers encoder: rows padded to the longest of the batch."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longrank.core.errors import ModelError
from longrank.encoders.rows import Encoded, Needs, Row

_ONE_TYPE = frozenset({"big_bird"})  # two token types in the config, one in training


def encode_padded(model: Any, rows: Sequence[Row], *, needs: Needs, pad: int, pooling: str) -> Encoded:
    """States of the rows through the model's own ``forward``; padding is masked and left out of what comes back."""
    if model.config.model_type != "big_bird":
        return _encode(model, rows, needs=needs, pad=pad, pooling=pooling)
    parts: dict[int, Encoded] = {}
    for blocks, numbers in _by_blocks(model, rows):
        with _attention_for(model, blocks):
            part = _encode(model, [rows[i] for i in numbers], needs=needs, pad=pad, pooling=pooling)
        parts.update(zip(numbers, _single(part), strict=True))
    ordered = [parts[i] for i in range(len(rows))]
    tokens = [part.tokens for part in ordered if part.tokens is not None]
    return Encoded(
        torch.cat([part.pooled for part in ordered]),
        torch.cat(tokens, dim=1) if tokens else None,
        tuple(len(row) for row in rows),
    )


def _encode(model: Any, rows: Sequence[Row], *, needs: Needs, pad: int, pooling: str) -> Encoded:
    width = max(len(row) for row in rows)
    lengths = tuple(len(row) for row in rows)
    layers = bool(needs & Needs.LAYERS)
    inputs = _inputs(model, rows, width=width, pad=pad)
    out = model(**inputs, **_asked_for(model, layers=layers))
    last = out[0] if isinstance(out, tuple) else out.last_hidden_state
    last = last[:, :width]  # some models pad further, to whole blocks
    present = (torch.arange(width) < torch.tensor(lengths)[:, None]).to(last.device)
    pooled = _pool(last, present & inputs["attention_mask"].bool(), pooling)
    if not needs & (Needs.TOKENS | Needs.LAYERS | Needs.QUERY):
        return Encoded(pooled, None, lengths)
    history = [state[:, :width] for state in out.hidden_states] if layers else [last]
    return Encoded(pooled, torch.stack([state[present] for state in history]), lengths)


def _inputs(model: Any, rows: Sequence[Row], *, width: int, pad: int) -> dict[str, Tensor]:
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    types, mask, wide = (np.zeros((len(rows), width), dtype=np.int64) for _ in range(3))
    for i, row in enumerate(rows):
        ids[i, : len(row)], types[i, : len(row)] = row.ids, row.types
        mask[i, : len(row)] = 1 if row.attended is None else row.attended
        wide[i, : row.global_tokens] = mask[i, : row.global_tokens]
    device = next(model.parameters()).device
    known = inspect.signature(model.forward).parameters
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "global_attention_mask": wide}
    if getattr(model.config, "type_vocab_size", 0) < 2 or model.config.model_type in _ONE_TYPE:
        del inputs["token_type_ids"]
    return {name: torch.from_numpy(value).to(device) for name, value in inputs.items() if name in known}


def _asked_for(model: Any, *, layers: bool) -> dict[str, bool]:
    """Arguments for what is to come back; a model with code of its own may know none of them."""
    if type(model).__module__.startswith("transformers.models."):
        return {"output_hidden_states": layers, "return_dict": True}
    known = inspect.signature(model.forward).parameters
    if layers and "output_hidden_states" not in known:
        raise ModelError(
            f"{type(model).__name__} gives the states of its last layer only, and this ranker reads all layers: "
            f"use a ranker such as 'maxp' or 'parade-attn', or another backbone"
        )
    wanted = {"output_hidden_states": layers, "return_dict": True}
    return {name: value for name, value in wanted.items() if name in known}


def _pool(states: Tensor, real: Tensor, pooling: str) -> Tensor:
    if pooling == "cls":
        return states[:, 0]
    if pooling == "last":
        places = torch.arange(real.shape[1], device=real.device)
        return states[torch.arange(len(states), device=states.device), torch.where(real, places, -1).amax(1)]
    weights = real.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def _by_blocks(model: Any, rows: Sequence[Row]) -> list[tuple[int, list[int]]]:
    """Row numbers by the number of whole attention blocks they fill.

    Which blocks BigBird looks at depends on the padded length, so rows may share a batch only where it is the same.
    """
    size = int(model.config.block_size)
    blocks = [-(-len(row) // size) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: blocks[i])
    return [(count, list(numbers)) for count, numbers in groupby(order, key=lambda i: blocks[i])]


@contextmanager
def _attention_for(model: Any, blocks: int) -> Iterator[None]:
    """The attention type that a row's own length asks for, set before every call.

    Left alone, the model turns to full attention at the first short row and stays there. A row with fewer blocks
    than sparse attention reads is read in full; a config that says ``original_full`` is never made sparse.
    """
    enough = blocks > 5 + 2 * int(model.config.num_random_blocks)
    state = np.random.get_state()  # the model seeds numpy's global generator in training
    with torch.random.fork_rng(devices=[]):  # a change of type draws weights that it then throws away
        model.set_attention_type(model.config.attention_type if enough else "original_full")
    try:
        yield
    finally:
        np.random.set_state(state)


def _single(encoded: Encoded) -> list[Encoded]:
    """Every row by itself."""
    pooled = torch.split(encoded.pooled, 1)
    if encoded.tokens is None:
        return [Encoded(vector, None, (n,)) for vector, n in zip(pooled, encoded.lengths, strict=True)]
    pieces = torch.split(encoded.tokens, list(encoded.lengths), dim=1)
    return [Encoded(v, piece, (n,)) for v, piece, n in zip(pooled, pieces, encoded.lengths, strict=True)]
