"""Measures against hand-worked cases, pytrec_eval, ir-measures, gdeval and published numbers."""

import shutil
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.errors import DataError, LongrankError, SettingsError, UnknownName
from longrank.core.types import Qrels, Run
from longrank.evaluation import evaluate, evaluate_columns, evaluate_run, read_columns
from longrank.evaluation.measures import Missing

QUERY_IDS = st.sampled_from(["q1", "q2", "301", "ü"])
DOCUMENT_IDS = st.sampled_from(
    ["d1", "d2", "d10", "d9", "D1", "a", "b", "ß", "long-document-name-1", "long-document-name-2"]
)
# few values, so that ties are common; the last two differ as float64 and tie as float32
SCORES = st.sampled_from([3.0, 2.5, 1.0, 0.0, -1.0, 1.0 + 1e-12, 16777217.0, 16777216.0])
RUNS = st.dictionaries(QUERY_IDS, st.dictionaries(DOCUMENT_IDS, SCORES, min_size=1), min_size=1)
GRADES = st.dictionaries(QUERY_IDS, st.dictionaries(DOCUMENT_IDS, st.integers(-1, 4), min_size=1), min_size=1)
# pytrec_eval may hang on a query whose grades are all negative
ORACLE_GRADES = GRADES.filter(lambda grades: all(max(row.values()) >= 0 for row in grades.values()))
TREC_NAMES = {
    "nDCG": "ndcg",
    "nDCG@2": "ndcg_cut_2",
    "nDCG@10": "ndcg_cut_10",
    "AP": "map",
    "AP@3": "map_cut_3",
    "RR": "recip_rank",
    "P@2": "P_2",
    "P@20": "P_20",
    "R@2": "recall_2",
    "R@1000": "recall_1000",
}


def expected_by_pytrec_eval(run: Run, qrels: Qrels, *, level: int) -> Any:
    import pytrec_eval

    grades = {q: dict(row) for q, row in qrels.grades.items()}
    names = {f"{n.rpartition('_')[0]}.{n.rpartition('_')[2]}" if n[-1].isdigit() else n for n in TREC_NAMES.values()}
    evaluator = pytrec_eval.RelevanceEvaluator(grades, names, relevance_level=level)
    return evaluator.evaluate({q: dict(row) for q, row in run.scores.items()})


@settings(max_examples=150, deadline=None)
@given(RUNS, ORACLE_GRADES, st.sampled_from([1, 2]))
def test_every_query_agrees_with_pytrec_eval_ties_included(
    scores: dict[str, dict[str, float]], grades: dict[str, dict[str, int]], level: int
) -> None:
    run, qrels = Run("r", scores), Qrels(grades)
    ours = [n if level == 1 or n.startswith("nDCG") else n.replace("@", "(rel=2)@") for n in TREC_NAMES]
    ours = [f"{n}(rel=2)" if level == 2 and n in ("AP", "RR") else n for n in ours]
    if not scores.keys() & grades.keys():
        with pytest.raises(DataError, match="no query in common"):
            evaluate(run, qrels, ours)
        return
    expected = expected_by_pytrec_eval(run, qrels, level=level)
    values = evaluate(run, qrels, ours)
    for name, trec_name in zip(ours, TREC_NAMES.values(), strict=True):
        assert values[name].keys() == expected.keys()
        for query_id, row in expected.items():
            assert values[name][query_id] == pytest.approx(row[trec_name], abs=1e-9), (name, query_id)


@settings(max_examples=60, deadline=None)
@given(RUNS, GRADES, st.randoms(use_true_random=False))
def test_a_run_file_in_any_order_gives_the_values_of_the_run(
    tmp_path_factory: pytest.TempPathFactory,
    scores: dict[str, dict[str, float]],
    grades: dict[str, dict[str, int]],
    random: Any,
) -> None:
    if not scores.keys() & grades.keys():
        return
    lines = [f"{q} Q0 {d} 1 {score!r} tag\n" for q, row in scores.items() for d, score in row.items()]
    random.shuffle(lines)
    path = tmp_path_factory.mktemp("runs") / "a.run"
    path.write_text("".join(lines), encoding="utf-8")
    names = ["nDCG@10", "AP", "RR@3", "P@2", "Judged@2", "ERR@20", "nERR@5", "Q@5", "Rprec"]
    direct = evaluate_run(Run("tag", scores), Qrels(grades), names)
    from_file = evaluate_columns(read_columns(path), Qrels(grades), names)
    for name in names:
        assert from_file.values[name] == pytest.approx(dict(direct.values[name]), abs=1e-12)
    assert set(from_file.unjudged_queries) == set(direct.unjudged_queries)
    assert from_file.missing_queries == direct.missing_queries


