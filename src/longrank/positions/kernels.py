"""Inner loops of passage matching, compiled by numba: a text to words, and the best window of a text for a passage.

Importing this module needs numba; only ``compiled.py`` does so. Words are compared by hashes of 64 bits.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import numpy as np
from numba import njit

_EMPTY = np.int32(-1)
_SEED, _FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)
_ZERO, _ONE, _SHIFT, _BITS = np.uint64(0), np.uint64(1), np.uint64(32), 64
_OTHERS = 8  # numbers shared by all foreign words: with one, every step would wait for the one before
_STRIDE = 32  # window starts covered by one comparison before it is split
_DEPTH = 16  # halvings of a stride, with room to spare


@njit(nogil=True, cache=True)
def is_space(code):
    """Whether ``str.split`` cuts at this code point."""
    if code < 0x80:
        return code == 0x20 or 0x9 <= code <= 0xD or 0x1C <= code <= 0x1F
    if code < 0x1680:
        return code in (0x85, 0xA0)
    return 0x2000 <= code <= 0x200A or code in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@njit(nogil=True, cache=True)
def read_words(codes):
    """Words of a text given as code points: the text with single blanks, and each word's start, stop and hash."""
    most = (len(codes) + 1) // 2
    normal = np.empty_like(codes)
    starts, stops = np.empty(most, np.int32), np.empty(most, np.int32)
    hashes = np.empty(most, np.uint64)
    words = written = at = 0
    while at < len(codes):
        if is_space(codes[at]):
            at += 1
            continue
        if words:
            normal[written] = 0x20
            written += 1
        starts[words] = at
        value = _SEED
        while at < len(codes) and not is_space(codes[at]):
            normal[written] = codes[at]
            written += 1
            value = (value ^ np.uint64(codes[at])) * _FACTOR
            value ^= value >> _SHIFT
            at += 1
        stops[words], hashes[words] = at, value
        words += 1
    return normal[:written], starts[:words], stops[:words], hashes[:words]


@njit(nogil=True, cache=True)
def number_words(hashes):
    """Each word's number in order of first appearance, the number's slot table, and how often each occurs."""
    size = 16
    while size < 2 * len(hashes):
        size *= 2
    mask = np.uint64(size - 1)
    slot_hashes, slot_numbers = np.empty(size, np.uint64), np.full(size, _EMPTY, np.int32)
    numbers, counts = np.empty(len(hashes), np.int32), np.zeros(len(hashes), np.int32)
    types = 0
    for place in range(len(hashes)):
        value = hashes[place]
        slot = value & mask
        while slot_numbers[slot] != _EMPTY and slot_hashes[slot] != value:
            slot = (slot + _ONE) & mask
        if slot_numbers[slot] == _EMPTY:
            slot_hashes[slot], slot_numbers[slot] = value, types
            types += 1
        numbers[place] = slot_numbers[slot]
        counts[slot_numbers[slot]] += 1
    return numbers, counts[:types], slot_hashes, slot_numbers


