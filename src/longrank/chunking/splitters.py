"""Tokens to the spans a model reads: in order, without gaps, and nothing past the cut."""

import re
import zlib
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from longrank.core.contracts import Splitter
from longrank.core.errors import SettingsError
from longrank.core.seeds import generator
from longrank.core.types import SplitText, TokenizedText, TokenSpan


@dataclass(frozen=True)
class Truncate:
    """The first ``tokens`` tokens, as one span."""

    tokens: int

    def __post_init__(self) -> None:
        positive(tokens=self.tokens)

    @property
    def longest(self) -> int:
        """Tokens of the longest span."""
        return self.tokens

    def split(self, text: TokenizedText) -> SplitText:
        """One span."""
        return _spans(text, [(0, min(self.tokens, len(text)))])


@dataclass(frozen=True)
class Greedy:
    """Disjoint chunks of ``size`` tokens, the last one as short as it falls; at most ``max_chunks``."""

    size: int
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        positive(size=self.size, max_chunks=self.max_chunks)

    @property
    def longest(self) -> int:
        """Tokens of the longest span."""
        return self.size

    def split(self, text: TokenizedText) -> SplitText:
        """Chunks that touch: 500 tokens in chunks of 477 are 477 and 23."""
        stops = range(0, len(text), self.size)
        return _spans(text, [(start, min(start + self.size, len(text))) for start in stops][: self.max_chunks])


@dataclass(frozen=True)
class Sliding:
    """Windows of ``size`` tokens every ``stride``, over the first ``max_tokens`` tokens."""

    size: int
    stride: int
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        positive(size=self.size, stride=self.stride, max_tokens=self.max_tokens)
        if self.stride > self.size:
            raise SettingsError(f"stride {self.stride} is larger than the window {self.size}: tokens would be skipped")

    @property
    def longest(self) -> int:
        """Tokens of the longest span."""
        return self.size

    def split(self, text: TokenizedText) -> SplitText:
        """ceil(max(0, n - size) / stride) + 1 windows; the last ends with the text."""
        end = len(text) if self.max_tokens is None else min(self.max_tokens, len(text))
        count = ceil(max(0, end - self.size) / self.stride) + 1
        starts = [i * self.stride for i in range(count)]
        return _spans(text, [(start, min(start + self.size, end)) for start in starts])


@dataclass(frozen=True)
class EvenWindows:
    """Windows of exactly ``size`` tokens, evenly spaced at most ``stride`` apart, over the first ``max_tokens`` tokens.

    The last one ends with the text and is as long as the others: a shorter one would favour evidence at the end
    wherever scores fall with length. Where instead the end of a window is read worst, as cross-encoders do, the last
    words of a text stand nowhere else: ``end_alone`` gives the last ``stride`` tokens a window of their own as well.
    """

    size: int
    stride: int
    max_tokens: int | None = None
    end_alone: bool = False

    def __post_init__(self) -> None:
        positive(size=self.size, stride=self.stride, max_tokens=self.max_tokens)
        if self.stride > self.size:
            raise SettingsError(f"stride {self.stride} is larger than the window {self.size}: tokens would be skipped")

    @property
    def longest(self) -> int:
        """Tokens of the longest span."""
        return self.size

    def split(self, text: TokenizedText) -> SplitText:
        """As many windows as ``Sliding`` has, and one more if the end has its own; a text that fits into one is one.

        >>> from longrank.chunking.tokenizers import WordTokenizer
        >>> text = WordTokenizer().tokenize("a b c d e f g")
        >>> [(span.start, span.stop) for span in EvenWindows(4, 2).split(text).spans]
        [(0, 4), (2, 6), (3, 7)]
        """
        end = len(text) if self.max_tokens is None else min(self.max_tokens, len(text))
        rest = max(0, end - self.size)
        gaps = ceil(rest / self.stride)
        starts = [-(-at * rest // gaps) if gaps else 0 for at in range(gaps + 1)]
        if self.end_alone and self.stride < self.size < end:
            starts.append(end - self.stride)
        return _spans(text, [(start, min(start + self.size, end)) for start in starts])


@dataclass(frozen=True)
class Sentences:
    """Whole sentences packed into chunks of at most ``size`` tokens; a longer sentence is divided."""

    size: int
    max_chunks: int | None = None

    def __post_init__(self) -> None:
        positive(size=self.size, max_chunks=self.max_chunks)

    @property
    def longest(self) -> int:
        """Tokens of the longest span."""
        return self.size

    def split(self, text: TokenizedText) -> SplitText:
        """Chunks that touch and end where sentences end, where they can."""
        bounds: list[tuple[int, int]] = []
        for start, stop in _sentence_bounds(text):
            if bounds and stop - bounds[-1][0] <= self.size:
                bounds[-1] = (bounds[-1][0], stop)
            else:
                bounds += [(at, min(at + self.size, stop)) for at in range(start, stop, self.size)]
        return _spans(text, bounds[: self.max_chunks])


@dataclass(frozen=True)
class Sampled:
    """At most ``keep`` spans of another splitter: the first, the last, and a draw from the middle (Li et al. 2023).

    The draw depends on ``seed`` and the text alone, so a document is always read the same way.
    """

    inner: Splitter
    keep: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.keep < 2:
            raise SettingsError(f"keep must be at least 2, the first and the last span, got {self.keep}")

    @property
    def longest(self) -> int:
        """Tokens of the longest span."""
        return self.inner.longest

    def split(self, text: TokenizedText) -> SplitText:
        """Spans in order."""
        every = self.inner.split(text).spans
        if len(every) <= self.keep:
            return SplitText(text, every)
        rng = generator(f"sampled-spans-{zlib.crc32(text.text.encode('utf-8', 'surrogatepass'))}", self.seed)
        middle = sorted(rng.choice(range(1, len(every) - 1), size=self.keep - 2, replace=False).tolist())
        return SplitText(text, tuple(every[i] for i in (0, *middle, len(every) - 1)))


_SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+|\n{2,}|[。！？]")


def _sentence_bounds(text: TokenizedText) -> list[tuple[int, int]]:
    ends = {int(text.char_starts.searchsorted(match.end())) for match in _SENTENCE_END.finditer(text.text)}
    edges = sorted({0, len(text)} | {end for end in ends if 0 < end < len(text)})
    return list(pairwise(edges))


def _spans(text: TokenizedText, bounds: list[tuple[int, int]]) -> SplitText:
    # an empty document keeps one empty span, so that it is scored (as query only) and not lost
    return SplitText(text, tuple(TokenSpan(a, b, text.tokenizer) for a, b in bounds or [(0, 0)]))


def positive(**sizes: int | None) -> None:
    """Refuse a size or a number below 1, by its name; one that is not given is fine."""
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise SettingsError(f"{name} must be at least 1, got {value}")
