"""A Transformer reads the chunk vectors in order: PARADE-Transformer, and what late interaction shares with it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from longrank.core.errors import ModelError
from longrank.encoders.pretrained import is_causal
from longrank.encoders.rows import Needs
from longrank.rankers import masked
from longrank.rankers.aggregators.contract import Head, text_states
from longrank.rankers.states import ChunkStates

QueryProjection = Literal["shared", "own"]


class Segment(NamedTuple):
    """A run of vectors in the input of a reader."""

    vectors: Tensor  # [rows, length, width]
    mask: Tensor  # [rows, length]
    kind: int = 0  # token type


class VectorReader(nn.Module):
    """A transformers encoder fed with vectors in place of words, read at its first position.

    It adds its own positions and token types; without ``positions`` the vectors go to its layers as they are, and their
    order is not seen. Its word embeddings are never used: they are dropped unless ``keep_unused``, which the published
    parameter counts include. ``separators`` puts a vector of its own (SEP) behind CLS and every segment.
    """

    def __init__(
        self,
        model: Any,
        *,
        specials: Tensor | None = None,
        separators: bool = True,
        positions: bool = True,
        keep_unused: bool = False,
    ) -> None:
        super().__init__()
        _check_encoder(model)
        words = model.get_input_embeddings()
        self.width = int(words.embedding_dim)
        self.dim = int(model.config.hidden_size)
        self.limit = int(getattr(model.config, "max_position_embeddings", 0) or 10**9)
        self.model = model
        if not keep_unused:
            model.set_input_embeddings(nn.Embedding(1, self.width))
            if _has_pooler(model):
                model.pooler = None
        model.get_input_embeddings().requires_grad_(False)
        if not positions:
            model.embeddings, self.limit = _AsGiven(), 10**9
        if specials is None or specials.shape[-1] != self.width:
            specials = torch.randn(2, self.width) / self.width**0.5
        self.specials = nn.Parameter(specials[: 1 + separators].detach().clone())  # CLS, SEP

    def forward(self, segments: Sequence[Segment]) -> Tensor:
        """The first output [rows, dim] for CLS, SEP, segment, SEP, segment, SEP ...; padding moves to the end."""
        rows = len(segments[0].vectors)
        cls, *sep = (self._special(number, rows) for number in range(len(self.specials)))
        parts = [cls, *sep, *(part for segment in segments for part in (segment, *sep))]
        vectors = torch.cat([part.vectors for part in parts], 1)
        mask = torch.cat([part.mask for part in parts], 1)
        kinds = torch.cat([torch.full_like(part.mask, part.kind, dtype=torch.long) for part in parts], 1)
        order, mask = masked.real_first(mask)
        if mask.shape[1] > self.limit:
            raise ModelError(
                f"{mask.shape[1]} vectors do not fit an aggregator of {self.limit} positions: "
                f"set max_tokens so that a document has fewer chunks, or use a larger stride"
            )
        vectors = vectors.gather(1, order[..., None].expand(-1, -1, vectors.shape[-1]))
        inputs = {"inputs_embeds": vectors, "attention_mask": mask.long()}
        if getattr(self.model.config, "type_vocab_size", 0) >= 2:
            inputs["token_type_ids"] = kinds.gather(1, order)
        first: Tensor = self.model(**inputs).last_hidden_state[:, 0]
        return first

    @property
    def config(self) -> dict[str, Any]:
        """What ``encoder_of`` needs to make the same model again, with other weights."""
        facts: dict[str, Any] = json.loads(self.model.config.to_json_string(use_diff=True))
        return {**facts, "model_type": self.model.config.model_type, "has_pooler": _has_pooler(self.model)}

    def _special(self, number: int, rows: int) -> Segment:
        vectors = self.specials[number].expand(rows, 1, -1)
        return Segment(vectors, torch.ones(rows, 1, dtype=torch.bool, device=vectors.device))


class _AsGiven(nn.Module):
    """In the place of a BERT's embeddings: what it was given, with nothing added."""

    def forward(self, *, inputs_embeds: Tensor, **_: Any) -> Tensor:
        """The vectors themselves."""
        return inputs_embeds


def random_encoder(
    dim: int,
    *,
    layers: int,
    heads: int,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    vocabulary: int = 1,
) -> Any:
    """A BERT with new weights, for a reader to hold."""
    from transformers import BertConfig, BertModel

    if dim % heads:
        raise ModelError(f"a width of {dim} cannot be shared among {heads} heads: choose heads that divide it")
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * dim,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        pad_token_id=None,
    )
    return BertModel(config)


def encoder_of(config: Mapping[str, Any]) -> Any:
    """An encoder with new weights, of the shape that a reader's ``config`` describes."""
    from transformers import AutoConfig, AutoModel

    shape = {name: value for name, value in config.items() if name not in {"has_pooler", "transformers_version"}}
    model = AutoModel.from_config(AutoConfig.for_model(**shape))
    if not config.get("has_pooler", True) and _has_pooler(model):
        model.pooler = None
    return model


class TransformerVector(nn.Module):
    """A Transformer over CLS, SEP, (query, SEP,) chunk 1 .. chunk N, SEP, read at CLS; token type 1 on chunks.

    A projection is learned where the reader's width is not the backbone's. ``query`` feeds the query's token states
    in as well, through the chunks' projection (``shared``) or another (``own``).
    """

    def __init__(self, dim: int, reader: VectorReader, *, query: QueryProjection | None = None) -> None:
        super().__init__()
        self.needs = Needs.CHUNKS if query is None else Needs.CHUNKS | Needs.QUERY
        self.reader = reader
        self.project = projection(dim, reader.width)
        self.query = query
        self.project_query = nn.Linear(dim, reader.width) if query == "own" else None
        self.head = Head(reader.dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        segments = [Segment(self.project(states.chunks), states.chunk_mask, 1)]
        if self.query is not None:
            asked = text_states(states).query
            project = self.project if self.project_query is None else self.project_query
            segments.insert(0, Segment(project(asked.layer()), asked.mask))
        scores: Tensor = self.head(self.reader(segments))
        return scores


def projection(dim: int, width: int) -> nn.Module:
    """A linear map where widths differ, nothing where they do not."""
    if dim == width:
        return nn.Identity()
    linear = nn.Linear(dim, width)
    nn.init.xavier_uniform_(linear.weight)
    return linear


def _has_pooler(model: Any) -> bool:
    return getattr(model, "pooler", None) is not None


def _check_encoder(model: Any) -> None:
    config = model.config
    if getattr(config, "is_encoder_decoder", False) or is_causal(config):
        raise ModelError(
            f"a model of type {config.model_type!r} cannot read chunk vectors: its first position does not see the "
            f"others, or it has no first position to read. Use a BERT-type encoder"
        )
