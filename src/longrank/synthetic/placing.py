"""Where a relevant passage is put among filler: the rules behind ``toy`` and ``toy-far``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from longrank.core.types import CharSpan

# Share of relevant MS MARCO passages by the 477-token chunk they start in: long-document-models paper, Table 6.
MSMARCO_START_SHARES = (0.859, 0.091, 0.026, 0.012, 0.006, 0.006)
MAX_CHUNKS = 8
_MEDIAN_CHUNKS, _SPREAD = 2.0, 0.7  # of the log-normal document lengths, redrawn above MAX_CHUNKS


class Piece(NamedTuple):
    """A passage with its length in tokens."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Pieces in reading order, and which of them is the relevant one."""

    pieces: tuple[Piece, ...]
    relevant: int

    @property
    def tokens(self) -> int:
        """Length of the document."""
        return sum(piece.tokens for piece in self.pieces)

    @property
    def start(self) -> int:
        """Token at which the relevant piece begins."""
        return sum(piece.tokens for piece in self.pieces[: self.relevant])

    def joined(self) -> tuple[str, CharSpan]:
        """The text, pieces joined by a space, and the characters of the relevant piece in it."""
        start = sum(len(piece.text) + 1 for piece in self.pieces[: self.relevant])
        text = " ".join(piece.text for piece in self.pieces)
        return text, CharSpan(start, start + len(self.pieces[self.relevant].text))


def place_far(
    relevant: Piece, filler: Iterator[Piece], *, boundary: int, max_tokens: int, rng: np.random.Generator
) -> Placed:
    """The relevant piece behind ``boundary`` tokens of filler: FarRelevant, with the drawn length binding.

    The length is uniform between boundary plus relevant piece and ``max_tokens``. Filler is drawn until it passes the
    boundary, then more while the whole stays within the drawn length (none, if nothing fits); the relevant piece is
    shuffled among the latter.
    """
    target = int(rng.integers(boundary + relevant.tokens, max_tokens, endpoint=True))
    head = _until_past(filler, boundary)
    tail = _while_fits(filler, target - relevant.tokens - _tokens(head))
    slot = int(rng.integers(len(tail), endpoint=True))
    return Placed((*head, *tail[:slot], relevant, *tail[slot:]), len(head) + slot)


def place_as_msmarco(
    relevant: Piece, filler: Iterator[Piece], *, chunk_tokens: int, rng: np.random.Generator
) -> Placed:
    """The relevant piece in the chunk that MS MARCO's shares draw, near a uniform offset; at most eight chunks."""
    chunk = int(rng.choice(len(MSMARCO_START_SHARES), p=MSMARCO_START_SHARES))
    wanted = chunk_tokens * (chunk + rng.random())
    length = _drawn_chunks(rng) * chunk_tokens
    head = _until_past(filler, chunk * chunk_tokens) if chunk else []
    head += _while_fits(filler, int(wanted) - _tokens(head))
    tail = _while_fits(filler, int(length) - _tokens(head) - relevant.tokens)
    return Placed((*head, relevant, *tail), len(head))


def _drawn_chunks(rng: np.random.Generator) -> float:
    while True:
        chunks = float(_MEDIAN_CHUNKS * np.exp(_SPREAD * rng.standard_normal()))
        if chunks <= MAX_CHUNKS:
            return chunks


def _until_past(filler: Iterator[Piece], tokens: int) -> list[Piece]:
    taken: list[Piece] = []
    while _tokens(taken) <= tokens:
        taken.append(next(filler))
    return taken


def _while_fits(filler: Iterator[Piece], tokens: int) -> list[Piece]:
    taken: list[Piece] = []
    for piece in filler:
        if piece.tokens > tokens:
            break
        taken.append(piece)
        tokens -= piece.tokens
    return taken


def _tokens(pieces: Sequence[Piece]) -> int:
    return sum(piece.tokens for piece in pieces)
