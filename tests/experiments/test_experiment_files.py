"""The files of experiments/: each has a plan; each of the papers' runs, made small; the smallest run as they are."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from longrank import __version__
from longrank.cli.main import app
from longrank.evaluation.papers import paper_table
from longrank.experiments.costs import tokens_per_document
from longrank.experiments.execute import StepFailed, Store, chosen_steps, missing_steps, run_steps
from longrank.experiments.gather import gather
from longrank.experiments.known import read_known
from longrank.experiments.plan import make_plan
from longrank.experiments.records import CellResult, ExperimentResult, read_result
from longrank.experiments.settings import Experiment, load_experiment
from longrank.experiments.sources import IrDatasetsSource
from longrank.experiments.step import Cell, Plan
from longrank.reports.experiment_papers import printed
from longrank.reports.experiment_positions import positions_beside
from longrank.reports.experiment_reading import read_experiment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments"
PAPER, LAPTOP = (sorted((FOLDER / size).glob("*.toml")) for size in ("paper", "laptop"))
NEEDS_NQ = {"real-text.toml"}


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def present(path: Path) -> Path:
    if path.name in NEEDS_NQ and not (ROOT / "../shared/data/nq-open").is_dir():
        pytest.skip("needs shared/data/nq-open beside the repository")
    return path


@pytest.mark.parametrize("path", PAPER + LAPTOP, ids=named)
def test_a_file_has_a_plan(path: Path) -> None:
    plan = make_plan(load_experiment(present(path)))
    assert plan.experiment.size == path.parent.name
    assert plan.steps
    assert plan.cells
    assert len({str(sorted(cell.labels.items())) for cell in plan.cells}) == len(plan.cells)


@pytest.mark.parametrize("path", PAPER + LAPTOP, ids=named)
def test_every_step_of_a_plan_has_a_name_of_its_own(path: Path) -> None:
    steps = make_plan(load_experiment(present(path))).steps
    labels = [step.label for step in steps]
    assert [label for label in labels if labels.count(label) > 1] == []


@pytest.mark.parametrize("path", PAPER, ids=named)
def test_the_papers_backbones_drop_attention_as_their_configs_say(path: Path) -> None:
    experiment = load_experiment(path)
    starts = [r.params[n] for r in experiment.rankers for n in ("init", "interaction") if n in r.params]
    own = ("jinaai/", "mosaicml/", "TinyLlama/")  # left off
    for params in [*(one.params for one in experiment.backbones.values()), *(start["params"] for start in starts)]:
        assert params["model"].startswith(own) or params["attention_dropout"] == 0.1, params


@pytest.mark.parametrize("path", LAPTOP, ids=named)
def test_the_plan_of_a_laptop_file_is_shown_by_the_command(path: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(present(path)), "--dry-run", "--out", str(tmp_path / "none")])
    assert done.exit_code == 0, done.output
    assert re.search(r"^about [\d.,]+ (s|min|h|days|years) on one core of this machine", done.output, re.MULTILINE), (
        done.output
    )
    assert not (tmp_path / "none").exists()


def test_every_paper_file_has_a_laptop_twin_for_the_same_tables_and_figures() -> None:
    for path in PAPER:
        twin = tomllib.loads((FOLDER / "laptop" / path.name).read_text())["papers"][0]
        assert twin == tomllib.loads(path.read_text())["papers"][0]


def test_the_files_cover_the_tables_and_figures_of_the_three_papers() -> None:
    covered: dict[str, set[str]] = {}
    for path in PAPER:
        for paper in load_experiment(path).papers:
            names = {f"t{n}" for n in paper.tables} | {f"f{n}" for n in paper.figures} | {paper.section}
            covered.setdefault(paper.key, set()).update(names)
            for number in paper.tables:
                paper_table(f"{paper.key}/{number}")  # there is such a table
    assert {f"t{n}" for n in range(1, 12)} | {"f1", "f2", "f3", "f7"} <= covered["positional-bias"]
    assert {f"t{n}" for n in range(1, 9)} | {"f1", "f2", "3.3.2"} <= covered["long-document-models"]
    assert {f"t{n}" for n in range(2, 13)} | {"f3", "f4", "f5"} <= covered["parade"]


def test_kept_results_of_the_headline_are_found_again_by_their_fingerprints() -> None:
    kept = ROOT / "docs" / "results" / "headline"
    if json.loads((kept / "experiment.json").read_text())["versions"]["longrank"] != __version__:
        pytest.skip("another version: its results are not ours")
    plan = make_plan(load_experiment(FOLDER / "laptop" / "headline.toml"))
    left = read_known([kept]).remaining(plan).cells
    assert [cell.labels for cell in left if cell.kind == "scored"] == []


def test_parades_first_stage_has_feedback_on_robust04_alone_and_other_settings_for_descriptions() -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / "parade-main.toml"))
    asked = {step.label: step.settings for step in plan.steps if step.kind == "candidates"}
    shown = [c for c in plan.cells if c.kind == "retriever"]
    beside = {c.labels["scored_on"]: c.labels["ranker"] for c in shown if c.labels["stage"] == "untrained"}
    assert beside == {
        "robust04-title": "bm25",
        "robust04-description": "bm25-description",
        "gov2-title": "rm3",
        "gov2-description": "rm3-description",
    }
    found = {c.labels["scored_on"]: c.labels["ranker"] for c in shown if c.labels["stage"] == "baseline"}
    assert found == {
        "robust04-title": "rm3",
        "robust04-description": "rm3-description",
        "gov2-title": "bm25",
        "gov2-description": "bm25-description",
        "genomics": "bm25",
        "trec-dl-2019": "bm25",
        "trec-dl-2020": "bm25",
        "ntcir-www-3": "bm25",
    }
    described = asked["retrieve for robust04-description by rm3-description"]
    assert (described["bm25"]["b"], described["rm3"]["terms"]) == (0.6, 20)
    assert asked["retrieve for gov2-description by bm25-description"]["bm25"]["b"] == 0.6


def test_every_ranker_of_parades_tables_reads_16_passages_of_the_whole_document() -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / "parade-main.toml"))
    tables = [step.settings["ranker"] for step in plan.steps if step.kind == "train"]
    assert {table["name"] for table in tables} >= {"k-max", "maxp", "cedr-knrm", "parade-cnn", "parade-transformer"}
    assert {(table["params"]["size"], table["params"].get("keep")) for table in tables} == {(225, 16)}
    reached = [t["params"].get("max_tokens", t["params"].get("max_chunks", 0) * 225) for t in tables]
    assert min(reached) >= 1_000_000
    assert {tokens_per_document(table["params"]) for table in tables} == {16 * (225 + 28 + 3)}


@pytest.mark.parametrize("path", [p for p in PAPER if p.stem.startswith("parade-")], ids=named)
def test_parades_transformer_reads_cls_and_passages_alone(path: Path) -> None:
    tables = [step.settings["ranker"] for step in make_plan(load_experiment(path)).steps if step.kind == "train"]
    found = [table["params"] for table in tables if table["name"] == "parade-transformer"]
    assert all(params["separators"] is False and "positions" not in params for params in found)


def test_small_models_are_compared_with_the_settings_of_parades_section_5_3() -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / "parade-distillation.toml"))
    trained = [step for step in plan.steps if step.kind == "train"]
    assert len(trained) == 5 * (9 + 7)  # nine sizes, seven of them distilled too; none for run-times alone
    for step in trained:
        table = step.settings["ranker"]["params"]
        assert (table["size"], table["stride"], table["keep"]) == (150, 100, 16)
        assert step.inputs["candidates"].label == "retrieve for robust04-title by bm25"
        loss = step.settings["training"]
        assert "binary-cross-entropy" in {loss["loss"], loss["loss_params"].get("truth")}
    assert {step.settings["depth"] for step in plan.steps if step.kind == "score"} == {100}
    (costs,) = [step for step in plan.steps if step.kind == "costs"]
    assert len(costs.settings["rankers"]) == 9


def test_only_debiased_training_reads_to_8109_tokens_and_only_needles_are_read_to_the_end() -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / "positional-bias-debias.toml"))
    cells = [cell for cell in plan.cells if cell.labels.get("ranker") == "parade-transf-rand-l2"]
    for cell in cells:
        (trained,), (score,) = cell.trained, cell.results
        debiased = str(cell.labels["stage"]).startswith("debiased")
        assert trained.settings["ranker"]["params"]["max_tokens"] == (8109 if debiased else 1431)
        assert trained.settings["training"]["epochs"] == (2 if cell.labels["stage"] == "original" else 1)
        long = str(cell.labels["scored_on"]).startswith("longembed")
        assert score.settings["reading"].get("max_tokens") == (32_768 if long else None)


def test_both_chat_models_are_scored_where_tables_7_and_8_have_them() -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / "positional-bias-main.toml"))
    scored: dict[str, set[str]] = {}
    for cell in plan.cells:
        if "rankgpt" in str(cell.labels["ranker"]):
            scored.setdefault(str(cell.labels["ranker"]), set()).add(str(cell.labels["scored_on"]))
    where = {"trec-dl-2019", "trec-dl-2020", "trec-dl-2021", "robust04-description"}
    chats = ("gpt-4o-mini", "claude-3-haiku")
    assert scored == {f"{reads}-rankgpt-{chat}": where for reads in ("firstp", "longp") for chat in chats}


@pytest.mark.parametrize("size", ["paper", "laptop"])
def test_figure_2_of_the_long_document_paper_draws_where_passages_end_as_its_caption_says(size: str) -> None:
    drawn = load_experiment(FOLDER / size / "long-document-models-positions.toml").positions
    starts = load_experiment(FOLDER / size / "positional-bias-positions.toml").positions
    assert drawn is not None and drawn.edge == "end"
    assert starts is not None and starts.edge == "start"


def test_tuned_rankers_are_scored_where_the_paper_tried_the_reverse_transfer() -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / "positional-bias-far-relevant.toml"))
    for stage in ("zero-shot", "tuned"):
        scored = {cell.labels["scored_on"] for cell in plan.cells if cell.labels["stage"] == stage}
        assert scored == {"far-relevant", "trec-dl-2019", "trec-dl-2020", "msmarco-dev"}


@pytest.mark.parametrize("path", PAPER, ids=named)
def test_a_file_that_asks_a_paid_service_says_so_and_so_does_the_page(path: Path) -> None:
    experiment = load_experiment(path)
    paid = [one for one in experiment.untrained if "chat" in one.params]
    if not paid and not (experiment.positions and experiment.positions.judged):
        return
    page = (ROOT / "docs" / "experiments.md").read_text().splitlines()
    (line,) = [line for line in page if line.startswith(f"| `{path.stem}`")]
    assert "set a budget" in line
    assert "paid" in experiment.about or "budget" in path.read_text()


@pytest.mark.parametrize("name", ["positional-bias-main", "positional-bias-far-relevant", "positional-bias-efficiency"])
def test_all_but_mosaic_are_trained_in_half_precision(name: str) -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / f"{name}.toml"))
    for step in plan.steps:
        if step.kind == "train":
            mosaic = "mosaic" in step.settings["backbone"]["params"]["model"]
            assert step.settings["training"].get("precision", "fp32") == ("fp32" if mosaic else "fp16"), step.label


def test_rates_of_lateir_and_heads_of_rand_l3_are_those_of_the_authors_files() -> None:
    plan = make_plan(load_experiment(FOLDER / "paper" / "positional-bias-main.toml"))
    late = [s.settings for s in plan.steps if s.kind == "train" and s.settings["ranker"]["name"] == "parade-lateir"]
    rates = {
        (s["training"]["backbone_rate"], s["training"]["aggregator_rate"], s["training"]["head_rate"]) for s in late
    }
    assert rates == {(1e-5, 1e-5, 1e-4)}
    earlier = load_experiment(FOLDER / "paper" / "long-document-models-main.toml")
    (rand,) = [ranker for ranker in earlier.rankers if ranker.label == "parade-transf-rand-l3"]
    assert rand.params == {"layers": 3, "heads": 4}


def test_the_quoted_long_transformers_are_made_where_their_authors_settings_are() -> None:
    assert "quotes every other row" in load_experiment(FOLDER / "paper" / "parade-long-transformers.toml").about
    plan = make_plan(load_experiment(FOLDER / "paper" / "long-document-models-main.toml"))
    rows = [c for c in plan.cells if c.labels["ranker"] == "longp" and c.labels["scored_on"] == "robust04-title"]
    assert {cell.labels["backbone"] for cell in rows} == {"longformer", "big-bird"}
    assert {cell.labels["trained_on"] for cell in rows} == {"msmarco > robust04-title"}
    assert {step.settings["ranker"]["params"]["tokens"] for cell in rows for step in cell.trained} == {1431}


def robust04_trainings(path: Path) -> list[Mapping[str, Any]]:
    steps = make_plan(load_experiment(path)).steps
    return [s.settings for s in steps if s.kind == "train" and s.settings["fold"] is not None]


@pytest.mark.parametrize("path", [p for p in PAPER if not p.stem.startswith("parade-")], ids=named)
def test_robust04_is_repeated_a_hundred_times_with_judged_negatives_beside_a_thousand_candidates(path: Path) -> None:
    for settings in robust04_trainings(path):
        assert settings["training"]["epoch_repeats"] == 100
        assert (settings["negatives"]["hard_depth"], settings["negatives"]["judged"]) == (1000, True)


@pytest.mark.parametrize("name", ["parade-windows", "parade-passages"])
def test_parades_sensitivity_is_shown_for_titles_and_for_descriptions_as_its_captions_say(name: str) -> None:
    experiment = load_experiment(FOLDER / "paper" / f"{name}.toml")
    assert experiment.papers[0].figures == (3, 4)
    scored = {c.labels["scored_on"] for c in make_plan(experiment).cells if c.kind == "scored"}
    assert scored == {"gov2-title", "gov2-description"}


def test_passages_differ_between_training_and_scoring_in_table_10_alone() -> None:
    table, figures = (
        [cell.labels for cell in make_plan(load_experiment(FOLDER / "paper" / f"{name}.toml")).cells if cell.trained]
        for name in ("parade-passages-train-eval", "parade-passages")
    )
    assert {(c["ranker"], c["scored_on"]) for c in table} == {("parade-transformer", "gov2-title")}
    assert len({(c["reading.kept_windows"], c["scoring.reading.kept_windows"]) for c in table}) == len(table) == 16
    assert len(figures) == 3 * 2 * 4  # rankers, titles and descriptions, numbers of passages


def test_window_and_stride_are_changed_one_at_a_time() -> None:
    swept = load_experiment(FOLDER / "paper" / "parade-windows.toml").sweep["reading"]
    assert all(point["window_tokens"] == 225 or point["window_stride"] == 200 for point in swept)
    assert all(point["window_tokens"] >= point["window_stride"] for point in swept)  # no text between two windows


@pytest.mark.parametrize("path", PAPER, ids=named)
def test_ids_of_collections_are_known_to_ir_datasets(path: Path) -> None:
    registry = pytest.importorskip("ir_datasets").registry
    for source in load_experiment(path).collections.values():
        if isinstance(source, IrDatasetsSource):
            for dataset_id in (*source.splits.values(), *source.fold_ids.values(), *source.borrowed.values()):
                assert dataset_id in registry


def made_small(path: Path) -> Experiment:
    """An experiment with toy collections, the tiny encoder and few of everything; its structure is kept."""
    table = load_experiment(path).model_dump(mode="json", exclude_unset=True)
    sources, asked = table["collections"], (table.get("positions") or {}).get("passages", {})
    passages = {*asked.values(), *(source["of"] for source in sources.values() if source["kind"] == "far-relevant")}
    real = {name for name, source in sources.items() if source["kind"] in {"ir_datasets", "toy"}}
    a_toy = next(name for name in sources if name in real - passages)
    table["collections"] = {
        name: {"kind": "toy-passages", "of": a_toy} if name in real & passages else small_source(source)
        for name, source in sources.items()
    }
    table["backbones"] = {
        name: {"name": "tiny", "params": {"layers": 1, "dim": 8, "vocabulary": 256, "seed": seed}}
        for seed, name in enumerate(table.get("backbones", {}))
    }
    tiny: Any = {"name": "tiny", "params": {"layers": 1, "dim": 8, "vocabulary": 64}}
    for ranker in table.get("rankers", ()):
        params = ranker.get("params", {})
        ranker["params"] = {k: tiny if k in {"init", "interaction"} else v for k, v in params.items()}
        ranker.pop("training", None)
    for stage in table.get("stages", ()):
        stage["training"] = {k: v for k, v in stage.get("training", {}).items() if k.startswith("loss")}
        stage.pop("negatives", None)
        stage["reading"] = dict.fromkeys(stage.get("reading", {}), 240)
    chat: Any = {"name": "scripted", "params": {"replies": ["[2] > [1]"] * 40}}
    table["untrained"] = [
        {**one, "params": {"chat": chat} if "chat" in one["params"] else {"backbone": tiny, "tokens": 60}}
        | {"max_queries": 1}
        for one in table.get("untrained", ())
    ]
    retrievers = table.get("retrievers", {"bm25": {}})
    table["retrievers"] = {
        name: {"depth": 6, "method": r.get("method", "bm25"), "bm25": {"k1": 1 + number / 10}}
        for number, (name, r) in enumerate(retrievers.items())
    }
    table["reading"] = {
        "query_tokens": 8,
        "chunk_tokens": 60,
        "window_tokens": 60,
        "window_stride": 50,
        "max_tokens": 120,
        **({"kept_windows": 2} if "kept_windows" in table["reading"] else {}),
    }
    table["sweep"] = {key: small_sweep(key, values) for key, values in table.get("sweep", {}).items()}
    table |= {"preset": None, "training": {"batch_size": 2, "examples_per_epoch": 2}, "seeds": [0], "negatives": {}}
    table["scoring"] = {
        "depth": 3,
        "max_queries": 2,
        "reading": dict.fromkeys(table["scoring"].get("reading", {}), 180),
    }
    positions = table.get("positions") or {}
    if "grades" in positions:
        positions["grades"] = dict.fromkeys(positions["grades"], 1)  # all that toy passages have
    if "judged" in positions:
        replies = ["##final score: 0", "##final score: 2"] * 20
        positions["judged"] |= {"chat": {"name": "scripted", "params": {"replies": replies}}, "sample": 2}
    positions.pop("snippets", None)  # a file of its own, tried below
    if "costs" in table:
        table["costs"] |= {"queries": 1, "depth": 2, "rounds": 1}
    return Experiment.model_validate(table)


def small_source(source: dict[str, Any]) -> dict[str, Any]:
    kept = {name: source[name] for name in ("measures", "retriever", "beside") if source.get(name)}
    kept |= {"reading": dict.fromkeys(source["reading"], 300)} if "reading" in source else {}
    if source["kind"] == "far-relevant":
        policy = source.get("placing", {}).get("policy", "beyond")
        placing = {"policy": policy, "boundary": 120, "max_tokens": 300}
        return {**FAR_RELEVANT, "of": source["of"], "placing": placing, **kept}
    if source["kind"] in {"debiased", "toy-far", "toy-passages"}:
        return {"kind": source["kind"], "of": source["of"], **kept}
    if source["kind"] == "longembed":
        return {"kind": "longembed", "task": source["task"], "lengths": [256], "queries": 2, "documents": 3, **kept}
    folds = {"folds": 2} if source.get("folds") or source.get("fold_ids") else {}
    return {"kind": "toy", "train": 4, "dev": 1, "test": 3, **folds, **kept}


FAR_RELEVANT: dict[str, Any] = {"kind": "far-relevant", "tokenizer": "words", "division": {"test": 3}}
WINDOWS = [{"window_tokens": 40, "window_stride": 20}, {"window_tokens": 60, "window_stride": 60}]


def small_sweep(key: str, values: list[Any]) -> list[Any]:
    """Few values that all make a difference: the documents are of several windows."""
    if key.endswith("retriever"):
        return values
    if key.endswith("kept_windows"):
        return [2, 3]
    return WINDOWS if isinstance(values[0], dict) else [60, 120]


def test_snippets_that_people_judged_are_counted_beside_the_papers_table(tmp_path: Path) -> None:
    grades = {"d1": (3, 0, 1), "d2": (0, 3, 3), "d3": (3, 3, 3), "d4": (2, 2, 2)}
    lines = [f"q1 Q0 {document}_{place} {grade}" for document, row in grades.items() for place, grade in enumerate(row)]
    (tmp_path / "snippets.txt").write_text("\n".join(lines) + "\n")
    found = snippets_beside(tmp_path / "snippets.txt", tmp_path)
    assert found == ["33.3%", "66.7%", "33.3%"]  # d1 has one, d2 two, d3 three, d4 none of grade 3


def test_firas_column_of_parades_table_11_is_made_from_its_judgements(tmp_path: Path) -> None:
    judgements = ROOT / "../shared/data/fira/snippet-qrels.txt"
    if not judgements.is_file():
        pytest.skip("needs shared/data/fira beside the repository")
    found = snippets_beside(judgements, tmp_path)
    assert found == ["66.5%", "86.6%", "13.4%"]  # the paper prints 66, 87 and 13


def snippets_beside(file: Path, folder: Path) -> list[str]:
    """Our column for FiRA in the report of the file of PARADE's Table 11, made of these judgements alone."""
    path = FOLDER / "paper" / "parade-passages-per-document.toml"
    name = "trec-dl-2019/fira"
    plan = make_plan(load_experiment(path, [f'positions.snippets={{"{name}"={{file="{file}", grade=3}}}}']))
    store = Store(folder / "store")
    run_steps(chosen_steps(plan, [f"snippets of {name}"]), store, say=lambda line: None)
    (table,) = positions_beside(read_experiment(gather(plan, store))).values()
    assert table.headings[1:] == (f"{name}, documents", f"{name}, documents (theirs)")
    assert [row[2].text for row in table.rows] == ["66%", "87%", "13%"]
    return [row[1].text for row in table.rows]


