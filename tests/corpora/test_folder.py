import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import DataError, DuplicateId, SettingsError, SpanOutsideDocument, UnknownDocument
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, Run, TokenSpan
from longrank.corpora.catalog.folder import Format, check_run, load_folder, save_collection
from longrank.corpora.formats.beir import join_title
from longrank.corpora.store import DocumentStore

FORMATS: list[Format] = ["jsonl", "beir", "flexneuart"]
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
WORD = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n\r\x0b\x0c#\ufeff"), min_size=1, max_size=6)


@st.composite
def collections(draw: st.DrawFn) -> Collection:
    titles = draw(st.dictionaries(WORD, TEXT, min_size=1, max_size=4))
    documents = {name: Document(name, join_title(title, draw(TEXT)), title) for name, title in titles.items()}
    queries = {name: Query(name, draw(TEXT)) for name in draw(st.lists(WORD, unique=True, max_size=4))}
    known = st.sampled_from(list(documents))
    grades = {name: draw(st.dictionaries(known | WORD, st.integers(-1, 3), min_size=1)) for name in list(queries)[1:]}
    document = documents[draw(known)]
    spans = (
        GoldSpan("q", document.id, CharSpan(0, draw(st.integers(0, len(document.text)))), "planted"),
        GoldSpan("q", document.id, TokenSpan(3, 4, "chunks:477"), ""),
    )
    return Collection(draw(TEXT), documents, queries, Qrels(grades), spans[: draw(st.integers(0, 2))])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folders")


@pytest.fixture
def small() -> Collection:
    documents = {
        "d1": Document("d1", "Otters They swim in rivers.", "Otters"),
        "d2": Document("d2", "Untitled text.\nTwo lines."),
    }
    queries = {"q1": Query("q1", "who swims?"), "q2": Query("q2", "unjudged")}
    span = GoldSpan("q1", "d1", CharSpan(7, 16), "by hand")
    return Collection("small", documents, queries, Qrels({"q1": {"d1": 2, "d2": 0}}), (span,))


@pytest.mark.parametrize("format_name", FORMATS)
@given(collection=collections())
def test_loading_a_saved_collection_is_the_identity(folder: Path, format_name: Format, collection: Collection) -> None:
    save_collection(collection, folder / format_name, format=format_name)
    back = load_folder(folder / format_name)
    assert back == collection
    assert list(back.documents) == list(collection.documents)
    assert list(back.queries) == list(collection.queries)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_large_corpus_comes_through_a_store_and_is_the_same(
    tmp_path: Path, small: Collection, format_name: Format
) -> None:
    save_collection(small, tmp_path / "c", format=format_name)
    first, second = (load_folder(tmp_path / "c", large_bytes=10) for _ in range(2))
    assert isinstance(first.documents, DocumentStore)
    assert first == second == small
    assert len(list((tmp_path / "c" / ".longrank").iterdir())) == 1  # made once, found the second time
    save_collection(first, tmp_path / "c", format="jsonl")  # onto itself
    assert load_folder(tmp_path / "c") == small


def test_a_changed_corpus_is_not_served_from_the_old_store(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text('{"id": "d", "text": "old"}\n')
    assert load_folder(tmp_path, large_bytes=0).documents["d"].text == "old"
    path.write_text('{"id": "d", "text": "newer"}\n')
    assert load_folder(tmp_path, large_bytes=0).documents["d"].text == "newer"


def test_a_title_is_joined_once_or_left_apart(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "title": "Otters", "text": "They swim.", "metadata": {}}\n')
    assert load_folder(tmp_path).documents["d"] == Document("d", "Otters They swim.", "Otters")
    for size in (0, 10**6):
        apart = load_folder(tmp_path, include_title=False, large_bytes=size)
        assert apart.documents["d"] == Document("d", "They swim.", "Otters")
    assert load_folder(tmp_path, large_bytes=0).documents["d"].text == "Otters They swim."


def test_spans_counted_with_titles_are_not_read_without_them(tmp_path: Path, small: Collection) -> None:
    save_collection(small, tmp_path / "c", format="beir")
    with pytest.raises(SettingsError, match="include_title=True"):
        load_folder(tmp_path / "c", include_title=False)


def test_beir_splits_keep_their_own_queries(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(b'{"_id": "d", "text": "x"}\n'))
    names = ["train only", "both", "test only", "nowhere"]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps({"_id": n, "text": n}) + "\n" for n in names))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\ntrain only\td\t1\nboth\td\t1\n")
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\ntest only\td\t1\nboth\td\t0\n")
    assert list(load_folder(tmp_path).queries) == ["both", "test only", "nowhere"]
    assert load_folder(tmp_path, split="train").qrels == Qrels({"train only": {"d": 1}, "both": {"d": 1}})
    with pytest.raises(DataError, match="no split 'dev'; it has test, train"):
        load_folder(tmp_path, split="dev")


