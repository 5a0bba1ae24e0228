"""What every aggregator is, and the head they share."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn

from longrank.core.errors import ModelError
from longrank.encoders.rows import Needs
from longrank.rankers.states import ChunkStates, TokenStates


class Aggregator(Protocol):
    """States of documents to one score a document; every implementation is an ``nn.Module``."""

    needs: Needs

    def __call__(self, states: ChunkStates) -> Tensor:
        """Scores [docs]."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """The trainable weights."""
        ...


Rule = Literal["sum", "maximum", "first", "weights"]


class Parts(NamedTuple):
    """What the chunks of a document did for its score.

    ``rule`` says how the values make the score: their sum, their maximum, the first; ``weights`` are attention.
    """

    values: Tensor  # [docs, chunks]; 0 on padding
    rule: Rule


@runtime_checkable
class Explained(Protocol):
    """An aggregator that knows what each chunk did for the score."""

    def parts(self, states: ChunkStates) -> Parts:
        """The chunks' own scores or weights."""
        ...


class Head(nn.Module):
    """Dropout, then one number a vector."""

    def __init__(self, dim: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(dim, 1)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """[..., dim] to [...]; always in single precision, so that scores do not tie."""
        scores: Tensor = self.linear(self.dropout(vectors.float()))
        return scores.squeeze(-1)


class TextStates(NamedTuple):
    """Token states of chunks and of the query."""

    tokens: TokenStates
    query: TokenStates


def text_states(states: ChunkStates) -> TextStates:
    """The token states that an aggregator asked for by its ``needs``."""
    if states.tokens is None or states.query is None:
        raise ModelError("this aggregator reads token states, and the layout gave none: does its `needs` ask for them?")
    return TextStates(states.tokens, states.query)
