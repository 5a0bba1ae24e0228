"""An experiment's reports from small records worked out by hand."""

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.errors import DataError, SettingsError, UnknownName
from longrank.evaluation.papers import paper_table
from longrank.experiments.records import CellResult, ExperimentResult, write_result
from longrank.reports.experiment import NAMES, render, write_reports
from longrank.reports.experiment_figures import figure_sections
from longrank.reports.experiment_paper_tables import papers_beside
from longrank.reports.experiment_reading import Reading, read_experiment, told_apart
from longrank.reports.experiment_rows import Column, Row
from longrank.reports.experiment_tables import changes_table, parameters_table, results_table, seeds_table
from longrank.reports.experiment_takeaway import what_it_shows
from longrank.reports.experiment_words import in_detail
from longrank.reports.page import Figure
from longrank.reports.svg import check_inert
from longrank.reports.tables import Table

FIRSTP = Row("firstp", "firstp", "tiny")
MAXP = Row("maxp", "maxp", "tiny")
FAR = Column("toy-far", "zero-shot", "RR")
TUNED = FAR._replace(stage="tuned")


def words(reading: Reading) -> str:
    return " ".join(map(str, what_it_shows(reading)))


def cell(ranker: str, seed: int, values: Sequence[float], **labels: Any) -> CellResult:
    """One scored cell; ``values`` are the reciprocal ranks of q1, q2, ..."""
    reference = ranker in {"bm25", "random", "perfect"}
    known = {
        "ranker": ranker,
        "backbone": "" if reference else "tiny",
        "seed": -1 if reference else seed,
        "stage": "baseline" if reference else "zero-shot",
        "trained_on": "" if reference else "toy",
        "scored_on": "toy-far",
        "retriever": "bm25",
    }
    facts = {"collapsed": labels.pop("collapsed", False), "depth": 20}
    row = {f"q{number}": value for number, value in enumerate(values, start=1)}
    return CellResult({**known, **labels}, {"RR": row}, facts)


def experiment(*cells: CellResult, **about: Any) -> ExperimentResult:
    known = {"title": "Far & away", "size": "laptop", "versions": {"longrank": "0"}, "settings": {}}
    return ExperimentResult({**known, **about}, cells)


# four queries, each twice. firstp over seeds: .75 .5 0 .75, mean .5; maxp: 1 .75 .5 1, mean .8125
# differences .25 .25 .5 .25: mean .3125, variance 2 * .046875 / 7, t = .3125 / sqrt(.0133929 / 8) = 7.638, 7 degrees of
# freedom: p = .00012
HAND = (
    cell("firstp", 0, [1.0, 0.5, 0.0, 0.5] * 2),
    cell("firstp", 1, [0.5, 0.5, 0.0, 1.0] * 2),
    cell("maxp", 0, [1.0, 1.0, 0.5, 1.0] * 2),
    cell("maxp", 1, [1.0, 0.5, 0.5, 1.0] * 2, collapsed=True),
)
# sump against firstp: .25 -.25 0 0, mean 0
SUMP = (cell("sump", 0, [1.0, 0.25, 0.0, 0.75] * 2), cell("sump", 1, [1.0, 0.25, 0.0, 0.75] * 2))


def rich() -> ExperimentResult:
    """Two trainings, references, positions, sizes and run-times: everything a page can show but a sweep."""
    tuned = [
        cell(name, seed, values, stage="tuned", trained_on="toy > toy-far")
        for name, rows in {"firstp": [[0.5] * 8] * 2, "maxp": [[1.0, 1.0, 0.5, 1.0] * 2] * 2}.items()
        for seed, values in enumerate(rows)
    ]
    references = [cell("bm25", -1, [0.5, 0.25, 0.25, 0.5] * 2), cell("random", -1, [0.2] * 8)]
    starts, lengths = {"q1 d1": 3.0, "q2 d2": 90.0}, {"q1 d1": 200.0, "q2 d2": 210.0}
    placed = CellResult(
        {"collection": "toy", "what": "positions"},
        {"start": starts, "stop": {"q1 d1": 40.0, "q2 d2": 120.0}, "length": lengths},
        {"tokenizer": "bert", "pairs": 3},
    )
    sizes = {"name": "toy", "tokenizer": "bert", "documents": 9, "document_tokens": 205.0, "longest_document": 210}
    sizes |= {"queries": 4, "query_tokens": 5.0, "relevant_per_query": 1.0, "judged_queries": 4}
    seconds = {"firstp tiny, round 0": 1.0, "firstp tiny, round 1": 2.0}
    seconds |= {"maxp tiny, round 0": 3.0, "maxp tiny, round 1": 5.0}
    costs = {"documents": 8, "tokens": {"firstp tiny": 800, "maxp tiny": 2000}}
    return experiment(
        *HAND,
        *tuned,
        *references,
        placed,
        CellResult({"collection": "toy", "what": "statistics"}, {}, sizes),
        CellResult({"what": "costs", "scored_on": "toy-far"}, {}, costs, seconds),
        papers=[{"key": "positional-bias", "tables": [4], "figures": []}],
    )


