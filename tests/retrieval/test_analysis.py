"""Text to terms."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.retrieval import AnalysisSettings, Analyzer


def test_words_are_lower_case_and_punctuation_parts_them() -> None:
    assert Analyzer().terms("The U.S. Route-66, (2nd)!") == ["the", "u", "s", "route", "66", "2nd"]


def test_stop_words_are_left_out_only_when_asked() -> None:
    stopping = Analyzer(AnalysisSettings(stop_words="english"))
    assert stopping.terms("what is the fox of it") == ["fox"]
    assert stopping.drops_words and not Analyzer().drops_words


def test_stems_join_forms_of_a_word() -> None:
    pytest.importorskip("Stemmer", reason="needs the extra 'stemming'")
    stemming = Analyzer(AnalysisSettings(stemming="english"))
    assert stemming.terms("connected connections") == ["connect", "connect"]


def test_composed_and_decomposed_letters_are_one_term() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert Analyzer().terms(decomposed) == Analyzer().terms(composed) == ["café"]


def test_han_and_hiragana_give_a_term_a_character_and_katakana_stays_whole() -> None:
    assert Analyzer().terms("東京はラーメン town") == ["東", "京", "は", "ラーメン", "town"]


def test_combining_marks_stay_in_their_word() -> None:
    # हिन्दी holds two vowel signs and a virama, none of which is a letter to Python's \w
    assert Analyzer().terms("हिन्दी भाषा") == ["हिन्दी", "भाषा"]


def test_emoji_give_no_term() -> None:
    assert Analyzer().terms("fox 🦊👩\u200d🚀 \U0001f3fd") == ["fox"]


@given(st.text())
def test_any_text_gives_terms_that_are_their_own_terms(text: str) -> None:
    analyzer = Analyzer()
    terms = analyzer.terms(text)
    assert all(terms)
    # lower-casing can undo composition (İ), so compare in composed form
    again = analyzer.terms(" ".join(unicodedata.normalize("NFKC", term) for term in terms))
    assert len(again) >= len(terms)


def test_lone_surrogates_are_no_words() -> None:
    assert Analyzer().terms("fox \ud800 hen") == ["fox", "hen"]
