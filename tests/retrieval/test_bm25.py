"""BM25 against a plain formula, on disk and at its edges."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.contracts import Retriever
from longrank.core.errors import DataError, DuplicateId, SettingsError, StaleIndex, UnknownDocument
from longrank.core.types import Document, Query, Run
from longrank.retrieval import BM25, AnalysisSettings, BM25Settings, index, kernel

FOX = [
    Document("d1", "the red fox"),
    Document("d2", "red red hen in the red barn"),
    Document("d3", "a quiet pond"),
    Document("d4", ""),
]
WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=12).map(" ".join)


def plain_bm25(texts: list[str], query: str, *, k1: float, b: float) -> list[float]:
    """The formula written out, independent of the package."""
    documents = [text.split() for text in texts]
    mean = sum(map(len, documents)) / len(documents) or 1.0
    result = []
    for words in documents:
        counts, total = Counter(words), 0.0
        for word in query.split():
            having = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
            if counts[word]:
                total += idf * counts[word] / (counts[word] + k1 * (1 - b + b * len(words) / mean))
        result.append(total)
    return result


@pytest.fixture
def fox(tmp_path: Path) -> BM25:
    return BM25.build(FOX, tmp_path / "index", BM25Settings())


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(WORDS, min_size=1, max_size=8),
    query=WORDS,
    k1=st.floats(0, 3),
    b=st.floats(0, 1),
    late=st.booleans(),
)
def test_scores_equal_the_plain_formula(texts: list[str], query: str, k1: float, b: float, late: bool) -> None:
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    with TemporaryDirectory() as folder:
        built = BM25.build(documents, Path(folder) / "index", BM25Settings() if late else BM25Settings(k1=k1, b=b))
        row = built.at(k1=k1, b=b).retrieve([Query("q", query)], depth=10).scores["q"]
    expected = {f"d{i}": s for i, s in enumerate(plain_bm25(texts, query, k1=k1, b=b)) if s > 0}
    assert row == pytest.approx(expected, rel=1e-5)


def test_a_hand_worked_score(fox: BM25) -> None:
    # 4 documents of 3, 7, 3 and 0 terms: mean 3.25; 'hen' is in one: idf = ln(1 + 3.5 / 1.5) = 1.20397
    # norm of d2 = 1.2 (0.25 + 0.75 * 7 / 3.25) = 2.23846; score = 1.20397 / (1 + 2.23846) = 0.371773
    run = fox.retrieve([Query("q", "hen")], depth=10)
    assert run.scores["q"] == pytest.approx({"d2": 0.371773}, rel=1e-5)


def test_it_is_a_retriever_that_keeps_depth_and_order(fox: BM25) -> None:
    assert isinstance(fox, Retriever)
    row = fox.retrieve([Query("q", "red the pond")], depth=2).scores["q"]
    assert len(row) == 2
    assert list(row.values()) == sorted(row.values(), reverse=True)


def test_equal_scores_come_by_id_falling_at_the_cut_too(tmp_path: Path) -> None:
    documents = [Document(name, "same text") for name in ("b", "d", "a", "c")]
    built = BM25.build(documents, tmp_path / "index")
    assert list(built.retrieve([Query("q", "same")], depth=3).scores["q"]) == ["d", "c", "b"]


def test_a_repeated_query_term_counts_twice(fox: BM25) -> None:
    run = fox.retrieve([Query("once", "fox"), Query("twice", "fox fox")], depth=1)
    assert run.scores["twice"]["d1"] == pytest.approx(2 * run.scores["once"]["d1"])


def test_only_documents_that_share_a_term_are_found(fox: BM25) -> None:
    assert set(fox.retrieve([Query("q", "red zebra")], depth=10).scores["q"]) == {"d1", "d2"}


@pytest.mark.parametrize("text", ["", "zebra", "?!", "🦊"])
def test_a_query_without_known_terms_gives_an_empty_row_and_is_noted(fox: BM25, text: str) -> None:
    run = fox.retrieve([Query("q", text), Query("r", "fox")], depth=10)
    assert run.scores["q"] == {} and run.notes.dropped_queries == ("q",)
    assert list(run.scores["r"]) == ["d1"]


def test_a_query_of_ten_thousand_words_works(fox: BM25) -> None:
    long = " ".join(f"word{i} red" for i in range(5000))
    once = fox.retrieve([Query("q", "red")], depth=1).scores["q"]["d2"]
    assert fox.retrieve([Query("q", long)], depth=1).scores["q"]["d2"] == pytest.approx(5000 * once, rel=1e-5)


def test_unicode_is_found_again(tmp_path: Path) -> None:
    documents = [
        Document("東-1", "東京タワー"),
        Document("emoji 🦊", "👩\u200d🚀 cafe\u0301"),
        Document("é", "caf\u00e9 noir"),
    ]
    built = BM25.build(documents, tmp_path / "index")
    run = built.retrieve([Query("q", "京"), Query("r", "CAFÉ")], depth=5)
    assert list(run.scores["q"]) == ["東-1"]
    assert set(run.scores["r"]) == {"emoji 🦊", "é"}


def test_a_reopened_index_gives_identical_runs(fox: BM25) -> None:
    queries = [Query("q", "the red fox"), Query("r", "quiet barn")]
    again = BM25.open(fox.postings.folder, documents=FOX)
    assert again.retrieve(queries, depth=3) == fox.retrieve(queries, depth=3)


@pytest.mark.parametrize(
    "changed",
    [
        FOX[:-1],
        [*FOX[:-1], Document("d4", "x")],
        [*FOX[:-1], Document("d5", "")],
        FOX[::-1],
        [*FOX[:-1], Document("d4", "", "t")],
    ],
)
def test_an_index_of_other_documents_is_refused(fox: BM25, changed: list[Document]) -> None:
    with pytest.raises(StaleIndex, match="other documents"):
        BM25.open(fox.postings.folder, documents=changed)


def test_an_index_read_otherwise_is_refused_and_other_parameters_are_not(fox: BM25) -> None:
    with pytest.raises(StaleIndex, match="other settings"):
        fox.suited(BM25Settings(analysis=AnalysisSettings(stop_words="english")))
    assert fox.suited(BM25Settings(k1=0.9, b=0.4)).k1 == 0.9


def test_an_interrupted_build_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    def breaking() -> Iterator[Document]:
        yield FOX[0]
        raise KeyboardInterrupt

    place = tmp_path / "index"
    with pytest.raises(KeyboardInterrupt):
        BM25.build(breaking(), place)
    assert list(tmp_path.iterdir()) == []
    BM25.build(FOX, place)
    with pytest.raises(KeyboardInterrupt):
        BM25.build(breaking(), place)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert BM25.open(place, documents=FOX).retrieve([Query("q", "fox")], depth=1).ranking("q") == ["d1"]


def test_spilling_in_small_pieces_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    documents = [Document(f"d{i}", " ".join(f"w{n}" for n in rng.integers(0, 50, i % 30))) for i in range(80)]
    BM25.build(documents, tmp_path / "whole")
    monkeypatch.setattr(index, "SPILL_TOKENS", 7)
    BM25.build(documents, tmp_path / "pieces")
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "pieces" / path.name).read_bytes(), path.name


def test_documents_are_read_once(tmp_path: Path) -> None:
    one_pass = iter(FOX)
    assert len(BM25.build(one_pass, tmp_path / "index").postings.ids) == 4


@pytest.mark.parametrize("documents", [[], [Document("only", "")]])
def test_an_index_without_terms_finds_nothing(tmp_path: Path, documents: list[Document]) -> None:
    built = BM25.build(documents, tmp_path / "index")
    assert built.retrieve([Query("q", "fox")], depth=5).scores == {"q": {}}


def test_an_id_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DuplicateId, match="'d1' occurs twice"):
        BM25.build([FOX[0], FOX[0]], tmp_path / "index")


def test_an_id_with_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line breaks"):
        BM25.build([Document("a\nb", "x")], tmp_path / "index")


def test_a_folder_without_an_index_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no readable index"):
        BM25.open(tmp_path)


def test_impossible_parameters_are_refused(fox: BM25) -> None:
    with pytest.raises(SettingsError, match="0 <= b <= 1"):
        fox.at(k1=1.2, b=1.5)
    with pytest.raises(SettingsError, match="k1 = nan"):
        fox.at(k1=math.nan, b=0.5)
    with pytest.raises(SettingsError, match="depth"):
        fox.retrieve([], depth=0)


def test_stop_words_and_title_are_read_as_set(tmp_path: Path) -> None:
    chosen = BM25Settings(analysis=AnalysisSettings(stop_words="english"), fields=("title", "text"))
    built = BM25.build([Document("d", "the fox", "a Hen")], tmp_path / "index", chosen)
    assert built.postings.terms == ["hen", "fox"]
    assert built.postings.lengths.tolist() == [2]


def test_a_title_that_begins_the_text_is_indexed_once(tmp_path: Path) -> None:
    documents = [Document("joined", "Hen the fox", "Hen"), Document("apart", "the fox", "Hen")]
    built = BM25.build(documents, tmp_path / "index", BM25Settings(fields=("title", "text")))
    assert built.postings.lengths.tolist() == [3, 3]
    only = BM25.build(documents, tmp_path / "titles", BM25Settings(fields=("title",)))
    assert only.postings.lengths.tolist() == [1, 1]


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="is not an index of BM25"):
        BM25.build([Document("a", "x")], tmp_path)
    assert (tmp_path / "thesis.txt").is_file()


def test_bm25s_opens_the_index_and_gives_the_same_scores(fox: BM25) -> None:
    pytest.importorskip("bm25s")
    for words in (["red", "hen"], ["the"]):
        theirs = fox.as_bm25s().get_scores(words)
        ours = fox.scores(fox.weights(Query("q", " ".join(words))))
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_rescoring_gives_every_candidate_its_score(fox: BM25) -> None:
    query = Query("q", "red hen")
    row = fox.rescore([query], Run("r", {"q": {"d4": 9.0, "d2": 1.0}})).scores["q"]
    assert row == {"d4": 0.0, "d2": fox.retrieve([query], depth=5).scores["q"]["d2"]}
    with pytest.raises(UnknownDocument, match="'d9'"):
        fox.rescore([query], Run("r", {"q": {"d9": 1.0}}))


@pytest.mark.slow
def test_compiled_and_plain_search_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(1)
    documents = [Document(f"d{i}", " ".join(f"w{n}" for n in rng.integers(0, 9, 6))) for i in range(3000)]
    built = BM25.build(documents, tmp_path / "index")
    queries = [Query(f"q{i}", " ".join(f"w{n}" for n in rng.integers(0, 10, 4))) for i in range(20)]
    plain = [built.retrieve(queries, depth=depth) for depth in (1, 10, 5000)]
    monkeypatch.setattr(kernel, "COMPILE_FROM", 1)
    assert [built.retrieve(queries, depth=depth) for depth in (1, 10, 5000)] == plain


@given(
    st.lists(st.tuples(st.floats(-10, 10, width=32), st.integers(0, 99)), min_size=1, unique_by=lambda pair: pair[1])
)
def test_keys_order_documents_as_runs_do(pairs: list[tuple[float, int]]) -> None:
    scores = np.array([score for score, _ in pairs], dtype=np.float32)
    ranks = np.array([rank for _, rank in pairs], dtype=np.int32)
    found = kernel.largest(kernel.keys(scores, ranks), len(pairs))
    expected = sorted(zip(scores.tolist(), ranks.tolist(), strict=True), reverse=True)
    assert list(zip(kernel.key_scores(found).tolist(), kernel.key_ranks(found).tolist(), strict=True)) == expected
