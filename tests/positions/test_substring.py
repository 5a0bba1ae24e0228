from hypothesis import given
from hypothesis import strategies as st

from longrank.positions.substring import long_common_substring
from longrank.positions.words import at_least

LETTERS = st.text(alphabet="ab ", min_size=5, max_size=24)


def longest_by_definition(passage: str, document: str) -> tuple[int, int]:
    """Length and earliest start of the longest common substring, by trying every one."""
    best, start = 0, -1
    for low in range(len(passage)):
        for high in range(len(passage), low, -1):
            at = document.find(passage[low:high])
            if at >= 0 and (high - low > best or (high - low == best and at < start)):
                best, start = high - low, at
    return best, start


@given(LETTERS, st.text(alphabet="ab ", max_size=60), st.sampled_from([0.55, 0.6, 0.8, 1.0]))
def test_core_search_gives_the_answer_of_the_definition(passage: str, document: str, share: float) -> None:
    shortest = at_least(share, len(passage))
    found = long_common_substring(passage, document, shortest=shortest)
    length, start = longest_by_definition(passage, document)
    assert (found is not None) == (length >= shortest)
    if found is not None:
        assert (found.length, found.start) == (length, start)


def test_the_match_is_extended_over_both_ends_of_the_core() -> None:
    # 8 of 10 needed: the core is c..h; b and i, j stand beside it, a does not
    found = long_common_substring("abcdefghij", "..bcdefghij..", shortest=8)
    assert found is not None
    assert (found.start, found.length) == (2, 9)


def test_a_full_copy_later_beats_a_partial_one_before() -> None:
    found = long_common_substring("abcdefghij", "abcdefghiX abcdefghij", shortest=8)
    assert found is not None
    assert (found.start, found.length) == (11, 10)
