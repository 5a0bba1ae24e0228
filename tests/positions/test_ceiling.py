import math
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.errors import DataError, SettingsError
from longrank.core.types import Qrels, Run, TokenSpan
from longrank.evaluation.measures import evaluate
from longrank.positions.ceiling import (
    Rule,
    best_value,
    ceiling,
    document_window,
    headroom,
    is_visible,
    manski,
    reach,
    window_headroom,
)
from longrank.positions.profile import PositionProfile
from longrank.positions.records import PairRecord

MEASURES = ("RR", "nDCG@10", "AP")
# the long-document-models paper, Table 6: shares of first relevant passages by chunk of 477 tokens
DEV_START, DEV_END = (0.859, 0.091, 0.026, 0.012), (0.710, 0.149, 0.061, 0.030)
FIRA_START, FIRA_END = (0.838, 0.099, 0.023, 0.022), (0.764, 0.153, 0.039, 0.022)


def pair(query: str, document: str, *spans: tuple[int, int]) -> PairRecord:
    return PairRecord(query, document, 2000, tuple(TokenSpan(a, b, "w") for a, b in spans), "gold")


def profile_of(*records: PairRecord) -> PositionProfile:
    return PositionProfile("toy", "w", records)


@pytest.mark.parametrize(
    ("shares", "gain"), [(DEV_START, 0.136), (DEV_END, 0.296), (FIRA_START, 0.146), (FIRA_END, 0.251)]
)
def test_headroom_of_three_chunks_over_one(shares: tuple[float, ...], gain: float) -> None:
    assert headroom(shares) == pytest.approx(gain, abs=0.0005)


def test_bounds_for_the_papers_dev_set() -> None:
    assert manski(0.71, 0.85) == pytest.approx((0.6035, 0.7535))


@pytest.mark.parametrize(
    ("window", "rule", "seen"),
    [
        (100, "start", False),
        (101, "start", True),
        (199, "end", False),
        (200, "end", True),
        (149, "overlap", False),
        (150, "overlap", True),
    ],
)
def test_rules_of_visibility_at_their_edges(window: int, rule: Rule, seen: bool) -> None:
    assert is_visible(pair("q", "d", (100, 200)), window=window, rule=rule) is seen


def test_any_span_may_be_the_visible_one() -> None:
    record = pair("q", "d", (0, 900), (400, 450))
    assert is_visible(record, window=477, rule="end")


def test_reach_has_bounds_for_pairs_not_located() -> None:
    profile = profile_of(pair("1", "a", (0, 9)), pair("2", "b", (900, 909)), pair("3", "c", (5, 9)), pair("4", "d"))
    found = reach(profile, window=477, rule="start")
    assert found.located.value == pytest.approx(2 / 3)
    assert found.bounds == pytest.approx((0.5, 0.75))


def test_window_headroom_spans_the_rules() -> None:
    # within 100: starts 2, ends 1; within 300: starts 3, ends 3
    profile = profile_of(pair("1", "a", (0, 9)), pair("2", "b", (99, 120)), pair("3", "c", (200, 210)))
    assert window_headroom(profile, short=100, long=300) == pytest.approx((0.5, 2.0))


def test_perfect_ranker_of_a_hand_worked_query() -> None:
    profile = profile_of(pair("q", "near", (10, 20)), pair("q", "far", (900, 910)), pair("q", "lost"))
    qrels = Qrels({"q": {"near": 1, "far": 2, "lost": 1, "unseen": 1, "not": 0}})
    candidates = Run("bm25", {"q": {"near": 1.0, "far": 3.0, "lost": 2.0, "not": 0.5}})
    found = ceiling(profile, qrels, candidates, window=477)
    # certain: near; possible: near and lost; of four relevant documents
    assert found.mean("AP") == (1 / 4, 2 / 4)
    assert found.mean("RR") == (1.0, 1.0)
    ideal = 2 + 1 / math.log2(3) + 1 / 2 + 1 / math.log2(5)
    assert found.mean("nDCG@10") == pytest.approx((1 / ideal, (1 + 1 / math.log2(3)) / ideal))
    whole = ceiling(profile, qrels, candidates, window=2000)
    assert whole.mean("AP") == (2 / 4, 3 / 4)


