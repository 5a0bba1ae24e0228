"""The few sentences that come first: worked out by hand, and never more than the tests behind them say."""

import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.experiments.records import CellResult, ExperimentResult
from longrank.reports.experiment import render
from longrank.reports.experiment_reading import Reading, read_experiment, told_apart
from longrank.reports.experiment_takeaway import takeaway, what_it_shows
from longrank.reports.page import Folded


def cell(ranker: str, values: Sequence[float], first_query: int = 1, **labels: Any) -> CellResult:
    reference = ranker in {"bm25", "random"}
    known = {
        "ranker": ranker,
        "backbone": "" if reference else "tiny",
        "seed": -1 if reference else 0,
        "stage": "baseline" if reference else "plain",
        "trained_on": "" if reference else "near",
        "scored_on": "near",
        "retriever": "bm25",
    }
    row = {f"q{number}": value for number, value in enumerate(values, start=first_query)}
    return CellResult({**known, **labels}, {"RR": row}, {})


def read(*cells: CellResult, **about: Any) -> Reading:
    known = {"title": "Near and far", "versions": {}, "settings": {"collections": {"far": {"of": "near"}}}}
    return read_experiment(ExperimentResult({**known, **about}, cells), draws=199)


LOW, MIDDLE, HIGH = [0.1, 0.3] * 6, [0.4, 0.6] * 6, [0.8, 1.0] * 6
# near: both rankers above BM25, maxp not told apart from firstp; far: firstp falls below BM25, maxp does not
NEAR = (cell("firstp", HIGH), cell("maxp", HIGH[::-1]), cell("bm25", MIDDLE))
FAR = tuple(cell(name, values, scored_on="far") for name, values in (("firstp", LOW), ("maxp", HIGH), ("bm25", MIDDLE)))
TUNED = (
    cell("firstp", MIDDLE[::-1], scored_on="far", stage="tuned"),
    cell("maxp", HIGH, scored_on="far", stage="tuned"),
)
PLACED = CellResult(
    {"what": "positions", "collection": "far"},
    {"start": {"q1 d": 90.0}, "length": {"q1 d": 120.0}},
    {"tokenizer": "bert", "pairs": 1},
)


def told(reading: Reading) -> dict[str, list[str]]:
    return {statement.head: list(statement.points) for statement in takeaway(reading)}


def test_the_statements_say_who_differs_significantly() -> None:
    reading = read(*NEAR, *FAR, *TUNED, PLACED)
    # tests: near, far, far tuned: one against firstp and two against BM25 each; two between collections, two trainings
    assert told(reading) == {
        "Compared with firstp": [
            "On near, plain: no significant difference for maxp.",
            "On far, plain (half of the evidence starts by token 90; median document: 120 tokens): maxp is "
            "significantly better.",
            "On far, tuned: maxp is significantly better.",
        ],
        "From one collection to another (plain)": [
            "far instead of near: firstp is significantly worse; no significant difference for the other one. The "
            "largest loss is -0.700 [-0.700, -0.700] (firstp). BM25 has 0.500 on near, 0.500 here."
        ],
        "After other training": [
            "Tuned instead of plain, on far: firstp is significantly better; no significant difference for the other "
            "one."
        ],
        "Compared with the first-stage ranking (BM25)": [
            "On near, plain: firstp and maxp are significantly better.",
            "On far, plain: maxp is significantly better.",
            "On far, tuned: maxp is significantly better.",
            "In 1 of 6 comparisons the system is significantly worse.",
        ],
        "How sure": [
            "13 tests on 12 queries, 1 seed a training. Significant: the test, corrected within each column and "
            "baseline, finds a difference and its interval excludes zero. No significant difference does not mean "
            "equal."
        ],
    }


def test_where_nothing_beats_the_first_stage_that_is_said() -> None:
    reading = read(cell("firstp", LOW), cell("maxp", LOW[::-1]), cell("bm25", MIDDLE))
    assert told(reading)["Compared with the first-stage ranking (BM25)"] == [
        "No system is significantly better anywhere.",
        "In 2 of 2 comparisons the system is significantly worse.",
    ]


def test_many_columns_are_left_to_the_details() -> None:
    stages = [cell(name, HIGH, stage=f"s{at}") for at in range(7) for name in ("firstp", "maxp")]
    points = told(read(*stages))["Compared with firstp"]
    assert len(points) == 6
    assert points[-1] == "2 more in the details."


def test_how_often_a_system_loses_to_the_first_stage_is_said_however_many_columns_there_are() -> None:
    stages = [cell(name, HIGH, stage=f"s{at}") for at in range(7) for name in ("firstp", "maxp")]
    points = told(read(*stages, cell("bm25", MIDDLE)))["Compared with the first-stage ranking (BM25)"]
    assert points[-2:] == ["2 more in the details.", "In 0 of 14 comparisons the system is significantly worse."]


