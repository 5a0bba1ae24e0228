from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import SettingsError
from longrank.core.types import CharSpan, Collection, Document, Qrels, Query, Run
from longrank.positions.matching import (
    MatchingEstimator,
    MatchSettings,
    Passage,
    PassageMatcher,
    prepare,
    recover,
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


class FixedRetriever:
    """Returns the same documents for every query and remembers what it was asked."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores, self.asked = scores, list[str]()

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        wanted = list(queries)
        self.asked += [query.text for query in wanted]
        return Run("fixed", {query.id: self.scores for query in wanted}).top(depth)


def test_relevant_documents_come_before_retrieved_ones_and_higher_ratios_before_lower() -> None:
    edited = f"{FILLER} the big grey cat sat down on an ugly mat"
    documents = {
        "whole": Document("whole", f"{FILLER} {PASSAGE}"),
        "early": Document("early", PASSAGE),
        "edited": Document("edited", edited),
        "other": Document("other", FILLER),
    }
    queries = {name: Query(name, name) for name in ("q1", "q2", "q3")}
    qrels = Qrels({"q1": {"edited": 1, "whole": 1, "early": 1}, "q2": {"other": 1}, "q3": {"edited": 1}})
    collection = Collection("toy", documents, queries, qrels)
    retriever = FixedRetriever({"edited": 3.0, "whole": 2.0, "gone": 1.0})
    passages = [Passage(f"p{number}", f"q{number}", PASSAGE) for number in (1, 2, 3)]
    first, second, third = recover(passages, collection, retriever=retriever)
    assert (first.document_id, first.stage) == ("early", "relevant")  # ratio 1 twice: the earlier position
    assert (second.document_id, second.stage) == ("whole", "retrieved")  # the better match, not the better score
    assert (third.document_id, third.stage, third.located.ratio) == ("edited", "relevant", 0.8)
    assert retriever.asked == [PASSAGE]


def test_a_passage_found_nowhere_is_reported_with_a_reason() -> None:
    collection = Collection("toy", {"d": Document("d", FILLER)}, {"q": Query("q", "?")}, Qrels({"q": {"d": 1}}))
    long, short = recover([Passage("p", "q", PASSAGE), Passage("s", "q", "too short")], collection)
    assert long.document_id is None
    assert "1 relevant documents" in long.located.reason
    assert "2 words" in short.located.reason


def test_an_estimator_gives_all_passages_of_a_query_in_order() -> None:
    other = "rain fell upon the tin roof all night long"
    text = f"{PASSAGE}. {FILLER}. {other}"
    estimator = MatchingEstimator({"q": [other, PASSAGE]}, PassageMatcher())
    found = estimator.locate(Query("q", "?"), Document("d", text))
    assert [text_at(text, span) for span in found.spans] == [PASSAGE, other]
    assert not estimator.locate(Query("unknown", "?"), Document("d", text))