def test_firas_half_of_table_6_is_made_from_snippet_numbers_and_called_approximate(tmp_path: Path) -> None:
    # of 130 tokens each the fourth snippet starts at 390 and ends at 520: in chunk 1 of 477 tokens, and behind it
    grades = {"d1": (1, 0, 0), "d2": (0, 0, 2), "d3": (0, 0, 0, 1), "d4": (0, 0, 0, 0, 3)}
    lines = [f"q1 Q0 {document}_{place} {grade}" for document, row in grades.items() for place, grade in enumerate(row)]
    (tmp_path / "snippets.txt").write_text("\n".join(lines) + "\n")
    starts, ends, notes = fira_beside_table_6(tmp_path / "snippets.txt", tmp_path)
    assert (starts[:2], ends[:2]) == (["75.0%", "25.0%"], ["50.0%", "50.0%"])
    assert "fira: approximate; the judgements number snippets and have no text" in notes


def test_firas_real_judgements_come_near_table_6(tmp_path: Path) -> None:
    judgements = ROOT / "../shared/data/fira/snippet-qrels.txt"
    if not judgements.is_file():
        pytest.skip("needs shared/data/fira beside the repository")
    starts, ends, _ = fira_beside_table_6(judgements, tmp_path)
    assert (starts[0], ends[0]) == ("86.7%", "82.7%")  # the paper prints 83.8 and 76.4


