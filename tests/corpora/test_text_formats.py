import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import BadLine, DataError, DuplicateId
from longrank.core.types import CharSpan, Document, GoldSpan, Qrels, Query, TokenSpan
from longrank.corpora.formats import beir, flexneuart, jsonl, spans, tsv

ANY = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["", " ", "\t", "\n", "\r\n", "\u2028", "\x85", "\x00", "\\n", '"', "\ufeff", "\\ud800", "日本語 🎈", "a\tb\nc"]
)
IDS = ANY.filter(bool)
ONE_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff"), max_size=30)
documents = st.lists(st.builds(Document, IDS, ANY, ANY), max_size=5)
queries = st.lists(st.builds(Query, IDS, ANY), max_size=5)
endings = st.sampled_from(["", ".gz", ".bz2"])

ReadDocuments = Callable[[Path], Iterator[Document]]
WriteDocuments = Callable[[Path, Iterable[Document]], None]
ReadQueries = Callable[[Path], Iterator[Query]]
WriteQueries = Callable[[Path, Iterable[Query]], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


def joined(document: Document) -> Document:
    return Document(document.id, beir.join_title(document.title, document.text), document.title)


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (jsonl.read_documents, jsonl.write_documents),
        (flexneuart.read_documents, flexneuart.write_documents),
    ],
)
@given(items=documents, ending=endings)
def test_reading_written_documents_is_the_identity(
    folder: Path, read: ReadDocuments, write: WriteDocuments, items: list[Document], ending: str
) -> None:
    write(folder / f"documents{ending}", items)
    assert list(read(folder / f"documents{ending}")) == items


@given(items=documents, ending=endings)
def test_reading_a_written_beir_corpus_is_the_identity_once_titles_are_joined(
    folder: Path, items: list[Document], ending: str
) -> None:
    path = folder / f"corpus.jsonl{ending}"
    beir.write_corpus(path, map(joined, items))
    assert list(beir.read_corpus(path)) == [joined(item) for item in items]
    assert list(beir.read_corpus(path, include_title=False)) == items  # the body and the title stand apart in the file


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (jsonl.read_queries, jsonl.write_queries),
        (beir.read_queries, beir.write_queries),
        (flexneuart.read_queries, flexneuart.write_queries),
    ],
)
@given(items=queries, ending=endings)
def test_reading_written_queries_is_the_identity(
    folder: Path, read: ReadQueries, write: WriteQueries, items: list[Query], ending: str
) -> None:
    write(folder / f"queries{ending}", items)
    assert list(read(folder / f"queries{ending}")) == items


@given(items=st.lists(st.builds(Document, ONE_LINE.filter(bool), ONE_LINE), max_size=5), ending=endings)
def test_reading_written_tsv_is_the_identity(folder: Path, items: list[Document], ending: str) -> None:
    tsv.write_documents(folder / f"documents.tsv{ending}", items)
    assert list(tsv.read_documents(folder / f"documents.tsv{ending}")) == items


@given(item=st.builds(Query, IDS, ANY))
def test_tsv_gives_a_query_back_or_refuses_it(folder: Path, item: Query) -> None:
    try:
        tsv.write_queries(folder / "query.tsv", [item])
    except DataError:
        assert any(mark in item.id + item.text for mark in "\t\n\r\ufeff")
    else:
        assert list(tsv.read_queries(folder / "query.tsv")) == [item]


GOLD = st.builds(
    lambda query, document, start, size, tokenizer, source: GoldSpan(
        query,
        document,
        TokenSpan(start, start + size, tokenizer) if tokenizer else CharSpan(start, start + size),
        source,
    ),
    IDS,
    IDS,
    st.integers(0, 10**7),
    st.integers(0, 500),
    st.sampled_from(["", "words-v1", "chunks:477", "chunks:chunks:109", "bert"]),
    ANY,
)


@given(items=st.lists(GOLD, max_size=5), ending=endings)
def test_reading_written_spans_is_the_identity(folder: Path, items: list[GoldSpan], ending: str) -> None:
    spans.write_spans(folder / f"spans.jsonl{ending}", items)
    assert list(spans.read_spans(folder / f"spans.jsonl{ending}")) == items


def test_a_span_of_chunks_says_so_in_the_file(tmp_path: Path) -> None:
    spans.write_spans(tmp_path / "s.jsonl", [GoldSpan("q", "d", TokenSpan(2, 3, "chunks:477"), "planted")])
    assert json.loads((tmp_path / "s.jsonl").read_text()) == {
        "query_id": "q",
        "document_id": "d",
        "start": 2,
        "stop": 3,
        "unit": "chunks",
        "tokenizer": "477",
        "source": "planted",
    }


