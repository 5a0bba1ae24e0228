"""The Transformers inside aggregators: from a pretrained model, from a config, or new."""

import copy
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from longrank.encoders.backbone import Backbone
from longrank.rankers.aggregators import LateInteraction, TransformerVector, VectorReader, random_encoder
from longrank.rankers.aggregators.transformer import encoder_of
from longrank.rankers.published import Compat

Started = Backbone | Mapping[str, Any]  # a pretrained model, or the config of one whose weights a checkpoint holds
STARTED = ("init", "interaction")  # the parameters of rankers that name such a model


def reader_for(
    backbone: Backbone, start: Started | None, *, layers: int = 2, heads: int | None = None, compat: Compat = None
) -> VectorReader:
    """A Transformer that starts from a model, or a new one as wide as the backbone."""
    full = compat == "published"
    if isinstance(start, Backbone):
        return VectorReader(copy.deepcopy(start.model), keep_unused=full)
    if start is not None:
        return VectorReader(encoder_of(start), keep_unused=full)
    config = backbone.model.config
    model = random_encoder(
        backbone.dim,
        layers=layers,
        heads=heads or backbone.heads,
        attention_dropout=float(getattr(config, "attention_probs_dropout_prob", 0.0)),
        vocabulary=int(config.vocab_size) if full else 1,
    )
    return VectorReader(model, specials=_framing_vectors(backbone), keep_unused=full)


def readers_of(aggregator: nn.Module) -> dict[str, VectorReader]:
    """The Transformers of an aggregator, by the parameter that may start them."""
    if isinstance(aggregator, LateInteraction):
        return {**readers_of(aggregator.then), "interaction": aggregator.reader}
    return {"init": aggregator.reader} if isinstance(aggregator, TransformerVector) else {}


def _framing_vectors(backbone: Backbone) -> Tensor | None:
    """The backbone's word vectors of [CLS] and [SEP], None where it has no such tokens."""
    cls, sep = backbone.specials.cls, backbone.specials.sep
    if cls is None or sep is None:
        return None
    vectors: Tensor = backbone.model.get_input_embeddings().weight[[cls, sep]]
    return vectors