def fira_beside_table_6(file: Path, folder: Path) -> tuple[list[str], list[str], str]:
    """Our columns for FiRA beside Table 6 of the long-document paper, and the notes under it."""
    path = FOLDER / "paper" / "long-document-models-positions.toml"
    plan = make_plan(load_experiment(path, [f'positions.snippets.fira.file="{file}"']))
    store = Store(folder / "store")
    run_steps(chosen_steps(plan, ["snippets of fira"]), store, say=lambda line: None)
    table = positions_beside(read_experiment(gather(plan, store)))["long-document-models, Table 6"]
    assert table.headings[1::2] == ("fira, starts", "fira, ends")
    return [row[1].text for row in table.rows], [row[3].text for row in table.rows], " ".join(table.notes)


def test_a_missing_file_of_snippets_has_a_plan_and_is_named_when_it_is_needed(tmp_path: Path) -> None:
    path = FOLDER / "paper" / "parade-passages-per-document.toml"
    missing = f'positions.snippets={{fira={{file="{tmp_path / "none.txt"}"}}}}'
    plan = make_plan(load_experiment(path, [missing]))
    with pytest.raises(StepFailed, match=r"none\.txt of judged snippets; get it from its authors"):
        run_steps(chosen_steps(plan, ["snippets of fira"]), Store(tmp_path), say=lambda line: None)


