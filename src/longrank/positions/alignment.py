"""Our own way to find a passage: cut it into segments, align each, join what lies in order and close together.

One-shot matching fails when text was inserted into the middle of a passage; segments on both sides of it do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import LCSseq

from longrank.core.errors import SettingsError
from longrank.core.settings import Settings
from longrank.core.types import CharSpan
from longrank.positions.estimators import Located, not_located
from longrank.positions.matching import FEWEST_WORDS, NO_TEXT
from longrank.positions.subsequence import shared_words
from longrank.positions.words import PassageCode, at_least, plain_words

METHOD = "aligned"


class AlignSettings(Settings):
    """How passages are cut and when a chain of aligned segments counts as the passage.

    A chain must cover ``accept`` of the passage's words; short passages need more, up to ``accept_short`` at ten words
    or fewer, because chance does more there. ``gap`` is the longest run of foreign words between two segments.
    """

    segment_words: int = 12
    segment_share: float = 0.5
    accept: float = 0.55
    accept_short: float = 0.8
    long_passage: int = 40
    gap: int = 60
    near: float = 0.05
    candidates: int = 12


class _Hit(NamedTuple):
    """One place where a segment of the passage was aligned: words of the document, both ends included."""

    segment: int
    first: int
    last: int
    common: int


class _Chain(NamedTuple):
    """Segments aligned in order: words matched and the hits, first to last."""

    common: int
    hits: tuple[_Hit, ...]


@dataclass(frozen=True)
class PassageAligner:
    """Finds passages with words edited or text inserted, and says when a second place is nearly as good.

    >>> aligner = PassageAligner()
    >>> text = "Before it all. A quick brown fox, late one evening, jumped over the lazy old dog. After it all."
    >>> found = aligner.match("a quick brown fox jumped over the lazy old dog", text)
    >>> text[found.spans[0].start : found.spans[0].stop], found.ambiguous
    ('A quick brown fox, late one evening, jumped over the lazy old dog', False)
    """

    settings: AlignSettings = field(default_factory=AlignSettings)

    def __post_init__(self) -> None:
        if self.settings.segment_words < FEWEST_WORDS or not 0 < self.settings.segment_share <= 1:
            raise SettingsError(
                f"segments need at least {FEWEST_WORDS} words and a share in (0, 1], got {self.settings!r}"
            )

    def match(self, passage: str, document: str) -> Located:
        """Where the passage stands in the document: one span from its first to its last aligned word."""
        wanted, _ = plain_words(passage)
        words, offsets = plain_words(document)
        if len(wanted) < FEWEST_WORDS:
            return not_located("none", f"the passage has {len(wanted)} words, at least {FEWEST_WORDS} are needed")
        if not words:
            return not_located("none", NO_TEXT)
        code = PassageCode(wanted)
        hits = self._hits(code, code.encode(words))
        best = _best_chain(hits, self.settings.gap, self.settings.segment_words)
        needed = at_least(self._share_needed(len(wanted)), len(wanted))
        if best is None or best.common < needed:
            share = 0.0 if best is None else best.common / len(wanted)
            return not_located("none", f"the best place covers {share:.2f} of the passage", ratio=share)
        first, last = best.hits[0].first, best.hits[-1].last
        elsewhere = [hit for hit in hits if hit.last < first or hit.first > last]
        second = _best_chain(elsewhere, self.settings.gap, self.settings.segment_words)
        ratio = best.common / len(wanted)
        rival = 0.0 if second is None else second.common / len(wanted)
        span = CharSpan(offsets[first][0], offsets[last][1])
        return Located((span,), METHOD, ratio, rival >= ratio - self.settings.near)

    def _share_needed(self, words: int) -> float:
        chosen = self.settings
        shortness = min(1.0, max(0.0, (chosen.long_passage - words) / max(1, chosen.long_passage - 10)))
        return chosen.accept + shortness * (chosen.accept_short - chosen.accept)

    def _hits(self, code: PassageCode, document: str) -> list[_Hit]:
        """The best places of every segment."""
        hits: list[_Hit] = []
        for number, (start, stop) in enumerate(_segments(len(code.text), self.settings.segment_words)):
            hits += self._segment_hits(number, code.text[start:stop], document)
        return hits

    def _segment_hits(self, number: int, segment: str, document: str) -> list[_Hit]:
        width = len(segment) + max(2, len(segment) // 3)
        needed = max(2, at_least(self.settings.segment_share, len(segment)))
        shared = shared_words(segment, document, width=width)
        starts = np.flatnonzero(shared >= needed)
        hits: list[_Hit] = []
        taken: list[int] = []
        for start in starts[np.argsort(-shared[starts], kind="stable")].tolist():
            if any(abs(start - other) < width // 2 for other in taken):
                continue
            taken.append(start)
            hit = _tightened(number, segment, document, start, width)
            if hit.common >= needed:
                hits.append(hit)
            if len(taken) >= self.settings.candidates:
                break
        return hits


def _segments(words: int, size: int) -> list[tuple[int, int]]:
    """Near-equal runs of about ``size`` words; at least two, so that both sides of an insertion can be found."""
    count = max(2 if words >= 2 * FEWEST_WORDS else 1, round(words / size))
    edges = [round(words * number / count) for number in range(count + 1)]
    return list(pairwise(edges))


def _tightened(number: int, segment: str, document: str, start: int, width: int) -> _Hit:
    """The shortest stretch near a window that matches as many of the segment's words as any window there."""
    common = LCSseq.similarity
    nearby = range(max(0, start - width // 2), min(start + width // 2, max(0, len(document) - width)) + 1)
    best, first = max(((common(segment, document[at : at + width]), -at) for at in nearby), default=(0, 0))
    first, stop = -first, min(-first + width, len(document))
    while first + best < stop and common(segment, document[first + 1 : stop]) == best:
        first += 1
    while first + best < stop and common(segment, document[first : stop - 1]) == best:
        stop -= 1
    return _Hit(number, first, max(first, stop - 1), best)


def _best_chain(hits: Sequence[_Hit], gap: int, segment_words: int) -> _Chain | None:
    """The chain of hits in passage order, not far apart, that matches most words; then the tightest.

    A missing segment lengthens the allowed gap by its own words.
    """
    ordered = sorted(hits, key=lambda hit: (hit.segment, hit.first))
    chains: list[_Chain] = []
    for hit in ordered:
        best = _Chain(hit.common, (hit,))
        for chain in chains:
            tail = chain.hits[-1]
            skipped = hit.segment - tail.segment - 1
            distance = hit.first - tail.last - 1
            if skipped < 0 or not -2 <= distance <= gap + 2 * skipped * segment_words or hit.last <= tail.last:
                continue
            longer = _Chain(chain.common + hit.common + min(0, distance), (*chain.hits, hit))
            if _merit(longer) > _merit(best):
                best = longer
        chains.append(best)
    return max(chains, key=_merit, default=None)


def _merit(chain: _Chain) -> tuple[int, int, int]:
    first, last = chain.hits[0].first, chain.hits[-1].last
    return chain.common, first - last, -first
