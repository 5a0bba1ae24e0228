"""Sizes of collections and models stand beside the papers' tables of them."""

from typing import Any

from longrank.experiments.records import CellResult, ExperimentResult
from longrank.reports.experiment_reading import read_experiment
from longrank.reports.experiment_sizes import sizes_beside
from longrank.reports.tables import Table


def named(table: int, *cells: CellResult, paper: str = "positional-bias") -> Table:
    about = {"papers": [{"key": paper, "tables": [table]}]}
    (found,) = sizes_beside(read_experiment(ExperimentResult(about, cells))).values()
    return found


def shown(table: Table) -> dict[str, list[str]]:
    return {row[0].text: [row[1].text, *(f"{cell.text} {cell.gain}".strip() for cell in row[2:])] for row in table.rows}


def sizes(name: str, **facts: Any) -> CellResult:
    known = {"name": name, "tokenizer": "bert", "documents": 9, "document_tokens": 205.4, "longest_document": 210}
    known |= {"queries": 4, "query_tokens": 5.0, "relevant_per_query": 1.25, "judged_queries": 4}
    return CellResult({"collection": name, "what": "statistics"}, {}, {**known, **facts})


def test_documents_and_queries_stand_beside_the_papers_counts() -> None:
    cells = sizes("msmarco", documents=3_213_835), sizes("trec-dl-2019", queries=43), sizes("toy")
    assert shown(named(9, *cells)) == {
        "MS MARCO documents v1": ["msmarco", "3,213,835 theirs 3,200,000", "205 theirs 1,400"],
    }
    assert shown(named(10, *cells)) == {
        "MS MARCO documents train": ["msmarco", "4 theirs 352,000", "5 theirs 7", "1.2 theirs 1"],
        "TREC DL 2019": ["trec-dl-2019", "43 theirs 43", "5 theirs 7", "1.2 theirs 153.4"],
    }


def trained(ranker: str, backbone: str, millions: float) -> CellResult:
    labels: dict[str, Any] = {
        "ranker": ranker,
        "backbone": backbone,
        "seed": 0,
        "stage": "msmarco",
        "scored_on": "msmarco-dev",
    }
    return CellResult(
        {**labels, "trained_on": "", "retriever": "bm25"}, {"RR": {"q": 1.0}}, {"parameters": millions * 1e6}
    )


def test_parameters_are_counted_for_what_a_row_of_the_paper_is_about() -> None:
    cells = [
        trained("firstp", "bert", 109.5),
        trained("longp", "longformer", 149),
        trained("parade-transf-pretr-l6", "bert", 132.5),
        trained("parade-transf-rand-l2", "bert", 148.1),
    ]
    assert shown(named(11, *cells)) == {
        "PARADE Transformer": [
            "parade-transf-pretr-l6, parade-transf-rand-l2",
            "132,500,000 theirs 132,000,000",
            "148,100,000 theirs 148,000,000",
        ],
        "Longformer": ["longp", "149,000,000 theirs 149,000,000", "149,000,000 theirs 149,000,000"],
        "other BERT- and ELECTRA-based": [
            "firstp",
            "109,500,000 theirs 110,000,000",
            "109,500,000 theirs 110,000,000",
        ],
    }
    earlier = shown(named(3, *cells, paper="long-document-models"))
    assert earlier["PARADE Transf-PRETR-L6"] == ["parade-transf-pretr-l6", "132,500,000 theirs 132,000,000"]
    assert earlier["all others"] == ["firstp", "109,500,000 theirs 110,000,000"]
