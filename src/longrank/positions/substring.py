"""Longest common substring at a threshold above one half, by searching for the core every such match contains."""

from typing import NamedTuple


class Common(NamedTuple):
    """A common substring: where it starts in the document, and its length."""

    start: int
    length: int


def long_common_substring(passage: str, document: str, *, shortest: int) -> Common | None:
    """Longest common substring if it has at least ``shortest`` characters, the earliest of equals; else None.

    ``shortest`` must exceed half the passage: then every such substring holds the passage's middle, so the middle is
    looked for and extended both ways. The answer is that of the quadratic definition.

    >>> long_common_substring("abcdefghij", "xxbcdefghijyy", shortest=8)
    Common(start=2, length=9)
    """
    left, right = len(passage) - shortest, shortest
    if not left < right:
        raise ValueError(f"shortest is {shortest} of {len(passage)} characters; the core search needs more than half")
    if left < 0:
        return None
    core, before, after = passage[left:right], passage[:left], passage[right:]
    best: Common | None = None
    at = document.find(core)
    while at >= 0:
        back = _common_end(before, document, at)
        ahead = _common_start(after, document, at + len(core))
        length = back + len(core) + ahead
        if length >= shortest and (best is None or length > best.length):
            best = Common(at - back, length)
            if length == len(passage):
                break
        at = document.find(core, at + 1)
    return best


def _common_start(tail: str, document: str, at: int) -> int:
    """Number of characters of ``tail`` that stand in the document at ``at``, by halving."""
    if document.startswith(tail, at):
        return len(tail)
    low, high = 0, len(tail)
    while high - low > 1:
        middle = (low + high) // 2
        if document.startswith(tail[low:middle], at + low):
            low = middle
        else:
            high = middle
    return low


def _common_end(head: str, document: str, at: int) -> int:
    """Number of characters at the end of ``head`` that stand in the document just before ``at``."""
    if at >= len(head) and document.startswith(head, at - len(head)):
        return len(head)
    low, high = 0, len(head)
    while high - low > 1:
        middle = (low + high) // 2
        piece = head[len(head) - middle : len(head) - low]
        if at >= middle and document.startswith(piece, at - middle):
            low = middle
        else:
            high = middle
    return low
