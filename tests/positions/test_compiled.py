from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from longrank.core.errors import ModelError
from longrank.core.seeds import generator
from longrank.positions import compiled, matching
from longrank.positions.compiled import code_text, compiled_is_worth_it, search_coded
from longrank.positions.estimators import Located
from longrank.positions.matching import PassageMatcher, prepare
from longrank.positions.subsequence import FullIndex, WordTarget, best_window
from longrank.positions.words import at_least

pytest.importorskip("numba")

TEXTS = st.text(alphabet="abIİß \n\t\x1c\x85\u00a0\u2003\u3000\ud800😀", max_size=80)


@given(TEXTS)
def test_words_and_their_places_are_those_of_splitting_the_lower_cased_text(text: str) -> None:
    coded = code_text(text)
    words = text.lower().split()
    assert coded.normal.text == " ".join(words)
    spans = [coded.normal.word_chars(place, place) for place in range(coded.words)]
    assert [text[span.start : span.stop].lower() for span in spans] == words


def test_every_kind_of_white_space_cuts_words_and_nothing_else_does() -> None:
    codes = [code for code in range(1, 0x3100) if not 0xD800 <= code < 0xE000]
    text = "".join(f"x{chr(code)}x" for code in codes)
    assert code_text(text).words == len(text.split())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=5, max_size=12),
    st.lists(st.sampled_from("abcdefghijkl"), min_size=1, max_size=50),
    st.sampled_from([0.3, 0.7, 1.0]),
)
def test_the_compiled_search_gives_the_answer_of_the_other(
    passage: list[str], document: list[str], share: float
) -> None:
    width, needed = at_least(1.2, len(passage)), at_least(share, len(passage))
    expected = best_window(WordTarget(tuple(passage)), FullIndex(document), width=width, needed=needed)
    found = search_coded(code_text(" ".join(passage)), code_text(" ".join(document)), width=width, needed=needed)
    assert found == expected


def edited_pair(rng: np.random.Generator, *, words: int, types: int, length: int) -> tuple[list[str], list[str]]:
    """A passage, and a document that holds three quarters of its words in order in one of two cases."""
    passage, document = rng.integers(0, types, size=words), rng.integers(0, 2 * types, size=length)
    if rng.random() < 0.5 and length > words:
        at = int(rng.integers(0, length - words))
        kept = rng.random(words) < 0.75
        document[at : at + words] = np.where(kept, passage, document[at : at + words])
    return [f"w{word}" for word in passage], [f"w{word}" for word in document]


def test_compiled_decisions_equal_brute_force_on_ten_thousand_random_pairs() -> None:
    rng = generator("ten thousand compiled pairs", 0)
    matched = 0
    for _ in range(10_000):
        words, length = int(rng.integers(5, 16)), int(rng.integers(1, 70))
        passage, document = edited_pair(rng, words=words, types=25, length=length)
        width, needed = at_least(1.2, words), at_least(0.7, words)
        starts = range(max(1, length - width + 1))
        one, other = ("".join(chr(int(word[1:])) for word in text) for text in (passage, document))
        brute = max(LCSseq.similarity(one, other[start : start + width]) for start in starts)
        found = search_coded(code_text(" ".join(passage)), code_text(" ".join(document)), width=width, needed=needed)
        assert (found.common if found else 0) == (brute if brute >= needed else 0)
        matched += found is not None
    assert 2_000 < matched < 8_000


@pytest.mark.parametrize("words", [63, 64, 65, 127, 128, 129, 300])
def test_passages_longer_than_a_machine_word_are_searched_exactly(words: int) -> None:
    rng = generator("long passages", words)
    answers = []
    for _ in range(12):
        passage, document = edited_pair(rng, words=words, types=400, length=3 * words + 40)
        width, needed = at_least(1.2, words), at_least(0.7, words)
        expected = best_window(WordTarget(tuple(passage)), FullIndex(document), width=width, needed=needed)
        coded = code_text(" ".join(passage)), code_text(" ".join(document))
        assert search_coded(*coded, width=width, needed=needed) == expected
        answers.append(expected is not None)
    assert set(answers) == {True, False}


@pytest.fixture
def always_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)
    yield


def uncompiled(passage: str, document: str, monkeypatch: pytest.MonkeyPatch) -> Located:
    with monkeypatch.context() as patch:
        patch.setattr(matching, "compiled_is_worth_it", lambda: False)
        return PassageMatcher().match(passage, document)


@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize(
    "place",
    [
        "the small grey cat sat down on an old mat",
        "The  SMALL grey\ncat sat down on an old mat",
        "the big grey cat sat down on an ugly mat",
        "the big grey cat sat under some ugly mat",
        "İ İ the big grey cat sat down on an ugly mat İ",
        "",
    ],
)
def test_the_matcher_answers_the_same_compiled_or_not(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passage, filler = "the small grey cat sat down on an old mat", "many years went by and nothing was heard of him"
    text = f"{filler}. {place} {filler}" if place else ""
    expected = uncompiled(passage, text, monkeypatch)
    assert PassageMatcher().match(passage, text) == expected
    assert PassageMatcher().match(prepare(passage), prepare(text)) == expected


def test_compiled_code_is_loaded_only_after_many_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 3)
    monkeypatch.setattr(compiled, "_searches", iter(range(10)))
    assert [compiled_is_worth_it() for _ in range(5)] == [False, False, False, True, True]


@pytest.mark.usefixtures("always_compiled")
def test_without_numba_matching_goes_on_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_kernels", lambda: None)
    passage = "the small grey cat sat down on an old mat"
    assert PassageMatcher().match(passage, f"so {passage} then").method == "substring"
    with pytest.raises(ModelError, match=r"longrank\[fast\]"):
        code_text(passage)


@pytest.mark.usefixtures("always_compiled")
def test_very_long_passages_are_left_to_the_other_search() -> None:
    words = [f"w{number}" for number in range(compiled.LONGEST_PASSAGE + 1)]
    edited = ["x" if number % 9 == 4 else word for number, word in enumerate(words)]
    found = PassageMatcher().match(" ".join(words), " ".join(edited))
    assert found.method == "subsequence"
    assert found.ratio == 1 - edited.count("x") / len(words)
