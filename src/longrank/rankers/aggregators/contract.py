"""What every aggregator is, and the head they share."""

from typing import Protocol

from torch import Tensor, nn

from longrank.encoders.rows import Needs
from longrank.rankers.states import ChunkStates


class Aggregator(Protocol):
    """States of documents to one score a document; every implementation is an ``nn.Module``."""

    needs: Needs

    def __call__(self, states: ChunkStates) -> Tensor:
        """Scores [docs]."""
        ...

    def parameters(self) -> object:
        """The trainable weights."""
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
