"""What the published code does where it departs from the papers, kept in one place: ``compat="published"``.

Documents are padded to a fixed length before they are split, so every document has the same number of windows and
windows of padding are encoded like any other; queries are padded to a fixed length in the middle of the input; text
is lower-cased for every backbone. ``docs/fidelity.md`` says what follows from it.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from longrank.chunking.splitters import Sliding
from longrank.chunking.tokenizers import CachedTokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.errors import SettingsError
from longrank.core.types import SplitText, TokenizedText, TokenSpan
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Encoded, Row, Specials
from longrank.rankers.layouts import Place, chunk_ids, framed_row, query_states, stack_chunks, token_states
from longrank.rankers.states import ChunkStates

Compat = Literal["published"] | None
PADDING_ID = 1  # the published code pads with this id, whatever the vocabulary


@dataclass(frozen=True)
class PaddedWindows:
    """Windows of a document padded to ``max_tokens``: always the same number, empty ones past the end of the text."""

    size: int
    stride: int
    max_tokens: int

    @property
    def longest(self) -> int:
        """Tokens of the longest span."""
        return self.size

    @property
    def count(self) -> int:
        """Windows of every document.

        >>> PaddedWindows(150, 100, 1431).count
        14
        """
        return ceil(max(0, self.max_tokens - self.size) / self.stride) + 1

    def split(self, text: TokenizedText) -> SplitText:
        """Windows in order; one that starts past the text is empty."""
        end = min(self.max_tokens, len(text))
        starts = [i * self.stride for i in range(self.count)]
        bounds = [(min(start, end), min(start + self.size, end)) for start in starts]
        return SplitText(text, tuple(TokenSpan(start, stop, text.tokenizer) for start, stop in bounds))


@dataclass(frozen=True)
class PaddedJoint:
    """[CLS] query padding [SEP] chunk padding [SEP]: fixed lengths, padding not attended to.

    With ``read_padding`` aggregators take the states of padding for those of text.
    """

    chunk_tokens: int
    query_tokens: int = 32
    read_padding: bool = False

    def unread(self, query: TokenizedText) -> int:
        """Tokens of the query that are cropped."""
        return max(0, len(query) - self.query_tokens)

    def rows(self, backbone: Backbone, query: TokenizedText, documents: Sequence[SplitText]) -> list[Row]:
        """One row of the same length for each span of each document."""
        specials = backbone.specials
        asked, lead = self._query(query), int(specials.cls is not None)
        size = min(len(query), self.query_tokens)
        rows = []
        for ids in (ids for document in documents for ids in chunk_ids(document)):
            row = framed_row(specials, asked, _padded(ids, self.chunk_tokens))
            attended = np.ones(len(row), dtype=bool)
            attended[lead + size : lead + self.query_tokens] = False
            attended[row.global_tokens + len(ids) : row.global_tokens + self.chunk_tokens] = False
            rows.append(Row(row.ids, row.types, row.global_tokens, attended))
        return rows

    def states(
        self, encoded: Encoded, specials: Specials, query: TokenizedText, documents: Sequence[SplitText]
    ) -> ChunkStates:
        """As ``Joint``, with the states of padding where they are asked for."""
        chunks, chunk_mask, sizes = stack_chunks(encoded.pooled, documents)
        if encoded.tokens is None:
            return ChunkStates(chunks, chunk_mask, sizes=sizes)
        lead = int(specials.cls is not None)
        before = lead + self.query_tokens + (specials.sep is not None)
        starts = iter(encoded.starts)
        found = [[Place(next(starts) + before, self._read(ids)) for ids in chunk_ids(doc)] for doc in documents]
        asked = self._query(query) if self.read_padding else query.ids[: self.query_tokens]
        places = [Place(row[0].start - before + lead, asked) for row in found]
        tokens = token_states(encoded.tokens, found)
        return ChunkStates(chunks, chunk_mask, tokens, query_states(encoded.tokens, places), sizes)

    def _query(self, query: TokenizedText) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return _padded(query.ids[: self.query_tokens], self.query_tokens)

    def _read(self, ids: np.ndarray[tuple[int], np.dtype[np.int32]]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return _padded(ids, self.chunk_tokens) if self.read_padding else ids


@dataclass(frozen=True)
class LowerCased:
    """A tokenizer that sees text in lower case; offsets stay those of the text as written."""

    inner: Tokenizer

    @property
    def name(self) -> str:
        """The inner tokenizer's name, marked: a cased vocabulary counts other tokens in lower case."""
        return f"{self.inner.name}-lower"

    def tokenize(self, text: str) -> TokenizedText:
        """Tokens of the lower-cased text."""
        lower = text.lower()
        if len(lower) != len(text):  # a few letters become two; left as they are, no offset moves
            lower = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
        found = self.inner.tokenize(lower)
        return TokenizedText(text, self.name, found.ids, found.char_starts, found.char_stops)


def lower_cased(backbone: Backbone) -> Backbone:
    """The same model, reading lower-cased text."""
    inner = backbone.tokenizer.inner if isinstance(backbone.tokenizer, CachedTokenizer) else backbone.tokenizer
    changed = copy.copy(backbone)
    changed.tokenizer = CachedTokenizer(LowerCased(inner))
    return changed


def padded(splitter: Sliding) -> PaddedWindows:
    """The published splitter for given windows."""
    if splitter.max_tokens is None:
        raise SettingsError('compat="published" pads every document to max_tokens, so it needs max_tokens')
    return PaddedWindows(splitter.size, splitter.stride, splitter.max_tokens)


def _padded(ids: np.ndarray[tuple[int], np.dtype[np.int32]], length: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.pad(ids, (0, length - len(ids)), constant_values=PADDING_ID)