def test_means_gains_tests_and_counts_are_those_worked_out_by_hand() -> None:
    reading = read_experiment(experiment(*HAND))
    place = reading.places[MAXP, FAR]
    assert place.mean == 0.8125
    assert place.interval is not None
    assert 0.5 <= place.interval.low < 0.8125 < place.interval.high <= 1
    assert (place.queries, place.seeds, place.seed_means, place.collapsed) == (8, 2, (0.875, 0.75), 1)
    estimate = reading.against[MAXP, FAR]["a"]
    assert estimate.difference == 0.3125
    assert estimate.relative == 62.5
    assert round(estimate.p, 5) == 0.00012
    assert told_apart(estimate)
    assert (FIRSTP, FAR) not in reading.against


def test_the_results_table_says_all_of_it() -> None:
    table = results_table(read_experiment(experiment(*HAND, *SUMP)))
    assert table.headings == ("system", "toy-far RR", "queries", "seeds", "collapsed")
    firstp, maxp, sump = table.rows
    assert (firstp[1].text, firstp[1].letters, firstp[1].best) == ("0.500", "", False)
    assert (maxp[1].text, maxp[1].letters, maxp[1].best) == ("0.812", "a", True)
    assert maxp[1].gain.endswith(", +62.5%")
    assert (sump[1].text, sump[1].letters) == ("0.500", "")
    assert [each.text for each in maxp[2:]] == ["8", "2", "1"]
    assert any("Holm" in note and "t-test" in note for note in table.notes)


def test_holm_makes_a_second_test_cost_something() -> None:
    alone = read_experiment(experiment(*HAND)).against[MAXP, FAR]["a"]
    beside = read_experiment(experiment(*HAND, *SUMP)).against[MAXP, FAR]["a"]
    assert beside.corrected_p == pytest.approx(2 * alone.p)


def test_words_claim_what_the_test_found_and_no_more() -> None:
    shown = words(read_experiment(experiment(*HAND, *SUMP)))
    assert "toy-far RR (n = 8 queries, 2 seeds). Above firstp: maxp +0.312 [" in shown
    assert "No significant difference from firstp: sump." in shown
    assert "as few as 8 queries" in shown
    assert "collapsed to constant scores, counted in the means like all others: maxp 1" in shown
    assert "Laptop size" in shown


def test_statements_are_lists_on_the_page_and_in_markdown() -> None:
    reading = read_experiment(experiment(*HAND, *SUMP))
    page, text = render(reading, "html"), render(reading, "md")
    assert '<p class="head">toy-far RR (n = 8 queries, 2 seeds)</p>\n<ul>\n<li>Above firstp: maxp +0.312 [' in page
    assert "- **toy-far RR (n = 8 queries, 2 seeds)**\n  - Above firstp: maxp +0.312 \\[" in text


def test_of_five_queries_nothing_is_claimed_however_clear_they_look() -> None:
    for queries, claimed in ((5, False), (6, True)):
        low, high = cell("firstp", 0, [0.1] * queries), cell("maxp", 0, [0.9] * queries)
        reading = read_experiment(experiment(low, high))
        assert told_apart(reading.against[MAXP, FAR]["a"]) is claimed
        assert ("Above firstp: maxp" in words(reading)) is claimed


def test_one_training_a_system_is_said_to_be_one() -> None:
    shown = words(read_experiment(experiment(HAND[0], HAND[2])))
    assert "One training a system" in shown
    assert seeds_table(read_experiment(experiment(HAND[0], HAND[2]))) is None


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=6, max_size=6), min_size=2, max_size=4))
def test_nothing_is_claimed_whose_interval_includes_zero(rows: list[list[float]]) -> None:
    cells = [cell("firstp" if not at else f"ranker{at}", 0, row) for at, row in enumerate(rows)]
    reading = read_experiment(experiment(*cells), draws=199)
    sentence = str(in_detail(reading)[0])
    assert "n = 6 queries" in sentence
    for word, claimed in re.findall(r"(Above|Below) firstp: (.*?)\.(?= |$)", sentence):
        for low, high in re.findall(r"\[([+-][\d.]+), ([+-][\d.]+)\]", claimed):
            assert float(low) >= 0 if word == "Above" else float(high) <= 0


def test_a_ranker_tried_on_fewer_queries_shortens_nobodys_sample() -> None:
    reading = read_experiment(experiment(*HAND, cell("embedding", -1, [1.0, 1.0], stage="untrained", backbone="")))
    queries = {row.name: place.queries for (row, _), place in reading.places.items()}
    assert queries == {"firstp": 8, "maxp": 8, "embedding": 2}
    assert {row.name for row in reading.best(FAR)} == {"maxp"}, "a mean of two queries does not win over eight"


