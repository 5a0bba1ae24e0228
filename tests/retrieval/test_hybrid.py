"""BM25 and embeddings together."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from longrank.core.contracts import Retriever
from longrank.core.types import Document, Query
from longrank.retrieval import BM25, BM25Settings
from longrank.retrieval.dense import Dense
from longrank.retrieval.hybrid import Hybrid, HybridSettings

DOCUMENTS = [
    Document("lexical", "fox"),
    Document("meaning", "vixen"),
    Document("both", "fox vixen"),
    Document("no", "pond"),
]


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """The dense side knows only vixens; a query is about them whatever it says."""
    return np.array(
        [[1, 0] if "vixen" in text or "?" in text else [0.6, 0.8] if text == "fox" else [0, 1] for text in texts],
        dtype=np.float32,
    )


@pytest.fixture
def parts(tmp_path: Path) -> tuple[BM25, Dense]:
    bm25 = BM25.build(DOCUMENTS, tmp_path / "bm25", BM25Settings(k1=1.0, b=0.0))
    return bm25, Dense.build(DOCUMENTS, tmp_path / "dense", embed)


def test_both_scores_are_mixed_as_worked_by_hand(parts: tuple[BM25, Dense]) -> None:
    hybrid = Hybrid(*parts, HybridSettings(bm25_weight=0.25))
    assert isinstance(hybrid, Retriever)
    # one query term with tf 1 and k1 = 1: BM25 / idf = 1/2; cosines 0.6, 1, 1, 0
    row = hybrid.retrieve([Query("q", "fox?")], depth=4).scores["q"]
    expected = {"both": 0.125 + 0.75, "meaning": 0.75, "lexical": 0.125 + 0.45, "no": 0.0}
    assert row == pytest.approx(expected, abs=1e-6)
    assert list(row) == ["both", "meaning", "lexical", "no"]


@pytest.mark.parametrize(("source", "found"), [("bm25", {"lexical", "both"}), ("dense", {"meaning", "both"})])
def test_candidates_may_come_from_one_side(parts: tuple[BM25, Dense], source: str, found: set[str]) -> None:
    settings = HybridSettings.model_validate({"candidates": source, "pool_depth": 2})
    assert set(Hybrid(*parts, settings).retrieve([Query("q", "fox?")], depth=10).scores["q"]) == found


def test_the_weight_is_found_on_training_queries(parts: tuple[BM25, Dense]) -> None:
    query = Query("q", "fox?")
    dense_wins, _ = Hybrid(*parts).tuned([query], lambda run: float(run.ranking("q")[1] == "meaning"))
    bm25_wins, found = Hybrid(*parts).tuned([query], lambda run: float(run.ranking("q")[1] == "lexical"))
    # lexical passes meaning where w / 2 + 0.6 (1 - w) > 1 - w, that is w > 4 / 9
    # at w = 0 both and meaning are equal, and meaning comes first by its id
    assert dense_wins.settings.bm25_weight == 0.05
    assert bm25_wins.settings.bm25_weight == pytest.approx(0.45)
    assert found.value == 1.0 and len(found.trials) == 21


def test_a_query_of_unknown_words_is_left_to_the_embeddings(parts: tuple[BM25, Dense]) -> None:
    row = Hybrid(*parts, HybridSettings(bm25_weight=0.5)).retrieve([Query("q", "zebra?")], depth=2).scores["q"]
    assert list(row) == ["meaning", "both"]
    assert all(math.isclose(score, 0.5, rel_tol=1e-6) for score in row.values())
