import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import SettingsError
from longrank.core.types import CharSpan, Document, Query
from longrank.positions.matching import (
    MatchingEstimator,
    MatchSettings,
    PassageMatcher,
    prepare,
)

PASSAGE = "the small grey cat sat down on an old mat"
FILLER = "many years went by and nothing at all was heard of him in town or country"


def text_at(text: str, span: CharSpan) -> str:
    return text[span.start : span.stop]


def test_a_copy_in_other_case_and_spacing_is_found_as_substring() -> None:
    text = f"{FILLER}.\n\nThe  small Grey cat\nsat down on an old mat; {FILLER}"
    found = PassageMatcher().match(PASSAGE, text)
    assert (found.method, found.ratio) == ("substring", 1.0)
    assert text_at(text, found.spans[0]) == "The  small Grey cat\nsat down on an old mat"


def test_a_copy_with_words_changed_is_found_as_subsequence() -> None:
    # 'small' and 'old' are replaced: 8 of 10 words remain in order, no common substring has 80% of the characters
    text = f"{FILLER} the big grey cat sat down on an ugly mat {FILLER}"
    found = PassageMatcher().match(PASSAGE, text)
    assert (found.method, found.ratio) == ("subsequence", 0.8)
    assert text_at(text, found.spans[0]) == "the big grey cat sat down on an ugly mat"


def test_seven_tenths_is_enough_and_six_is_not() -> None:
    seven = "the X grey cat Y down on an Z mat"
    six = "the X grey cat Y down on an Z W"
    assert PassageMatcher().match(PASSAGE, f"{FILLER} {seven} {FILLER}").ratio == 0.7
    assert not PassageMatcher().match(PASSAGE, f"{FILLER} {six} {FILLER}")


def test_prepared_texts_give_the_same_answers() -> None:
    texts = [f"{FILLER} {PASSAGE} {FILLER}", f"{FILLER} the big grey cat sat down on an ugly mat", FILLER, ""]
    matcher = PassageMatcher()
    for text in texts:
        assert matcher.match(prepare(PASSAGE), prepare(text)) == matcher.match(PASSAGE, text)


@given(st.text(alphabet="abİ \n\t\u00a0ß", max_size=60))
def test_spans_stay_inside_texts_whose_case_changes_their_length(text: str) -> None:
    document = f"{text} {PASSAGE.upper()} {text}"
    found = PassageMatcher().match(PASSAGE, document)
    assert text_at(document, found.spans[0]) == PASSAGE.upper()


@pytest.mark.parametrize(("passage", "document"), [("four words are few", FILLER), ("", FILLER), (PASSAGE, " \n")])
def test_short_passages_and_empty_documents_are_not_located_with_a_reason(passage: str, document: str) -> None:
    found = PassageMatcher().match(passage, document)
    assert not found
    assert "words" in found.reason


def test_a_document_of_a_million_characters_is_searched() -> None:
    text = ("lorem ipsum dolor sit amet " * 40_000)[:1_000_000] + " " + PASSAGE
    found = PassageMatcher().match(PASSAGE, text)
    assert text_at(text, found.spans[0]) == PASSAGE


def test_a_substring_threshold_of_one_half_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"\(.5, 1\]"):
        PassageMatcher(MatchSettings(substring=0.5))


def test_an_estimator_gives_all_passages_of_a_query_in_order() -> None:
    other = "rain fell upon the tin roof all night long"
    text = f"{PASSAGE}. {FILLER}. {other}"
    estimator = MatchingEstimator({"q": [other, PASSAGE]}, PassageMatcher())
    found = estimator.locate(Query("q", "?"), Document("d", text))
    assert [text_at(text, span) for span in found.spans] == [PASSAGE, other]
    assert not estimator.locate(Query("unknown", "?"), Document("d", text))