def test_a_later_training_is_compared_with_the_first_on_the_same_queries() -> None:
    reading = read_experiment(rich())
    changes = {change.row.name: change for change in reading.changes}
    assert set(changes) == {"firstp", "maxp"}, "references are the same beside every training and have no change"
    # firstp .5 .5 .5 .5 less .75 .5 0 .75: mean 0; maxp 1 1 .5 1 less 1 .75 .5 1: mean .0625
    assert changes["firstp"].estimate.difference == 0
    assert changes["maxp"].estimate.difference == 0.0625
    assert [each.text for each in changes_table(reading).rows[0][:5]] == [
        "firstp", "toy-far RR", "tuned", "0.500", "zero-shot",
    ]  # fmt: skip
    assert "No significant difference: firstp, maxp." in words(reading)


def test_what_no_training_changes_stands_beside_every_training() -> None:
    reading = read_experiment(rich())
    bm25 = Row("BM25", "bm25", "", reference="retriever")
    assert reading.columns == (FAR, TUNED)
    assert reading.places[bm25, FAR] == reading.places[bm25, TUNED]
    assert reading.places[bm25, FAR].mean == 0.375
    assert reading.baselines == {"a": "firstp", "b": "BM25", "c": "random order"}
    assert reading.rows[-2:] == (bm25, Row("random order", "random", "", reference="random"))


def shown(table: Table) -> dict[str, list[str]]:
    """A paper's system -> our name for it, then number, letters and what stands beside, by column."""
    return {
        row[0].text: [row[1].text, *(f"{c.text}{c.letters} {c.gain}".strip() for c in row[2:])] for row in table.rows
    }


def test_a_papers_table_is_made_in_its_own_shape_with_its_numbers_beside() -> None:
    parade = [cell("parade-attn", seed, [1.0, 1.0, 1.0, 0.75] * 2) for seed in (0, 1)]
    (table,) = papers_beside(read_experiment(dataclasses.replace(rich(), cells=(*rich().cells, *parade)))).values()
    assert table.headings == ("system", "ours is", "far-relevant/zero-shot RR", "far-relevant/fine-tuned RR")
    # Table 4 gives gains over MaxP: .9375 against .8125, 100 * (.9375 / .8125 - 1) = 15.4; FirstP and MaxP have none
    assert shown(table) == {
        "Retriever": ["BM25", "0.375 theirs 0.207", "0.375 theirs 0.207"],
        "Random shuffling of top-100": ["random order", "0.200 theirs 0.052", "0.200 theirs 0.052"],
        "FirstP (BERT)": ["firstp", "0.500 theirs 0.016b", "0.500 theirs 0.090b"],
        "MaxP": ["maxp", "0.812 theirs 0.297b", "0.875 theirs 0.328b"],
        "PARADE Attn": ["parade-attn", "0.938 +15.4%; theirs 0.300b, +1.0%", ""],
    }
    assert any("not the numbers" in note for note in table.notes)
    assert any("none for: " in note and "LongP (Longformer)" in note for note in table.notes)


PAPER = {"key": "positional-bias", "tables": [2]}


def test_our_marks_are_told_apart_from_our_counterpart_of_the_papers_baseline() -> None:
    better = [cell("parade-transformer", seed, [1.0, 1.0, 0.5, 1.0] * 4, scored_on="robust04-title") for seed in (0, 1)]
    worse = [cell("parade-avg", seed, [0.5, 0.5, 0.25, 0.5] * 4, scored_on="robust04-title") for seed in (0, 1)]
    cells = [dataclasses.replace(c, values={"nDCG@20": c.values["RR"]}) for c in (*better, *worse)]
    (table,) = papers_beside(read_experiment(experiment(*cells, papers=[{"key": "parade", "tables": [2]}]))).values()
    assert table.headings == ("system", "ours is", "robust04-title nDCG@20")
    assert [row[2].letters for row in table.rows] == ["†", ""], "PARADE-Avg is marked, the one it is marked against not"


def test_marks_are_over_the_baseline_after_the_same_training_where_two_of_ours_fit_one_place() -> None:
    values = {("maxp", "tuned"): 0.5, ("maxp", "long-tuned"): 0.8, ("avgp", "long-tuned"): 0.8}
    cells = [cell(name, 0, [value, value - 0.1] * 4, stage=stage) for (name, stage), value in values.items()]
    papers = [{"key": "positional-bias", "tables": [4]}]
    (table,) = papers_beside(read_experiment(experiment(*cells, papers=papers))).values()
    (avgp,) = [row[2] for row in table.rows if row[0].text == "AvgP"]
    assert avgp.gain.startswith("+0.0%;")