@given(grades=st.dictionaries(ONE_LINE.filter(bool), st.dictionaries(ONE_LINE.filter(bool), st.integers(), min_size=1)))
def test_reading_written_beir_judgements_is_the_identity(folder: Path, grades: dict[str, dict[str, int]]) -> None:
    beir.write_qrels(folder / "test.tsv", Qrels(grades))
    assert beir.read_qrels(folder / "test.tsv") == Qrels(grades)


def test_beir_judgements_without_a_header_lose_no_line(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("q 1\td 1\t2\n")
    assert beir.read_qrels(tmp_path / "t.tsv") == Qrels({"q 1": {"d 1": 2}})


@pytest.mark.parametrize(
    ("line", "reason"), [("q\td", "three columns"), ("q\t\t1", "not empty"), ("q\td\t1.5", "not a whole number")]
)
def test_a_bad_beir_judgement_names_its_line(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "t.tsv").write_text(f"query-id\tcorpus-id\tscore\n{line}\n")
    with pytest.raises(BadLine, match="line 2") as caught:
        beir.read_qrels(tmp_path / "t.tsv")
    assert reason in caught.value.reason


def test_a_beir_pair_judged_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\nq\td\t0\n")
    with pytest.raises(DuplicateId, match="line 3"):
        beir.read_qrels(tmp_path / "t.tsv")


def test_a_title_that_does_not_open_the_text_cannot_be_beir(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"does not begin with its title 'Otters'.* save as jsonl"):
        beir.write_corpus(tmp_path / "corpus.jsonl", [Document("d", "They swim.", "Otters")])
    assert not (tmp_path / "corpus.jsonl").exists()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON object is needed"),
        ("[" * 100_000, "not JSON"),
        ('{"text": "x"}', "'id' must be a string, got None; it has fields 'text'"),
        ('{"id": 7, "text": "x"}', "'id' must be a string, got 7"),
        ('{"id": "", "text": "x"}', "'id' is empty"),
        ('{"id": "d", "text": null}', "'text' must be a string"),
        ('{"id": "d", "text": "x", "title": 3}', "'title' must be a string"),
        ('{"id": "d", "text": "\\uD83d"}', "half of a surrogate pair"),
    ],
)
def test_a_bad_document_names_file_line_and_reason(tmp_path: Path, bad: str, reason: str) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text(f'{{"id": "a", "text": "escaped \\ud83d\\ude00"}}\n\n{bad}\n')
    with pytest.raises(BadLine, match=r"documents\.jsonl, line 3") as caught:
        list(jsonl.read_documents(path))
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"start": -1}, "span -1-9 is impossible"),
        ({"start": 10}, "span 10-9 is impossible"),
        ({"start": 1.0}, "'start' must be a whole number"),
        ({"stop": True}, "'stop' must be a whole number"),
        ({"unit": "bytes"}, "unit 'bytes' is not known; it is one of characters, tokens, chunks"),
        ({"tokenizer": None}, "'tokenizer' must name what counts the tokens"),
        ({"tokenizer": "chunks:477"}, "counts chunks"),
        ({"document_id": ""}, "'document_id' is empty"),
    ],
)
def test_a_bad_span_names_its_line_and_reason(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    good = {"query_id": "q", "document_id": "d", "start": 1, "stop": 9, "unit": "tokens", "tokenizer": "t"}
    (tmp_path / "spans.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(good | change)}\n")
    with pytest.raises(BadLine, match="line 2") as caught:
        list(spans.read_spans(tmp_path / "spans.jsonl"))
    assert reason in caught.value.reason


def test_a_span_that_nobody_counted_cannot_be_written(tmp_path: Path) -> None:
    for tokenizer in ("", "chunks:"):
        with pytest.raises(DataError, match="does not say what counts"):
            spans.write_spans(tmp_path / "s", [GoldSpan("q", "d", TokenSpan(0, 1, tokenizer), "")])


@pytest.mark.parametrize(
    ("bad", "reason"), [("no tab", "1 columns"), ("d\turl\ttext", "3 columns"), ("\ttext", "the id before the tab")]
)
def test_a_bad_tsv_line_names_its_line_and_reason(tmp_path: Path, bad: str, reason: str) -> None:
    (tmp_path / "c.tsv").write_text(f"a\t\n{bad}\n")
    with pytest.raises(BadLine, match="line 2") as caught:
        list(tsv.read_documents(tmp_path / "c.tsv"))
    assert reason in caught.value.reason


def test_a_title_has_no_place_in_tsv(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has a title"):
        tsv.write_documents(tmp_path / "c.tsv", [Document("d", "text", "title")])


def test_half_a_surrogate_pair_is_refused_when_writing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="half of a surrogate pair"):
        jsonl.write_documents(tmp_path / "documents.jsonl.gz", [Document("d", "a \ud800 b")])
    assert list(tmp_path.iterdir()) == []