def test_what_a_judge_may_cost_changes_nothing_of_what_is_judged() -> None:
    path = FOLDER / "paper" / "positional-bias-positions.toml"
    plans = [make_plan(load_experiment(path, more)) for more in ([], ["positions.judged.chat.params.budget=5"])]
    first, second = ({s.fingerprint for s in plan.steps if s.kind == "judged"} for plan in plans)
    assert len(first) == 7
    assert first == second


def test_an_ensemble_orders_the_candidates_of_its_ranker_by_weights_of_the_other_folds(tmp_path: Path) -> None:
    small = made_small(FOLDER / "paper" / "parade-first-stage.toml")
    few = small.scoring.model_copy(update={"max_queries": 6})  # of eight, in two folds
    plan, store = make_plan(small.model_copy(update={"scoring": few})), Store(tmp_path)
    run_steps(plan.steps, store, say=lambda line: None)
    result = gather(plan, store)
    for retriever in ("bm25", "rm3"):
        (mixed,) = result.where(ranker="parade-transformer+first-stage", retriever=retriever)
        (alone,) = result.where(ranker="parade-transformer", retriever=retriever)
        (first,) = result.where(ranker=retriever, retriever=retriever)
        asked = [set(cell.values["nDCG@20"]) for cell in (mixed, alone, first)]
        assert asked[0] == asked[1] == asked[2]
        assert len(asked[0]) == 6
        found = [{q: set(ranks) for q, ranks in cell.ranks.items()} for cell in (mixed, alone, first)]
        assert found[0] == found[1] == found[2] != {}
        assert len(mixed.facts["fingerprints"]) == len(alone.facts["fingerprints"]) + 1


