"""Against position bias inside the model: other position ids in training, calibrated attention when scoring.

For BERT-type rankers (learned positions, [CLS] first). Nothing here changes a weight.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import Document, Query, Scores, TokenizedText
from longrank.encoders.packed import PACKABLE
from longrank.encoders.padded import encode_padded
from longrank.encoders.rows import Row, Specials
from longrank.rankers.layouts import Joint
from longrank.rankers.neural import NeuralRanker

Draw = Callable[[Tensor, int], Tensor]


@contextmanager
def random_offsets(ranker: NeuralRanker) -> Iterator[None]:
    """While open, every training row begins at a random position: p becomes p + u, u uniform over what fits.

    Drawn from torch's generator, which the trainer seeds and saves; scoring in evaluation mode is not touched.
    """
    with _drawn_positions(ranker, shifted):
        yield


@contextmanager
def sorted_random_positions(ranker: NeuralRanker) -> Iterator[None]:
    """While open, every training row of n tokens gets n of the model's positions at random, in rising order."""
    with _drawn_positions(ranker, spread):
        yield


def shifted(positions: Tensor, limit: int) -> Tensor:
    """Position ids with a random offset for each row; a row begins wherever an id is 0."""
    row, lengths = _rows(positions)
    offsets = (torch.rand(len(lengths), device=positions.device) * (limit - lengths + 1)).long()
    return (positions.flatten() + offsets[row]).view_as(positions).to(positions.dtype)


def spread(positions: Tensor, limit: int) -> Tensor:
    """Rising random position ids below ``limit`` for each row."""
    _, lengths = _rows(positions)
    drawn = [torch.randperm(limit)[:length].sort().values for length in lengths.tolist()]
    return torch.cat(drawn).to(positions).view_as(positions)


