"""The Transformers inside aggregators: from a pretrained model, from a config, or new."""

import copy
from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from longrank.core.errors import SettingsError
from longrank.encoders.backbone import Backbone
from longrank.rankers.aggregators import LateInteraction, TransformerVector, VectorReader, random_encoder
from longrank.rankers.aggregators.transformer import encoder_of
from longrank.rankers.published import Compat

Started = Backbone | Mapping[str, Any]  # a pretrained model, or the config of one whose weights a checkpoint holds
SpecialVectors = Literal["drawn", "copied"]
STARTED = ("init", "interaction")  # the parameters of rankers that name such a model


def reader_for(
    backbone: Backbone,
    start: Started | None,
    *,
    layers: int = 2,
    heads: int | None = None,
    separators: bool = True,
    positions: bool = True,
    specials: SpecialVectors | None = None,
    compat: Compat = None,
) -> VectorReader:
    """A Transformer that starts from a model, or a new one as wide as the backbone.

    Its special vectors are copied from the words [CLS] and [SEP] (of the model it starts from, or of the backbone) or
    drawn; if nothing is said, a new one copies and one that starts from a model draws.
    """
    if start is not None and not positions:
        raise SettingsError("positions = false is for a Transformer that starts at random: leave it or init out")
    full, copied = compat == "published", (specials or ("copied" if start is None else "drawn")) == "copied"
    lender = start if isinstance(start, Backbone) else backbone
    return VectorReader(
        _started(backbone, start, layers=layers, heads=heads, full=full),
        specials=_framing_vectors(lender) if copied else None,
        separators=separators,
        positions=positions,
        keep_unused=full,
    )


def _started(backbone: Backbone, start: Started | None, *, layers: int, heads: int | None, full: bool) -> Any:
    if isinstance(start, Backbone):
        return copy.deepcopy(start.model)
    if start is not None:
        return encoder_of(start)
    config = backbone.model.config
    return random_encoder(
        backbone.dim,
        layers=layers,
        heads=heads or backbone.heads,
        attention_dropout=float(getattr(config, "attention_probs_dropout_prob", 0.0)),
        vocabulary=int(config.vocab_size) if full else 1,
    )


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
