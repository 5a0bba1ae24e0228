import pytest

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import SpanOutsideDocument
from longrank.core.types import CharSpan, Collection, Document, Qrels, Query, TokenSpan
from longrank.positions.showing import mark_evidence
from longrank.positions.statistics import PASSAGE_LABELS, collapse, collection_statistics


def spans(*pairs: tuple[int, int]) -> list[TokenSpan]:
    return [TokenSpan(start, stop, "w") for start, stop in pairs]


def test_counts_and_means_of_a_small_collection() -> None:
    documents = {"a": Document("a", "one two three"), "b": Document("b", "one"), "c": Document("c", "")}
    queries = {"1": Query("1", "what now"), "2": Query("2", "why"), "3": Query("3", "x")}
    qrels = Qrels({"1": {"a": 2, "b": 1, "c": 0}, "2": {"a": 1}, "gone": {"a": 1}})
    found = collection_statistics(Collection("toy", documents, queries, qrels), WordTokenizer())
    assert (found.documents, found.longest_document, found.queries) == (3, 3, 3)
    assert (found.document_tokens, found.query_tokens) == pytest.approx((4 / 3, 4 / 3))
    assert (found.judged_queries, found.relevant_per_query) == (2, 1.5)


def test_an_empty_collection_has_zeros() -> None:
    found = collection_statistics(Collection("none", {}, {}, Qrels({})), WordTokenizer())
    assert (found.document_tokens, found.query_tokens, found.relevant_per_query) == (0, 0, 0)


def test_sentences_collapse_up_to_the_limit() -> None:
    # 0-40, 45-90 and 100-130 end within 130 of token 0; 131-140 begins a passage that 250-261 just fits
    sentences = spans((45, 90), (0, 40), (131, 140), (100, 130), (250, 261))
    assert collapse(sentences) == spans((0, 130), (131, 261))
    assert collapse(sentences, max_tokens=50) == spans((0, 40), (45, 90), (100, 140), (250, 261))


def test_a_sentence_longer_than_the_limit_stays_whole() -> None:
    assert collapse(spans((0, 300), (310, 320))) == spans((0, 300), (310, 320))


def test_labels_are_those_of_the_parade_paper() -> None:
    assert (PASSAGE_LABELS["gov2"], PASSAGE_LABELS["fira"], PASSAGE_LABELS["genomics"]) == (3, 3, 1)


def test_evidence_is_marked_once_where_spans_meet() -> None:
    text = "abcdefgh"
    assert mark_evidence(text, [CharSpan(4, 6), CharSpan(1, 3), CharSpan(2, 4)]) == "a**bcdef**gh"
    assert mark_evidence(text, [CharSpan(0, 2)], mark=str.upper) == "ABcdefgh"
    assert mark_evidence(text, []) == text


def test_context_leaves_out_what_is_far_from_evidence() -> None:
    text = "a" * 50 + "EVIDENCE" + "b" * 50 + "MORE" + "c" * 50
    shown = mark_evidence(text, [CharSpan(50, 58), CharSpan(108, 112)], context=5)
    assert shown == " [...] aaaaa**EVIDENCE**bbbbb [...] bbbbb**MORE**ccccc [...] "


def test_evidence_outside_the_text_is_refused() -> None:
    with pytest.raises(SpanOutsideDocument, match="outside a text of 3"):
        mark_evidence("abc", [CharSpan(1, 9)])
