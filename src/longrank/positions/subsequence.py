"""Longest common subsequence of words in windows of step one, with exact bounds that spare almost all windows.

Three bounds, each an upper bound of what a window can share with the passage in order, cheapest first: the window
must hold enough of the passage's words that are rare in the document; its overlap with the passage as a bag of words
must be large enough; and no window can share more than a longer stretch of text that contains it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from longrank.positions.words import PassageCode

Places = Mapping[str, Sequence[int]]
_WIDE = 128  # stretches of more window starts than this are narrowed by the bag of words first
_STRIDE = 24  # window starts covered by one comparison before it is split


class BestWindow(NamedTuple):
    """First word of the best window, its common words in order, and the first and last word they cover."""

    start: int
    common: int
    first_word: int
    last_word: int


@dataclass(frozen=True)
class WordTarget:
    """The words of a passage, coded once and looked for in many documents."""

    words: tuple[str, ...]

    @cached_property
    def code(self) -> PassageCode:
        """The words as characters."""
        return PassageCode(self.words)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The distinct words."""
        return tuple(dict.fromkeys(self.words))

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """How often each distinct word occurs."""
        counts = Counter(self.words)
        return tuple(counts[word] for word in self.types)


class WordIndex(Protocol):
    """A text to search: its words, and the places of at least the target's words."""

    @property
    def words(self) -> Sequence[str]:
        """The words in order."""
        ...

    def places(self, target: WordTarget) -> Places:
        """Where at least the target's words stand, rising."""
        ...


@dataclass(frozen=True)
class FullIndex:
    """A text made ready once for many targets."""

    words: Sequence[str]

    @cached_property
    def _places(self) -> Places:
        return _places_of(self.words)

    def places(self, target: WordTarget) -> Places:
        """Where every word of the text stands."""
        return self._places


@dataclass(frozen=True)
class OneOffIndex:
    """A text searched for one target: only that target's words are looked up."""

    words: Sequence[str]

    def places(self, target: WordTarget) -> Places:
        """Where the target's words stand."""
        places: dict[str, list[int]] = {word: [] for word in target.types}
        for place in compress(range(len(self.words)), map(places.__contains__, self.words)):
            places[self.words[place]].append(place)
        return places


def _places_of(words: Sequence[str]) -> Places:
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        if word in places:
            places[word].append(place)
        else:
            places[word] = [place]
    return places


