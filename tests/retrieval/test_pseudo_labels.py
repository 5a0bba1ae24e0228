"""Labels and candidate sets from retrievers."""

from pathlib import Path

import pytest

from longrank.core.contracts import Retriever
from longrank.core.errors import SettingsError
from longrank.core.types import Document, Query, Run
from longrank.retrieval import BM25
from longrank.retrieval.pseudo_labels import candidate_sets, pseudo_labels
from longrank.retrieval.rm3 import RM3, RM3Settings


def test_the_best_documents_become_relevant() -> None:
    run = Run("r", {"q": {"a": 1.0, "b": 3.0, "c": 2.0}, "nothing": {}})
    assert pseudo_labels(run).grades == {"q": {"b": 1}}
    assert pseudo_labels(run, positives=2).relevant("q") == {"b", "c"}


def test_no_positive_at_all_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least one positive"):
        pseudo_labels(Run("r", {}), positives=0)


def test_each_retriever_gives_a_candidate_set_under_its_name(tmp_path: Path) -> None:
    bm25 = BM25.build([Document("fox", "fox den"), Document("owl", "owl den")], tmp_path / "index")
    retrievers: dict[str, Retriever] = {"plain": bm25, "widened": RM3(bm25, RM3Settings(max_share=1.0))}
    sets = candidate_sets(retrievers, iter([Query("q", "fox")]), depth=5)
    assert {name: run.name for name, run in sets.items()} == {"plain": "plain", "widened": "widened"}
    assert set(sets["plain"].scores["q"]) == {"fox"}
    assert set(sets["widened"].scores["q"]) == {"fox", "owl"}
