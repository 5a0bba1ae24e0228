"""Running: everything once, found again, repaired, and the same bytes whatever happens on the way."""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.core.errors import SettingsError
from longrank.core.types import Document
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.records import write_records
from longrank.corpora.formats.trec import read_run
from longrank.experiments.collections import Opened, open_collection
from longrank.experiments.execute import StepFailed, Store, chosen_steps, missing_steps, run_steps, with_readers
from longrank.experiments.gather import expected_reciprocal_rank, gather
from longrank.experiments.plan import make_plan
from longrank.experiments.records import ExperimentResult
from longrank.experiments.settings import load_experiment
from longrank.experiments.step import Plan, Step
from longrank.rankers.checkpoint import load
from longrank.testing import one_document_collection

ResultsOf = Callable[[Plan, Store, Path], dict[str, bytes]]


def quiet(line: str) -> None:
    pass


def test_every_cell_is_filled_with_a_value_a_query(plan: Plan, result: ExperimentResult) -> None:
    assert len(result.cells) == len(plan.cells)
    for cell in result.cells:
        if "what" not in cell.labels:
            assert {name: len(row) for name, row in cell.values.items()} == {"RR": 6, "nDCG@3": 6}
            assert all(0 <= value <= 1 for row in cell.values.values() for value in row.values())


def test_cells_carry_counts_versions_and_settings(result: ExperimentResult) -> None:
    (cell,) = result.where(ranker="firstp", seed=0, stage="zero-shot", scored_on="toy-far")
    assert cell.facts["queries"] == 6
    assert cell.facts["cut_documents"] == 24  # four documents a query, all longer than 60 tokens
    assert "cut_query_tokens" not in cell.facts  # none was
    assert cell.facts["training_queries"] == [8]
    assert cell.facts["versions"]["longrank"]
    assert cell.facts["settings"]["training"]["seed"] == 0
    assert cell.facts["collapsed"] in {True, False}
    assert cell.seconds["train"] > 0


def test_random_and_perfect_order_bound_what_is_possible(result: ExperimentResult) -> None:
    (cell,) = result.where(ranker="random", scored_on="toy")
    (best,) = result.where(ranker="perfect", scored_on="toy")
    # one relevant document of four: (1 + 1/2 + 1/3 + 1/4) / 4 where it was retrieved
    assert all(v == pytest.approx(0.5208333 * best.values["RR"][q]) for q, v in cell.values["RR"].items())
    assert set(best.values["RR"].values()) <= {0.0, 1.0}


def test_the_first_of_two_relevant_among_three_is_expected_at_five_sixths() -> None:
    # ranks of the first: 1 with probability 2/3, 2 with 1/3: 2/3 + 1/6
    assert expected_reciprocal_rank(3, 2) == pytest.approx(5 / 6)
    assert expected_reciprocal_rank(3, 0) == 0


def test_evidence_stands_where_the_collections_put_it(result: ExperimentResult) -> None:
    (near,), (far,) = (result.where(what="positions", collection=name) for name in ("toy", "toy-far"))
    assert min(far.values["start"].values()) >= 128
    assert min(near.values["start"].values()) < 109


def test_run_times_are_kept_apart_from_what_is_always_the_same(result: ExperimentResult) -> None:
    (cell,) = result.where(what="costs")
    assert cell.facts["tokens"]["maxp-twice tiny"] > cell.facts["tokens"]["firstp tiny"]
    assert all(seconds > 0 for seconds in cell.seconds.values())


def test_a_ranker_is_audited_and_the_card_stands_in_the_facts(result: ExperimentResult) -> None:
    cells = result.where(what="audit", ranker="firstp")
    assert [cell.labels["seed"] for cell in cells] == [0, 1]
    assert cells[0].facts["outcome"] in {"robust", "biased", "inconclusive", "not auditable"}
    assert cells[0].facts["design"]["queries"] == 8


def test_a_second_run_makes_nothing(plan: Plan, store: Store) -> None:
    assert missing_steps(plan.steps, store, quiet) == ()


def test_the_same_experiment_elsewhere_gives_the_same_bytes(
    plan: Plan, store: Store, results_of: ResultsOf, tmp_path: Path
) -> None:
    first = results_of(plan, store, tmp_path / "first")
    assert results_of(plan, Store(tmp_path / "steps"), tmp_path / "second") == first


