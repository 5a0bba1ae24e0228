"""Texts as the matchers see them: lower-cased words, with the way back to the characters they came from."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from longrank.core.types import CharSpan

Places = Sequence[int] | NDArray[np.int32]
_NON_SPACE = re.compile(r"\S+")
_WORD = re.compile(r"\w+")
_SURROGATES = range(0xD800, 0xE000)
_OTHERS = repeat("\0")


@dataclass(frozen=True)
class NormalText:
    """Lower-cased text with single blanks, and the way back to the original.

    ``starts`` and ``stops`` are the original words' characters; without them, each way back is counted anew.

    >>> text = NormalText("One  Two\\tthree", "one two three")
    >>> text.chars(4, 7), text.word_chars(1, 2)
    (CharSpan(start=5, stop=8), CharSpan(start=5, stop=14))
    """

    original: str
    text: str
    starts: Places | None = None
    stops: Places | None = None

    def chars(self, start: int, stop: int) -> CharSpan:
        """Characters of the original behind a range of the normal text that is not empty."""
        return CharSpan(self._back(start)[0], self._back(stop - 1)[1])

    def word_chars(self, first: int, last: int) -> CharSpan:
        """Characters of the original from the first to the last of the given words, both included."""
        if self.starts is not None and self.stops is not None:
            return CharSpan(int(self.starts[first]), int(self.stops[last]))
        rest = self.original.split(maxsplit=first)[first]
        start = len(self.original) - len(rest)
        tail = rest.split(maxsplit=last - first + 1)
        stop = len(self.original) - len(tail[-1]) if len(tail) > last - first + 1 else len(self.original)
        return CharSpan(start, start + len(self.original[start:stop].rstrip()))

    def _back(self, offset: int) -> tuple[int, int]:
        """Characters of the original behind one character; a blank stands for all the white space it replaced."""
        number = self.text.count(" ", 0, offset)
        inside = offset - (self.text.rfind(" ", 0, offset) + 1)
        word = self.word_chars(number, number)
        if self.text[offset] == " ":
            return word.stop, self.word_chars(number + 1, number + 1).start
        # lower-casing can lengthen a word (a dotted capital I); its last character is then the nearest truth
        at = min(word.start + inside, word.stop - 1)
        return at, at + 1


def word_offsets(text: str) -> tuple[list[int], list[int]]:
    """First characters of the words between white space, and the characters after their last.

    >>> word_offsets("One  Two")
    ([0, 5], [3, 8])
    """
    spans = [match.span() for match in _NON_SPACE.finditer(text)]
    return [start for start, _ in spans], [stop for _, stop in spans]


def plain_words(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Lower-cased words without punctuation, and the characters each covers.

    >>> plain_words("Red, fox!")
    (['red', 'fox'], [(0, 3), (5, 8)])
    """
    spans = [match.span() for match in _WORD.finditer(text)]
    return [text[start:stop].lower() for start, stop in spans], spans


class PassageCode:
    """A passage's words as characters, so that string comparison in C compares words; other words become NUL."""

    def __init__(self, words: Sequence[str]) -> None:
        self.characters: Mapping[str, str] = {w: _character(n) for n, w in enumerate(dict.fromkeys(words), start=1)}
        self.text = "".join([self.characters[word] for word in words])

    def encode(self, words: Sequence[str]) -> str:
        """One character a word."""
        return "".join(map(self.characters.get, words, _OTHERS))


def _character(number: int) -> str:
    return chr(number if number < _SURROGATES.start else number + len(_SURROGATES))


def at_least(share: float, total: int) -> int:
    """Smallest whole number that is at least this share of the total, safe against float noise.

    >>> at_least(0.7, 10), at_least(0.8, 9)
    (7, 8)
    """
    return math.ceil(share * total - 1e-9)
