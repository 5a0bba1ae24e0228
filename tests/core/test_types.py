import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import BadScore, BadSpan, DataError, SpanOutsideDocument
from longrank.core.types import CharSpan, Document, Qrels, Query, Run, RunNotes, SplitText, TokenSpan


@pytest.mark.parametrize("make", [lambda: Document("", "x"), lambda: Query("", "x"), lambda: Qrels({"": {"d": 1}})])
def test_empty_ids_are_refused(make: object) -> None:
    with pytest.raises(DataError, match="not empty"):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_refused_with_its_place(score: float) -> None:
    with pytest.raises(BadScore, match=r"'r'.*'d'.*'q'"):
        Run("r", {"q": {"d": score}})


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3)])
def test_impossible_spans_are_refused(start: int, stop: int) -> None:
    with pytest.raises(BadSpan, match=f"{start}-{stop}"):
        TokenSpan(start, stop, "words-v1")


def test_a_grade_must_be_an_integer() -> None:
    with pytest.raises(DataError, match=r"'d'.*1\.5"):
        Qrels({"q": {"d": 1.5}})  # type: ignore[dict-item]


def test_relevant_documents_are_those_at_least_so_relevant() -> None:
    qrels = Qrels({"q": {"a": 0, "b": 1, "c": 2, "d": -1}})
    assert qrels.relevant("q") == {"b", "c"}
    assert qrels.relevant("q", at_least=2) == {"c"}
    assert qrels.relevant("unknown") == frozenset()


def test_scores_equal_as_float32_tie_and_fall_by_id() -> None:
    # 1 and 1 + 1e-9 are the same float32, so the larger id comes first although its score is smaller
    assert Run("r", {"q": {"a": 1.0 + 1e-9, "b": 1.0}}).ranking("q") == ["b", "a"]


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.floats(-5, 5), min_size=1, max_size=12))
def test_a_ranking_is_a_permutation_with_falling_scores(row: dict[str, float]) -> None:
    order = Run("r", {"q": row}).ranking("q")
    scores = [float(np.float32(row[d])) for d in order]
    assert sorted(order) == sorted(row)
    assert scores == sorted(scores, reverse=True)


def test_top_keeps_the_best_and_the_notes() -> None:
    run = Run("r", {"q": {"a": 1.0, "b": 3.0, "c": 2.0}}, RunNotes(cut_documents=2))
    assert run.top(2).scores == {"q": {"b": 3.0, "c": 2.0}}
    assert run.top(2).notes.cut_documents == 2


def test_notes_add_up() -> None:
    assert RunNotes(1, 10, ("a",)) + RunNotes(2, 5, ("b",)) == RunNotes(3, 15, ("a", "b"))


def test_characters_and_tokens_of_a_span_agree() -> None:
    text = WordTokenizer().tokenize("one two  three, four")
    assert text.chars(TokenSpan(1, 3, "words-v1")) == CharSpan(4, 14)
    assert text.tokens(CharSpan(4, 14)) == TokenSpan(1, 3, "words-v1")
    assert text.tokens(CharSpan(5, 6)) == TokenSpan(1, 2, "words-v1")  # inside 'two'
    assert text.tokens(CharSpan(7, 9)) == TokenSpan(2, 2, "words-v1")  # the blanks


def test_a_span_of_another_tokenizer_or_past_the_end_is_refused() -> None:
    text = WordTokenizer().tokenize("one two")
    with pytest.raises(SpanOutsideDocument, match="another tokenizer"):
        text.chars(TokenSpan(0, 1, "bert-uncased"))
    with pytest.raises(SpanOutsideDocument):
        text.chars(TokenSpan(0, 3, "words-v1"))
    with pytest.raises(SpanOutsideDocument):
        text.tokens(CharSpan(0, 99))


def test_cut_tokens_are_those_no_span_covers() -> None:
    text = WordTokenizer().tokenize("a b c d e f")
    spans = (TokenSpan(0, 2, "words-v1"), TokenSpan(1, 4, "words-v1"))
    assert SplitText(text, spans).cut_tokens == 2