def test_an_ensemble_without_other_folds_to_learn_from_is_left_out_in_words(tmp_path: Path) -> None:
    small = made_small(FOLDER / "paper" / "parade-first-stage.toml")
    one = small.scoring.model_copy(update={"max_queries": 1})
    plan, store, said = make_plan(small.model_copy(update={"scoring": one})), Store(tmp_path), list[str]()
    run_steps(plan.steps, store, say=lambda line: None)
    result = gather(plan, store, say=said.append)
    assert result.where(ranker="parade-transformer")
    assert not result.where(ranker="parade-transformer+first-stage")
    assert any("only one fold has queries" in line for line in said)


def same_but_for_the_lengths(plan: Plan) -> list[list[Cell]]:
    """Cells of one ranker, stage and collection at every point of a sweep over lengths."""
    groups: dict[str, list[Cell]] = {}
    if any("reading" in key for key in plan.experiment.sweep):
        for cell in plan.cells:
            if cell.kind == "scored":
                groups.setdefault("/".join(str(cell.labels[n]) for n in ("ranker", "stage", "scored_on")), []).append(
                    cell
                )
    return list(groups.values())


QUICK = {FOLDER / "paper" / f"{name}.toml" for name in ("positional-bias-positions", "parade-passages-train-eval")}


def filled(experiment: Experiment, plan: Plan) -> ExperimentResult:
    """What a plan would give, with the same two values everywhere."""
    cells = []
    for cell in plan.cells:
        name = cell.labels.get("scored_on")
        if cell.labels.get("seed") in {-1, experiment.seeds[0]} and name in experiment.collections:
            measures = experiment.collections[name].measures or experiment.measures
            cells.append(CellResult(cell.labels, {m: {f"{name} 1": 0.5, f"{name} 2": 0.25} for m in measures}, {}))
    papers = [paper.model_dump() for paper in experiment.papers]
    return ExperimentResult({"papers": papers, "settings": experiment.model_dump(mode="json")}, tuple(cells))