def test_documents_below_the_relevant_grade_keep_their_gain() -> None:
    profile = profile_of(pair("q", "good", (900, 910)))
    qrels, run = Qrels({"q": {"good": 2, "fair": 1}}), Run("r", {"q": {"fair": 2.0, "good": 1.0}})
    found = ceiling(profile, qrels, run, window=477, at_least=2)
    ideal = 2 + 1 / math.log2(3)  # good is hidden; whether fair's evidence is visible is not known
    assert found.mean("nDCG@10") == pytest.approx((0.0, 1 / ideal))
    assert (found.mean("RR"), found.mean("AP"), found.fates) == ((0.0, 0.0), (0.0, 0.0), {"q": "hidden"})
    whole = ceiling(profile, qrels, run, window=2000, at_least=2)
    assert whole.mean("nDCG@10") == pytest.approx((2 / ideal, 1.0))


def test_the_loss_is_split_by_what_became_of_the_queries() -> None:
    profile = profile_of(pair("a", "d", (0, 5)), pair("b", "d", (900, 905)), pair("c", "d"), pair("e", "d", (0, 5)))
    qrels = Qrels({name: {"d": 1} for name in "abce"} | {"empty": {"d": 0}, "absent": {"d": 1}})
    candidates = Run("r", {"a": {"d": 1.0}, "b": {"d": 1.0}, "c": {"d": 1.0}, "e": {"x": 1.0}, "empty": {"d": 1.0}})
    found = ceiling(profile, qrels, candidates, window=477)
    assert found.fates == {"a": "visible", "b": "hidden", "c": "unknown", "e": "not retrieved"}
    assert set(found.fate_shares().values()) == {0.25}
    assert found.dropped_queries == ("empty", "absent")


def test_windows_may_differ_by_query() -> None:
    profile = profile_of(pair("a", "d", (470, 475)), pair("b", "d", (470, 475)))
    qrels, candidates = Qrels({"a": {"d": 1}, "b": {"d": 1}}), Run("r", {"a": {"d": 1.0}, "b": {"d": 1.0}})
    windows = {"a": document_window(512, 5), "b": document_window(512, 60)}
    assert windows == {"a": 504, "b": 449}
    assert ceiling(profile, qrels, candidates, window=windows).fates == {"a": "visible", "b": "hidden"}


def test_efficiency_is_the_share_of_the_ceiling_that_a_run_reaches() -> None:
    profile = profile_of(*(pair(name, "d", (0, 5)) for name in "abc"), pair("e", "d", (999, 1000)))
    qrels = Qrels({name: {"d": 1} for name in "abce"})
    candidates = Run("r", {name: {"d": 1.0, "x": 2.0} for name in "abce"})
    found = ceiling(profile, qrels, candidates, window=477)
    # ceiling mean 3/4; the run's mean is 3/8 over the same four queries
    assert found.efficiency("RR", {"a": 0.5, "b": 0.5, "c": 0.5, "e": 0.0}).value == pytest.approx(0.5)
    with pytest.raises(DataError, match="share no query"):
        found.efficiency("RR", {"other": 1.0})


@st.composite
def worlds(draw: st.DrawFn) -> tuple[PositionProfile, Qrels, Run]:
    """A few queries with graded documents, some located, and a run with ties that holds some of them."""
    records, grades, scores = [], {}, {}
    for query in ("q1", "q2", "q3"):
        documents = [f"d{number}" for number in range(draw(st.integers(1, 8)))]
        grades[query] = {document: draw(st.integers(0, 3)) for document in documents}
        retrieved = draw(st.lists(st.sampled_from([*documents, "x1", "x2"]), unique=True, min_size=1))
        scores[query] = {document: float(draw(st.integers(0, 3))) for document in retrieved}
        for document in documents:
            if grades[query][document] and draw(st.booleans()):
                start = draw(st.integers(0, 1000))
                records.append(pair(query, document, (start, start + draw(st.integers(1, 300)))))
    grades["q1"]["d0"] = 1
    return profile_of(*records), Qrels(grades), Run("random", scores)


