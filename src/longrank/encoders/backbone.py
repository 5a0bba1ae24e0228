"""A transformers model and its tokenizer, as rankers use them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from torch import nn

from longrank.chunking.tokenizers import CachedTokenizer, SubwordTokenizer, WordTokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.errors import ModelError
from longrank.encoders.packed import PACKABLE, encode_packed
from longrank.encoders.padded import encode_padded
from longrank.encoders.products import fast_products
from longrank.encoders.quiet import quiet
from longrank.encoders.rows import Encoded, Needs, Row, Specials

Pooling = Literal["cls", "mean", "last"]
# positions are counted from behind the padding id, so that two of them are never used
_AFTER_PADDING = frozenset({"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "longformer", "mpnet"})


class Backbone(nn.Module):
    """A transformers model with its tokenizer; BERT-type models run packed, all others padded."""

    def __init__(self, model: Any, tokenizer: Tokenizer, specials: Specials, *, pooling: Pooling = "cls") -> None:
        super().__init__()
        self.model = model
        self.tokenizer: Tokenizer = CachedTokenizer(tokenizer)
        self.specials = specials
        self.pooling: Pooling = pooling

    @property
    def dim(self) -> int:
        """Width of a state."""
        return int(self.model.config.hidden_size)

    @property
    def layers(self) -> int:
        """Number of layers; there is one more state than layers, the embeddings."""
        return int(self.model.config.num_hidden_layers)

    @property
    def heads(self) -> int:
        """Number of attention heads."""
        return int(self.model.config.num_attention_heads)

    @property
    def max_tokens(self) -> int:
        """Longest row the position embeddings allow."""
        config = self.model.config
        limit = int(getattr(config, "max_position_embeddings", 0) or 10**9)
        return limit - (2 if config.model_type in _AFTER_PADDING else 0)

    @property
    def packable(self) -> bool:
        """Whether rows can be laid end to end: BERT and ELECTRA of transformers, not code that borrows their names."""
        ours = type(self.model).__module__.startswith("transformers.models.")
        return ours and self.model.config.model_type in PACKABLE

    def encode(self, rows: Sequence[Row], *, needs: Needs) -> Encoded:
        """States of the rows; a row longer than the model's positions is refused."""
        longest = max(len(row) for row in rows)
        if longest > self.max_tokens:
            raise ModelError(
                f"a row of {longest} tokens does not fit a model of {self.max_tokens} positions: "
                f"use smaller chunks, or a backbone that reads more"
            )
        everywhere = all(row.attended is None for row in rows)
        with fast_products():
            if everywhere and self.packable and self.pooling != "last":
                return encode_packed(self.model, rows, needs=needs, mean_pooling=self.pooling == "mean")
            return encode_padded(self.model, rows, needs=needs, pad=self.specials.pad, pooling=self.pooling)

    def save(self, folder: Path) -> None:
        """Weights, config and tokenizer, in a form that transformers itself can load."""
        with quiet():
            self.model.save_pretrained(folder, safe_serialization=True)
        inner: Any = self.tokenizer
        while hasattr(inner, "inner"):  # under a cache, or a wrapper that a ranker puts on anew
            inner = inner.inner
        facts: dict[str, Any] = {"tokenizer": inner.name, "pooling": self.pooling}
        if isinstance(inner, SubwordTokenizer):
            inner.save(folder / "tokenizer.json")
        elif isinstance(inner, WordTokenizer):
            facts["vocabulary_size"] = inner.vocabulary_size
        (folder / "encoder.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