QUOTED = {  # rows that the papers took from others, and rows of the earlier paper's revision
    "parade/2": {"T5-3B"},
    "parade/4": {"TREC Best"},
    "parade/5": {"ucas_runid1", "TUW19-d3-re", "idst_bert_r1", "fr_doc_roberta", "ICIP_run1", "d_d2q_duo"},
    "parade/6": {"Technion-E-CO-NEW-1", "KASYS-E-CO-NEW-1"},
    "parade/8": {"Sparse-Transformer", "Longformer-QA", "Transformer-XH", "QDS-Transformer"},
    "appendix-positions/3": {"PARADE Transf-RAND-L2", "PARADE Transf-PRETR-LATEIR-L6"},
}
TOLD_ELSEWHERE = ("count", "tokens", "parameters", "relevant a query", "milliseconds", "%", "share")  # not scores


@pytest.mark.parametrize("path", PAPER, ids=named)
def test_every_score_that_a_named_table_prints_has_a_place_in_the_files_report(path: Path) -> None:
    experiment = load_experiment(path)
    reading = read_experiment(filled(experiment, make_plan(experiment)), draws=99)
    for key, number in ((paper.key, number) for paper in experiment.papers for number in paper.tables):
        table = paper_table(f"{key}/{number}")
        places = {(one.system, one.paper_column) for one in printed(table, reading)}
        missing = {
            (row.system, column)
            for row in table.rows
            for column, value in zip(table.columns, row.values, strict=True)
            if value is not None and not any(word in str(column) for word in TOLD_ELSEWHERE)
        } - places
        unmade = {system for system, _ in missing if "et al." not in system}
        assert unmade <= QUOTED.get(table.name, set()), table.name


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path in QUICK else pytest.mark.slow, id=named(path))
        for path in PAPER + LAPTOP
        if path.name not in NEEDS_NQ
    ],
)
def test_a_file_runs_when_its_collections_and_backbones_are_small(path: Path, tmp_path: Path) -> None:
    plan, store = make_plan(made_small(path)), Store(tmp_path)
    run_steps(missing_steps(plan.steps, store, lambda line: None), store, say=lambda line: None)
    result = gather(plan, store)
    assert len(result.cells) == len(plan.cells)
    scored = [cell for cell in result.cells if "ranker" in cell.labels]
    assert all(row for cell in scored for row in cell.values.values())
    assert all(cell.facts["located"] for cell in result.cells if cell.labels.get("what") == "positions")
    for cells in same_but_for_the_lengths(plan):
        assert len({(store.folder(cell.results[0]) / "run.trec").read_bytes() for cell in cells}) == len(cells)