@njit(nogil=True, cache=True)
def match_masks(numbers, types):
    """For each distinct word the places it has in the passage, as bits of rows of 64; then the same read backwards.

    The last rows stand for words that the passage lacks and are empty.
    """
    blocks = (len(numbers) + _BITS - 1) // _BITS
    masks = np.zeros((2, types + _OTHERS, blocks), np.uint64)
    for place in range(len(numbers)):
        back = len(numbers) - 1 - place
        masks[0, numbers[place], place // _BITS] |= _ONE << np.uint64(place % _BITS)
        masks[1, numbers[place], back // _BITS] |= _ONE << np.uint64(back % _BITS)
    return masks


@njit(nogil=True, cache=True)
def common_words(masks, words, enough):
    """Longest common subsequence of passage and words, and the place of the word at which ``enough`` were reached.

    Bit-parallel (Hyyrö 2004): a zero bit ends one more common subsequence, and a carry out of the last bit tells that
    the longest has grown.
    """
    if masks.shape[1] <= 2:
        return _common_in_registers(masks, words, enough)
    row = np.full(masks.shape[1], ~_ZERO, np.uint64)
    common, reached = 0, len(words)
    for place in range(len(words)):
        word = words[place]
        carry = _ZERO
        for block in range(len(row)):
            free = row[block]
            hit = free & masks[word, block]
            total = free + hit
            over = total < free
            total += carry
            carry = _ONE if over or total < carry else _ZERO
            row[block] = total | (free - hit)
        if carry != _ZERO:
            common += 1
            if common == enough:
                reached = place
    return common, reached


@njit(nogil=True, cache=True)
def _common_in_registers(masks, words, enough):
    low, high = ~_ZERO, ~_ZERO
    last = masks.shape[1] - 1
    common, reached = 0, len(words)
    for place in range(len(words)):
        word = words[place]
        hit = low & masks[word, 0]
        total = low + hit
        carry = _ONE if total < low else _ZERO
        low = total | (low - hit)
        if last:
            hit = high & masks[word, 1]
            total = high + hit
            over = total < high
            total += carry
            carry = _ONE if over or total < carry else _ZERO
            high = total | (high - hit)
        if carry != _ZERO:
            common += 1
            if common == enough:
                reached = place
    return common, reached


@njit(nogil=True, cache=True)
def translate(hashes, copies, counts, slot_hashes, slot_numbers):
    """The passage's number of each distinct word of the document, and the most words any window can share.

    Words that the passage lacks get one of the numbers after its last.
    """
    translated = np.empty(len(counts), np.uint32)
    for number in range(len(counts)):
        translated[number] = len(hashes) + number % _OTHERS
    mask = np.uint64(len(slot_numbers) - 1)
    possible = 0
    for word in range(len(hashes)):
        slot = hashes[word] & mask
        while slot_numbers[slot] != _EMPTY and slot_hashes[slot] != hashes[word]:
            slot = (slot + _ONE) & mask
        number = slot_numbers[slot]
        if number != _EMPTY:
            translated[number] = word
            possible += min(copies[word], counts[number])
    return translated, possible


@njit(nogil=True, cache=True)
def bag_overlaps(words, copies, width, needed):
    """Size of the overlap of each window with the passage as bags of words, and three windows.

    They are the first and last that reach what is needed and the first of the largest overlap; -1 where none does.
    """
    overlaps = np.empty(max(1, len(words) - width + 1), np.int32)
    left = np.zeros(len(copies) + _OTHERS, np.int32)  # copies that the window does not hold yet
    left[: len(copies)] = copies
    overlap = 0
    for place in range(min(width, len(words))):
        overlap += left[words[place]] > 0
        left[words[place]] -= 1
    first = last = fullest = -1
    largest = needed - 1
    for window in range(len(overlaps)):
        if window:
            gone, come = words[window - 1], words[window + width - 1]
            left[gone] += 1
            overlap += (left[come] > 0) - (left[gone] > 0)
            left[come] -= 1
        overlaps[window] = overlap
        if overlap >= needed:
            last = window
            if overlap > largest:
                largest, fullest = overlap, window
                first = window if first < 0 else first
    return overlaps, first, last, fullest


@njit(nogil=True, cache=True)
def best_window(  # noqa: PLR0917
    numbers, counts, slot_hashes, slot_numbers, hashes, copies, masks, width, needed
):
    """Start of the earliest window of most common words, their number, and the first and last word they cover.

    The first four arguments are the document's, the next three the passage's. The number is 0 where no window has as
    many as needed.
    """
    translated, possible = translate(hashes, copies, counts, slot_hashes, slot_numbers)
    if possible < needed:
        return 0, 0, 0, 0
    words = np.empty(len(numbers), np.uint32)
    for place in range(len(numbers)):
        words[place] = translated[numbers[place]]
    overlaps, low, high, fullest = bag_overlaps(words, copies, width, needed)
    if fullest < 0:
        return 0, 0, 0, 0
    # a good window early makes the others' bound hard to reach; it is found again below if no earlier one is as good
    floor = max(needed, common_words(masks[0], words[fullest : fullest + width], 0)[0])
    start, common = _earliest_best(masks[0], words[low:], overlaps[low : high + 1], width, floor)
    start += low
    if common == 0:
        return 0, 0, 0, 0
    # the first end by which all common words are found, then the last beginning from which they still are
    _, last = common_words(masks[0], words[start : start + width], common)
    _, back = common_words(masks[1], words[start : start + last + 1][::-1], common)
    return start, common, start + last - back, start + last


@njit(nogil=True, cache=True)
def _earliest_best(masks, words, overlaps, width, floor):
    """The earliest window of most common words and their number; 0 below the floor.

    No window shares more than its bag of words does, nor more than a longer stretch that holds it.
    """
    lows, highs = np.empty(_DEPTH, np.int64), np.empty(_DEPTH, np.int64)
    best_start, best = -1, 0
    window = 0
    while window < len(overlaps):
        if overlaps[window] < floor:
            window += 1
            continue
        end = window + 1
        while end < len(overlaps) and end - window < _STRIDE and overlaps[end] >= floor:
            end += 1
        lows[0], highs[0] = window, end - 1
        held = 1
        while held:
            held -= 1
            low, high = lows[held], highs[held]
            common, _ = common_words(masks, words[low : high + width], 0)
            if common < floor:
                continue
            if low == high:
                best_start, best, floor = low, common, common + 1
            else:
                middle = (low + high) // 2
                lows[held], highs[held] = middle + 1, high
                lows[held + 1], highs[held + 1] = low, middle
                held += 2
        window = end
    return best_start, best
