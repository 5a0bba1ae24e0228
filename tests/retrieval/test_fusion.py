"""Fusion by hand and by planted weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import SettingsError
from longrank.core.types import Run, RunNotes
from longrank.retrieval.fusion import (
    Normalisation,
    best_weight,
    best_weights,
    cross_validated,
    interpolate,
    linear,
    normalise,
    pool,
    reciprocal_rank,
    select,
)

FIRST = Run("one", {"q": {"a": 4.0, "b": 3.0, "c": 2.0}})
SECOND = Run("two", {"q": {"b": 10.0, "d": 0.0}, "r": {"x": 1.0}})


def test_scores_are_brought_to_one_scale() -> None:
    assert normalise(FIRST, "min-max").scores["q"] == {"a": 1.0, "b": 0.5, "c": 0.0}
    # mean 3, deviation sqrt(2/3) = 0.8165
    assert normalise(FIRST, "z").scores["q"] == pytest.approx({"a": 1.22474, "b": 0.0, "c": -1.22474}, rel=1e-5)
    assert normalise(FIRST, "none") == FIRST


def test_equal_scores_do_not_divide_by_zero() -> None:
    flat = Run("flat", {"q": {"a": 3.0, "b": 3.0}, "none": {}})
    assert normalise(flat, "min-max").scores == {"q": {"a": 1.0, "b": 1.0}, "none": {}}
    assert normalise(flat, "z").scores == {"q": {"a": 0.0, "b": 0.0}, "none": {}}


def test_a_weighted_sum_gives_absent_documents_the_lowest_score() -> None:
    # first: a 1, b .5, c 0, d absent 0; second: b 1, d 0, a and c absent 0
    fused = interpolate(FIRST, SECOND, 0.8)
    assert fused.scores["q"] == pytest.approx({"a": 0.8, "b": 0.8 * 0.5 + 0.2, "c": 0.0, "d": 0.0})
    assert fused.scores["r"] == pytest.approx({"x": 0.2})


def test_the_only_document_of_a_run_is_ahead_of_those_the_run_lacks() -> None:
    alone, other = Run("alone", {"q": {"a": 7.0}}), Run("other", {"q": {"b": 3.0, "c": 2.0, "a": 1.0}})
    # alone: a 1, b and c absent 0; other: b 1, c .5, a 0
    assert interpolate(alone, other, 0.9).scores["q"] == pytest.approx({"a": 0.9, "b": 0.1, "c": 0.05})
    tied = Run("tied", {"q": {"a": 7.0, "c": 7.0}})
    assert interpolate(tied, other, 0.9).scores["q"] == pytest.approx({"a": 0.9, "b": 0.1, "c": 0.95})


@pytest.mark.parametrize("how", ["z", "none"])
def test_equal_scores_without_a_scale_leave_the_order_to_the_other_run(how: Normalisation) -> None:
    alone, other = Run("alone", {"q": {"a": 7.0}}), Run("other", {"q": {"b": 3.0, "c": 2.0, "a": 1.0}})
    assert interpolate(alone, other, 0.9, normalisation=how).ranking("q") == ["b", "c", "a"]


def test_weights_are_found_with_the_scores_that_fusion_gives() -> None:
    alone, other = Run("alone", {"q": {"a": 7.0}}), Run("other", {"q": {"b": 3.0, "c": 2.0, "a": 1.0}})

    def margin(run: Run) -> float:
        return run.scores["q"]["a"] - run.scores["q"]["b"]

    found = best_weight(alone, other, margin)
    assert (found.best, found.value) == (1.0, margin(interpolate(alone, other, 1.0)))
    several = best_weights([alone, other], margin)
    assert several.value == pytest.approx(margin(linear([alone, other], several.best)))


def test_candidates_may_be_those_of_the_first_run_or_of_all() -> None:
    first = linear([SECOND, FIRST], [0.5, 0.5], candidates="first")
    both = linear([SECOND, FIRST], [0.5, 0.5], candidates="intersection")
    assert set(first.scores["q"]) == {"b", "d"}
    assert set(both.scores["q"]) == {"b"}


def test_reciprocal_ranks_add_up() -> None:
    # a: 1/61; b: 1/62 + 1/61; c: 1/63; d: 1/62
    assert reciprocal_rank([FIRST, SECOND]).scores["q"] == pytest.approx(
        {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 63, "d": 1 / 62}
    )


def test_a_pool_is_the_union_of_the_tops() -> None:
    assert pool([FIRST, SECOND], depth=1).scores == {"q": {"a": 1.0, "b": 1.0}, "r": {"x": 1.0}}


def test_a_query_is_dropped_only_if_no_run_has_it() -> None:
    empty = Run("e", {"q": {}, "r": {}, "s": {}}, RunNotes(2, 30, ("q", "r", "s")))
    assert linear([FIRST, empty], [1, 1]).notes == RunNotes(2, 30, ("r", "s"))


def planted(weights: tuple[float, ...], *, queries: int = 40, documents: int = 30) -> tuple[list[Run], Run]:
    """Random runs, and the run that their weighted sum gives."""
    rng = np.random.default_rng(3)
    ids = [f"d{i}" for i in range(documents)]
    runs = []
    for number in range(len(weights)):
        scores = rng.random((queries, documents))
        scores[:, 0], scores[:, 1] = 0.0, 1.0  # the same range for every query, so min-max changes nothing
        rows = {f"q{i}": dict(zip(ids, row.tolist(), strict=True)) for i, row in enumerate(scores)}
        runs.append(Run(f"run{number}", rows))
    return runs, linear(runs, weights, normalisation="none")


def agreement(truth: Run, run: Run) -> float:
    """Mean rank correlation with the true run, by the share of equal places at the top."""
    shares = [len(set(run.ranking(q)[:5]) & set(truth.ranking(q)[:5])) / 5 for q in run]
    return sum(shares) / len(shares)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.75, 1.0])
def test_a_planted_weight_is_recovered(weight: float) -> None:
    (first, second), truth = planted((weight, 1 - weight))
    found = best_weight(first, second, lambda run: agreement(truth, run))
    assert found.best == pytest.approx(weight, abs=0.051)
    assert found.value >= 0.98


def test_planted_weights_of_three_runs_are_recovered() -> None:
    runs, truth = planted((0.6, 0.3, 0.1))
    found = best_weights(runs, lambda run: agreement(truth, run))
    assert found.best == pytest.approx((0.6, 0.3, 0.1), abs=0.1)
    assert sum(found.best) == pytest.approx(1.0)


def test_cross_validation_never_shows_a_fold_its_own_queries() -> None:
    runs, truth = planted((0.7, 0.3), queries=12)
    folds = [[f"q{i}" for i in range(12) if i % 3 == fold] for fold in range(3)]
    seen: list[frozenset[str]] = []

    def objective(run: Run) -> float:
        seen.append(frozenset(run))
        return agreement(truth, run)

    fused = cross_validated(runs, folds, objective)
    assert set(seen) == {frozenset(truth) - frozenset(fold) for fold in folds}
    assert set(fused) == set(truth)
    assert agreement(truth, fused) > 0.9


def test_wrong_weights_and_folds_are_refused() -> None:
    with pytest.raises(SettingsError, match="one weight a run"):
        linear([FIRST, SECOND], [1.0])
    with pytest.raises(SettingsError, match="one fold only"):
        cross_validated([FIRST, SECOND], [["q"], ["q"]], lambda run: 0.0)
    with pytest.raises(SettingsError, match="two folds with queries"):
        cross_validated([FIRST, SECOND], [["q", "r"], []], lambda run: 0.0)


def test_a_fold_without_queries_changes_nothing() -> None:
    runs, truth = planted((0.7, 0.3), queries=6)
    folds = [["q0", "q1", "q2"], ["q3", "q4", "q5"]]
    alone, beside = (cross_validated(runs, more, lambda run: agreement(truth, run)) for more in (folds, [*folds, []]))
    assert alone.scores == beside.scores


@given(st.floats(0, 1))
def test_a_run_fused_with_itself_keeps_its_ranking(weight: float) -> None:
    assert interpolate(FIRST, FIRST, weight).ranking("q") == ["a", "b", "c"]


def test_selection_keeps_the_named_queries() -> None:
    assert set(select(SECOND, ["r", "zz"])) == {"r"}