def test_rankgpt_is_timed_beside_the_trained_rankers_of_figure_3(tmp_path: Path) -> None:
    whole = made_small(FOLDER / "paper" / "positional-bias-efficiency.toml")
    plan = make_plan(whole.model_copy(update={"rankers": whole.rankers[:1], "stages": whole.stages[:1]}))
    (cell,), store = [cell for cell in plan.cells if cell.kind == "costs"], Store(tmp_path)
    run_steps(missing_steps(chosen_steps(plan, ["run-times*"]), store, lambda line: None), store, say=lambda line: None)
    times = json.loads((store.folder(cell.results[0]) / "costs.json").read_text())
    assert times["longp-rankgpt-gpt-4o-mini"][0] > 0
    assert times.keys() >= {"firstp-rankgpt-gpt-4o-mini", "firstp bert"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["positional-bias-positions", "positional-bias-collections", "long-document-models-positions"]
)
def test_the_smallest_laptop_experiments_run_as_they_are(name: str, tmp_path: Path) -> None:
    plan, store = make_plan(load_experiment(FOLDER / "laptop" / f"{name}.toml")), Store(tmp_path)
    run_steps(plan.steps, store, say=lambda line: None)
    assert len(gather(plan, store).cells) == len(plan.cells)


@pytest.mark.slow
def test_the_smallest_that_trains_runs_at_one_point_of_its_sweep_and_reports(tmp_path: Path) -> None:
    path = FOLDER / "laptop" / "long-document-models-truncation.toml"
    cuts = ['sweep={"reading.max_tokens"=[109]}', "warmup.training.epochs=1"]  # eight minutes without them
    command = ["run", str(path), "--out", str(tmp_path), *(part for cut in cuts for part in ("--set", cut))]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    folder = tmp_path / "long-document-models-truncation-laptop"
    assert (folder / "report.html").is_file()
    assert "| parade-attn" in (folder / "report.md").read_text()
    (tuned,) = [cell for cell in read_result(folder).cells if cell.labels["ranker"] == "parade-attn"]
    assert len(tuned.values["AP"]) == 90  # every query of three folds, each by a model of the other two
    assert (len(tuned.facts["losses"]), tuned.facts["collapsed"]) == (3, False)