def test_stopped_between_steps_and_started_again_gives_the_same_bytes(
    plan: Plan, store: Store, results_of: ResultsOf, tmp_path: Path
) -> None:
    class Stopped(Exception):
        """What stands for a kill."""

    def stop_at(number: int) -> Callable[[str], None]:
        def say(line: str) -> None:
            if line.startswith(f"[{number}/"):
                raise Stopped

        return say

    other = Store(tmp_path / "steps")
    for number in (3, 6, 9):
        with pytest.raises(Stopped):
            run_steps(missing_steps(plan.steps, other, quiet), other, say=stop_at(number))
    done = [step for step in plan.steps if other.is_done(step)]
    assert len(done) == 2 + 5 + 8
    assert results_of(plan, other, tmp_path / "second") == results_of(plan, store, tmp_path / "first")


@pytest.mark.parametrize("how", ["changed", "cut", "removed"])
def test_a_corrupted_file_is_named_and_its_step_made_again(
    plan: Plan, store: Store, results_of: ResultsOf, tmp_path: Path, how: str
) -> None:
    before = results_of(plan, store, tmp_path / "before")
    step = next(step for step in plan.steps if step.kind == "score")
    path = store.folder(step) / "run.trec"
    text = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(text[:-1] + b"?" if how == "changed" else text[:-9])
    said: list[str] = []
    assert missing_steps(plan.steps, store, said.append, mend=False) == (step,)
    assert str(path) in said[0]
    assert step.label in said[0]
    assert results_of(plan, store, tmp_path / "after") == before
    assert path.read_bytes() == text


@pytest.mark.parametrize("text", ["", "{", '{"files": 3}', '{"files": {"run.trec": {}}}'])
def test_a_damaged_note_of_what_is_done_makes_the_step_again(
    plan: Plan, store: Store, results_of: ResultsOf, tmp_path: Path, text: str
) -> None:
    before = results_of(plan, store, tmp_path / "before")
    step = next(step for step in plan.steps if step.kind == "score")
    (store.folder(step) / "done.json").write_text(text)
    (store.folder(step) / "seconds.json").write_text("soon")
    said: list[str] = []
    assert missing_steps(plan.steps, store, said.append, mend=False) == (step,)
    assert "done.json" in said[0]
    assert results_of(plan, store, tmp_path / "after") == before


def test_a_model_changed_without_a_trace_of_time_is_found_when_it_is_read(plan: Plan, store: Store) -> None:
    score = next(step for step in plan.steps if step.kind == "score")
    model = score.inputs["model"]
    path = store.folder(model) / "best" / "aggregator.safetensors"
    before, stamp = path.read_bytes(), path.stat()
    path.write_bytes(bytes([before[0] ^ 1]) + before[1:])
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    store.forget(score)
    said: list[str] = []
    assert missing_steps(plan.steps, store, said.append) == (model, score)
    assert "aggregator.safetensors" in said[0]
    run_steps((model, score), store, say=quiet)
    assert path.read_bytes() == before


def test_a_result_changed_without_a_trace_of_time_is_found(plan: Plan, store: Store) -> None:
    score = next(step for step in plan.steps if step.kind == "score")
    path = store.folder(score) / "run.trec"
    before, stamp = path.read_bytes(), path.stat()
    path.write_bytes(before.replace(b"1", b"2", 1))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    said: list[str] = []
    assert missing_steps(plan.steps, store, said.append) == (score,)
    assert "run.trec" in said[0]
    run_steps((score,), store, say=quiet)
    assert path.read_bytes() == before


def test_a_training_killed_while_it_tidies_up_is_finished_and_nothing_half_written_stays(
    plan: Plan, store: Store
) -> None:
    model = next(step for step in plan.steps if step.kind == "train")
    folder = store.folder(model)
    before = (folder / "done.json").read_bytes()
    (folder / "done.json").unlink()
    (folder / "state").mkdir()  # its files are gone already
    (folder / ".123-best").mkdir()
    run_steps((model,), store, say=quiet)
    assert (folder / "done.json").read_bytes() == before
    assert not (folder / "state").exists()
    assert not (folder / ".123-best").exists()


def test_what_reads_a_step_that_is_made_again_is_made_again_too(plan: Plan) -> None:
    forced = [step for step in plan.steps if step.label == "train maxp-twice/tiny seed 0 zero-shot on toy"]
    labels = {step.label for step in plan.steps if step.fingerprint in with_readers(forced, plan)}
    assert "score maxp-twice/tiny seed 0 tuned on toy-far, scored on toy-far" in labels
    assert "run-times on toy" in labels
    assert not any("seed 1" in label or "firstp" in label or label.startswith("make") for label in labels)


