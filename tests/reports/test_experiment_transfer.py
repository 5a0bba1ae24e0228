"""The reverse transfer and pooled query sets of a made-up result beside what the paper says."""

from collections.abc import Sequence
from typing import Any

from longrank.experiments.records import CellResult, ExperimentResult, Labels
from longrank.reports.experiment import report_tables
from longrank.reports.experiment_reading import read_experiment
from longrank.reports.experiment_transfer import transfer_beside

FOUR = {"key": "positional-bias", "tables": [4]}
_TEXT = "positional-bias, text about the reverse transfer"


def scored(ranker: str, stage: str, scored_on: str, values: Sequence[float]) -> CellResult:
    labels: Labels = {
        "ranker": ranker,
        "backbone": "bert",
        "seed": 0,
        "stage": stage,
        "trained_on": {"tuned": "msmarco > far-relevant"}.get(stage, "msmarco"),
        "scored_on": scored_on,
        "retriever": "bm25",
    }
    return CellResult(labels, {"nDCG@10": {f"{scored_on}{n}": v for n, v in enumerate(values)}}, {"depth": 100})


def result(*cells: CellResult, **about: Any) -> ExperimentResult:
    return ExperimentResult({"title": "Reverse", "papers": [FOUR], **about}, cells)


CELLS = [
    scored(ranker, stage, where, values)
    for ranker in ("cedr-knrm", "maxp")
    for where in ("trec-dl-2019", "trec-dl-2020", "msmarco-dev")
    for stage, values in (("zero-shot", (0.6, 0.7, 0.8, 0.7)), ("tuned", (0.5, 0.6, 0.65, 0.55)))
]


def test_what_tuning_far_away_costs_on_trec_dl_stands_beside_the_papers_words() -> None:
    table = transfer_beside(read_experiment(result(*CELLS)))[_TEXT]
    shown = [[cell.text for cell in row] for row in table.rows]
    assert [row[:2] for row in shown] == [
        ["cedr-knrm", "trec-dl-2019 nDCG@10"],
        ["cedr-knrm", "trec-dl-2020 nDCG@10"],
    ]
    assert all(row[2].startswith("-0.125 [") for row in shown)  # (.1 + .1 + .15 + .15) / 4 lost
    assert "drop (0.1–0.15) observed for PARADE Transformer and CEDR-KNRM" in table.notes[0]


def test_the_words_stand_only_beside_a_second_training_and_where_the_paper_is_named() -> None:
    once = [cell for cell in CELLS if cell.labels["stage"] == "zero-shot"]
    assert transfer_beside(read_experiment(result(*once))) == {}
    assert transfer_beside(read_experiment(result(*CELLS, papers=[]))) == {}


def test_the_passages_of_two_years_are_one_column_beside_table_3() -> None:
    papers = [{"key": "positional-bias", "tables": [3]}]
    cells = [scored("cedr-knrm", "original", f"trec-dl-{year}-passage", [0.5, 0.7]) for year in (2019, 2020)]
    table = report_tables(read_experiment(result(*cells, papers=papers)))["Beside the papers: positional-bias, Table 3"]
    assert any("theirs 0.599" in cell.gain for row in table.rows for cell in row)  # theirs, original training