def test_a_mark_of_a_sweep_is_about_the_other_ranker_at_the_same_setting() -> None:
    better, worse = ([value, value - 0.05] * 8 for value in (0.9, 0.3))
    cells = [
        dataclasses.replace(one, values={"RR": one.values["RR"]})
        for window, stride in ((75, 50), (150, 100))
        for name, row in (("parade-attn", better), ("parade-transf-pretr-l6", worse))
        for one in [cell(name, 0, row, scored_on="msmarco-dev", window_tokens=window, window_stride=stride)]
    ]
    papers = [{"key": "long-document-models", "tables": [8]}]
    (table,) = papers_beside(read_experiment(experiment(*cells, papers=papers))).values()
    marks = {row[0].text: row[2].letters for row in table.rows}
    assert marks["PARADE Attn, window 75, stride 50"] == "b"
    assert marks["PARADE Transf-PRETR-L6, window 150, stride 100"] == "a"
    assert any(note.startswith("Ours (a, b) by a paired t-test") for note in table.notes)


def test_marks_that_none_of_ours_can_have_are_said_to_be_theirs_only() -> None:
    (one,) = [cell("parade-transformer", 0, [0.5, 0.25], scored_on="robust04-title", backbone="bert-tiny")]
    scored = dataclasses.replace(one, values={paper_table("parade/9").columns[0].measure: one.values["RR"]})
    papers = [{"key": "parade", "tables": [9]}]
    tables = papers_beside(read_experiment(experiment(scored, papers=papers)))
    assert all(any(note.startswith("Theirs only") for note in table.notes) for table in tables.values())
    assert tables


def test_debiased_training_is_put_beside_the_same_rankers_first_training() -> None:
    cells = [cell("cedr-knrm", 0, values, stage=stage) for stage, values in
             (("zero-shot", [0.2, 0.2]), ("debiased", [0.3, 0.4]))]  # fmt: skip
    (table,) = papers_beside(read_experiment(experiment(*cells, papers=[PAPER]))).values()
    # ours: .35 / .2; Table 2 prints .202 and +268.8%
    assert shown(table) == {
        "CEDR-KNRM": ["cedr-knrm", "0.200 theirs 0.055"],
        "CEDR-KNRM, de-biased": ["cedr-knrm", "0.350 +75.0%; theirs 0.202a, +268.8%"],
    }


def test_a_row_of_a_backbone_that_the_paper_has_is_put_beside_no_other_backbones() -> None:
    cells = [cell("firstp", 0, [0.5, 1.0], backbone=backbone) for backbone in ("bert", "deberta", "minilm")]
    papers = [{"key": "positional-bias", "tables": [4]}]
    (table,) = papers_beside(read_experiment(experiment(*cells, papers=papers))).values()
    pairs = [(row[0].text, row[1].text) for row in table.rows]
    assert pairs == [("FirstP (BERT)", "firstp (bert)"), ("FirstP (BERT)", "firstp (minilm)")]


@pytest.mark.parametrize(
    ("table", "labels", "system"),
    [
        ("parade/9", {"ranker": "parade-transformer", "backbone": "bert-l2-h512"}, "BERT, 2 layers of 512"),
        ("parade/8", {"ranker": "longp", "backbone": "big-bird"}, "Big-Bird"),
        ("parade/2", {"ranker": "maxp", "backbone": "electra"}, "ELECTRA-MaxP"),
        ("parade/2", {"ranker": "k-max", "backbone": "electra"}, "Birch"),
    ],
)
def test_rows_of_parade_are_found_by_what_they_are(table: str, labels: dict[str, str], system: str) -> None:
    measure = paper_table(table).columns[0].measure
    one = cell(labels["ranker"], 0, [], scored_on="robust04-title", stage="robust04-title", backbone=labels["backbone"])
    scored = dataclasses.replace(one, values={measure: {"1": 0.5, "2": 0.25}})
    key, _, number = table.partition("/")
    found = papers_beside(read_experiment(experiment(scored, papers=[{"key": key, "tables": [int(number)]}])))
    assert [row[0].text for each in found.values() for row in each.rows] == [system]


def test_a_reverse_transfer_is_not_put_beside_the_papers_main_result() -> None:
    cells = [cell(name, 0, [1.0, 0.5], scored_on="toy", stage=stage) for name in ("firstp", "maxp") for stage in
             ("zero-shot", "tuned")]  # fmt: skip
    papers = papers_beside(read_experiment(experiment(*cells, papers=[{"key": "positional-bias", "tables": [1]}])))
    (table,) = papers.values()
    assert [row[1].text for row in table.rows] == ["firstp", "maxp"]
    assert table.headings[2:] == ("msmarco-dev RR",), "of four columns to average there is one"


