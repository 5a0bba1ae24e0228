"""Texts as arrays of word numbers, searched by compiled code; for many searches, where numba is installed."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import ModelError
from longrank.positions.subsequence import BestWindow
from longrank.positions.words import NormalText, word_offsets

# loading takes half a second, and compiling some more the first time: worth it from about this many searches
COMPILE_FROM = 2_000
# a passage's masks grow with the square of its words
LONGEST_PASSAGE = 2_048

_searches = count()


def compiled_is_worth_it() -> bool:
    """Whether to search with compiled code: not during a process's first searches, nor where numba is missing."""
    return next(_searches) >= COMPILE_FROM and _kernels() is not None


@lru_cache(maxsize=1)
def _kernels() -> ModuleType | None:
    try:
        from longrank.positions import kernels
    except (ImportError, RuntimeError):  # no numba, or no folder where it may keep what it compiles
        return None
    return kernels


def _loaded() -> ModuleType:
    kernels = _kernels()
    if kernels is None:
        raise ModelError("compiled matching needs numba: pip install 'longrank[fast]'")
    return kernels


class Numbered(NamedTuple):
    """Each word's number, how often each number occurs, and the table that leads from hashes to numbers."""

    numbers: NDArray[np.int32]
    counts: NDArray[np.int32]
    slot_hashes: NDArray[np.uint64]
    slot_numbers: NDArray[np.int32]


class Target(NamedTuple):
    """Hashes of a passage's distinct words, how often each occurs, and its places as bits, forwards and backwards."""

    hashes: NDArray[np.uint64]
    copies: NDArray[np.int32]
    masks: NDArray[np.uint64]


@dataclass(frozen=True)
class CodedText:
    """A text as the compiled search compares it: words are equal if hashes of 64 bits are.

    Two different words among the thousands of two texts share a hash once in 10^13 pairs of texts or more rarely.
    """

    normal: NormalText
    hashes: NDArray[np.uint64]

    @property
    def words(self) -> int:
        """Number of words."""
        return len(self.hashes)

    @cached_property
    def numbered(self) -> Numbered:
        """The text as a document to look in."""
        return Numbered(*_loaded().number_words(self.hashes))

    @cached_property
    def target(self) -> Target:
        """The text as a passage to look for."""
        numbers, copies = self.numbered[:2]
        hashes = np.empty(len(copies), np.uint64)
        hashes[numbers] = self.hashes
        return Target(hashes, copies, _loaded().match_masks(numbers, len(copies)))


def code_text(original: str) -> CodedText:
    """The text, lower-cased and cut at white space."""
    lowered = original.lower()
    encoding, unit = ("ascii", "u1") if lowered.isascii() else ("utf-32-le", "<u4")
    codes = np.frombuffer(lowered.encode(encoding, "surrogatepass"), unit)
    normal, starts, stops, hashes = _loaded().read_words(codes)
    if len(lowered) != len(original):  # a dotted capital I becomes two characters
        starts, stops = word_offsets(original)
    text = normal.tobytes().decode(encoding, "surrogatepass")
    return CodedText(NormalText(original, text, starts, stops), hashes)


def search_coded(passage: CodedText, document: CodedText, *, width: int, needed: int) -> BestWindow | None:
    """The answer of ``best_window`` on the texts' words."""
    found = _loaded().best_window(*document.numbered, *passage.target, width, needed)
    return BestWindow(*found) if found[1] else None
