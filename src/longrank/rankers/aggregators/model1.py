"""Neural Model 1: the query as a translation of the document.

A re-derivation from the published formula (Boytsov and Kolter 2021): its code was never released, and the widths of
the hidden layers are our own.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from longrank.core.errors import SettingsError
from longrank.encoders.rows import Needs
from longrank.rankers.aggregators.contract import text_states
from longrank.rankers.states import ChunkStates, TokenStates

_FLOOR = 1e-8


class Model1(nn.Module):
    """Sum over query tokens of the log of their mean translation probability from the document's tokens.

    T(q|d) is a network over the two vectors and their product. With ``words`` (a table of word vectors, which it
    copies and trains) vectors do not depend on context; then ``p_self`` is the probability that a word translates
    into itself, and the other probabilities shrink by it.
    """

    def __init__(
        self, dim: int, *, hidden: tuple[int, int] = (128, 64), p_self: float = 0.0, words: Tensor | None = None
    ) -> None:
        super().__init__()
        if not 0 <= p_self < 1:
            raise SettingsError(f"p_self is a probability below 1, got {p_self}")
        self.needs = Needs.CHUNKS | Needs.TOKENS | Needs.QUERY if words is None else Needs.CHUNKS
        self.words = None if words is None else nn.Parameter(words.detach().clone())
        dim = dim if words is None else words.shape[1]
        self.p_self = p_self
        self.query_norm, self.token_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.from_query, self.from_token = nn.Linear(dim, hidden[0]), nn.Linear(dim, hidden[0], bias=False)
        self.from_both = nn.Linear(dim, hidden[0], bias=False)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(*hidden), nn.ReLU(), nn.Linear(hidden[1], 1), nn.Sigmoid())

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]; a document at a time, without its padding."""
        chunked, query = text_states(states)
        tokens = chunked.by_document()
        asked, read = self._vectors(query, self.query_norm), self._vectors(tokens, self.token_norm)
        ids = zip(_real(query.ids, query.mask), _real(tokens.ids, tokens.mask), strict=True)
        return torch.stack([self._score(*parts) for parts in zip(asked, read, ids, strict=True)])

    def _vectors(self, states: TokenStates, norm: nn.Module) -> Iterator[Tensor]:
        """The vectors of each document; words are looked up one document at a time: a call may hold a million."""
        if self.words is None:
            yield from _real(torch.tanh(norm(states.layer().float())), states.mask)
        else:
            for ids in _real(states.ids, states.mask):
                yield torch.tanh(norm(self.words[ids].float()))

    def _score(self, query: Tensor, tokens: Tensor, ids: tuple[Tensor, Tensor]) -> Tensor:
        translated = self._translate(query, tokens)
        if self.p_self:
            query_ids, token_ids = ids
            same = query_ids[:, None] == token_ids[None, :]
            translated = torch.where(same, self.p_self, (1 - self.p_self) * translated)
        mean = translated.sum(1) / max(1, len(tokens))
        return torch.log(mean.clamp(min=_FLOOR)).sum()

    def _translate(self, query: Tensor, tokens: Tensor) -> Tensor:
        """[query length, document length]; its first layer in three parts, so that no pair is laid side by side."""
        both = (query[:, None] * self.from_both.weight) @ tokens.T  # [query length, hidden, document length]
        first = both.transpose(1, 2) + self.from_query(query)[:, None] + self.from_token(tokens)[None]
        probabilities: Tensor = self.rest(first)
        return probabilities.squeeze(-1)


def _real(rows: Tensor, mask: Tensor) -> Iterator[Tensor]:
    """Each row without its padding."""
    return (row[real] for row, real in zip(rows, mask, strict=True))
