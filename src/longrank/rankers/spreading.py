"""Encoders with learned positions, stretched to read more (LongEmbed, Zhu et al. 2024).

``extended`` interpolates the position table; ``SpreadBackbone`` then spreads short inputs over all of it, so that they
meet the very position vectors the model was trained with. E5-4K is a BERT of 4,096 positions used this way.
"""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longrank.core.contracts import Tokenizer
from longrank.core.errors import ModelError
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Encoded, Needs, Row, Specials
from longrank.rankers import masked
from longrank.rankers.published import Compat

_OFFSETS = {"roberta": 2, "xlm-roberta": 2, "camembert": 2}  # these count positions from behind the padding id


class SpreadBackbone(nn.Module):
    """A backbone whose inputs of at most ``short_tokens`` are spread over all its positions, longer ones as they are.

    The length of each row decides by itself. Under ``compat="published"`` the longest row of the batch decides for all
    of them, as in the published code, so that a score depends on its batch.
    """

    def __init__(self, inner: Backbone, *, short_tokens: int = 512, compat: Compat = None) -> None:
        super().__init__()
        if "position_ids" not in inspect.signature(inner.model.forward).parameters:
            raise ModelError(f"a model of type {inner.model.config.model_type!r} takes no position ids to spread")
        if inner.pooling == "last":
            raise ModelError("position scaling is for encoders: use pooling='mean' or 'cls'")
        if short_tokens > inner.max_tokens:
            raise ModelError(f"{short_tokens} short tokens do not fit a model of {inner.max_tokens} positions")
        self.inner = inner
        self.short_tokens = short_tokens
        self.compat: Compat = compat

    @property
    def tokenizer(self) -> Tokenizer:
        """The backbone's tokenizer."""
        return self.inner.tokenizer

    @property
    def specials(self) -> Specials:
        """The backbone's special tokens."""
        return self.inner.specials

    @property
    def max_tokens(self) -> int:
        """Longest row the positions allow."""
        return self.inner.max_tokens

    def positions(self, lengths: Sequence[int]) -> list[list[int]]:
        """Position of each token of rows of these lengths, encoded together.

        A model of 4,096 positions spreads 512 tokens by steps of 8.
        """
        factor = self.max_tokens // self.short_tokens
        deciding = [max(lengths)] * len(lengths) if self.compat == "published" else lengths
        steps = [factor if length <= self.short_tokens else 1 for length in deciding]
        return [list(range(0, length * step, step)) for length, step in zip(lengths, steps, strict=True)]

    def encode(self, rows: Sequence[Row], *, needs: Needs) -> Encoded:
        """States of the rows, padding left out."""
        lengths = tuple(len(row) for row in rows)
        if max(lengths) > self.max_tokens:
            raise ModelError(f"a row of {max(lengths)} tokens does not fit a model of {self.max_tokens} positions")
        offset = _OFFSETS.get(self.inner.model.config.model_type, 0)
        shape = (len(rows), max(lengths))
        ids, places = np.full(shape, self.specials.pad, np.int64), np.full(shape, offset, np.int64)
        for i, (row, at) in enumerate(zip(rows, self.positions(lengths), strict=True)):
            ids[i, : len(row)] = row.ids
            places[i, : len(row)] = np.array(at) + offset
        device = next(self.inner.model.parameters()).device
        mask = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).to(device)
        out = self.inner.model(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=mask.long(),
            position_ids=torch.from_numpy(places).to(device),
            return_dict=True,
        )
        states: Tensor = out.last_hidden_state
        pooled = states[:, 0] if self.inner.pooling == "cls" else masked.mean(states, mask, dim=1)
        tokens = states[mask][None] if needs & Needs.TOKENS else None
        return Encoded(pooled, tokens, lengths)


def extended(backbone: Backbone, *, positions: int) -> Backbone:
    """A copy of an encoder with learned positions whose table is interpolated to ``positions`` entries.

    Where the new length is a multiple of the old, every old vector stays in the table, ``positions / old`` steps apart;
    those behind the last one repeat it.
    """
    changed = copy.deepcopy(backbone)
    embeddings: Any = getattr(changed.model, "embeddings", None)
    table: Any = getattr(embeddings, "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        raise ModelError(f"a model of type {backbone.model.config.model_type!r} has no table of learned positions")
    offset = _OFFSETS.get(changed.model.config.model_type, 0)
    old = table.weight.detach()[offset:]
    if positions < len(old):
        raise ModelError(f"the model has {len(old)} positions already: ask for more than {positions}")
    at = torch.arange(positions, device=old.device) * (len(old) / positions)
    below = at.long().clamp(max=len(old) - 1)
    above = (below + 1).clamp(max=len(old) - 1)
    weight = torch.lerp(old[below], old[above], (at - below).to(old.dtype)[:, None])
    whole = torch.cat([table.weight.detach()[:offset], weight])
    embeddings.position_embeddings = nn.Embedding(
        len(whole), whole.shape[1], padding_idx=table.padding_idx, _weight=whole
    )
    for name in ("position_ids", "token_type_ids"):  # tables of the old length that forward cuts its defaults from
        if isinstance(getattr(embeddings, name, None), Tensor):
            fresh = torch.arange(len(whole)) if name == "position_ids" else torch.zeros(len(whole), dtype=torch.long)
            embeddings.register_buffer(name, fresh[None].to(old.device), persistent=False)
    changed.model.config.max_position_embeddings = len(whole)
    return changed
