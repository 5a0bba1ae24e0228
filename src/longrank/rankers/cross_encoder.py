"""Published cross-encoders as FirstP or MaxP, without training: the model's own head scores every window."""

from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from longrank.chunking.splitters import Sliding, Truncate
from longrank.core.contracts import Splitter
from longrank.core.errors import ModelError
from longrank.encoders.packed import PACKABLE
from longrank.encoders.pretrained import pretrained
from longrank.encoders.quiet import quiet
from longrank.rankers.aggregators import FirstScore, MaxScore
from longrank.rankers.layouts import Joint
from longrank.rankers.neural import NeuralRanker


class PublishedHead(nn.Module):
    """The two layers that BERT-type classifiers put on [CLS]: dense, activation, one number."""

    def __init__(self, dense: nn.Linear, activation: nn.Module, out: nn.Linear) -> None:
        super().__init__()
        self.dense, self.activation, self.out = dense, activation, out

    def forward(self, vectors: Tensor) -> Tensor:
        """[..., dim] to [...]."""
        scores: Tensor = self.out(self.activation(self.dense(vectors.float())))
        return scores.squeeze(-1)


def cross_encoder(
    model: str | Path,
    *,
    read: Literal["firstp", "maxp"] = "maxp",
    size: int = 150,
    stride: int = 100,
    query_tokens: int = 32,
) -> NeuralRanker:
    """A BERT or ELECTRA cross-encoder with one logit, from a folder or a hub id.

    ``firstp`` reads what the model's positions allow and counts the rest as cut; ``maxp`` reads the whole document in
    windows and keeps the best.
    """
    backbone = pretrained(str(model), pooling="cls")
    head = _head(str(model))
    splitter: Splitter = Sliding(size, stride)
    if read == "firstp":
        splitter = Truncate(backbone.max_tokens - query_tokens - backbone.specials.framing)
    aggregator = FirstScore(backbone.dim) if read == "firstp" else MaxScore(backbone.dim)
    aggregator.head = head  # type: ignore[assignment]
    ranker = NeuralRanker(splitter, Joint(query_tokens), backbone, aggregator)
    ranker.trained = True
    return ranker.eval()


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder holds a sequence classifier of transformers."""
    path = folder / "config.json"
    return path.is_file() and "ForSequenceClassification" in path.read_text(encoding="utf-8")


def _head(model: str) -> PublishedHead:
    from transformers import AutoModelForSequenceClassification

    with quiet():
        full, report = AutoModelForSequenceClassification.from_pretrained(model, output_loading_info=True)
    if report["missing_keys"]:
        raise ModelError(f"{model} has no trained head ({min(report['missing_keys'])!r} is missing): train one first")
    kind, config = full.config.model_type, full.config
    if kind not in PACKABLE:
        raise ModelError(
            f"{model} is a {kind!r} model; only {' and '.join(sorted(PACKABLE))} cross-encoders are read this way"
        )
    if config.num_labels != 1:
        raise ModelError(f"{model} gives {config.num_labels} numbers a pair: a ranker needs one")
    parts: Any = full.classifier
    if kind == "electra":
        return PublishedHead(parts.dense, nn.GELU(), parts.out_proj)
    return PublishedHead(full.bert.pooler.dense, nn.Tanh(), parts)