def test_one_test_is_said_in_the_singular() -> None:
    (sure,) = told(read(cell("firstp", LOW), cell("maxp", HIGH)))["How sure"]
    assert sure.startswith("1 test on 12 queries, 1 seed a training.")
    lone = told(read(cell("maxp", LOW), cell("bm25", MIDDLE)))
    assert lone["Compared with the first-stage ranking (BM25)"][-1].startswith("In 1 of 1 comparison the system is")


def test_collections_with_other_queries_are_not_set_against_each_other() -> None:
    other = [cell(name, LOW, first_query=100, scored_on="far") for name in ("firstp", "maxp")]
    assert not any("From one collection" in head for head in told(read(*NEAR, *other)))
    same = [cell(name, LOW, scored_on="far") for name in ("firstp", "maxp")]
    (moved,) = told(read(*NEAR, *same))["From one collection to another"]
    assert moved.startswith("far instead of near: firstp and maxp are significantly worse.")
    apart = read(*NEAR, *same, settings={"collections": {"far": {"kind": "toy"}}})
    assert not any("From one collection" in head for head in told(apart)), "their q1 is another question"


def test_what_no_training_changes_is_counted_once_a_collection() -> None:
    ready = [cell("ready", HIGH, scored_on="far", stage="untrained", backbone="", seed=-1)]
    before, after = ("".join(map(str, takeaway(read(*FAR, *TUNED, *more)))) for more in ([], ready))
    assert "of 4 comparisons" in before
    assert "of 5 comparisons" in after


def test_gains_over_a_ranker_that_is_never_trained_are_those_of_every_backbone() -> None:
    ready = cell("ready", MIDDLE, stage="untrained", backbone="", seed=-1)
    trained = [cell(name, HIGH, backbone=backbone) for name in ("firstp", "maxp") for backbone in ("tiny", "other")]
    reading = read(*trained, ready, settings={"gains_over": "ready"})
    assert {own.name for own in reading.own.values()} == {"ready"}
    assert told(reading)["Compared with ready"] == ["On near: all 4 systems are significantly better."]


def test_the_rest_is_folded_on_the_page_and_a_list_in_markdown_and_names_everyone() -> None:
    many = [cell(f"ranker{at}", LOW) for at in range(9)]
    reading = read(*NEAR, *many)
    page, text = render(reading, "html"), render(reading, "md")
    opened = page.index("<details>")
    assert page.index("Compared with firstp") < opened < page.index("Below firstp: ranker0") < page.index("</details>")
    assert (
        text.index("- **Compared with firstp**") < text.index("\n### In detail") < text.index("Below firstp: ranker0")
    )
    for name in (f"ranker{at}" for at in range(9)):
        assert re.search(rf"Below BM25: [^.]*{name}\b", text)


def test_the_points_of_a_sweep_are_said_in_words() -> None:
    one = [cell("maxp", values, **{"reading.max_tokens": at}) for at, values in ((109, LOW), (327, HIGH))]
    assert "maxp at max tokens 327 is significantly better" in str(takeaway(read(*one))[0])
    labels = ("reading.max_tokens", "scoring.reading.max_tokens")
    two = [cell("maxp", values, **dict.fromkeys(labels, at)) for at, values in ((109, LOW), (327, HIGH))]
    assert "maxp at reading max tokens 327 and scoring reading max tokens 327 is" in str(takeaway(read(*two))[0])


def test_where_nothing_was_compared_nothing_is_folded() -> None:
    shown = what_it_shows(read(PLACED))
    assert [str(part).split(" (")[0] for part in shown] == ["Positions in far"]
    assert not any(isinstance(part, Folded) for part in what_it_shows(read(cell("firstp", LOW))))


VALUES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=8, max_size=8)


@settings(max_examples=25)
@given(st.lists(VALUES, min_size=3, max_size=5))
def test_no_system_is_named_that_the_test_and_its_interval_do_not_bear_out(rows: list[list[float]]) -> None:
    bm25, *ranked = rows
    reading = read(cell("bm25", bm25), *(cell("firstp" if not at else f"r{at}", row) for at, row in enumerate(ranked)))
    (column,) = reading.columns
    said = told(reading)
    for letter, head in (("a", "Compared with firstp"), ("b", "Compared with the first-stage ranking (BM25)")):
        above = {row.name for row in reading.rows if told_apart_above(reading, row, column, letter)}
        named = re.search(r"(?:^|: )([^:;]*) (?:is|are) significantly better", said[head][0])
        words = named.group(1) if named else ""
        if words.endswith(" systems"):
            assert len(above) > 3
        else:
            found = {name for name in re.split(", | and ", words) if name and name != "No system"}
            assert found == above


def told_apart_above(reading: Reading, row: Any, column: Any, letter: str) -> bool:
    estimate = reading.against.get((row, column), {}).get(letter)
    return estimate is not None and told_apart(estimate) and estimate.difference > 0