@dataclass(frozen=True, eq=False)
class CalibratedAttention:
    """A ranker whose pooled tokens look at all parts of a chunk alike, in the upper half of the layers.

    These are [CLS], or every token where their mean is used. Of the attention that one gives to the chunk, each basket
    of ``basket_tokens`` gets the same share; ``strength`` mixes this with what the model does by itself (0: the
    ranker's own scores, to the bit). What it gives to [CLS], the query and separators is kept.
    """

    ranker: NeuralRanker
    strength: float = 0.5
    basket_tokens: int = 32

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1 or self.basket_tokens < 1:
            raise SettingsError(f"strength is between 0 and 1 and baskets hold a token, got {self}")
        _check_bert(self.ranker)
        if not isinstance(self.ranker.layout, Joint):
            raise ModelError("attention is calibrated for rankers that read [CLS] query [SEP] chunk [SEP]")

    @torch.inference_mode()
    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document."""
        if self.strength == 0:
            return self.ranker.score(query, documents)
        was_training = self.ranker.training
        self.ranker.eval()
        asked = self.ranker.backbone.tokenizer.tokenize(query.text)
        try:
            found = [self._score(asked, document) for document in documents]
        finally:
            self.ranker.train(was_training)
        cuts = [cut for _, cut in found]
        return Scores(
            [value for value, _ in found], sum(cut > 0 for cut in cuts), sum(cuts), self.ranker.layout.unread(asked)
        )

    def _score(self, asked: TokenizedText, document: Document) -> tuple[float, int]:
        ranker, backbone = self.ranker, self.ranker.backbone
        split = ranker.split([document])
        rows = ranker.layout.rows(backbone, asked, split)
        lengths = torch.tensor([len(row) for row in rows])
        real = torch.arange(int(lengths.max())) < lengths[:, None]
        chunk = nn.utils.rnn.pad_sequence([chunk_tokens(row, backbone.specials) for row in rows], batch_first=True)
        with self._hooked(real, chunk):
            needs, pad = ranker.aggregator.needs, backbone.specials.pad
            encoded = encode_padded(backbone.model, rows, needs=needs, pad=pad, pooling=backbone.pooling)  # type: ignore[arg-type]
        states = ranker.layout.states(encoded, backbone.specials, asked, split)
        return float(ranker.aggregator(states)), split[0].cut_tokens

    @contextmanager
    def _hooked(self, real: Tensor, chunk: Tensor) -> Iterator[None]:
        layers = self.ranker.backbone.model.encoder.layer

        def hook(module: Any, inputs: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
            states = inputs[0] if inputs else named["hidden_states"]
            context = output[0] if isinstance(output, tuple) else output
            changed = context.clone()
            pooled = 1 if self.ranker.backbone.pooling == "cls" else states.shape[1]
            changed[:, :pooled] = self._context(module, states, real, chunk, pooled=pooled)
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        upper = [layer.attention.self for layer in layers[len(layers) // 2 :]]
        handles = [part.register_forward_hook(hook, with_kwargs=True) for part in upper]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _context(self, module: Any, states: Tensor, real: Tensor, chunk: Tensor, *, pooled: int) -> Tensor:
        """What the first ``pooled`` tokens gather from all others, [rows, pooled, dim]."""
        rows, heads = len(states), module.num_attention_heads

        def split(part: Tensor) -> Tensor:
            return part.view(rows, -1, heads, part.shape[-1] // heads).transpose(1, 2)

        query, key, value = (
            split(module.query(states[:, :pooled])),
            split(module.key(states)),
            split(module.value(states)),
        )
        logits = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5  # [rows, heads, pooled, tokens]
        logits = logits.masked_fill(~real[:, None, None], torch.finfo(logits.dtype).min)
        attention = logits.softmax(-1).flatten(1, 2)
        attention = calibrate(attention, chunk, basket_tokens=self.basket_tokens, strength=self.strength)
        mixed: Tensor = attention.view_as(logits) @ value
        return mixed.transpose(1, 2).reshape(rows, pooled, -1)


def calibrate(attention: Tensor, chunk: Tensor, *, basket_tokens: int, strength: float) -> Tensor:
    """Attention [rows, heads, tokens] with equal baskets: a' = a (m / n) / s, mixed as (1 - strength) a + strength a'.

    s is the sum over a token's basket of ``basket_tokens`` chunk tokens, n the number of baskets and m the sum over the
    whole chunk, so that all else keeps its share. ``chunk`` [rows, tokens] is True on chunk tokens.
    """
    basket = ((chunk.cumsum(-1) - 1) // basket_tokens).clamp(min=0)[:, None].expand_as(attention)
    inside = attention * chunk[:, None]
    sums = torch.zeros_like(inside).scatter_add(-1, basket, inside).gather(-1, basket)
    count = -(-chunk.sum(-1) // basket_tokens)
    share = inside.sum(-1, keepdim=True) / count.clamp(min=1)[:, None, None]
    even = torch.where(
        chunk[:, None] & (sums > 0), attention * share / sums.clamp(min=torch.finfo(sums.dtype).tiny), attention
    )
    return (1 - strength) * attention + strength * even


def chunk_tokens(row: Row, specials: Specials) -> Tensor:
    """True where a row holds its chunk: the second token type without the separator at the end."""
    chunk = torch.from_numpy(row.types == 1)
    if specials.sep is not None:
        chunk[-1] = False
    return chunk


@contextmanager
def _drawn_positions(ranker: NeuralRanker, draw: Draw) -> Iterator[None]:
    _check_bert(ranker)
    table = ranker.backbone.model.embeddings.position_embeddings

    def hook(module: nn.Embedding, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        return (draw(inputs[0], module.num_embeddings),) if ranker.training else None

    handle = table.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _rows(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Row number of each id, and the length of each row."""
    row = (positions.flatten() == 0).long().cumsum(0) - 1
    return row, torch.bincount(row)


def _check_bert(ranker: NeuralRanker) -> None:
    kind = ranker.backbone.model.config.model_type
    if kind not in PACKABLE:
        raise ModelError(
            f"this works on models with learned positions and plain attention (bert, electra), not {kind!r}"
        )
