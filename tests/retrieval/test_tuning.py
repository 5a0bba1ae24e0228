"""Settings found on a grid."""

from pathlib import Path

import pytest

from longrank.core.errors import SettingsError
from longrank.core.types import Document, Query, Run
from longrank.retrieval import BM25
from longrank.retrieval.rm3 import RM3Settings
from longrank.retrieval.tuning import BM25Parameters, bm25_grid, grid_search, rm3_grid, tune_bm25, tune_rm3


def test_the_earliest_of_equal_choices_wins_and_all_are_recorded() -> None:
    found = grid_search(["a", "bb", "cc"], len)
    assert (found.best, found.value) == ("bb", 2)
    assert [trial.choice for trial in found.trials] == ["a", "bb", "cc"]


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(SettingsError, match="grid is empty"):
        grid_search([], len)


def test_the_grids_cover_the_published_ranges() -> None:
    grid = bm25_grid()
    assert len(set(grid)) == 56
    assert {min(p.b for p in grid), max(p.b for p in grid)} == {0.3, 1.0}
    assert {min(p.k1 for p in grid), max(p.k1 for p in grid)} == {0.4, 1.6}
    assert len(set(rm3_grid())) == 27


def test_length_punishment_is_tuned_to_what_is_relevant(tmp_path: Path) -> None:
    # with b = 0 the long document wins by its two foxes, with b = 1 the short one by its length
    documents = [Document("long", "fox fox " + "word " * 40), Document("short", "fox den")]
    index = BM25.build(documents, tmp_path / "index")
    grid = [BM25Parameters(1.2, b) for b in (0.0, 0.5, 1.0)]

    def first_is(wanted: str) -> float:
        found = tune_bm25(index, [Query("q", "fox")], lambda run: float(run.ranking("q")[0] == wanted), grid=grid)
        return found.best.b

    assert first_is("long") == 0.0
    assert first_is("short") > 0.0


def test_feedback_is_tuned_to_what_is_relevant(tmp_path: Path) -> None:
    # only feedback finds the owl: it shares a den with the fox
    documents = [Document("fox", "fox den"), Document("owl", "owl den"), Document("pond", "pond")]
    index = BM25.build(documents, tmp_path / "index")
    grid = [RM3Settings(original_weight=weight, max_share=1.0) for weight in (1.0, 0.5)]

    def owl_found(run: Run) -> float:
        return float("owl" in run.scores["q"])

    assert tune_rm3(index, [Query("q", "fox")], owl_found, grid=grid).best.original_weight == 0.5
