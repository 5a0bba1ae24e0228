"""First stages put together and tuned."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from longrank.core.errors import SettingsError
from longrank.core.types import Collection, Document, Qrels, Query, Run
from longrank.retrieval import BM25, Analyzer
from longrank.retrieval.dense import Dense
from longrank.retrieval.hybrid import Hybrid
from longrank.retrieval.model1 import training_pairs
from longrank.retrieval.rm3 import RM3, RM3Settings
from longrank.retrieval.search import Lexical, Tuner

COLOURS = ("rot", "blau", "gelb", "weiss")
ENGLISH = dict(zip(COLOURS, ("red", "blue", "yellow", "white"), strict=True))


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """German and English words of a colour have one axis."""
    return np.array(
        [[sum(w in (german, ENGLISH[german]) for w in text.split()) for german in COLOURS] for text in texts],
        dtype=np.float32,
    )


@pytest.fixture
def collection() -> Collection:
    """Queries ask in German for a house of a colour; a relevant document says the colour in English."""
    documents = {f"d{i}": Document(f"d{i}", f"haus {ENGLISH[COLOURS[i % 4]]} plot{i}") for i in range(16)}
    queries = {f"q{i}": Query(f"q{i}", f"haus {COLOURS[i % 4]}") for i in range(16)}
    qrels = Qrels({q: {f"d{i}": 1} for i, q in enumerate(queries)})
    return Collection("colours", documents, queries, qrels)


def relevant_in_top_four(collection: Collection) -> "Tuner":
    def share(run: Run) -> float:
        hits = [bool(collection.qrels.relevant(q) & set(run.ranking(q)[:4])) for q in run]
        return sum(hits) / max(len(hits), 1)

    # every second query teaches: 0-3, 8-11 teach all four colours
    order = [q for pair in zip((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15), strict=True) for q in pair]
    return Tuner([collection.queries[f"q{i}"] for i in order], collection.qrels, share, 16)


@pytest.fixture
def bm25(collection: Collection, tmp_path: Path) -> BM25:
    return BM25.build(collection.documents.values(), tmp_path / "bm25")


def test_the_parts_make_the_retriever(bm25: BM25, collection: Collection, tmp_path: Path) -> None:
    vectors = Dense.build(collection.documents.values(), tmp_path / "dense", embed)
    assert Lexical(bm25).retriever() is bm25
    assert isinstance(Lexical(bm25, RM3Settings()).retriever(), RM3)
    assert isinstance(Lexical(bm25, dense=vectors).retriever(), Hybrid)
    with pytest.raises(SettingsError, match="without feedback"):
        Lexical(bm25, RM3Settings(), vectors)


def test_a_hybrid_learns_to_trust_the_side_that_is_right(bm25: BM25, collection: Collection, tmp_path: Path) -> None:
    tuner = relevant_in_top_four(collection)
    vectors = Dense.build(collection.documents.values(), tmp_path / "dense", embed)
    assert tuner.objective(bm25.retrieve(tuner.queries, depth=16)) < 0.5  # 'haus' is in every document
    search, lines = tuner.tuned(Lexical(bm25, dense=vectors))
    assert tuner.objective(search.retriever().retrieve(tuner.queries, depth=16)) == 1.0
    assert lines[-1].startswith(f"BM25 weight {search.mixture.bm25_weight:g}: 1.0000 on 16 queries")


def test_model1_translates_what_bm25_cannot_match(bm25: BM25, collection: Collection) -> None:
    tuner = relevant_in_top_four(collection)
    run = bm25.retrieve(collection.queries.values(), depth=16)
    mixed, line = tuner.translated(Lexical(bm25), run, collection)
    assert tuner.objective(run) < 0.5
    assert tuner.objective(mixed) == 1.0
    assert mixed.name == "bm25-model1" and "1.0000 on 8 queries" in line
    assert {q: set(row) for q, row in mixed.scores.items()} == {q: set(row) for q, row in run.scores.items()}


def test_model1_needs_queries_to_learn_from_and_others_to_be_weighed_on(bm25: BM25, collection: Collection) -> None:
    tuner = Tuner([collection.queries["q0"]], collection.qrels, lambda _: 0.0)
    with pytest.raises(SettingsError, match="at least two"):
        tuner.translated(Lexical(bm25), Run("r", {}), collection)


def test_a_query_is_paired_with_the_piece_that_shares_most_of_its_terms() -> None:
    documents = {"long": Document("long", "a b fox d red fox g h"), "empty": Document("empty", "")}
    qrels = Qrels({"q": {"long": 1, "empty": 1, "absent": 1, "other": 0}})
    pairs = training_pairs([Query("q", "red fox")], qrels, documents, Analyzer(), words=4)
    # pieces of 'long': 'a b fox d' shares one term, 'red fox g h' two
    assert list(pairs) == [("red fox", ""), ("red fox", "red fox g h")]
