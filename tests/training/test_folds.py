"""Cross-validation without leaks."""

from pathlib import Path

import pytest

from longrank.core.errors import DataError, TrainingError
from longrank.core.types import Query, Run, RunNotes
from longrank.training.folds import cross_validation, pool_runs, read_folds

QUERIES = {f"q{n}": Query(f"q{n}", f"text {n}") for n in range(5)}


def test_each_fold_is_tested_by_the_others() -> None:
    folds = {"1": ["q0", "q1"], "2": ["q2"], "3": ["q3", "q4"]}
    rounds = list(cross_validation(folds, QUERIES))
    assert [(fold.name, fold.train, fold.test) for fold in rounds] == [
        ("1", ("q2", "q3", "q4"), ("q0", "q1")),
        ("2", ("q0", "q1", "q3", "q4"), ("q2",)),
        ("3", ("q0", "q1", "q2"), ("q3", "q4")),
    ]


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ({"1": ["q0", "q1"], "2": ["q1"]}, "query 'q1' leaks: it is in fold '1' and in '2'"),
        ({"1": ["q0"], "2": ["q9"]}, "query 'q9', which the collection does not have"),
        ({"1": ["q0"], "2": []}, "fold '2' is empty"),
        ({"1": ["q0"]}, "at least two folds"),
    ],
)
def test_folds_that_cannot_be_used_are_refused(folds: dict[str, list[str]], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        list(cross_validation(folds, QUERIES))


def test_the_same_text_in_two_folds_leaks() -> None:
    queries = {**QUERIES, "q1": Query("q1", "Text  0")}
    with pytest.raises(TrainingError, match="'q0' of fold '1' has the same text"):
        list(cross_validation({"1": ["q0"], "2": ["q1"]}, queries))
    assert len(list(cross_validation({"1": ["q0", "q1"], "2": ["q2"]}, queries))) == 2


def test_pooled_runs_hold_every_query_once() -> None:
    first = Run("a", {"q0": {"d": 1.0}}, RunNotes(cut_documents=1))
    second = Run("b", {"q1": {"d": 2.0}}, RunNotes(cut_documents=2))
    pooled = pool_runs([first, second], name="all")
    assert pooled == Run("all", {"q0": {"d": 1.0}, "q1": {"d": 2.0}}, RunNotes(cut_documents=3))
    with pytest.raises(TrainingError, match="'q0' is answered in two folds"):
        pool_runs([first, first], name="all")


def test_folds_are_read_from_lists_or_objects(tmp_path: Path) -> None:
    path = tmp_path / "folds.json"
    path.write_text('[["301", 302], ["303"]]')
    assert read_folds(path) == {"1": ("301", "302"), "2": ("303",)}
    path.write_text('{"a": ["301"]}')
    assert read_folds(path) == {"a": ("301",)}
    path.write_text('{"s1": {"train_qids": ["303"], "predict": {"dev": ["304"], "test": ["301", "302"]}}}')
    assert read_folds(path) == {"s1": ("301", "302")}
    for text in ('{"a": "301"}', '{"a": {"test": ["301"]}}', "3", "{"):
        path.write_text(text)
        with pytest.raises(DataError, match=r"folds\.json"):
            read_folds(path)
    with pytest.raises(DataError, match="no folds file"):
        read_folds(tmp_path / "none.json")
