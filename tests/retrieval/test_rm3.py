"""RM3 worked by hand."""

import math
from pathlib import Path

import pytest

from longrank.core.types import Document, Query
from longrank.retrieval import BM25, BM25Settings
from longrank.retrieval.rm3 import RM3, RM3Settings

DOCUMENTS = [
    Document("d1", "fox den den"),
    Document("d2", "fox cub"),
    Document("d3", "den owl"),
    Document("d4", "pond"),
]
SETTINGS = RM3Settings(documents=2, terms=2, original_weight=0.6, max_share=1.0)


@pytest.fixture
def bm25(tmp_path: Path) -> BM25:
    # b = 0 keeps the arithmetic short: every score is idf * tf / (tf + 1)
    return BM25.build(DOCUMENTS, tmp_path / "index", BM25Settings(k1=1.0, b=0.0))


def test_the_expansion_is_the_hand_worked_one(bm25: BM25) -> None:
    # query 'fox': d1 and d2 each score idf(fox) / 2, so each has half the feedback weight
    # d1: fox 1/3, den 2/3; d2: fox 1/2, cub 1/2
    # sums: fox 1/6 + 1/4 = 5/12, den 1/3 = 4/12, cub 3/12; best two: fox 5/9, den 4/9
    # mix: fox 0.6 + 0.4 * 5/9, den 0.4 * 4/9
    (expansion,) = RM3(bm25, SETTINGS).explain([Query("q", "fox")])
    assert [term.term for term in expansion.terms] == ["fox", "den"]
    assert [term.weight for term in expansion.terms] == pytest.approx([0.6 + 0.4 * 5 / 9, 0.4 * 4 / 9])
    assert [term.original for term in expansion.terms] == pytest.approx([0.6, 0.0])


def test_the_whole_collection_is_searched_again(bm25: BM25) -> None:
    # idf: fox and den are in 2 of 4 documents, so both ln 2; tf parts: d1 fox 1/2, den 2/3; d2 fox 1/2; d3 den 1/2
    fox, den, idf = 0.6 + 0.4 * 5 / 9, 0.4 * 4 / 9, math.log(2)
    row = RM3(bm25, SETTINGS).retrieve([Query("q", "fox")], depth=10).scores["q"]
    assert row == pytest.approx(
        {"d1": idf * (fox / 2 + den * 2 / 3), "d2": idf * fox / 2, "d3": idf * den / 2}, rel=1e-6
    )
    assert list(row) == ["d1", "d2", "d3"]


def test_feedback_counts_by_score(tmp_path: Path) -> None:
    documents = [Document("d1", "fox fox fox den"), Document("d2", "fox cub owl hen"), Document("d3", "pond")]
    bm25 = BM25.build(documents, tmp_path / "index", BM25Settings(k1=1.0, b=0.0))
    # tf parts 3/4 and 1/2: feedback weights 0.6 and 0.4; den 0.6 / 4 = 0.15, cub 0.4 / 4 = 0.1
    rm3 = RM3(bm25, RM3Settings(documents=2, terms=10, original_weight=0.0, max_share=1.0))
    weights = {term.term: term.weight for term in rm3.explain([Query("q", "fox")])[0].terms}
    assert weights == pytest.approx({"fox": 0.6 * 0.75 + 0.1, "den": 0.15, "cub": 0.1, "owl": 0.1, "hen": 0.1})


def test_the_original_query_alone_keeps_the_ranking(bm25: BM25) -> None:
    query = Query("q", "fox den")
    alone = RM3(bm25, RM3Settings(original_weight=1.0)).retrieve([query], depth=10)
    plain = bm25.retrieve([query], depth=10)
    assert alone.ranking("q") == plain.ranking("q")
    # two terms share the weight, so every score is half of BM25's
    assert alone.scores["q"] == pytest.approx({d: s / 2 for d, s in plain.scores["q"].items()})


def test_frequent_terms_are_not_added(bm25: BM25) -> None:
    # fox and den are in half of the documents, cub in a quarter
    rm3 = RM3(bm25, SETTINGS.model_copy(update={"max_share": 0.25, "least_documents": 0}))
    assert {term.term for term in rm3.explain([Query("q", "fox")])[0].terms} == {"fox", "cub"}


def test_without_any_feedback_the_query_stays_as_it_is(bm25: BM25) -> None:
    rm3 = RM3(bm25, SETTINGS.model_copy(update={"max_share": 0.01, "least_documents": 0}))
    (expansion,) = rm3.explain([Query("q", "fox")])
    assert [(term.term, term.weight) for term in expansion.terms] == [("fox", 1.0)]


def test_empty_unknown_and_long_queries_work(bm25: BM25) -> None:
    queries = [Query("empty", ""), Query("unknown", "zebra"), Query("long", "fox den " * 5000)]
    run = RM3(bm25, SETTINGS).retrieve(queries, depth=10)
    assert run.scores["empty"] == run.scores["unknown"] == {}
    assert run.notes.dropped_queries == ("empty", "unknown")
    assert run.ranking("long")[0] == "d1"


def test_a_very_small_collection_is_widened_too(bm25: BM25) -> None:
    # a tenth of four documents is less than one, and would leave no term at all
    assert len(RM3(bm25).explain([Query("q", "fox")])[0].terms) > 1
