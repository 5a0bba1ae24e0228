"""Relevant documents by rank and by who found them, from records small enough to count."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from longrank.experiments.records import CellResult, ExperimentResult, read_result, write_result
from longrank.reports.experiment import render
from longrank.reports.experiment_found import found_orders, found_table
from longrank.reports.experiment_paper_tables import papers_beside
from longrank.reports.experiment_reading import read_experiment
from longrank.reports.found_plot import ALL, ALONE, SOME
from longrank.reports.svg import check_inert

Ranks = dict[str, dict[str, int]]


def order(ranker: str, retriever: str, ranks: Ranks, seed: int = -1, **labels: Any) -> CellResult:
    known = {
        "ranker": ranker,
        "backbone": "" if seed < 0 else "tiny",
        "seed": seed,
        "stage": "baseline" if seed < 0 else "few",
        "trained_on": "" if seed < 0 else "few",
        "scored_on": "few",
        "retriever": retriever,
    }
    values = {"AP": {"q1": 0.5, "q2": 0.25}}
    return CellResult({**known, **labels}, values, {"depth": 30, "queries": 2}, {}, ranks)


# bm25 found a, b and x, rm3 a, b and y, z: a and b are common
BM25: Ranks = {"q1": {"a": 1, "x": 25}, "q2": {"b": 12}}
RM3: Ranks = {"q1": {"a": 2, "y": 30}, "q2": {"b": 11, "z": 9}}
OVER_BM25 = [{"q1": {"a": 2, "x": 8}, "q2": {"b": 1}}, {"q1": {"a": 1, "x": 18}, "q2": {"b": 4}}]  # a table a seed
CELLS = (
    order("bm25", "bm25", BM25),
    order("rm3", "rm3", RM3),
    *(order("maxp", "bm25", ranks, seed) for seed, ranks in enumerate(OVER_BM25)),
    order("maxp", "rm3", RM3, 0),
)
RESULT = ExperimentResult({"title": "First stages", "size": "laptop"}, CELLS)


def test_documents_are_divided_by_which_first_stages_found_them() -> None:
    orders = {found.name: found for found in found_orders(RESULT)}
    assert list(orders) == ["bm25", "maxp over bm25", "rm3", "maxp over rm3"]
    assert orders["bm25"].ranks == {ALL: [{("q1", "a"): 1, ("q2", "b"): 12}], ALONE: [{("q1", "x"): 25}]}
    assert orders["rm3"].ranks[ALONE] == [{("q1", "y"): 30, ("q2", "z"): 9}]
    assert [len(table) for table in orders["maxp over bm25"].ranks[ALONE]] == [1, 1]


def test_counts_are_means_over_seeds_and_queries() -> None:
    reranked = next(found for found in found_orders(RESULT) if found.name == "maxp over bm25")
    assert reranked.per_query(ALONE, 1, 10) == [0.5, 0.0]  # x is at 8 with one seed, at 18 with the other
    assert reranked.per_query(ALL, 1, 3) == [1.0, 0.5]
    table = found_table(read_experiment(RESULT))
    assert table is not None
    assert table.headings == (
        "order",
        "found by",
        "documents",
        "in the first 10",
        "in the first 20",
        "in all",
        "median rank",
    )
    (row,) = [row for row in table.rows if (row[0].text, row[1].text) == ("maxp over bm25", ALONE)]
    assert row[2].text == "1"
    assert [cell.text.split()[0] for cell in row[3:6]] == ["0.25", "0.50", "0.50"]
    assert row[6].text == "13"  # of 8 and 18


def test_of_three_first_stages_some_others_are_a_group_of_their_own() -> None:
    third = order("hybrid", "hybrid", {"q1": {"a": 1, "x": 3}})
    found = next(each for each in found_orders(ExperimentResult({}, (*CELLS, third))) if each.name == "bm25")
    # a was found by all three, x by hybrid too, b by rm3 too
    assert {group: sorted(tables[0]) for group, tables in found.ranks.items()} == {
        ALL: [("q1", "a")],
        SOME: [("q1", "x"), ("q2", "b")],
    }


def test_one_first_stage_alone_is_not_divided() -> None:
    alone = ExperimentResult({}, tuple(cell for cell in CELLS if cell.labels["retriever"] == "bm25"))
    assert found_orders(alone) == []
    assert found_table(read_experiment(alone)) is None


def test_ranks_are_read_as_they_were_written_and_stand_on_the_page(tmp_path: Path) -> None:
    write_result(tmp_path, RESULT)
    again = read_result(tmp_path)
    assert [cell.ranks for cell in again.cells] == [cell.ranks for cell in CELLS]
    page = render(read_experiment(again), "html")
    assert "Which first stage found the relevant documents" in page
    drawn = page[page.index("<svg") : page.rindex("</svg>") + len("</svg>")]
    check_inert(drawn if drawn.count("<svg") == 1 else drawn[: drawn.index("</svg>") + len("</svg>")])
    assert "found by this one alone" in page


def test_each_row_of_parades_table_12_stands_beside_ours_the_ensemble_too() -> None:
    printed: Any = {"scored_on": "robust04-title"}
    rankers = [
        order(name, "rm3", RM3, 0, **printed) for name in ("parade-transformer", "parade-transformer+first-stage")
    ]
    rows = (order("rm3", "rm3", RM3, **printed), *rankers, order("parade-transformer", "bm25", BM25, 0, **printed))
    cells = tuple(replace(cell, values={"nDCG@20": cell.values["AP"]}) for cell in rows)
    result = ExperimentResult({"papers": [{"key": "parade", "tables": [12]}]}, cells)
    (table,) = papers_beside(read_experiment(result)).values()
    assert table.headings[2:] == ("robust04-title nDCG@20",)
    assert {row[1].text: (row[0].text, row[2].gain) for row in table.rows} == {
        "rm3 retriever=rm3": ("BM25+RM3", "theirs 0.4407"),
        "parade-transformer retriever=bm25": ("PARADE-Transformer (BM25)", "theirs 0.5291"),
        "parade-transformer retriever=rm3": ("PARADE-Transformer (BM25+RM3)", "theirs 0.5303"),
        "parade-transformer+first-stage retriever=rm3": ("PARADE-Transformer (BM25+RM3, Ensemble)", "theirs 0.5411"),
    }