@settings(max_examples=150, deadline=None)
@given(worlds(), st.integers(1, 3))
def test_no_run_exceeds_its_ceiling_from_any_grade(world: tuple[PositionProfile, Qrels, Run], at_least: int) -> None:
    profile, qrels, run = world
    names = {"RR": f"RR(rel={at_least})", "nDCG@10": "nDCG@10", "AP": f"AP(rel={at_least})"}
    values = evaluate(run, qrels, tuple(names.values()))
    found = ceiling(profile, qrels, run, window=10_000, at_least=at_least)
    for measure, name in names.items():
        for query_id, best in found.high[measure].items():
            assert values[name][query_id] <= best + 1e-9


@settings(max_examples=150, deadline=None)
@given(worlds(), st.integers(1, 1400), st.sampled_from(["start", "end", "overlap"]))
def test_no_run_exceeds_its_ceiling(
    world: tuple[PositionProfile, Qrels, Run], window: int, rule: Literal["start", "end", "overlap"]
) -> None:
    """With the whole document in sight for every run; with a window, for runs credited only for what they can see."""
    profile, qrels, run = world
    values = evaluate(run, qrels, MEASURES)
    whole = ceiling(profile, qrels, run, window=10_000, rule=rule)
    narrow = ceiling(profile, qrels, run, window=window, rule=rule)
    hidden = {(r.query_id, r.document_id) for r in profile.records if not is_visible(r, window=window, rule=rule)}
    for measure in MEASURES:
        for query_id, best in whole.high[measure].items():
            assert values[measure][query_id] <= best + 1e-9
            assert narrow.low[measure][query_id] <= narrow.high[measure][query_id] <= best + 1e-9
            credited = _credited(run, qrels, query_id, hidden, measure)
            assert credited <= narrow.high[measure][query_id] + 1e-9


def _credited(run: Run, qrels: Qrels, query_id: str, hidden: set[tuple[str, str]], measure: str) -> float:
    """The run's measure with no credit for hidden documents, the ideal left as judged."""
    grades = {d: g for d, g in qrels.grades[query_id].items() if g > 0}
    gains = [0 if (query_id, d) in hidden else grades.get(d, 0) for d in run.ranking(query_id)]
    ranks = [rank for rank, gain in enumerate(gains, start=1) if gain]
    if measure == "RR":
        return 1 / ranks[0] if ranks else 0.0
    if measure == "AP":
        return sum(number / rank for number, rank in enumerate(ranks, start=1)) / len(grades)
    ideal = sum(g / math.log2(r + 1) for r, g in enumerate(sorted(grades.values(), reverse=True)[:10], start=1))
    return sum(g / math.log2(r + 1) for r, g in enumerate(gains[:10], start=1)) / ideal


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(1, 700), st.integers(0, 700))
def test_a_longer_window_never_lowers_the_ceiling(
    world: tuple[PositionProfile, Qrels, Run], window: int, more: int
) -> None:
    profile, qrels, run = world
    short, long = (ceiling(profile, qrels, run, window=w, rule="end") for w in (window, window + more))
    for measure in MEASURES:
        assert short.mean(measure).high <= long.mean(measure).high + 1e-12


def test_unusable_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="sees nothing"):
        document_window(32, 40)
    with pytest.raises(SettingsError, match="no ceiling for measure 'ERR@20'"):
        best_value("ERR@20", [1], [1])
    with pytest.raises(SettingsError, match="do not fit"):
        headroom([0.5], long=3)
    with pytest.raises(DataError, match="between 0 and 1"):
        manski(1.2, 0.5)
    with pytest.raises(DataError, match="no query"):
        ceiling(profile_of(), Qrels({}), Run("r", {}), window=5).mean("RR")
