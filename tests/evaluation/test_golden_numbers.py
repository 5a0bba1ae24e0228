"""Published values of runs in the shared data folder, and trec_eval's own test outputs."""

import bz2
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from longrank.core.types import Qrels
from longrank.corpora.formats.trec import read_qrels
from longrank.evaluation import RunColumns, evaluate_columns, evaluate_run, read_columns
from longrank.evaluation.measures import Missing

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
GOLDEN, TREC_EVAL = DATA / "golden", DATA / "trec_eval"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the shared folder with golden runs is absent")
needs_trec_eval = pytest.mark.skipif(
    not TREC_EVAL.is_dir(), reason="the shared folder with trec_eval's files is absent"
)

NAMES = {"map": "AP", "recip_rank": "RR", "ndcg": "nDCG", "bpref": "Bpref", "Rprec": "Rprec", "infAP": "infAP"}
CUT_NAMES = {"P": "P", "recall": "R", "ndcg_cut": "nDCG", "map_cut": "AP", "success": "Success"}


@cache
def golden_run(name: str) -> RunColumns:
    return read_columns(GOLDEN / name)


@cache
def golden_qrels(name: str) -> Qrels:
    return read_qrels(GOLDEN / name)


@needs_golden
@pytest.mark.parametrize(
    ("run", "qrels", "expected"),
    [
        (
            "trec-dl-2019.retriever.run.bz2",
            "trec-dl-2019.qrels",
            {"nDCG@10": 0.6154, "nDCG@20": 0.5905, "nDCG@100": 0.5670, "P@20": 0.5930, "AP": 0.2834, "RR": 0.8832},
        ),
        (
            "robust04-title.bm25.run.bz2",
            "robust04.qrels.gz",
            {"nDCG@20": 0.4285, "AP": 0.2555, "P@20": 0.3655, "R@1000": 0.6930},
        ),
    ],
)
def test_golden_runs_give_the_published_means(run: str, qrels: str, expected: dict[str, float]) -> None:
    columns, judgements = golden_run(run), golden_qrels(qrels)
    evaluation = evaluate_columns(columns, judgements, list(expected))
    assert {name: round(mean, 4) for name, mean in evaluation.means.items()} == expected
    assert evaluation.values == evaluate_run(columns.to_run(), judgements, list(expected)).values


@needs_golden
def test_robust04_has_249_judged_queries_and_exponential_gain_another_value() -> None:
    columns = golden_run("robust04-title.bm25.run.bz2")
    name = "nDCG(dcg='exp-log2')@20"
    evaluation = evaluate_columns(columns, golden_qrels("robust04.qrels.gz"), [name])
    assert evaluation.queries == 249
    assert round(evaluation.means[name], 3) == 0.422


@needs_golden
def test_far_relevant_run_gives_the_published_reciprocal_rank_and_recall() -> None:
    path = GOLDEN / "far-relevant-1k.bm25.run.bz2"
    grades: defaultdict[str, dict[str, int]] = defaultdict(dict)
    with bz2.open(path, "rt") as lines:
        for line in lines:
            query_id, _, document_id = line.split()[:3]
            if document_id.startswith(f"{query_id}_"):
                grades[query_id][document_id] = 1
            else:
                grades[query_id].setdefault("the relevant one was not found", 0)
    # one relevant document a query, named after it; of the queries without it in the run we know only that it exists
    for row in grades.values():
        if 1 not in row.values():
            row["not retrieved"] = 1
    evaluation = evaluate_columns(read_columns(path), Qrels(grades), ["RR", "R@100"])
    assert round(evaluation.means["RR"], 4) == 0.2073
    assert round(evaluation.means["R@100"], 3) == 0.727


def trec_eval_values(path: Path) -> dict[tuple[str, str], float]:
    """(our name, query) -> printed value, for the measures we compute."""
    values = {}
    for line in path.read_text().splitlines():
        name, query_id, value = line.split("\t")
        name = name.strip()
        stem, _, cutoff = name.rpartition("_")
        if name in NAMES:
            values[NAMES[name], query_id] = float(value)
        elif stem in CUT_NAMES and cutoff.isdigit():
            values[f"{CUT_NAMES[stem]}@{cutoff}", query_id] = float(value)
    return values


def at_level_two(name: str) -> str:
    stem, sign, cutoff = name.partition("@")
    return name if stem == "nDCG" else f"{stem}(rel=2){sign}{cutoff}"


def six_columns(path: Path, folder: Path) -> Path:
    """The run without the remarks that trec_eval allows at the ends of lines."""
    kept = folder / "six-columns.run"
    kept.write_text("".join(" ".join(line.split()[:6]) + "\n" for line in path.read_text().splitlines()))
    return kept


@needs_trec_eval
@pytest.mark.parametrize(
    ("output", "qrels", "run", "level"),
    [
        ("out.test.aq", "qrels.test", "results.test", 1),
        ("out.test.a", "qrels.test", "results.test", 1),
        ("out.test.aqc", "qrels.test", "results.trunc", 1),
        ("out.test.aql", "qrels.rel_level", "results.test", 2),
    ],
)
def test_trec_evals_own_outputs_are_reproduced(output: str, qrels: str, run: str, level: int, tmp_path: Path) -> None:
    printed = trec_eval_values(TREC_EVAL / output)
    assert len(printed) >= 40
    columns: RunColumns = read_columns(six_columns(TREC_EVAL / run, tmp_path))
    names = {name: name if level == 1 else at_level_two(name) for name, _ in printed}
    missing: Missing = "zero" if output == "out.test.aqc" else "skip"
    evaluation = evaluate_columns(columns, read_qrels(TREC_EVAL / qrels), list(names.values()), missing=missing)
    for (name, query_id), value in printed.items():
        ours = evaluation.means[names[name]] if query_id == "all" else evaluation.values[names[name]][query_id]
        assert ours == pytest.approx(value, abs=5.1e-5), (name, query_id)


@needs_trec_eval
def test_trec_evals_output_for_the_first_hundred_documents_is_reproduced(tmp_path: Path) -> None:
    printed = trec_eval_values(TREC_EVAL / "out.test.aqcM")
    run = read_columns(six_columns(TREC_EVAL / "results.trunc", tmp_path)).to_run().top(100)
    names = sorted({name for name, _ in printed})
    evaluation = evaluate_run(run, read_qrels(TREC_EVAL / "qrels.test"), names, missing="zero")
    for (name, query_id), value in printed.items():
        ours = evaluation.means[name] if query_id == "all" else evaluation.values[name][query_id]
        assert ours == pytest.approx(value, abs=5.1e-5), (name, query_id)
