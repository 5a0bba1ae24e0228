"""Systems against baselines: averaging, dropping, letters, gains, pooled sets."""

from collections.abc import Mapping

import numpy as np
import pytest

from longrank.core.errors import DataError, SettingsError, UnknownName
from longrank.evaluation import PerQuery, average_seeds, compare, join_collections, pool
from longrank.evaluation.significance import paired_t


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def values(measure: str, numbers: Mapping[str, float]) -> PerQuery:
    return {measure: dict(numbers)}


def random_values(mean: float, seed: int, *, queries: int = 60, measure: str = "RR") -> PerQuery:
    noise = np.random.default_rng(seed).normal(mean, 0.05, queries)
    return {measure: {f"q{i}": float(value) for i, value in enumerate(noise)}}


def test_seeds_are_averaged_by_query_before_the_test() -> None:
    seeds = [values("RR", {"a": 1.0, "b": 0.0, "c": 0.5}), values("RR", {"a": 0.5, "b": 0.5, "c": 0.0})]
    base = [values("RR", {"a": 0.5, "b": 0.5, "c": 0.25})]
    result = compare({"new": seeds, "old": base}, baseline="old", rng=rng())
    estimate = result.gains["new", "RR"]
    # means by query .75, .25, .25; differences .25, -.25, 0
    assert estimate.p == 1.0 == paired_t([0.25, -0.25, 0.0])
    assert estimate.queries == 3  # not 6
    assert result.seeds == {"new": 2, "old": 1}


def test_identical_systems_have_no_gain_and_p_one() -> None:
    same = [random_values(0.5, 1)]
    estimate = compare({"a": same, "b": same}, baseline="b", rng=rng()).gains["a", "RR"]
    assert (estimate.p, estimate.difference, estimate.relative, estimate.interval) == (1.0, 0.0, 0.0, (0.0, 0.0))
    assert not estimate.significant


def test_every_baseline_has_its_letter_and_only_significant_ones_are_shown() -> None:
    systems = {
        "strong": [random_values(0.7, 1)],
        "middle": [random_values(0.5, 2)],
        "middle again": [random_values(0.5, 3)],
    }
    result = compare(systems, baseline=["middle", "middle again"], rng=rng())
    assert result.letters("strong", "RR") == "ab"
    assert result.letters("middle again", "RR") == ""  # differs from 'middle' by chance only
    assert [(line.letter, line.label) for line in result.baselines] == [("a", "middle"), ("b", "middle again")]
    assert result.best("RR") == {"strong"}


def test_an_own_baseline_differs_by_row_and_comes_first() -> None:
    systems = {
        "FirstP (BERT)": [random_values(0.4, 1)],
        "MaxP (BERT)": [random_values(0.5, 2)],
        "FirstP (ELECTRA)": [random_values(0.8, 3)],
        "MaxP (ELECTRA)": [random_values(0.6, 4)],
    }
    own = {"MaxP (BERT)": "FirstP (BERT)", "MaxP (ELECTRA)": "FirstP (ELECTRA)"}
    result = compare(systems, own=own, baseline="FirstP (BERT)", rng=rng())
    assert result.gains["MaxP (ELECTRA)", "RR"].baseline == "FirstP (ELECTRA)"
    assert result.gains["MaxP (ELECTRA)", "RR"].difference < 0
    assert result.letters("MaxP (ELECTRA)", "RR") == "ab"
    assert result.letters("FirstP (ELECTRA)", "RR") == "b"
    assert ("FirstP (BERT)", "RR") not in result.gains


def test_the_average_gain_is_the_mean_of_the_columns_gains() -> None:
    # the first line of the arithmetic: 100 (.6 - .5) / .5 = 20; 100 (.3 - .4) / .4 = -25; mean -2.5
    old = {"RR": {"a": 0.4, "b": 0.6}, "AP": {"x": 0.3, "y": 0.5}}
    new = {"RR": {"a": 0.5, "b": 0.7}, "AP": {"x": 0.2, "y": 0.4}}
    result = compare({"old": [old], "new": [new]}, baseline="old", rng=rng())
    assert result.gains["new", "RR"].relative == pytest.approx(20.0)
    assert result.average_gain("new") == pytest.approx(-2.5)
    assert result.average_gain("old") is None


def test_a_gain_over_nothing_is_unknown_not_infinite() -> None:
    result = compare(
        {"old": [values("RR", {"a": 0.0, "b": 0.0})], "new": [values("RR", {"a": 0.5, "b": 1.0})]},
        baseline="old",
        rng=rng(),
    )
    assert result.gains["new", "RR"].relative is None
    assert result.average_gain("new") is None