def test_a_damaged_run_is_no_part_of_the_result_even_if_nobody_asked_for_it(plan: Plan, store: Store) -> None:
    whole = gather(plan, store)
    step = next(step for step in plan.steps if step.kind == "score")
    path = store.folder(step) / "run.trec"
    text = path.read_bytes()
    path.write_bytes(text[: len(text) // 2])
    said: list[str] = []
    left = gather(plan, store, say=said.append)
    path.write_bytes(text)
    lost = [c.labels for c in whole.cells if c.labels not in [cell.labels for cell in left.cells]]
    assert [f"score {c['ranker']}/tiny seed {c['seed']}" for c in lost] == [step.label.partition(" zero")[0]]
    assert str(path) in said[0]


def test_a_collection_is_read_once_though_points_of_a_sweep_have_steps_of_their_own_for_it(
    plan: Plan, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [replace(cell, collection=replace(cell.collection)) if cell.collection else cell for cell in plan.cells]
    read: list[Path] = []

    def counted(folder: Path, hints: Mapping[str, Any]) -> Opened:
        read.append(folder)
        return open_collection(folder, hints)

    monkeypatch.setattr("longrank.experiments.gather.open_collection", counted)
    assert len(gather(replace(plan, cells=tuple(cells)), store).cells) == len(cells)
    assert len(read) == len(set(read)) > 1


def test_of_a_training_that_is_gone_nothing_is_told(plan: Plan, store: Store, tmp_path: Path) -> None:
    model = next(step for step in plan.steps if step.label == "train firstp/tiny seed 1 zero-shot on toy")
    store.folder(model).rename(tmp_path / "model")
    left = gather(plan, store)
    (tmp_path / "model").rename(store.folder(model))
    assert not left.where(ranker="firstp", seed=1, scored_on="toy"), "whether it collapsed is not known"
    assert left.where(ranker="firstp", seed=0, scored_on="toy")


def test_lost_run_times_are_measured_again(plan: Plan, store: Store) -> None:
    step = next(step for step in plan.steps if step.kind == "costs")
    (store.folder(step) / "costs.json").unlink()
    said: list[str] = []
    assert missing_steps(plan.steps, store, said.append) == (step,)
    assert "costs.json" in said[0]
    run_steps((step,), store, say=quiet)


def test_run_times_ask_the_queries_of_their_split(plan: Plan, store: Store) -> None:
    step = next(step for step in plan.steps if step.kind == "costs")
    elsewhere = replace(step, settings={**step.settings, "split": "nowhere"})
    with pytest.raises(StepFailed, match="nowhere"):
        run_steps((elsewhere,), store, say=quiet)


def test_versions_are_those_a_step_was_made_with(plan: Plan, store: Store) -> None:
    step = next(step for step in plan.steps if step.kind == "score")
    path = store.folder(step) / "done.json"
    before, stamp = path.read_text(), path.stat()
    path.write_text(json.dumps(json.loads(before) | {"versions": {"torch": "1.0"}}))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    found = [cell.facts["versions"] for cell in gather(plan, store).cells if "fingerprints" in cell.facts]
    path.write_text(before)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert found.count({"torch": "1.0"}) == 1


def test_a_pattern_chooses_steps_and_what_they_need(plan: Plan) -> None:
    chosen = chosen_steps(plan, ["score firstp*seed 1*scored on toy"])
    kinds = [step.kind for step in chosen]
    assert sorted(kinds) == ["candidates", "collection", "score", "train", "warm-up"]
    with pytest.raises(SettingsError, match="no step fits 'maxq'; labels are like: make toy"):
        chosen_steps(plan, ["maxq"])


def test_a_stage_that_reads_further_than_the_one_it_starts_from_leaves_a_model_that_does(
    smallest: Path, tmp_path: Path
) -> None:
    path = tmp_path / "further.toml"
    path.write_text(smallest.read_text().replace('name = "tuned"', 'name = "tuned"\nreading = { max_tokens = 240 }'))
    plan, store = make_plan(load_experiment(path, ["seeds=[0]"])), Store(tmp_path / "steps")
    steps = chosen_steps(plan, ["train maxp-twice/tiny seed 0 tuned*"])
    run_steps(steps, store, say=quiet)
    start, tuned = (load(store.folder(step) / "best") for step in (steps[-1].inputs["start"], steps[-1]))
    document = Document("long", "word " * 400)
    assert [len(ranker.split([document])[0].spans) for ranker in (start, tuned)] == [3, 4]  # of 60 tokens


def test_a_hybrid_first_stage_lies_between_its_two_sides(smallest: Path, tmp_path: Path) -> None:
    sides = "bm25={}, dense={method='dense'}"
    mixed = "words={method='hybrid', bm25_weight=1.0}, meaning={method='hybrid', bm25_weight=0.0}"
    swept = ["sweep={retriever=['bm25', 'dense', 'words', 'meaning']}", f"retrievers={{{sides}, {mixed}}}"]
    plan, store = make_plan(load_experiment(smallest, swept)), Store(tmp_path)
    steps = chosen_steps(plan, ["retrieve for toy by *"])
    run_steps(steps, store, say=quiet)
    made = {s.label.partition(" by ")[2].partition(",")[0]: s for s in steps if s.kind == "candidates"}
    runs = {name: read_run(store.folder(step) / "run.trec") for name, step in made.items()}
    for query_id in runs["bm25"].scores:
        matched = runs["bm25"].ranking(query_id)
        assert runs["words"].ranking(query_id)[: len(matched)] == matched
        assert runs["meaning"].ranking(query_id) == runs["dense"].ranking(query_id)
    assert any(runs["words"].ranking(q) != runs["meaning"].ranking(q) for q in runs["bm25"].scores)


def test_passages_below_a_grade_are_not_looked_for(smallest: Path, tmp_path: Path) -> None:
    passages = ["collections.passages={kind='toy-passages', of='toy'}", "positions.passages={toy='passages'}"]
    located = []
    for grade in (1, 2):  # toy passages have grade 1
        plan = make_plan(load_experiment(smallest, [*passages, f"positions.grades={{toy={grade}}}"]))
        store = Store(tmp_path / str(grade))
        run_steps(chosen_steps(plan, ["positions of toy"]), store, say=quiet)
        (cell,) = gather(plan, store).where(what="positions", collection="toy")
        located.append(cell.facts["located"])
    assert located[0] > 0 == located[1]


def test_longembeds_published_files_are_read_and_bring_their_candidates(smallest: Path, tmp_path: Path) -> None:
    folder = tmp_path / "needle"
    folder.mkdir()
    lengths = {"256_0": 256, "256_1": 256, "512_0": 512}
    texts = [{"doc_id": d, "text": f"text of {d}", "context_length": n} for d, n in lengths.items()]
    write_records(folder / "corpus.jsonl", texts)
    write_records(folder / "queries.jsonl", [{"qid": f"q{d}", "text": f"what of {d}?"} for d in ("256_0", "512_0")])
    write_records(folder / "qrels.jsonl", [{"qid": f"q{d}", "doc_id": d} for d in ("256_0", "512_0")])
    task = f"collections.needle={{kind='longembed', task='needle', path='{folder}'}}"
    ask = 'stages=[{name="zero-shot", train_on="toy", score_on=["needle"]}]'
    plan = make_plan(load_experiment(smallest, [task, ask, "positions={}", "costs.stage='zero-shot'"]))
    store = Store(tmp_path / "store")
    run_steps(chosen_steps(plan, ["retrieve for needle"]), store, say=quiet)
    (candidates,) = [step for step in plan.steps if step.label.startswith("retrieve for needle")]
    found = read_run(store.folder(candidates) / "run.trec").scores
    assert {query: set(row) for query, row in found.items()} == {"q256_0": {"256_0", "256_1"}, "q512_0": {"512_0"}}


def test_a_task_that_is_read_has_sizes_of_its_own(smallest: Path) -> None:
    task = "collections.needle={kind='longembed', task='needle', path='somewhere', lengths=[256]}"
    with pytest.raises(SettingsError, match="lengths shape a task that is made"):
        load_experiment(smallest, [task])


def test_a_collection_that_was_moved_is_read_where_it_is_now(smallest: Path, tmp_path: Path) -> None:
    def steps(folder: Path) -> list[Step]:
        source = f"collections.mine={{kind='folder', path='{folder}'}}"
        plan = make_plan(load_experiment(smallest, [source, "statistics=['mine']"]))
        return [step for step in plan.steps if step.label in {"make mine", "sizes of mine"}]

    store = Store(tmp_path / "store")
    save_collection(one_document_collection("some text", query="a"), tmp_path / "before")
    run_steps(steps(tmp_path / "before")[:1], store, say=quiet)
    (tmp_path / "before").rename(tmp_path / "after")
    made, sizes = steps(tmp_path / "after")
    assert missing_steps((made, sizes), store, quiet) == (sizes,), "the contents are the same"
    run_steps([sizes], store, say=quiet)
    assert json.loads((store.folder(sizes) / "facts.json").read_text())["documents"] == 1


def test_a_failing_step_is_named(tmp_path: Path, smallest: Path) -> None:
    plan = make_plan(load_experiment(smallest, ["negatives.hard=9", "negatives.hard_depth=9"]))
    steps = chosen_steps(plan, ["train firstp/tiny seed 0"])
    with pytest.raises(StepFailed, match="'train firstp/tiny seed 0 zero-shot on toy' failed: none of the 8"):
        run_steps(steps, Store(tmp_path), say=quiet)


def test_every_step_says_what_it_is_in_its_folder(plan: Plan, store: Store) -> None:
    for step in plan.steps:
        done = json.loads((store.folder(step) / "done.json").read_text())
        assert done["label"] == step.label
        assert done["files"]


def test_splits_share_no_query_and_debiased_has_training_queries_alone(plan: Plan, store: Store) -> None:
    steps = [step for step in plan.steps if step.kind == "collection"]
    made = {step.label: open_collection(store.folder(step), step.hints) for step in steps}
    assert [len(made["make toy"].queries(split)) for split in ("train", "dev", "test")] == [8, 1, 6]
    assert set(made["make toy-debiased"].splits) == {"train"}
    assert made["make toy-far"].queries("test") == made["make toy"].queries("test")


def test_the_command_shows_the_plan_and_then_runs_a_part_of_it(smallest: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    select = ["--out", out, "--set", "seeds=[0]", "--set", 'rankers=["firstp"]']
    shown = CliRunner().invoke(app, ["run", str(smallest), *select, "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert "train firstp/tiny seed 0 zero-shot on toy" in shown.output
    assert not (tmp_path / "out").exists()
    ran = CliRunner().invoke(app, ["run", str(smallest), *select, "--only", "retrieve for toy by bm25"])
    assert ran.exit_code == 0, ran.output
    assert "3 of 13 cells" in ran.output  # three baselines on toy
    results = tmp_path / "out" / "smallest-laptop"
    assert (results / "records.jsonl").is_file()
    assert (results / "report.html").is_file() == ("The page: " in ran.output)
    shown = CliRunner().invoke(app, ["run", str(smallest), *select, "--dry-run", "--force", "make toy-far"])
    assert re.search("make .* make toy-far", shown.output) and re.search("done .* make toy$", shown.output, re.M)
    again = CliRunner().invoke(app, ["run", str(smallest), *select, "--only", "toy by bm25", "--force", "toy by bm25"])
    assert "[1/1] retrieve for toy by bm25" in again.output


@pytest.mark.parametrize("option", ["--only", "--force"])
def test_a_step_that_is_not_in_the_plan_is_refused(smallest: Path, tmp_path: Path, option: str) -> None:
    refused = CliRunner().invoke(app, ["run", str(smallest), "--out", str(tmp_path / "out"), option, "trian maxp"])
    assert isinstance(refused.exception, SettingsError)
    assert "no step fits 'trian maxp'; labels are like: make toy" in str(refused.exception)
    assert not (tmp_path / "out").exists()


COMMAND = [sys.executable, "-c", "from longrank.cli.main import run; run()", "run"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_random_moments_it_gives_the_same_bytes(
    smallest: Path, store: Store, results_of: ResultsOf, tmp_path: Path, workers: int
) -> None:
    expected = results_of(make_plan(load_experiment(smallest)), store, tmp_path / "expected")
    command = [*COMMAND, str(smallest), "--out", str(tmp_path / "out"), "--workers", str(workers)]
    draw, finished = random.Random(workers), []
    for _ in range(4):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            started = (line for line in process.stdout if re.search(r"\[\d+/\d+\]", line))
            next(itertools.islice(started, draw.randrange(6), None))  # some step has begun
            time.sleep(draw.uniform(0, 0.5))
            assert process.poll() is None, "it was over before it could be killed"
            process.send_signal(signal.SIGKILL)
        finished.append(len(list((tmp_path / "out" / "steps").glob("*/done.json"))))
    assert finished == sorted(finished) and 0 < finished[-1] < len(make_plan(load_experiment(smallest)).steps)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    folder = tmp_path / "out" / "smallest-laptop"
    assert {name: (folder / name).read_bytes() for name in expected} == expected
