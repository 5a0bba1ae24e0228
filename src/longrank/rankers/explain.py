"""Which part of a document made its score."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from longrank.core.errors import ModelError
from longrank.core.types import CharSpan, Document, Query, SplitText, TokenizedText, TokenSpan
from longrank.rankers.aggregators.contract import Explained, Parts
from longrank.rankers.layouts import chosen
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.scoring import encode_in_batches
from longrank.rankers.states import ChunkStates

Method = Literal["scores", "attention", "occlusion"]


@dataclass(frozen=True)
class ChunkPart:
    """A chunk that was read, and what it did for the score."""

    chars: CharSpan
    tokens: TokenSpan
    value: float


@dataclass(frozen=True)
class Explanation:
    """A document's score by its chunks, in reading order.

    ``scores``: the values make the score, as a sum, a maximum or the first. ``attention``: weights that sum to one.
    ``occlusion``: how much the score falls when the chunk is hidden; a single chunk takes the whole score.
    """

    score: float
    method: Method
    chunks: tuple[ChunkPart, ...]
    cut_tokens: int
    cut_query_tokens: int = 0

    @property
    def best(self) -> CharSpan:
        """Characters of the chunk that did most; of equal ones the first."""
        return max(self.chunks, key=lambda part: part.value).chars


@torch.inference_mode()
def explain(ranker: NeuralRanker, query: Query, document: Document) -> Explanation:
    """The chunks that the ranker read and what each did for the score."""
    was_training = ranker.training
    ranker.eval()
    try:
        asked = ranker.backbone.tokenizer.tokenize(query.text)
        (split,) = ranker.split([document])
        states = _states(ranker, asked, split)
        score = float(ranker.aggregator(states))
        method, values = _values(ranker, states, score)
    finally:
        ranker.train(was_training)
    (read,) = chosen(ranker.layout, asked, [split])
    chunks = [ChunkPart(read.source.chars(span), span, value) for span, value in zip(read.spans, values, strict=True)]
    return Explanation(score, method, tuple(chunks), read.cut_tokens, ranker.layout.unread(asked))


def _states(ranker: NeuralRanker, query: TokenizedText, document: SplitText) -> ChunkStates:
    rows = ranker.layout.rows(ranker.backbone, query, [document])
    needs = ranker.aggregator.needs
    encoded = encode_in_batches(ranker.backbone, rows, needs=needs, budget=ranker.token_budget)  # type: ignore[arg-type]
    return ranker.layout.states(encoded, ranker.backbone.specials, query, [document])


def _values(ranker: NeuralRanker, states: ChunkStates, score: float) -> tuple[Method, list[float]]:
    if isinstance(ranker.aggregator, Explained):
        parts = ranker.aggregator.parts(states)
        _check(parts, score)
        return ("attention" if parts.rule == "weights" else "scores"), parts.values[0].tolist()
    count = states.chunk_mask.shape[1]
    if count == 1:
        return "occlusion", [score]
    return "occlusion", [score - float(ranker.aggregator(states.without(chunk))) for chunk in range(count)]


def _check(parts: Parts, score: float) -> None:
    """An explanation that does not give the score back is a mistake, and is not shown."""
    values: Tensor = parts.values[0].double()
    made = {"sum": values.sum(), "maximum": values.max(), "first": values[0], "weights": values.sum()}[parts.rule]
    expected = 1.0 if parts.rule == "weights" else score
    if abs(float(made) - expected) > 1e-4 * max(1.0, float(values.abs().sum())):
        raise ModelError(f"the chunks' values give {float(made):.6f} ({parts.rule}), not {expected:.6f}")