def test_queries_that_one_seed_lacks_are_dropped_for_all_and_counted() -> None:
    full = values("RR", {"a": 0.1, "b": 0.2, "c": 0.3})
    lacking = values("RR", {"a": 0.1, "c": 0.4})
    result = compare({"x": [full, lacking], "y": [full]}, baseline="y", rng=rng())
    assert list(result.values["y"]["RR"]) == ["a", "c"]
    assert result.dropped == {"RR": 1}


def test_the_correction_covers_the_systems_of_one_column_and_baseline() -> None:
    systems = {f"s{i}": [random_values(0.5 + i / 100, i)] for i in range(4)}
    plain = compare(systems, baseline="s0", rng=rng(), correction="none")
    holm = compare(systems, baseline="s0", rng=rng())
    smallest = min(plain.estimates, key=lambda e: e.p)
    assert holm.gains[smallest.system, "RR"].corrected_p == pytest.approx(3 * smallest.p)
    assert all(e.corrected_p == e.p for e in plain.estimates)


def test_thresholds_follow_the_collection_of_a_column() -> None:
    def system(seed: int) -> PerQuery:
        parts = {"msmarco": random_values(0.5, seed), "robust04": random_values(0.5, seed, measure="AP")}
        return join_collections(parts)

    systems = {"a": [system(1)], "b": [system(2)]}
    bars = {e.measure: e.alpha for e in compare(systems, baseline="a", rng=rng()).estimates}
    assert bars == {"msmarco RR": 0.01, "robust04 AP": 0.05}
    chosen = compare(systems, baseline="a", rng=rng(), alpha={"robust04": 0.001}).estimates
    assert {e.measure: e.alpha for e in chosen} == {"msmarco RR": 0.01, "robust04 AP": 0.001}
    assert {e.alpha for e in compare(systems, baseline="a", rng=rng(), alpha=0.1).estimates} == {0.1}


def test_the_same_generator_gives_the_same_numbers() -> None:
    systems = {"a": [random_values(0.5, 1)], "b": [random_values(0.5, 2)]}
    first, second = (compare(systems, baseline="a", rng=rng(), test="permutation") for _ in range(2))
    assert first.estimates == second.estimates


def test_pooled_query_sets_count_queries_not_sets() -> None:
    # 19: one query at 1; 20: three at 0. Mean of means .5, pooled .25
    pooled = pool([values("RR", {"1": 1.0}), values("RR", {"2": 0.0, "3": 0.0, "4": 0.0})])
    assert np.mean(list(pooled["RR"].values())) == 0.25


def test_pooling_refuses_overlap_and_different_measures() -> None:
    with pytest.raises(DataError, match="'1' is in two parts"):
        pool([values("RR", {"1": 1.0}), values("RR", {"1": 1.0})])
    with pytest.raises(DataError, match="different measures"):
        pool([values("RR", {"1": 1.0}), values("AP", {"2": 1.0})])
    with pytest.raises(DataError, match="nothing to pool"):
        pool([])


def test_averaging_refuses_no_seeds_and_no_shared_measure() -> None:
    with pytest.raises(DataError, match="at least one"):
        average_seeds([])
    with pytest.raises(DataError, match="share no measure"):
        average_seeds([values("RR", {"1": 1.0}), values("AP", {"1": 1.0})])


def test_comparisons_that_cannot_be_made_are_refused() -> None:
    one, other = [values("RR", {"a": 0.1, "b": 0.2})], [values("RR", {"c": 0.1, "b": 0.2})]
    with pytest.raises(DataError, match="share 1 queries"):
        compare({"x": one, "y": other}, baseline="y", rng=rng())
    with pytest.raises(DataError, match="at least two systems"):
        compare({"x": one}, baseline="x", rng=rng())
    with pytest.raises(UnknownName, match="no system 'z'"):
        compare({"x": one, "y": one}, baseline="z", rng=rng())
    with pytest.raises(SettingsError, match="name a baseline"):
        compare({"x": one, "y": one}, rng=rng())
    with pytest.raises(DataError, match="share no measure"):
        compare({"x": one, "y": [values("AP", {"a": 0.1, "b": 0.2})]}, baseline="x", rng=rng())
    with pytest.raises(SettingsError, match="between 0 and 1"):
        compare({"x": one, "y": one}, baseline="x", rng=rng(), alpha=5)
    with pytest.raises(DataError, match="NaN"):
        compare({"x": one, "y": [values("RR", {"a": float("nan"), "b": 0.2})]}, baseline="x", rng=rng())
