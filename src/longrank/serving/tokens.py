"""Tokens of long texts, made piece by piece so that other threads come to their turn."""

import re
from dataclasses import dataclass

import numpy as np

from longrank.chunking.tokenizers import CachedTokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.types import TokenizedText

PIECE = 20_000  # characters; a tokenizer holds the interpreter for some 20 ms over them
_SPACE = re.compile(r"\s")
_SAMPLE = (
    "A fox, said to be red; and  two\n\nlines\twith don't, e-mail: a@b.org. Naïve café — ２３ 东京 weather 3.14%\n"
    "Überraschung straße (x+y)=z. UPPER lower 'quoted' “curly” end"
)


@dataclass(frozen=True)
class PatientTokenizer:
    """A tokenizer that takes a long text in pieces cut at white space; the tokens are those of the whole text.

    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> PatientTokenizer(WordTokenizer(), piece=4).tokenize("one two three").char_starts.tolist()
    [0, 4, 8]
    """

    inner: Tokenizer
    piece: int = PIECE

    @property
    def name(self) -> str:
        """The inner tokenizer's name."""
        return self.inner.name

    def tokenize(self, text: str) -> TokenizedText:
        """Tokens with their offsets in the whole text."""
        if len(text) <= self.piece:
            return self.inner.tokenize(text)
        found, start, last = [], 0, len(text.rstrip())  # white space at the end has no word behind it
        while start < len(text):
            gap = _SPACE.search(text, start + self.piece, last)
            stop = gap.start() if gap else len(text)  # before the white space: it may belong to the word behind it
            part = self.inner.tokenize(text[start:stop])
            found.append((part.ids, part.char_starts + start, part.char_stops + start))
            start = stop
        return TokenizedText(text, self.name, *(np.concatenate(parts) for parts in zip(*found, strict=True)))


def patient(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer without its memory of texts, in pieces where a sample shows that pieces change nothing."""
    inner = tokenizer.inner if isinstance(tokenizer, CachedTokenizer) else tokenizer
    whole, pieces = inner.tokenize(_SAMPLE), PatientTokenizer(inner, piece=7).tokenize(_SAMPLE)
    same = (
        np.array_equal(whole.ids, pieces.ids)
        and np.array_equal(whole.char_starts, pieces.char_starts)
        and np.array_equal(whole.char_stops, pieces.char_stops)
    )
    return PatientTokenizer(inner) if same else inner


def first_tokens(text: TokenizedText, most: int | None) -> TokenizedText:
    """The text with its first tokens only."""
    if most is None or len(text) <= most:
        return text
    return TokenizedText(text.text, text.tokenizer, text.ids[:most], text.char_starts[:most], text.char_stops[:most])
