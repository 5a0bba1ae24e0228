import json
from pathlib import Path

import pytest

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import BadLine, BadSpan, DataError, SpanOutsideDocument, UnknownDocument
from longrank.core.types import CharSpan, Document, GoldSpan, Qrels, Query, TokenSpan
from longrank.positions.gold import (
    MarcoPassage,
    gold_estimator,
    marco_gold,
    marco_span,
    read_fira,
    read_fira_raw,
    read_marco_passages,
)

QUERY = Query("q", "?")


def test_spans_in_characters_and_tokens_meet_in_characters() -> None:
    document = Document("d", "one two, three four")
    spans = [
        GoldSpan("q", "d", TokenSpan(3, 5, "words-v1"), "hand"),  # tokens: one two , three four
        GoldSpan("q", "d", CharSpan(0, 3), "hand"),
    ]
    located = gold_estimator(spans, WordTokenizer()).locate(QUERY, document)
    assert [document.text[span.start : span.stop] for span in located.spans] == ["one", "three four"]


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (CharSpan(5, 99), "lies outside 'd' .*bytes or in another text"),
        (TokenSpan(0, 1, "bert-uncased"), "counts tokens of 'bert-uncased', but 'words-v1' was given"),
        (TokenSpan(0, 9, "words-v1"), "outside a text of 2 tokens"),
    ],
)
def test_spans_that_do_not_fit_say_why(span: CharSpan | TokenSpan, words: str) -> None:
    estimator = gold_estimator([GoldSpan("q", "d", span, "hand")], WordTokenizer())
    with pytest.raises(SpanOutsideDocument, match=words):
        estimator.locate(QUERY, Document("d", "two words"))


def test_a_pair_without_spans_is_not_located() -> None:
    assert not gold_estimator([]).locate(QUERY, Document("d", "text"))


def test_fira_snippets_are_read_in_document_order(tmp_path: Path) -> None:
    path = tmp_path / "snippets.txt"
    path.write_text("7 Q0 D_1_10 2\n7 Q0 D_1_2 0\n7 Q0 D_1_0 3\n8 Q0 D_1_0 1\n")
    first, second = read_fira(path)
    assert (first.query_id, first.document_id, first.grades) == ("7", "D_1", (3, 0, 2))
    assert first.record(at_least=2).relevant_slots == (0, 2)
    assert not second.record(at_least=2).located


@pytest.mark.parametrize("line", ["7 Q0 D1_0", "7 Q0 D1 2", "7 Q0 D1_0 high", "7 Q0 D1_0 1\n7 Q0 D1_0 1"])
def test_bad_fira_lines_name_their_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "snippets.txt"
    path.write_text(line + "\n")
    with pytest.raises(BadLine, match=f"line {line.count(chr(10)) + 1}"):
        read_fira(path)


def test_the_raw_release_is_read_by_majority_and_ties_go_up(tmp_path: Path) -> None:
    labels = ["0_NOT_RELEVANT", "0_NOT_RELEVANT", "3_PERFECT_ANSWER"], ["1_TOPIC_RELEVANT", "2_GOOD_ANSWER"]
    rows = ["id\tlabel\tc\td\te\tsnippet\tquery\tselection"]
    for number, votes in enumerate(labels):
        rows += [f"x\t{label}\t\t\t\tD5_{number}\t77\t" for label in votes]
    path = tmp_path / "raw.tsv"
    path.write_text("\n".join(rows) + "\n")
    (document,) = read_fira_raw(path)
    assert (document.query_id, document.document_id, document.grades) == ("77", "D5", (0, 2))


def test_raw_rows_without_a_label_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "raw.tsv"
    path.write_text("a\tb\nx\ty\n")
    with pytest.raises(BadLine, match="line 2"):
        read_fira_raw(path)


BODY = "Ärger über Öl. The answer is forty-two. Ende"


def test_marco_bytes_become_characters_of_the_joined_text(tmp_path: Path) -> None:
    start = len("Ärger über Öl. ".encode())  # 18 bytes, 15 characters
    stop = start + len("The answer is forty-two.")
    record = {
        "pid": "p1",
        "passage": "The answer is forty-two.",
        "spans": f"({start},{start + 10}),({start + 11},{stop})",
    }
    path = tmp_path / "passages.jsonl"
    path.write_text(json.dumps({**record, "docid": "d1"}) + "\n")
    head = "https://a.example\nTitel\n"
    document = Document("d1", head + BODY)
    (gold,) = marco_gold(
        read_marco_passages(path), Qrels({"q": {"p1": 2, "p9": 1}}), {"d1": document}, body_start=lambda _: len(head)
    )
    assert isinstance(gold.span, CharSpan)
    assert (start, gold.span.start - len(head)) == (18, 15)
    assert document.text[gold.span.start : gold.span.stop] == "The answer is forty-two."


def test_marco_spans_that_do_not_fit_say_why() -> None:
    document = Document("d", BODY)
    with pytest.raises(BadSpan, match="in two"):
        marco_span(MarcoPassage("p", "d", "rger", ((1, 5),)), document)
    with pytest.raises(SpanOutsideDocument, match="outside 'd'"):
        marco_span(MarcoPassage("p", "d", "x", ((0, 999),)), document)
    with pytest.raises(DataError, match="do not hold passage"):
        marco_span(MarcoPassage("p", "d", "Another text altogether", ((0, 10),)), document)
    with pytest.raises(UnknownDocument, match="'gone'"):
        list(marco_gold([MarcoPassage("p", "gone", "x", ((0, 1),))], Qrels({"q": {"p": 1}}), {}))


@pytest.mark.parametrize("line", ["not json", '{"pid": "p"}', '{"pid":"p","docid":"d","passage":"x","spans":""}'])
def test_bad_marco_lines_name_their_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "passages.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(BadLine, match="line 1"):
        list(read_marco_passages(path))
