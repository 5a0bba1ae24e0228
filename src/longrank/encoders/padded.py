"""The forward pass of any transformers encoder: rows padded to the longest of the batch."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from longrank.encoders.rows import Encoded, Needs, Row


def encode_padded(model: Any, rows: Sequence[Row], *, needs: Needs, pad: int, pooling: str) -> Encoded:
    """States of the rows through the model's own ``forward``; padding is masked and left out of what comes back."""
    width = max(len(row) for row in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    types, mask, wide = (np.zeros((len(rows), width), dtype=np.int64) for _ in range(3))
    for i, row in enumerate(rows):
        ids[i, : len(row)], types[i, : len(row)] = row.ids, row.types
        mask[i, : len(row)], wide[i, : row.global_tokens] = 1, 1
    device = next(model.parameters()).device
    known = inspect.signature(model.forward).parameters
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "global_attention_mask": wide}
    if getattr(model.config, "type_vocab_size", 0) < 2:
        del inputs["token_type_ids"]
    tensors = {name: torch.from_numpy(value).to(device) for name, value in inputs.items() if name in known}
    layers = bool(needs & Needs.LAYERS)
    out = model(**tensors, output_hidden_states=layers, return_dict=True)

    lengths = tuple(len(row) for row in rows)
    real = tensors["attention_mask"].bool()
    last = out.last_hidden_state[:, :width]
    pooled = _pool(last, real, pooling)
    if not needs & (Needs.TOKENS | Needs.LAYERS | Needs.QUERY):
        return Encoded(pooled, None, lengths)
    history = [state[:, :width] for state in out.hidden_states] if layers else [last]
    return Encoded(pooled, torch.stack([state[real] for state in history]), lengths)


def _pool(states: torch.Tensor, real: torch.Tensor, pooling: str) -> torch.Tensor:
    if pooling == "cls":
        return states[:, 0]
    if pooling == "last":
        return states[torch.arange(len(states), device=states.device), real.sum(1) - 1]
    weights = real.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)