def test_a_sweep_over_chunks_finds_the_papers_row_of_as_many_chunks() -> None:
    cells = [cell("parade-attn", 0, [0.5, 1.0], scored_on="msmarco-dev", max_tokens=tokens) for tokens in (1431, 1908)]
    reading = read_experiment(experiment(*cells, papers=[{"key": "positional-bias", "tables": [6]}]))
    (table,) = papers_beside(reading).values()
    assert [row[0].text for row in table.rows] == ["PARADE Attn (3 chunks)", "PARADE Attn (4 chunks)"]
    assert not any("Other data" in note for note in table.notes)


def test_three_years_of_queries_are_pooled_query_by_query() -> None:
    years = {"trec-dl-2019": {"1": 1.0}, "trec-dl-2020": {"2": 0.0, "3": 0.5}, "trec-dl-2021": {"4": 0.5}}
    cells = [
        dataclasses.replace(cell(name, 0, [], scored_on=year), values={"nDCG@10": values})
        for name in ("firstp", "maxp")
        for year, values in years.items()
    ]
    reading = read_experiment(experiment(*cells))
    place = reading.places[FIRSTP, Column("trec-dl-2019-2021", "zero-shot", "nDCG@10")]
    assert (place.mean, place.queries) == (0.5, 4)  # (1 + 0 + .5 + .5) / 4; the mean of means would be .583
    assert reading.places[FIRSTP, Column("trec-dl-2019", "zero-shot", "nDCG@10")].interval is None


def test_gains_may_refer_to_another_ranker() -> None:
    reading = read_experiment(experiment(*HAND), baseline="maxp")
    assert reading.own == {FIRSTP: MAXP}
    assert reading.against[FIRSTP, FAR]["a"].difference == -0.3125
    with pytest.raises(UnknownName, match="no ranker 'minp' to compare with; the experiment has firstp, maxp"):
        read_experiment(experiment(*HAND), baseline="minp")


def test_the_file_says_to_which_ranker_gains_refer_until_another_is_asked_for() -> None:
    named = experiment(*HAND, *SUMP, settings={"gains_over": "maxp"})
    reading = read_experiment(named)
    assert {mine.name: own.name for mine, own in reading.own.items()} == {"firstp": "maxp", "sump": "maxp"}
    assert reading.baselines["a"] == "maxp"
    assert {own.name for own in read_experiment(named, baseline="sump").own.values()} == {"sump"}
    unfinished = experiment(*HAND, settings={"gains_over": "sump"})
    assert read_experiment(unfinished).own == {MAXP: FIRSTP}, "until it has been scored FirstP stands in for it"


def test_a_backbone_is_named_where_a_ranker_has_several() -> None:
    other = [cell("longp", 0, [0.5] * 8, backbone="rope")]
    reading = read_experiment(experiment(*HAND, *other))
    assert [row.name for row in reading.rows] == ["firstp", "maxp", "longp"]
    assert reading.baselines["a"] == "firstp", "nobody else's backbone is compared with it"


def test_a_first_stage_is_named_where_a_collection_has_several() -> None:
    one = [cell("maxp", 0, [0.5] * 8, retriever="bm25"), cell("maxp", 0, [0.5] * 8, retriever="rm3", scored_on="gov2")]
    assert {row.name for row in read_experiment(experiment(*one)).rows} == {"maxp"}
    several = [cell("maxp", 0, [0.5] * 8, retriever=name) for name in ("bm25", "rm3")]
    names = {row.name for row in read_experiment(experiment(*several)).rows}
    assert names == {"maxp retriever=bm25", "maxp retriever=rm3"}


def test_each_backbone_has_its_own_baseline() -> None:
    other = [cell(name, 0, values, backbone="small") for name, values in (("firstp", [0.0] * 4), ("maxp", [0.5] * 4))]
    reading = read_experiment(experiment(*HAND, *other))
    assert {mine.name: own.name for mine, own in reading.own.items()} == {
        "maxp (tiny)": "firstp (tiny)",
        "maxp (small)": "firstp (small)",
    }
    assert reading.baselines["a"] == "firstp of the same backbone"


def with_a_chat_model(**named: str) -> ExperimentResult:
    """Two that are not trained: one reads the start, has .25 and takes 2 seconds; one reads all, has .5, takes 8."""
    ready = [
        cell("gpt-first", -1, [0.25] * 8, stage="untrained", backbone=""),
        cell("gpt-whole", -1, [0.75, 0.25] * 4, stage="untrained", backbone=""),
    ]
    seconds = {"gpt-first, round 0": 2.0, "gpt-whole, round 0": 8.0, "firstp tiny, round 0": 1.0}
    costs = CellResult({"what": "costs", "scored_on": "toy-far"}, {}, {"documents": 8}, seconds)
    tables = [{"label": "gpt-first"}, {"label": "gpt-whole", **named}]
    return experiment(*HAND, *ready, costs, settings={"untrained": tables})