@pytest.mark.slow
def test_the_headline_cut_short_trains_reports_and_gives_the_same_tables_twice(tmp_path: Path) -> None:
    cuts = ["seeds=[0]", 'rankers=["firstp", "maxp"]', "collections.toy.train=24", "collections.toy.test=8"]
    cuts += ["warmup.training.epochs=1", "training.examples_per_epoch=8", "scoring.max_queries=4", "scoring.depth=4"]
    cuts += ["backbones.minilm-2.params.layers=1"]
    command = ["run", str(FOLDER / "laptop/headline.toml"), *(part for cut in cuts for part in ("--set", cut))]
    written = []
    for name in ("one", "other"):
        done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        folder = tmp_path / name / "headline-laptop"
        assert (folder / "report.html").is_file()
        written.append([(folder / file).read_bytes() for file in ("records.jsonl", "report.md", "report.tex")])
    assert written[0] == written[1]
    assert b"| maxp | " in written[0][1]


def test_no_file_holds_a_place_of_one_machine() -> None:
    for path in FOLDER.rglob("*.toml"):
        assert not re.search(r'"/|~/|C:\\', path.read_text()), path


def test_the_page_says_what_is_made_partly() -> None:
    lines = (ROOT / "docs" / "experiments.md").read_text().splitlines()
    partly = {line.split("`")[1] for line in lines if line.startswith("| `") and "partly" in line}
    assert partly == {
        "positional-bias-positions",
        "long-document-models-positions",
        "parade-long-transformers",
        "parade-passages-per-document",
    }


def test_the_page_lists_every_file() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text()
    assert [path.stem for path in PAPER + LAPTOP if f"`{path.stem}`" not in page] == []


def test_the_example_of_the_page_is_an_experiment(tmp_path: Path) -> None:
    example = (ROOT / "docs" / "experiments.md").read_text().split("```toml\n")[1].split("```")[0]
    path = tmp_path / "example.toml"
    path.write_text(example.replace("shared/toy.toml", str(FOLDER / "laptop" / "shared" / "toy.toml")))
    plan = make_plan(load_experiment(path))
    assert {cell.labels["max_tokens"] for cell in plan.cells} == {109, 218, 327}
