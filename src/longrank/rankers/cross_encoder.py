"""Published cross-encoders as FirstP or MaxP, without training: the model's own head scores every window."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from longrank.chunking.splitters import Sliding, Truncate
from longrank.core.contracts import Splitter
from longrank.core.errors import ModelError
from longrank.core.types import SplitText, TokenizedText
from longrank.encoders.backbone import Backbone, Pooling
from longrank.encoders.pretrained import model_config, pretrained, safe_weights
from longrank.encoders.rows import Encoded, Row, Specials
from longrank.rankers.aggregators import FirstScore, MaxScore
from longrank.rankers.layouts import Joint, Layout, chunk_ids, framed_row, stack_chunks
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.states import ChunkStates

_ROBERTA = frozenset({"roberta", "xlm-roberta", "camembert"})
_READ = ("bert", "electra", *sorted(_ROBERTA), "deberta-v2", "modernbert")


class PublishedHead(nn.Module):
    """The layers that classifiers put on a text's vector: dense, activation, one number."""

    def __init__(self, dense: nn.Module, activation: nn.Module, out: nn.Linear) -> None:
        super().__init__()
        self.dense, self.activation, self.out = dense, activation, out

    def forward(self, vectors: Tensor) -> Tensor:
        """[..., dim] to [...]."""
        scores: Tensor = self.out(self.activation(self.dense(vectors.float())))
        return scores.squeeze(-1)


@dataclass(frozen=True)
class TwoSeparators:
    """A pair as RoBERTa was taught to read it, with two separators between; the second is counted with the query."""

    query_tokens: int = 33

    def unread(self, query: TokenizedText) -> int:
        """Tokens of the query that are cropped."""
        return max(0, len(query) - (self.query_tokens - 1))

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """One row for each span of each document."""
        asked = np.append(query.ids[: self.query_tokens - 1], np.int32(backbone.specials.sep or 0))
        return [framed_row(backbone.specials, asked, chunk) for document in documents for chunk in chunk_ids(document)]

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """Pooled rows as chunks; a classifier reads nothing else."""
        chunks, mask, sizes = stack_chunks(encoded.pooled, documents)
        return ChunkStates(chunks, mask, sizes=sizes)


def cross_encoder(
    model: str | Path,
    *,
    read: Literal["firstp", "maxp"] = "maxp",
    size: int | None = None,
    stride: int | None = None,
    query_tokens: int = 32,
    remote_code: str | None = None,
) -> NeuralRanker:
    """A published cross-encoder with one logit, from a folder or a hub id (ms-marco, bge, mxbai, gte types).

    ``firstp`` reads what the model's positions allow and counts the rest as cut; ``maxp`` reads the whole document in
    windows and keeps the best: 150 tokens every 100, fewer where a model has fewer positions. ``remote_code`` is that
    of ``pretrained``.
    """
    head, pooling = _head(str(model), remote_code)
    backbone = pretrained(str(model), pooling=pooling, remote_code=remote_code)
    layout: Layout = Joint(query_tokens)
    if backbone.model.config.model_type in _ROBERTA:
        layout = TwoSeparators(query_tokens + 1)
    room = backbone.max_tokens - layout.query_tokens - backbone.specials.framing
    size = max(1, min(150, room)) if size is None else size
    stride = max(1, size * 2 // 3) if stride is None else stride
    splitter: Splitter = Truncate(room) if read == "firstp" else Sliding(size, stride)
    aggregator = FirstScore(backbone.dim) if read == "firstp" else MaxScore(backbone.dim)
    aggregator.head = head  # type: ignore[assignment]
    ranker = NeuralRanker(splitter, layout, backbone, aggregator)
    ranker.trained = True
    return ranker.eval()


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder holds a sequence classifier of transformers."""
    path = folder / "config.json"
    return path.is_file() and "ForSequenceClassification" in path.read_text(encoding="utf-8")


def reads_in_windows(folder: Path) -> bool:
    """Whether ``cross_encoder`` can read with the folder's model: one logit, of a type it knows."""
    if not is_cross_encoder(folder):
        return False
    config, _ = model_config(str(folder), None)
    return config.model_type in _READ and config.num_labels == 1


def _head(model: str, remote_code: str | None) -> tuple[PublishedHead, Pooling]:
    """The layers behind the encoder, and the vector they read."""
    from transformers import AutoModelForSequenceClassification
    from transformers.activations import ACT2FN

    config, extra = model_config(model, remote_code)
    kind = config.model_type
    if kind not in _READ:
        raise ModelError(f"{model} is a {kind!r} model; cross-encoders of these types are read: {', '.join(_READ)}")
    if config.num_labels != 1:
        raise ModelError(f"{model} gives {config.num_labels} numbers a pair: a ranker needs one")
    full, missing = safe_weights(AutoModelForSequenceClassification, model, **extra)
    if missing:
        raise ModelError(f"{model} has no trained head ({missing[0]!r} is missing): train one first")
    parts: Any = full.classifier
    if kind in _ROBERTA:
        return PublishedHead(parts.dense, nn.Tanh(), parts.out_proj), "cls"
    if kind == "electra":
        return PublishedHead(parts.dense, nn.GELU(), parts.out_proj), "cls"
    if kind == "deberta-v2":
        return PublishedHead(full.pooler.dense, ACT2FN[config.pooler_hidden_act], parts), "cls"
    if kind == "modernbert":
        return PublishedHead(full.head, nn.Identity(), parts), config.classifier_pooling
    return PublishedHead(full.bert.pooler.dense, nn.Tanh(), parts), "cls"
