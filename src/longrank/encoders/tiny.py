"""An encoder from scratch, small enough to train in seconds: for tests, the quick demo and experiments."""

from typing import Any, Literal

import torch

from longrank.chunking.splitters import positive
from longrank.chunking.tokenizers import RESERVED_IDS, SubwordTokenizer, WordTokenizer, bert_tokenizer
from longrank.core.errors import SettingsError
from longrank.core.seeds import derive
from longrank.encoders.backbone import Backbone, Pooling
from longrank.encoders.rows import Specials


def tiny(
    *,
    layers: int = 2,
    dim: int = 64,
    heads: int = 2,
    positions: int = 512,
    vocabulary: int | Literal["bert"] = 8192,
    pooling: Pooling = "cls",
    rotary: bool = False,
    seed: int = 0,
) -> Backbone:
    """An untrained BERT-type encoder over hashed words, or over the BERT vocabulary with ``vocabulary="bert"``.

    ``rotary`` turns queries and keys by their position instead of adding a learned one, as long encoders do.
    """
    positive(layers=layers, dim=dim, heads=heads, positions=positions)
    unit = 2 * heads if rotary else heads  # rotations turn pairs
    if dim % unit:
        raise SettingsError(f"dim of the tiny encoder must be a multiple of {unit} with {heads} heads, got {dim}")
    tokenizer: WordTokenizer | SubwordTokenizer
    if isinstance(vocabulary, int):
        if vocabulary <= RESERVED_IDS:
            raise SettingsError(
                f"vocabulary of the tiny encoder must be at least {RESERVED_IDS + 1}, for {RESERVED_IDS} ids are "
                f"reserved, got {vocabulary}"
            )
        tokenizer = WordTokenizer(vocabulary)
        specials = Specials(cls=1, sep=2, pad=0)
    else:
        tokenizer = bert_tokenizer()
        specials = Specials(cls=tokenizer.id_of("[CLS]"), sep=tokenizer.id_of("[SEP]"), pad=0)
    shape = {
        "vocab_size": tokenizer.vocabulary_size,
        "hidden_size": dim,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * dim,
        "max_position_embeddings": positions,
        "attention_probs_dropout_prob": 0.0,
    }
    with torch.random.fork_rng():
        torch.manual_seed(derive("tiny-encoder", seed))
        model = _rotary(shape) if rotary else _learned(shape)
    return Backbone(model.eval(), tokenizer, specials, pooling=pooling)


def _learned(shape: dict[str, Any]) -> Any:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**shape), add_pooling_layer=False)


def _rotary(shape: dict[str, Any]) -> Any:
    from transformers import RoFormerConfig, RoFormerModel

    return RoFormerModel(RoFormerConfig(embedding_size=shape["hidden_size"], **shape))
