from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from longrank.core.seeds import generator
from longrank.positions.subsequence import FullIndex, OneOffIndex, WordTarget, best_window, shared_words
from longrank.positions.words import at_least

WORDS = st.lists(st.sampled_from("abcdefgh"), min_size=5, max_size=12)


def common_by_definition(first: list[str], second: list[str]) -> int:
    """Length of the longest common subsequence by the textbook table."""
    table = [0] * (len(second) + 1)
    for word in first:
        previous = 0
        for place, other in enumerate(second, start=1):
            previous, table[place] = (
                table[place],
                previous + 1 if word == other else max(table[place], table[place - 1]),
            )
    return table[-1]


def best_by_definition(passage: list[str], document: list[str], width: int) -> tuple[int, int]:
    """Longest common subsequence over windows of step one, and the earliest window that has it."""
    starts = range(max(1, len(document) - width + 1))
    values = [common_by_definition(passage, document[start : start + width]) for start in starts]
    return max(values), values.index(max(values))


@settings(max_examples=300, deadline=None)
@example(["a"] * 5, ["a"] * 3, 0.3)  # fewer copies in the document than in the passage
@given(WORDS, st.lists(st.sampled_from("abcdefghijkl"), min_size=1, max_size=50), st.sampled_from([0.3, 0.7, 1.0]))
def test_best_window_gives_the_answer_of_trying_every_window(
    passage: list[str], document: list[str], share: float
) -> None:
    width, needed = at_least(1.2, len(passage)), at_least(share, len(passage))
    target = WordTarget(tuple(passage))
    common, start = best_by_definition(passage, document, width)
    for index in (FullIndex(document), OneOffIndex(document)):
        found = best_window(target, index, width=width, needed=needed)
        assert (found is not None) == (common >= needed)
        if found is not None:
            assert (found.common, found.start) == (common, start)
            assert start <= found.first_word <= found.last_word < start + width


def test_decisions_equal_brute_force_on_ten_thousand_random_pairs() -> None:
    """Half the documents hold an edited copy near the threshold, so both answers are frequent."""
    rng = generator("ten thousand pairs", 0)
    matched = 0
    for _ in range(10_000):
        length = int(rng.integers(5, 16))
        passage = rng.integers(0, 25, size=length)
        document = rng.integers(0, 40, size=int(rng.integers(1, 70)))
        if rng.random() < 0.5 and len(document) > length:
            at = int(rng.integers(0, len(document) - length))
            kept = rng.random(length) < 0.75
            document[at : at + length] = np.where(kept, passage, document[at : at + length])
        words, wanted = [str(w) for w in document], [str(w) for w in passage]
        width, needed = at_least(1.2, length), at_least(0.7, length)
        one, other = ("".join(map(chr, numbers.tolist())) for numbers in (passage, document))  # a character a word
        brute = max(
            LCSseq.similarity(one, other[start : start + width]) for start in range(max(1, len(words) - width + 1))
        )
        found = best_window(WordTarget(tuple(wanted)), FullIndex(words), width=width, needed=needed)
        assert (found is not None) == (brute >= needed)
        assert found is None or found.common == brute
        matched += found is not None
    assert 2_000 < matched < 8_000


def test_a_window_that_just_reaches_what_is_needed_is_found() -> None:
    """A case in which rapidfuzz, told to stop below the needed number, stops at it (3.14)."""
    rng = generator("cutoff", 247)
    passage = rng.integers(1, 300, size=112).tolist()
    document = [word for word in passage if rng.random() < 0.97]
    for place in sorted(rng.integers(0, len(document), size=20).tolist()):
        document.insert(place, int(rng.integers(1, 300)))
    wanted, words = [str(word) for word in passage], [str(word) for word in document]
    needed = common_by_definition(wanted, words)
    found = best_window(WordTarget(tuple(wanted)), FullIndex(words), width=135, needed=needed)
    assert found is not None
    assert found.common == needed == 111


@given(st.text(alphabet="\0abc", min_size=1, max_size=40), st.text(alphabet="abcd", min_size=1, max_size=10), st.data())
def test_shared_words_is_the_overlap_of_the_bags(text: str, passage: str, data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 12))
    bags = [Counter(text[start : start + width]) for start in range(max(1, len(text) - width + 1))]
    expected = [sum((bag & Counter(passage)).values()) for bag in bags]
    assert shared_words(passage, text, width=width).tolist() == expected


def test_long_stretches_of_promising_windows_are_searched_whole() -> None:
    # every window of this text shares words with the passage, and only one place holds it in order
    passage = ["a", "b", "c", "d", "e", "f", "g", "h"]
    document = passage[::-1] * 60 + passage + passage[::-1] * 60
    target = WordTarget(tuple(passage))
    found = best_window(target, FullIndex(document), width=10, needed=6)
    assert found is not None
    assert (found.common, found.first_word, found.last_word) == (8, 480, 487)


@pytest.mark.parametrize("words", [55_400, 56_000])
def test_passages_of_very_many_distinct_words_keep_their_codes_apart(words: int) -> None:
    passage = [f"w{number}" for number in range(words)]
    target = WordTarget(tuple(passage))
    found = best_window(target, FullIndex(passage), width=words, needed=words)
    assert found is not None
    assert found.common == words
