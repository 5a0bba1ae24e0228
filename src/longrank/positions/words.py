"""Texts as the matchers see them: lower-cased words, with the way back to the characters they came from."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

from longrank.core.types import CharSpan

_NON_SPACE = re.compile(r"\S+")
_WORD = re.compile(r"\w+")
_SURROGATES = range(0xD800, 0xE000)
_OTHERS = repeat("\0")


@dataclass(frozen=True)
class NormalText:
    """Lower-cased text with single blanks, whose offsets lead back to the original.

    ``offsets`` are the original words' characters; without them, each way back is counted anew.

    >>> text = NormalText.of("One  Two\\tthree")
    >>> text.text, text.chars(4, 7), text.word_chars(1, 2)
    ('one two three', CharSpan(start=5, stop=8), CharSpan(start=5, stop=14))
    """

    original: str
    text: str
    words: list[str]
    offsets: list[tuple[int, int]] | None = None

    @classmethod
    def of(cls, original: str) -> "NormalText":
        """The text, lower-cased, each run of white space one blank."""
        words = original.lower().split()
        return cls(original, " ".join(words), words)

    def with_offsets(self) -> "NormalText":
        """The same with the offsets of every word, for texts that are matched often."""
        return NormalText(self.original, self.text, self.words, [m.span() for m in _NON_SPACE.finditer(self.original)])

    def chars(self, start: int, stop: int) -> CharSpan:
        """Characters of the original behind a range of the normal text that is not empty."""
        return CharSpan(self._back(start)[0], self._back(stop - 1)[1])

    def word_chars(self, first: int, last: int) -> CharSpan:
        """Characters of the original from the first to the last of the given words, both included."""
        if self.offsets is not None:
            return CharSpan(self.offsets[first][0], self.offsets[last][1])
        if len(self.original) == len(self.text) and self.original.lower() == self.text:  # character by character
            start = len(" ".join(self.words[:first])) + (first > 0)
            return CharSpan(start, start + len(" ".join(self.words[first : last + 1])))
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