def test_an_untrained_ranker_gains_over_the_one_that_the_file_names() -> None:
    assert {mine.name for mine in read_experiment(with_a_chat_model()).own} == {"maxp"}
    reading = read_experiment(with_a_chat_model(baseline="gpt-first"))
    assert {mine.name: own.name for mine, own in reading.own.items()} == {"maxp": "firstp", "gpt-whole": "gpt-first"}
    assert reading.baselines["a"] == "firstp, or gpt-first"
    (whole,) = [row for row in reading.rows if row.name == "gpt-whole"]
    assert reading.against[whole, FAR]["a"].relative == 100
    asked = read_experiment(with_a_chat_model(baseline="gpt-first"), baseline="firstp")
    assert {mine.name for mine in asked.own} == {"maxp"}, "whoever asks for one baseline gets that one"


def test_seconds_of_processors_are_not_set_against_seconds_of_waiting() -> None:
    ready = cell("gpt", -1, [0.25] * 8, stage="untrained", backbone="")
    seconds = {"gpt, round 0": 10.0, "maxp tiny, round 0": 2.0}
    costs = CellResult({"what": "costs", "scored_on": "toy-far"}, {}, {"documents": 8}, seconds)
    reading = read_experiment(experiment(ready, cell("maxp", 0, [0.5] * 8), costs))
    assert [own.name for own in reading.own.values()] == ["gpt"]
    assert "Gain against cost" not in {section.heading for section in figure_sections(reading) if section.parts}


def test_an_untrained_ranker_stands_in_the_figure_of_gain_against_cost() -> None:
    reading = read_experiment(with_a_chat_model(baseline="gpt-first"))
    sections = {section.heading: section.parts for section in figure_sections(reading)}
    (figure,) = sections["Gain against cost"]
    assert isinstance(figure, Figure)
    assert figure.alt == "Points. gpt-whole: 4.00 times, +100.0%."


def test_the_figure_of_gain_against_cost_calls_the_baseline_by_its_name() -> None:
    def drawn(reading: Reading) -> str:
        (figure,) = {section.heading: section.parts for section in figure_sections(reading)}["Gain against cost"]
        assert isinstance(figure, Figure)
        return figure.svg

    over_maxp = drawn(read_experiment(rich(), baseline="maxp"))
    assert "average gain over own maxp, %" in over_maxp
    assert "FirstP" not in over_maxp
    assert "average gain over own firstp, %" in drawn(read_experiment(rich()))


def swept(**points: Sequence[int]) -> Reading:
    """A sweep of one ranker whose mean grows with the sum of its settings."""
    first, *rest = points
    pairs = [{first: a} for a in points[first]]
    for label in rest:
        pairs = [{**pair, label: b} for pair in pairs for b in points[label]]
    cells = [cell("maxp", 0, [sum(p.values()) / 1000, 0.5, 0.25], **p) for p in pairs]
    return read_experiment(experiment(*cells))


def test_a_sweep_of_one_parameter_is_a_line_and_of_two_a_heat_map() -> None:
    one, two = swept(max_chunks=[1, 2]), swept(window_tokens=[35, 75], window_stride=[25, 50, 75])
    (line,) = figure_sections(one)[0].parts
    (grid,) = figure_sections(two)[0].parts
    assert isinstance(line, Figure) and isinstance(grid, Figure)
    assert line.caption.startswith("toy-far RR by max_chunks")
    assert grid.caption.startswith("maxp: toy-far RR by window_tokens and window_stride")
    assert results_table(two).headings[:4] == ("system", "window_tokens", "window_stride", "toy-far RR")
    assert one.baselines == {"a": "the first setting of the same ranker"}
    assert [row.name for row in one.own] == ["maxp max_chunks=2"]


def test_parameters_that_a_sweep_changes_are_told_from_the_fewest_to_the_most() -> None:
    cells = [
        dataclasses.replace(cell("maxp", 0, [0.5] * 8, layers=layers), facts={"parameters": count})
        for layers, count in ((1, 1000), (2, 2000))
    ]
    table = parameters_table(read_experiment(experiment(*cells)))
    assert table is not None
    assert [[each.text for each in row] for row in table.rows] == [["maxp", "tiny", "1,000 to 2,000"]]


def test_a_first_stage_that_no_point_of_a_sweep_changes_has_one_row() -> None:
    swept = [cell("maxp", 0, [0.5, 1.0], max_tokens=tokens) for tokens in (109, 218)]
    first = [cell("bm25", -1, [0.5, 0.25], max_tokens=tokens) for tokens in (109, 218)]
    rows = results_table(read_experiment(experiment(*swept, *first))).rows
    assert [row[0].text for row in rows] == ["maxp", "maxp", "BM25"]