# ranking a b c d e; grades: a 1, c 3, e -1, and x 2 is not found
WORKED_RUN = Run("worked", {"q": {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}})
WORKED_QRELS = Qrels({"q": {"a": 1, "c": 3, "x": 2, "e": -1}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("P@5", 2 / 5),  # a and c
        ("P(rel=2)@5", 1 / 5),  # c
        ("R@2", 1 / 3),  # a of a, c, x
        ("RR", 1.0),
        ("RR(rel=2)", 1 / 3),
        ("RR(rel=2)@2", 0.0),  # c stands at 3
        ("AP", (1 / 1 + 2 / 3) / 3),
        ("AP(rel=3)", 1 / 3),
        ("Judged@5", 3 / 5),  # a, c, e
        ("Judged@10", 3 / 5),  # five documents were retrieved
        # 1/log2(2) + 3/log2(4) over 3/log2(2) + 2/log2(3) + 1/log2(4)
        ("nDCG@5", (1 + 3 / 2) / (3 + 2 / 1.5849625007211562 + 1 / 2)),
        # gains 2^g - 1: 1 + 7/2 over 7 + 3/1.58496 + 1/2
        ("nDCG(dcg='exp-log2')@5", (1 + 7 / 2) / (7 + 3 / 1.5849625007211562 + 1 / 2)),
        # stops: a 1/16, c 7/16; 1/16 + (15/16)(7/16)/3
        ("ERR@5", 1 / 16 + 15 / 16 * 7 / 16 / 3),
        ("ERR@2", 1 / 16),
        # PARADE's Eq. 11 on a scale up to 3: stops 1/8 and 7/8
        ("ERR(max_grade=3)@5", 1 / 8 + 7 / 8 * 7 / 8 / 3),
        # the ideal order c x a: 7/8 + (1/8)(3/8)/2 + (1/8)(5/8)(1/8)/3
        ("nERR(max_grade=3)@5", (1 / 8 + 7 / 8 * 7 / 8 / 3) / (7 / 8 + 3 / 64 / 2 + 5 / 512 / 3)),
        # blended ratios: a (1 + 1)/(1 + 3), c (2 + 4)/(3 + 6); over min(5, 3) relevant
        ("Q@5", (2 / 4 + 6 / 9) / 3),
        # cutoff 2 keeps a; divided by min(2, 3)
        ("Q@2", (2 / 4) / 2),
        ("Q(beta=0.5)@5", ((1 + 0.5) / (1 + 1.5) + (2 + 2) / (3 + 3)) / 3),
        ("Rprec", 2 / 3),  # by ir-measures: a and c among the first three
    ],
)
def test_a_hand_worked_case(name: str, value: float) -> None:
    assert evaluate(WORKED_RUN, WORKED_QRELS, [name])[name]["q"] == pytest.approx(value, abs=1e-12)


def test_measures_left_to_ir_measures_see_trec_evals_order_of_ties() -> None:
    # b precedes a among ties, so the relevant a stands second
    tied = Run("tied", {"q": {"a": 1.0, "b": 1.0}})
    assert evaluate(tied, Qrels({"q": {"a": 1}}), ["Success@1"])["Success@1"]["q"] == 0.0


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a perl script and perl is not installed")
def test_err_and_exponential_ndcg_equal_gdevals_five_decimals() -> None:
    import ir_measures
    import numpy as np

    rng = np.random.default_rng(5)
    scores = {str(q): {f"d{d}": float(rng.integers(0, 12)) for d in range(40)} for q in range(1, 16)}
    grades = {str(q): {f"d{d}": int(g) for d, g in enumerate(rng.integers(-1, 5, 30))} for q in range(1, 16)}
    theirs = {
        (m.query_id, str(m.measure)): m.value
        for m in ir_measures.iter_calc([ir_measures.ERR @ 20, ir_measures.nDCG(dcg="exp-log2") @ 20], grades, scores)
    }
    ours = evaluate(Run("r", scores), Qrels(grades), ["ERR@20", "nDCG(dcg='exp-log2')@20"])
    assert len(theirs) == 30
    for (query_id, name), value in theirs.items():
        assert f"{ours[name][query_id]:.5f}" == f"{value:.5f}"


