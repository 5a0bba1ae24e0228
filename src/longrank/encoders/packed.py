"""A BERT forward pass that never pays for padding.

Rows are laid end to end. Linear layers see one long matrix; attention runs over groups of rows of equal length,
so it needs no mask and stays on the fast path of ``scaled_dot_product_attention``. The last layer is computed only
where it is read: at [CLS], unless token states are asked for. Works on the weights of transformers' ``BertModel``
and ``ElectraModel`` and gives their numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from longrank.encoders.products import by_onednn
from longrank.encoders.rows import Encoded, Needs, Row

PACKABLE = frozenset({"bert", "electra"})
_WHOLE = 64  # tokens; batches of a whole number of these have few sizes


@dataclass(frozen=True)
class _Group:
    """Rows of equal length that lie side by side."""

    start: int
    rows: int
    length: int

    @property
    def stop(self) -> int:
        return self.start + self.rows * self.length


def encode_packed(model: Any, rows: Sequence[Row], *, needs: Needs, mean_pooling: bool = False) -> Encoded:
    """States of the rows, in their order, from a BERT-type model of transformers."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    ordered = [rows[i] for i in order]
    groups = _groups([len(row) for row in ordered])
    everywhere = mean_pooling or bool(needs & (Needs.TOKENS | Needs.LAYERS | Needs.QUERY))

    states = _fill_up(_embed(model, ordered), groups)
    history = [states]
    for layer in model.encoder.layer[:-1]:
        states = _layer(layer, states, groups)
        if needs & Needs.LAYERS:
            history.append(states)
    last = model.encoder.layer[-1]
    states = _layer(last, states, groups) if everywhere else _layer_at_first(last, states, groups)
    history.append(states)

    back = torch.from_numpy(np.argsort(order, kind="stable"))
    lengths = tuple(len(row) for row in rows)
    pooled = (_pool(states, groups, mean=mean_pooling) if everywhere else states)[back]
    if not everywhere or not needs & (Needs.TOKENS | Needs.LAYERS | Needs.QUERY):
        return Encoded(pooled, None, lengths)
    kept = history if needs & Needs.LAYERS else history[-1:]
    tokens = torch.stack(kept)[:, _token_order(ordered, order)]
    return Encoded(pooled, tokens, lengths)


def _embed(model: Any, rows: Sequence[Row]) -> Tensor:
    parts, device = model.embeddings, model.embeddings.word_embeddings.weight.device
    ids = torch.from_numpy(np.concatenate([row.ids for row in rows])).to(device)
    types = torch.from_numpy(np.concatenate([row.types for row in rows])).to(device)
    positions = torch.from_numpy(np.concatenate([np.arange(len(row), dtype=np.int32) for row in rows])).to(device)
    states = parts.word_embeddings(ids) + parts.position_embeddings(positions) + type_embeddings(parts, types)
    states = parts.dropout(parts.LayerNorm(states))
    project = getattr(model, "embeddings_project", None)  # ELECTRA, where widths differ
    return states if project is None else project(states)  # type: ignore[no-any-return]


def type_embeddings(parts: Any, types: Tensor) -> Tensor:
    """Vectors of token types from a model's embeddings; where it has one type only, query and chunk share it."""
    table = parts.token_type_embeddings
    found: Tensor = table(types if table.num_embeddings > 1 else torch.zeros_like(types))
    return found


def _fill_up(states: Tensor, groups: list[_Group]) -> Tensor:
    """The states with a row of zeros behind them where oneDNN multiplies: it compiles a kernel for every new size."""
    filling = -len(states) % _WHOLE if by_onednn(states) else 0
    if not filling:
        return states
    groups.append(_Group(len(states), 1, filling))  # nobody reads it
    return F.pad(states, (0, 0, 0, filling))


def _layer(layer: Any, states: Tensor, groups: Sequence[_Group]) -> Tensor:
    attention = layer.attention.self
    mixed = F.linear(states, *_fused(attention.query, attention.key, attention.value))
    mixed = mixed.view(len(states), 3, attention.num_attention_heads, -1)  # [tokens, 3, heads, head dim]
    parts = (mixed[g.start : g.stop].view(g.rows, g.length, *mixed.shape[1:]).permute(2, 0, 3, 1, 4) for g in groups)
    context = [_attend(attention, *part) for part in parts]
    return _after_attention(layer, torch.cat(context), states)


def _layer_at_first(layer: Any, states: Tensor, groups: Sequence[_Group]) -> Tensor:
    """The layer's output at the first token of every row only."""
    attention = layer.attention.self
    heads = attention.num_attention_heads
    first = states[_first_tokens(groups, states.device)]
    queries = attention.query(first).view(len(first), heads, 1, -1)
    mixed = F.linear(states, *_fused(attention.key, attention.value)).view(len(states), 2, heads, -1)
    context, row = [], 0
    for g in groups:
        keys, values = mixed[g.start : g.stop].view(g.rows, g.length, *mixed.shape[1:]).permute(2, 0, 3, 1, 4)
        context.append(_attend(attention, queries[row : row + g.rows], keys, values))
        row += g.rows
    return _after_attention(layer, torch.cat(context), first)


def _attend(attention: Any, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """[rows * length, heads * head dim] from [rows, heads, length, head dim]."""
    dropped = attention.dropout.p if attention.training else 0.0
    context = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropped)
    rows, heads, length, size = context.shape
    return context.transpose(1, 2).reshape(rows * length, heads * size)


def _after_attention(layer: Any, context: Tensor, residual: Tensor) -> Tensor:
    out = layer.attention.output
    states = out.LayerNorm(out.dropout(out.dense(context)) + residual)
    inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(states))
    return layer.output.LayerNorm(layer.output.dropout(layer.output.dense(inner)) + states)  # type: ignore[no-any-return]


def _fused(*linears: Any) -> tuple[Tensor, Tensor]:
    return torch.cat([part.weight for part in linears]), torch.cat([part.bias for part in linears])


def _pool(states: Tensor, groups: Sequence[_Group], *, mean: bool) -> Tensor:
    if not mean:
        return states[_first_tokens(groups, states.device)]
    return torch.cat([states[g.start : g.stop].view(g.rows, g.length, -1).mean(1) for g in groups])


def _first_tokens(groups: Sequence[_Group], device: torch.device) -> Tensor:
    return torch.cat([torch.arange(g.start, g.stop, g.length, device=device) for g in groups])


def _groups(lengths: Sequence[int]) -> list[_Group]:
    groups: list[_Group] = []
    start = 0
    for length, run in groupby(lengths):
        groups.append(_Group(start, len(list(run)), length))
        start = groups[-1].stop
    return groups


def _token_order(ordered: Sequence[Row], order: Sequence[int]) -> Tensor:
    """Where the tokens of the rows as given lie among the tokens of the rows as sorted."""
    starts = np.concatenate([[0], np.cumsum([len(row) for row in ordered])[:-1]])
    place = np.argsort(order, kind="stable")
    return torch.from_numpy(np.concatenate([np.arange(starts[p], starts[p] + len(ordered[p])) for p in place]))