def test_the_average_gain_is_that_of_all_columns_of_the_papers_table() -> None:
    columns = [("msmarco-dev", "RR"), ("trec-dl-2019-2021", "nDCG@10")]
    columns += [("robust04-title", "nDCG@20"), ("robust04-description", "nDCG@20")]
    values = {"firstp": ([0.5, 0.5],) * 4, "maxp": ([0.5, 0.7], [0.5, 0.6], [0.5, 0.5], [0.6, 0.4])}
    cells = [
        dataclasses.replace(one, values={measure: one.values["RR"]})
        for name, rows in values.items()
        for (collection, measure), row in zip(columns, rows, strict=True)
        for one in [cell(name, 0, row, scored_on=collection)]
    ]
    papers = [{"key": "positional-bias", "tables": [1]}]
    (table,) = papers_beside(read_experiment(experiment(*cells, papers=papers))).values()
    # gains of 20, 10, 0 and 0 percent
    assert shown(table)["MaxP"][-1] == "+7.5% theirs +1.9%"


def test_a_sweep_with_firstp_compares_within_each_point() -> None:
    cells = [
        cell(name, 0, [0.5, 0.25, high], max_tokens=tokens)
        for name, high in (("firstp", 0.1), ("maxp", 0.9))
        for tokens in (100, 200)
    ]
    reading = read_experiment(experiment(*cells))
    assert {mine.name: own.name for mine, own in reading.own.items()} == {
        "maxp max_tokens=100": "firstp max_tokens=100",
        "maxp max_tokens=200": "firstp max_tokens=200",
    }


def test_a_page_has_every_figure_the_records_allow() -> None:
    sections = {section.heading: section.parts for section in figure_sections(read_experiment(rich()))}
    assert list(sections) == ["Before and after", "Gain against cost", "Where relevance sits"]
    captions = {name: parts[0].alt for name, parts in sections.items() if not isinstance(parts[0], str)}  # type: ignore[union-attr]
    # maxp takes 3/1 and 5/2 times firstp's time: median 2.75; gains 62.5% and 100 * .375 / .5 = 75%
    assert captions["Gain against cost"] == "Points. maxp: 2.75 times, +68.8%."
    assert "2 of 3 relevant pairs located, median start 46" in captions["Where relevance sits"]
    assert captions["Before and after"] == (
        "Bars: firstp from 0.500 to 0.500; maxp from 0.812 to 0.875. Line at 0.375: BM25. Line at 0.200: random order."
    )


def test_words_and_tables_hold_no_times() -> None:
    slower = [dataclasses.replace(c, seconds={k: 7 * v for k, v in c.seconds.items()}) for c in rich().cells]
    one, other = (read_experiment(ExperimentResult(rich().about, tuple(cells))) for cells in (rich().cells, slower))
    for name in ("md", "latex"):
        assert render(one, name) == render(other, name)
    assert "| maxp | +68.8% | 2.50 |" in render(one, "md")  # 2000 tokens over 800


def test_an_experiment_about_collections_alone_has_a_report_too() -> None:
    cells = [each for each in rich().cells if each.labels.get("what") in {"positions", "statistics"}]
    reading = read_experiment(experiment(*cells))
    page = render(reading, "html")
    assert "Where relevance sits" in page
    # starts 3 and 90, lengths 200 and 210
    assert list(map(str, what_it_shows(reading))) == [
        "Positions in toy (n = 2 located of 3 relevant pairs). Half of the first relevant passages start by token 46, "
        "nine tenths by token 90; the median document has 205 tokens."
    ]
    assert "| toy | 9 | 205.0 |" in render(reading, "md")


def test_the_same_records_give_the_same_bytes_in_whatever_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_result(first, rich())
    write_result(second, rich())
    one, _ = write_reports(first), write_reports(second)
    assert {name: path.name for name, path in one.items()} == dict(NAMES)
    for path in sorted(each.relative_to(first) for each in first.rglob("*") if each.is_file()):
        assert (first / path).read_bytes() == (second / path).read_bytes()
    backwards = read_experiment(ExperimentResult(rich().about, (*HAND[2:], *HAND[:2])))
    forwards = read_experiment(experiment(*HAND))
    assert backwards.against[MAXP, FAR]["a"].interval == forwards.against[MAXP, FAR]["a"].interval


def test_markdown_shows_its_figures_from_small_files_beside_it(tmp_path: Path) -> None:
    write_result(tmp_path, rich())
    text = write_reports(tmp_path, formats=["md"])["md"].read_text(encoding="utf-8")
    shown = re.findall(r"!\[([^\]]+)\]\(figures/([\w-]+\.svg)\)", text)
    # the figure of costs is of run-times, which are never the same twice
    assert [name for _, name in shown] == ["one-training-against-another-1.svg", "where-relevance-sits-1.svg"]
    assert shown[0][0].startswith("Bars: firstp from 0.500")
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "figures").iterdir()}
    assert files.keys() == {name for _, name in shown}
    for svg in files.values():
        check_inert(svg)
        assert 'xmlns="http://www.w3.org/2000/svg"' in svg, "else no browser shows it as an image"
        assert len(svg) < 60_000


