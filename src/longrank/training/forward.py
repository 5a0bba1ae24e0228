"""Scores with their graph: plain, recomputed piece by piece, in half precision, or for the winning chunk only."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint as recomputed

from longrank.core.errors import TrainingError
from longrank.core.types import Document, Query, SplitText, TokenizedText
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Encoded, Needs, Row
from longrank.rankers.aggregators import MaxScore
from longrank.rankers.layouts import Joint
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.scoring import encode_in_batches
from longrank.training.settings import TrainSettings

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Asked(NamedTuple):
    """A query and the documents to score for it."""

    query: Query
    documents: Sequence[Document]


class Scored(NamedTuple):
    """Scores [docs] of each query with their graph, and the tokens that were encoded for them."""

    scores: list[Tensor]
    tokens: int


class _Prepared(NamedTuple):
    asked: TokenizedText
    split: list[SplitText]
    rows: list[Row]


def check_forward(ranker: NeuralRanker, settings: TrainSettings) -> None:
    """Raise if the ranker cannot be trained in the way asked for."""
    if settings.winner_only and not (type(ranker.layout) is Joint and isinstance(ranker.aggregator, MaxScore)):
        raise TrainingError(
            "winner_only gives a graph to the best chunk alone, which is exact for MaxP only: "
            "leave it out for this ranker, or use recompute_tokens to save memory"
        )


def train_scores(ranker: NeuralRanker, batch: Sequence[Asked], *, settings: TrainSettings) -> Scored:
    """What ``ranker(query, documents)`` gives for every query, encoded together and computed as the settings say."""
    parts = [_prepared(ranker, asked, settings) for asked in batch]
    encoded = _encoded(ranker, [row for part in parts for row in part.rows], settings)
    scores, row, token = [], 0, 0
    for part in parts:
        lengths = encoded.lengths[row : row + len(part.rows)]
        tokens = None if encoded.tokens is None else encoded.tokens[:, token : token + sum(lengths)]
        own = Encoded(encoded.pooled[row : row + len(part.rows)], tokens, lengths)
        states = ranker.layout.states(own, ranker.backbone.specials, part.asked, part.split)
        scores.append(ranker.aggregator(states))
        row, token = row + len(part.rows), token + sum(lengths)
    return Scored(scores, sum(encoded.lengths))


def _prepared(ranker: NeuralRanker, asked: Asked, settings: TrainSettings) -> _Prepared:
    query = ranker.backbone.tokenizer.tokenize(asked.query.text)
    split = ranker.split(asked.documents)
    if settings.winner_only:
        split = _winners(ranker, query, split, settings)
    return _Prepared(query, split, ranker.layout.rows(ranker.backbone, query, split))


def _encoded(ranker: NeuralRanker, rows: Sequence[Row], settings: TrainSettings) -> Encoded:
    needs: Needs = ranker.aggregator.needs  # type: ignore[assignment]
    with _precision(ranker, settings):
        if settings.recompute_tokens is None:
            encoded = ranker.backbone.encode(rows, needs=needs)
        else:
            pieces = cast(Backbone, _Recomputing(ranker.backbone))
            encoded = encode_in_batches(pieces, rows, needs=needs, budget=settings.recompute_tokens)
    if settings.precision == "fp32":
        return encoded
    tokens = None if encoded.tokens is None else encoded.tokens.float()
    return Encoded(encoded.pooled.float(), tokens, encoded.lengths)


@dataclass(frozen=True, eq=False)
class _Recomputing:
    """A backbone that forgets what it computed and computes it again in the backward pass."""

    backbone: Backbone

    def encode(self, rows: Sequence[Row], *, needs: Needs) -> Encoded:
        def states() -> tuple[Tensor, Tensor | None]:
            encoded = self.backbone.encode(rows, needs=needs)
            return encoded.pooled, encoded.tokens

        pooled, tokens = cast(tuple[Tensor, Tensor | None], recomputed(states, use_reentrant=False))
        return Encoded(pooled, tokens, tuple(len(row) for row in rows))


def _winners(
    ranker: NeuralRanker, asked: TokenizedText, split: Sequence[SplitText], settings: TrainSettings
) -> list[SplitText]:
    """Each document with its best chunk alone, found without a graph and without dropout."""
    contested = [document for document in split if len(document.spans) > 1]
    if not contested:
        return list(split)
    was_training = ranker.training
    ranker.eval()
    try:
        with torch.no_grad(), _precision(ranker, settings):
            rows = ranker.layout.rows(ranker.backbone, asked, contested)
            encoded = encode_in_batches(ranker.backbone, rows, needs=Needs.CHUNKS, budget=ranker.token_budget)
            states = ranker.layout.states(encoded, ranker.backbone.specials, asked, contested)
            values = ranker.aggregator.head(states.chunks)  # type: ignore[operator]  # [docs, chunks]
    finally:
        ranker.train(was_training)
    best = iter(torch.where(states.chunk_mask, values, torch.finfo(values.dtype).min).argmax(1).tolist())
    return [SplitText(d.source, (d.spans[next(best)],)) if len(d.spans) > 1 else d for d in split]


def _precision(ranker: NeuralRanker, settings: TrainSettings) -> AbstractContextManager[Any]:
    if settings.precision == "fp32":
        return nullcontext()
    device = next(ranker.parameters()).device.type
    return torch.autocast(device, dtype=_DTYPES[settings.precision])
