"""Pieces of a TREC run file to columns, without a Python object a line."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import BadLine

Bytes = NDArray[np.uint8]
Places = NDArray[np.signedinteger[Any]]
Keys = NDArray[np.uint64]

PADDING = 64  # zero bytes behind the text, so that a word may be read past its end
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)  # masks that keep n bytes of a word
_LARGEST = float(np.finfo(np.float32).max)


class Block(NamedTuple):
    """Columns of some whole lines; places are offsets into the block's text."""

    query_starts: Places
    query_stops: Places
    document_starts: Places
    document_stops: Places
    tag_starts: Places
    tag_stops: Places
    scores: NDArray[np.float32]
    lines: Places  # line of each row, from 0


def read_block(text: Bytes, size: int, *, path: Path, first_line: int) -> Block:
    """Columns of the first ``size`` bytes, which end with a line; blank lines and comments ('#') are passed over."""
    # a byte up to the space parts columns: trec_eval's whitespace, and nothing else in a sound file
    # int32 within a block: moving bytes is what reading costs
    gaps = np.flatnonzero(text[:size] <= 32).astype(np.int32)
    ends = gaps[5::6]
    if len(gaps) == 6 * len(ends) and (text[ends] == 10).all() and np.count_nonzero(text[:size] == 10) == len(ends):
        last = np.ascontiguousarray(gaps.reshape(-1, 6).T)
        first = np.empty_like(last)
        first[1:] = last[:-1] + 1
        first[0, 0], first[0, 1:] = 0, ends[:-1] + 1
        rows = np.arange(len(ends))
        regular = bool((first < last).all() and (text[first[0]] != ord("#")).all())
    else:
        regular = False
    if not regular:
        first, last, rows = _irregular(text, size, path=path, first_line=first_line)
    scores = read_scores(text, first[4], last[4], path=path, lines=rows + first_line + 1)
    return Block(first[0], last[0], first[2], last[2], first[5], last[5], scores, rows)


def _irregular(text: Bytes, size: int, *, path: Path, first_line: int) -> tuple[Places, Places, Places]:
    """Starts and stops [6, rows] and line numbers, where columns may be any number of blanks apart."""
    blank = np.concatenate([[True], text[:size] <= 32])
    edges = np.flatnonzero(blank[1:] != blank[:-1])
    starts, stops = edges[0::2], edges[1::2]
    cuts = np.searchsorted(starts, np.flatnonzero(text[:size] == 10))
    counts = np.diff(cuts, prepend=0)
    rows = np.flatnonzero(counts)
    comment = text[starts[cuts[rows] - counts[rows]]] == ord("#")
    wrong = rows[~comment & (counts[rows] != 6)]
    if len(wrong):
        reason = f"{counts[wrong[0]]} columns where 6 are needed: qid Q0 docid rank score tag"
        raise BadLine(path, first_line + int(wrong[0]) + 1, reason)
    kept = np.repeat(~comment, counts[rows])
    first, last = (np.ascontiguousarray(edge[kept].reshape(-1, 6).T) for edge in (starts, stops))
    return first, last, rows[~comment]


def keys_of(text: Bytes, starts: Places, stops: Places) -> Keys:
    """A 64-bit key of each stretch of bytes; equal bytes give equal keys, others almost never."""
    words = np.ndarray((len(text) - 7,), dtype="<u8", buffer=text, strides=(1,))
    lengths = stops - starts
    keys = lengths.astype(np.uint64)
    shortest = int(lengths.min()) if len(lengths) else 0
    for offset in range(0, int(lengths.max(initial=0)), 8):
        word = words[np.minimum(starts + offset, len(words) - 1)] & _FIRST_BYTES[np.clip(lengths - offset, 0, 8)]
        mixed = (keys ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        # a key must not depend on how long its neighbours are
        keys = mixed if shortest > offset else np.where(lengths > offset, mixed, keys)
    return keys


def read_scores(text: Bytes, starts: Places, stops: Places, *, path: Path, lines: Places) -> NDArray[np.float32]:
    """float32 of decimal numbers, equal to rounding Python's float of the same bytes."""
    negative = text[starts] == ord("-")
    begins = starts + (negative | (text[starts] == ord("+")))
    lengths = stops - begins
    whole = np.zeros(len(starts), dtype=np.uint64)
    digits, decimals, points = (np.zeros(len(starts), dtype=np.int16) for _ in range(3))
    for offset in range(int(min(lengths.max(initial=0), 20))):
        char = text[begins + offset]
        inside = offset < lengths
        digit = char - np.uint8(48)
        is_digit = (digit < 10) & inside
        whole = np.where(is_digit, whole * np.uint64(10) + digit, whole)
        digits += is_digit
        decimals += is_digit & (points > 0)
        points += (char == ord(".")) & inside
    values = whole / 10.0**decimals
    # past 2^53 the quotient may be off by a bit or two of float64: doubtful where that could move the float32
    doubtful = (values * (1 - 1e-15)).astype(np.float32) != (values * (1 + 1e-15)).astype(np.float32)
    plain = (digits + points == lengths) & (points <= 1) & (digits >= 1) & (digits <= 18)
    result = np.where(negative, -values, values).astype(np.float32)
    for row in np.flatnonzero(~plain | (doubtful & (whole >= 2**53))).tolist():
        result[row] = _score(text[starts[row] : stops[row]].tobytes(), path, int(lines[row]))
    return result


def _score(data: bytes, path: Path, line: int) -> float:
    try:
        score = float(data)
    except ValueError:
        score = float("nan")
    if not abs(score) <= _LARGEST or b"_" in data:  # NaN fails every comparison
        shown = data.decode("utf-8", "replace")
        raise BadLine(path, line, f"score {shown!r} is not a finite number that fits float32; mend or drop the line")
    return score
