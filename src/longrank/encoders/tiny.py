"""A BERT from scratch, small enough to train in seconds: for tests, the quick demo and experiments."""

import torch

from longrank.chunking.tokenizers import RESERVED_IDS, SubwordTokenizer, WordTokenizer, bert_tokenizer
from longrank.core.seeds import derive
from longrank.encoders.backbone import Backbone, Pooling
from longrank.encoders.rows import Specials


def tiny(
    *,
    layers: int = 2,
    dim: int = 64,
    heads: int = 2,
    positions: int = 512,
    vocabulary: int | str = 8192,
    pooling: Pooling = "cls",
    seed: int = 0,
) -> Backbone:
    """An untrained BERT-type encoder over hashed words, or over the BERT vocabulary with ``vocabulary="bert"``."""
    from transformers import BertConfig, BertModel

    tokenizer: WordTokenizer | SubwordTokenizer
    if isinstance(vocabulary, int):
        tokenizer = WordTokenizer(max(vocabulary, RESERVED_IDS + 1))
        specials = Specials(cls=1, sep=2, pad=0)
    else:
        tokenizer = bert_tokenizer()
        specials = Specials(cls=tokenizer.id_of("[CLS]"), sep=tokenizer.id_of("[SEP]"), pad=0)
    config = BertConfig(
        vocab_size=tokenizer.vocabulary_size,
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * dim,
        max_position_embeddings=positions,
        attention_probs_dropout_prob=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(derive("tiny-encoder", seed))
        model = BertModel(config, add_pooling_layer=False)
    return Backbone(model.eval(), tokenizer, specials, pooling=pooling)