def test_judgements_of_a_query_in_two_splits_are_put_together_unless_they_contradict(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "x"}\n{"_id": "b", "text": "y"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "?"}\n')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\nq\tb\t1\n")
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t1\n")
    assert load_folder(tmp_path, split=["train", "test"]).qrels == Qrels({"q": {"a": 1, "b": 1}})
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t0\n")
    with pytest.raises(DataError, match="splits train, test: 'a' has grade 1 for query 'q' in one split and 0"):
        load_folder(tmp_path, split=["train", "test"])


def test_a_tsv_folder_is_named_by_itself_and_needs_neither_queries_nor_judgements(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("7\tfirst\n8\tsecond\n")
    collection = load_folder(tmp_path)
    assert collection.name == tmp_path.name
    assert list(collection.documents.values()) == [Document("7", "first"), Document("8", "second")]
    assert (collection.queries, len(collection.qrels), collection.spans) == ({}, 0, ())


def test_a_folder_must_hold_one_documents_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no documents file; exactly one is needed of: corpus\.jsonl \(beir\)"):
        load_folder(tmp_path)
    (tmp_path / "corpus.jsonl").touch()
    (tmp_path / "documents.jsonl").touch()
    with pytest.raises(DataError, match=r"holds corpus\.jsonl, documents\.jsonl"):
        load_folder(tmp_path)
    with pytest.raises(DataError, match="no folder"):
        load_folder(tmp_path / "absent")


def test_a_repeated_id_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "documents.jsonl").write_text('{"id": "d", "text": ""}\n\n{"id": "d", "text": ""}\n')
    with pytest.raises(DuplicateId, match=r"documents\.jsonl, line 3: id 'd' occurs a second time"):
        load_folder(tmp_path)
    with pytest.raises(DuplicateId, match=r"documents\.jsonl: .*documents number 1 and 2"):
        load_folder(tmp_path, large_bytes=0)


def test_judgements_of_absent_documents_are_refused_only_when_strict(tmp_path: Path, small: Collection) -> None:
    for grades in ({"q1": {"d1": 1, "d9": 1}}, {"q9": {"d1": 1}}):
        odd = Collection("odd", small.documents, small.queries, Qrels(grades))
        save_collection(odd, tmp_path / "c")
        assert load_folder(tmp_path / "c") == odd
        with pytest.raises(UnknownDocument, match=r"'d9'|'q9'"):
            load_folder(tmp_path / "c", strict=True)
    save_collection(small, tmp_path / "c")
    assert load_folder(tmp_path / "c", strict=True) == small


@pytest.mark.parametrize(
    ("span", "error"),
    [
        (GoldSpan("q1", "d9", CharSpan(0, 1), ""), UnknownDocument),
        (GoldSpan("q1", "d1", CharSpan(20, 28), ""), SpanOutsideDocument),  # the text has 27 characters
    ],
)
def test_spans_must_fit_their_documents(
    tmp_path: Path, small: Collection, span: GoldSpan, error: type[DataError]
) -> None:
    save_collection(Collection("c", small.documents, small.queries, small.qrels, [span]), tmp_path / "c")
    with pytest.raises(error, match=r"spans\.jsonl: "):
        load_folder(tmp_path / "c")


def test_a_run_of_another_collection_is_refused(small: Collection) -> None:
    check_run(Run("good", {"q1": {"d1": 1.0}, "q2": {}}), small)
    with pytest.raises(UnknownDocument, match=r"query 'q1' names 1 of 2 documents .* first 'd7'"):
        check_run(Run("bad", {"q1": {"d1": 1.0, "d7": 0.5}}), small)
    with pytest.raises(UnknownDocument, match="query 'q7' is not in collection 'small'"):
        check_run(Run("bad", {"q7": {"d1": 1.0}}), small)


def test_saving_replaces_a_saved_collection_but_nothing_else(tmp_path: Path, small: Collection) -> None:
    save_collection(small, tmp_path / "c", format="beir")
    save_collection(small, tmp_path / "c", format="flexneuart")
    assert load_folder(tmp_path / "c") == small
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(DataError, match="not a saved collection"):
        save_collection(small, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"
    with pytest.raises(SettingsError, match="known: jsonl, beir, flexneuart"):
        save_collection(small, tmp_path / "d", format="xml")  # type: ignore[arg-type]


def test_a_failed_save_leaves_the_earlier_one(tmp_path: Path, small: Collection) -> None:
    save_collection(small, tmp_path / "c")
    with pytest.raises(DataError, match="two words"):
        save_collection(Collection("bad", {}, {}, Qrels({"two words": {"d": 1}})), tmp_path / "c")
    assert load_folder(tmp_path / "c") == small
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]