def test_the_page_alone_needs_no_files_of_figures(tmp_path: Path) -> None:
    write_result(tmp_path, rich())
    write_reports(tmp_path, formats=["html", "latex"])
    assert not (tmp_path / "figures").exists()


def test_latex_and_markdown_are_escaped_and_complete() -> None:
    reading = read_experiment(experiment(*HAND, title="50% of R&D"))
    latex, markdown = render(reading, "latex"), render(reading, "md")
    assert latex.startswith("% 50% of R&D\n")
    assert r"0.812$^{a}$" in latex or r"\textbf{0.812}$^{a}$" in latex
    assert r"+62.5\%" in latex
    assert r"\label{tab:50-of-r-d-1}" in latex
    assert r"\caption{\textbf{Results.} Means over queries" in latex
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 2  # results and seeds
    assert "| maxp | **0.812**<sup>a</sup> (" in markdown
    assert markdown.startswith("# 50% of R&D\n")


def test_a_title_of_two_lines_stays_in_its_heading_and_its_comment() -> None:
    reading = read_experiment(experiment(*HAND, title="Far\n\\input{away}"))
    assert render(reading, "latex").startswith("% Far \\input{away}\n% ")
    assert render(reading, "md").startswith("# Far \\\\input{away}\n\n")


def test_an_unfinished_experiment_says_so() -> None:
    shown = what_it_shows(read_experiment(experiment(*HAND, cells=9, finished_cells=4)))
    assert shown[0] == "Unfinished: 4 of 9 cells are there; what follows is about these."


@pytest.mark.parametrize(
    ("write", "arguments", "error", "words"),
    [
        (False, {}, DataError, "holds no experiment"),
        (True, {}, DataError, "no finished cell"),
        (True, {"formats": ["pdf"]}, SettingsError, "no report format 'pdf'; known: html, md, latex"),
    ],
)
def test_what_cannot_be_reported_is_refused_with_a_reason(
    tmp_path: Path, write: bool, arguments: Mapping[str, Any], error: type[Exception], words: str
) -> None:
    if write:
        write_result(tmp_path, experiment())
    with pytest.raises(error, match=re.escape(words)):
        write_reports(tmp_path, **arguments)


# -- in a browser ------------------------------------------------------------------------------------------------------

PROBE = """<script>
const table = document.querySelector("table.sortable");
const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent).join(" ");
const button = table.querySelectorAll("th button")[1];
button.focus();
button.click();
const seen = [names(), button.parentElement.getAttribute("aria-sort"), document.activeElement === button];
seen.push(document.documentElement.scrollWidth > window.innerWidth ? "overflow" : "fits");
document.body.dataset.seen = seen.join("; ");
</script></body>"""


@pytest.fixture
def browse(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed to open the page in")
    flags = ["--headless", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"]
    flags += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr"]

    def run(html: str, *more: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        command = [program, *flags, f"--user-data-dir={tmp_path / 'profile'}", *more, path.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    return run


def test_the_page_sorts_fits_a_phone_and_asks_for_nothing(
    browse: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    page = render(read_experiment(rich()), "html")
    assert not re.search(r"(?:src|href)=[\"'](?!#|data:)", page)
    free = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", page).replace("</body>", PROBE)
    shown = browse(free, "--window-size=390,844", "--dump-dom")
    found = re.search(r'data-seen="([^"]*)"', shown.stdout)
    assert found is not None
    assert found.group(1).split("; ") == ["maxp firstp BM25 random order", "descending", "true", "fits"]
    assert "CONSOLE" not in shown.stderr


def test_equal_rows_have_equal_intervals_whatever_they_are_called() -> None:
    values = {f"q{number}": number % 5 / 5 for number in range(30)}
    labels: dict[str, Any] = {"backbone": "tiny", "seed": 0, "stage": "plain", "scored_on": "near"}
    cells = [CellResult({"ranker": name, **labels}, {"RR": values}, {}) for name in ("firstp", "avgp", "parade-avg")]
    first = CellResult({"ranker": "firstp", **labels}, {"RR": dict.fromkeys(values, 0.5)}, {})
    reading = read_experiment(ExperimentResult({"title": "Twins", "versions": {}}, (first, *cells[1:])))
    (column,) = reading.columns
    _, one, other = reading.rows
    assert reading.places[one, column].interval == reading.places[other, column].interval
    assert reading.against[one, column]["a"].interval == reading.against[other, column]["a"].interval