def test_err_takes_query_ids_that_are_no_numbers() -> None:
    run = Run("r", {"topic-a": {"d": 1.0}})
    assert evaluate(run, Qrels({"topic-a": {"d": 4}}), ["ERR@20"])["ERR@20"]["topic-a"] == 15 / 16


def test_a_grade_above_the_scale_of_err_is_refused() -> None:
    with pytest.raises(DataError, match=r"ERR\(max_grade=5\)"):
        evaluate(Run("r", {"q": {"d": 1.0}}), Qrels({"q": {"d": 5}}), ["ERR@20"])


def test_queries_left_out_are_told_and_zero_counts_only_on_request() -> None:
    run = Run("r", {"judged": {"d": 1.0}, "unjudged": {"d": 1.0}})
    qrels = Qrels({"judged": {"d": 1}, "absent": {"d": 1}, "empty": {}})
    skipped = evaluate_run(run, qrels, ["RR", "Rprec"])
    zeroed = evaluate_run(run, qrels, ["RR", "Rprec"], missing="zero")
    assert skipped.means == {"RR": 1.0, "Rprec": 1.0}
    assert zeroed.means == {"RR": 0.5, "Rprec": 0.5}
    assert (skipped.unjudged_queries, skipped.missing_queries) == (("unjudged",), ("absent",))
    assert "1 judged queries missing from the run not counted" in skipped.notes
    assert "1 judged queries missing from the run counted as 0" in zeroed.notes


def test_a_query_with_nothing_but_negative_grades_counts_as_zero_everywhere() -> None:
    run, qrels = Run("r", {"q": {"a": 2.0, "b": 1.0}}), Qrels({"q": {"a": -1, "b": -1}})
    names = ["nDCG@10", "AP", "RR", "ERR@20", "nERR@20", "Q@10", "Rprec", "Bpref", "Success@5"]
    assert evaluate_run(run, qrels, names).means == dict.fromkeys(names, 0.0)


def test_a_run_without_any_judged_document_says_so() -> None:
    evaluation = evaluate_run(Run("r", {"q": {"foreign": 1.0}}), Qrels({"q": {"d": 1}}), ["RR"])
    assert evaluation.means == {"RR": 0.0}
    assert any("do the ids" in note for note in evaluation.notes)


def test_the_two_ways_to_count_missing_queries_are_the_only_ones() -> None:
    assert get_args(Missing) == ("skip", "zero")
    with pytest.raises(SettingsError, match="'skip' or 'zero'"):
        evaluate(WORKED_RUN, WORKED_QRELS, ["RR"], missing="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        ("nDGC@10", UnknownName, "nDCG@10"),
        ("ndcg@10", UnknownName, "nDCG@10"),
        ("whatever", UnknownName, "ir-measures"),
        ("nDCG@0", SettingsError, "above 0"),
        ("ERR@0", SettingsError, "above 0"),
        ("nERR(max_grade=high)@10", SettingsError, "whole number"),
        ("Q(gamma=1)@10", SettingsError, "beta"),
        ("RR(rel='x')@10", SettingsError, "cannot be read"),
        ("RR(@10", SettingsError, "cannot be read"),
    ],
)
def test_a_name_that_is_no_measure_gets_a_helpful_error(name: str, error: type[LongrankError], hint: str) -> None:
    with pytest.raises(error) as caught:
        evaluate(WORKED_RUN, WORKED_QRELS, [name])
    assert hint in str(caught.value)


def test_no_measure_at_all_is_refused() -> None:
    with pytest.raises(SettingsError, match="no measure"):
        evaluate(WORKED_RUN, WORKED_QRELS, [])


def test_the_tie_rule_moves_reciprocal_rank() -> None:
    # ties fall by id: d2 before d1
    tied = Run("tied", {"q": {"d1": 1.0, "d2": 1.0}})
    assert evaluate(tied, Qrels({"q": {"d1": 1}}), ["RR"])["RR"]["q"] == 0.5