def best_window(target: WordTarget, document: WordIndex, *, width: int, needed: int) -> BestWindow | None:
    """The window of ``width`` words with the longest common subsequence, the earliest of equals; None below ``needed``.

    The answer is that of trying every window; a text shorter than the window is one window.
    """
    words = document.words
    hits, required = _rare_hits(target, document.places(target), needed=needed, rare=max(2, len(words) // 400))
    if not hits:
        return None
    last_start = max(0, len(words) - width)
    wanted, encode = target.code.text, target.code.encode
    best, best_start, best_text = needed - 1, -1, ""
    for low, high in _ranges(hits, required, width=width, last_start=last_start):
        middle = (low + high) // 2
        guess = LCSseq.similarity(wanted, encode(words[middle : middle + width]))
        floor = max(best + 1, guess)
        # a window as good as the guess must hold that many more of the rare words
        near = hits[bisect_left(hits, low) : bisect_left(hits, high + width)]
        for first, last in _ranges(near, required + floor - needed, width=width, last_start=last_start):
            text = encode(words[first : last + width])
            common, start = _best_start(wanted, text, last - first, width=width, floor=floor)
            if common > best:
                best, best_start, best_text = common, first + start, text[start : start + width]
                floor = best + 1
    if best_start < 0:
        return None
    begin, end = _matched(wanted, best_text, best)
    return BestWindow(best_start, best, best_start + begin, best_start + end)


def _rare_hits(target: WordTarget, places: Places, *, needed: int, rare: int) -> tuple[list[int], int]:
    """Sorted places of the passage's rare words, and how many of them a window must hold; no places: no window can.

    At most ``spare`` words of the passage may be missing, so of any ``kept`` of them a window holds all but ``spare``.
    """
    spare = len(target.words) - needed
    kept = 0
    hits: list[int] = []
    for at, count in zip(map(places.get, target.types), target.copies, strict=True):
        possible = min(count, len(at)) if at else 0
        spare -= count - possible  # copies that the document lacks are missing from every window
        if at and len(at) <= rare:
            kept += possible
            hits += at
    if spare < 0:
        return [], 0
    if kept - spare < max(1, len(target.words) // 8):
        pairs = zip(map(places.get, target.types), target.copies, strict=True)
        return _rarest([(len(at), count, at) for at, count in pairs if at], spare)
    hits.sort()
    return hits, kept - spare


def _rarest(found: list[tuple[int, int, Sequence[int]]], spare: int) -> tuple[list[int], int]:
    """The same for the words whose places are fewest per place that a window must hold."""
    found.sort(key=itemgetter(0))
    kept = total = 0
    best, chosen, required = float("inf"), 0, 1
    for number, (times, count, _) in enumerate(found, start=1):
        total += times
        kept += min(count, times)
        if kept > spare and total < best * (kept - spare):
            best, chosen, required = total / (kept - spare), number, kept - spare
    return sorted(place for _, _, at in found[:chosen] for place in at), required


def _ranges(hits: list[int], required: int, *, width: int, last_start: int) -> list[tuple[int, int]]:
    """Ranges of window starts, both ends included and in order, of windows that hold the required number of hits."""
    ranges: list[tuple[int, int]] = []
    low, high = -1, -2
    for first, last in zip(hits, hits[required - 1 :], strict=False):
        if last - first < width:
            start = last - width + 1
            if low < 0 or start > high + 1:
                if low >= 0:
                    ranges.append((low, min(high, last_start)))
                low = max(start, 0)
            high = first
    if low >= 0:
        ranges.append((low, min(high, last_start)))
    return ranges


def _best_start(wanted: str, text: str, last: int, *, width: int, floor: int) -> tuple[int, int]:
    """Longest common subsequence among the windows 0..last of a text, and the earliest start that has it."""
    runs = [(0, last)] if last <= _WIDE else _narrowed(wanted, text, width=width, needed=floor)
    best, best_start = 0, -1
    for first, stop in runs:
        common, start = _search(wanted, text, first, stop, width=width, floor=floor)
        if start >= 0:
            best, best_start, floor = common, start, common + 1
    return best, best_start


def _narrowed(wanted: str, text: str, *, width: int, needed: int) -> list[tuple[int, int]]:
    """Runs of window starts of the text whose bag of words overlaps the passage enough."""
    enough = np.flatnonzero(shared_words(wanted, text, width=width) >= needed)
    if not len(enough):
        return []
    breaks = np.flatnonzero(np.diff(enough) > 1)
    firsts = enough[np.concatenate(([0], breaks + 1))].tolist()
    lasts = enough[np.concatenate((breaks, [len(enough) - 1]))].tolist()
    return list(zip(firsts, lasts, strict=True))


def shared_words(passage: str, text: str, *, width: int) -> NDArray[np.int64]:
    """Size of the overlap, as bags of characters, of the passage with each window of the text, step one.

    A place counts in the windows that hold fewer earlier copies of its word than the passage has, so each adds one
    to a range of window starts: a sum of steps. NUL never counts.

    >>> shared_words("aab", "abaab", width=3).tolist()
    [3, 3, 3]
    """
    document, wanted = _codes(text), _codes(passage)
    windows = max(1, len(document) - width + 1)
    places = np.flatnonzero(document)
    words = document[places]
    order = np.argsort(words, kind="stable")
    places, words = places[order], words[order]
    types, counts = np.unique(wanted, return_counts=True)
    at = np.minimum(np.searchsorted(types, words), len(types) - 1)
    copies = np.where(types[at] == words, counts[at], 0)
    earlier = np.arange(len(places)) - copies
    before = np.maximum(earlier, 0)
    same = (earlier >= 0) & (words[before] == words)
    opens = np.maximum(places - width + 1, np.where(same, places[before] + 1, 0))
    used = (copies > 0) & (opens < windows)
    steps = np.bincount(opens[used], minlength=windows + 1)
    steps -= np.bincount(np.minimum(places[used] + 1, windows), minlength=windows + 1)
    return steps.cumsum()[:windows]


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


def _search(target: str, text: str, first: int, last: int, *, width: int, floor: int) -> tuple[int, int]:
    """Longest common subsequence of the windows first..last and the earliest start that has it; (0, -1) below floor."""
    common = LCSseq.similarity
    best, best_start = 0, -1
    stack = [(low, min(low + _STRIDE - 1, last)) for low in range(first, last + 1, _STRIDE)][::-1]
    while stack:
        low, high = stack.pop()
        bound = common(target, text[low : high + width])
        if bound < floor:
            continue
        if low == high:
            best, best_start, floor = bound, low, bound + 1
        else:
            middle = (low + high) // 2
            stack += [(middle + 1, high), (low, middle)]
    return best, best_start


def _matched(target: str, window: str, common: int) -> tuple[int, int]:
    """The first end by which all common words are found, then the last beginning from which they still are."""
    similarity = LCSseq.similarity
    ends = range(common, len(window))
    stop = common + bisect_left(ends, common, key=lambda end: similarity(target, window[:end]))
    starts = range(1, stop - common + 1)
    return bisect_left(starts, 1, key=lambda start: similarity(target, window[start:stop]) < common), stop - 1
