"""Steps and cells of an experiment: what depends on what, and what does not."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from longrank.core.errors import LongrankError, SettingsError
from longrank.experiments import costs
from longrank.experiments.execute import chosen_steps
from longrank.experiments.plan import make_plan
from longrank.experiments.settings import load_experiment
from longrank.experiments.step import Plan, Step


def planned(path: Path, *overrides: str) -> Plan:
    return make_plan(load_experiment(path, list(overrides)))


def names(steps: Sequence[Step]) -> dict[str, str]:
    return {step.label: step.fingerprint for step in steps}


def test_every_step_stands_behind_those_it_reads(plan: Plan) -> None:
    seen: set[str] = set()
    for step in plan.steps:
        assert {inner.fingerprint for inner in step.inputs.values()} <= seen
        seen.add(step.fingerprint)
    assert len(seen) == len(plan.steps)


def test_a_step_that_several_cells_need_is_there_once(plan: Plan) -> None:
    kinds = [step.kind for step in plan.steps]
    assert kinds.count("collection") == 3
    assert kinds.count("warm-up") == 1  # shared by all rankers and seeds
    assert kinds.count("train") == 2 * 2 + 2 + 2  # zero-shot for two rankers, then one, for two seeds


def test_cells_say_where_they_come_from(plan: Plan) -> None:
    tuned = [cell.labels for cell in plan.cells if cell.labels.get("stage") == "tuned"]
    assert [labels["seed"] for labels in tuned] == [0, 1]
    assert tuned[0]["trained_on"] == "toy > toy-far"
    assert len({str(cell.labels) for cell in plan.cells}) == len(plan.cells)


def test_planning_twice_gives_the_same_fingerprints(plan: Plan, smallest: Path) -> None:
    assert names(planned(smallest).steps) == names(plan.steps)


@pytest.mark.parametrize(
    ("override", "kinds"),
    [
        ("measures=['AP']", set()),
        ("title='Another'", set()),
        ("scoring.depth=3", {"score"}),
        ("training.epochs=3", {"train", "score", "costs", "audit"}),
        ("warmup.training.epochs=3", {"warm-up", "train", "score", "costs", "audit"}),
        ("negatives.hard_depth=5", {"train", "score", "costs", "audit"}),
    ],
)
def test_a_setting_changes_the_steps_that_depend_on_it_and_no_other(
    plan: Plan, smallest: Path, override: str, kinds: set[str]
) -> None:
    before, after = names(plan.steps), planned(smallest, override).steps
    assert {step.kind for step in after if before[step.label] != step.fingerprint} == kinds


def test_more_seeds_leave_the_steps_of_the_others_alone(plan: Plan, smallest: Path) -> None:
    more = names(planned(smallest, "seeds=[0, 1, 2]").steps)
    assert names(plan.steps).items() <= more.items()


def test_what_gains_refer_to_changes_no_step(plan: Plan, smallest: Path) -> None:
    named = planned(smallest, "gains_over=maxp-twice")
    assert names(named.steps) == names(plan.steps)
    assert [cell.labels for cell in named.cells] == [cell.labels for cell in plan.cells]


def test_the_inputs_of_a_collection_are_hashed_not_named(tmp_path: Path, smallest: Path) -> None:
    from longrank.corpora.catalog.folder import save_collection
    from longrank.testing import one_document_collection

    def fingerprint(folder: Path, text: str) -> str:
        save_collection(one_document_collection(text, query="a"), folder)
        source = f"collections.toy-debiased={{kind='folder', path='{folder}'}}"
        steps = names(planned(smallest, source, "statistics=['toy-debiased']").steps)
        return steps["make toy-debiased"]

    assert fingerprint(tmp_path / "one", "text") == fingerprint(tmp_path / "two", "text")
    assert fingerprint(tmp_path / "one", "text") != fingerprint(tmp_path / "three", "other")


def test_a_collection_made_of_itself_is_refused(smallest: Path) -> None:
    with pytest.raises(SettingsError, match="collection 'toy-debiased' is made of 'x' is made of 'toy-debiased'"):
        planned(smallest, "collections.x={kind='debiased', of='toy-debiased'}", "collections.toy-debiased.of=x")


def test_a_missing_folder_is_named(smallest: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not exist or is empty"):
        planned(smallest, f"collections.toy-debiased={{kind='folder', path='{tmp_path / 'none'}'}}")


def test_a_stage_starts_from_an_earlier_one_that_scores_nothing_itself(smallest: Path, tmp_path: Path) -> None:
    path = tmp_path / "silent.toml"
    path.write_text(smallest.read_text().replace('score_on = ["toy", "toy-far"]', "score_on = []", 1))
    plan = planned(path, "baselines=[]", "seeds=[0]")
    trained = [step for step in plan.steps if step.kind == "train"]
    assert "train maxp-twice/tiny seed 0 zero-shot on toy" in names(trained)


def test_folds_are_trained_and_scored_one_by_one_and_fill_one_cell(smallest: Path, tmp_path: Path) -> None:
    path = tmp_path / "folds.toml"
    text = smallest.read_text().replace('of = "toy"', 'of = "toy"\nfolds = 3', 1)
    path.write_text(text.replace('name = "tuned"', 'name = "tuned"\ncross_validate = true', 1))
    plan = planned(path, "seeds=[0]")
    (cell,) = [cell for cell in plan.cells if cell.labels.get("stage") == "tuned"]
    assert [step.settings["fold"] for step in cell.results] == ["1", "2", "3"]
    assert [step.inputs["model"].settings["fold"] for step in cell.results] == ["1", "2", "3"]
    start = {step.inputs["start"].fingerprint for step in cell.trained}
    assert len(start) == 1  # all folds start from one zero-shot model


def test_run_times_and_audits_of_a_cross_validated_stage_are_those_of_its_first_fold(
    smallest: Path, tmp_path: Path
) -> None:
    path = tmp_path / "folds.toml"
    text = smallest.read_text().replace('of = "toy"', 'of = "toy"\nfolds = 3', 1)
    path.write_text(text.replace('name = "tuned"', 'name = "tuned"\ncross_validate = true', 1))
    chosen = ["seeds=[0]", "costs.stage=tuned", "audits.stages=['tuned']", "audits.rankers=['maxp-twice']"]
    plan = planned(path, *chosen)
    tuned = [step.settings["fold"] for step in plan.steps if step.kind == "train" and "tuned" in step.label]
    assert tuned == ["1", "2", "3"]  # none is trained besides
    (costs,) = [step for step in plan.steps if step.kind == "costs"]
    assert costs.settings["fold"] == costs.inputs["maxp-twice tiny"].settings["fold"] == "1"
    (audit,) = [step for step in plan.steps if step.kind == "audit"]
    assert audit.inputs["model"].settings["fold"] == "1"


def test_a_collection_has_a_first_stage_of_its_own_which_names_its_baseline(plan: Plan, smallest: Path) -> None:
    two = planned(smallest, "retrievers={bm25={}, rm3={method='rm3'}}", "collections.toy-far.retriever=rm3")
    baselines = [c.labels for c in two.cells if c.kind == "retriever"]
    assert [(row["scored_on"], row["ranker"]) for row in baselines] == [("toy", "bm25"), ("toy-far", "rm3")]
    assert all(row["ranker"] == row["retriever"] for row in baselines)
    tuned = next(cell for cell in two.cells if cell.labels.get("stage") == "tuned")
    assert tuned.labels["retriever"] == "rm3"
    (score,), (trained,) = tuned.results, tuned.trained
    assert score.inputs["candidates"].label == trained.inputs["candidates"].label == "retrieve for toy-far by rm3"
    assert trained.inputs["start"].inputs["candidates"].label == "retrieve for toy by bm25"
    assert names(plan.steps)["make toy-far"] == names(two.steps)["make toy-far"]  # its texts are the same


def test_a_stage_asks_another_retriever_than_its_collection_for_negatives(smallest: Path, tmp_path: Path) -> None:
    path = tmp_path / "stage.toml"
    path.write_text(smallest.read_text().replace('name = "tuned"', 'name = "tuned"\nretriever = "bm25"', 1))
    plan = planned(path, "retrievers={bm25={}, rm3={method='rm3'}}", "collections.toy-far.retriever=rm3")
    tuned = next(cell for cell in plan.cells if cell.labels.get("stage") == "tuned")
    assert tuned.trained[0].inputs["candidates"].label == "retrieve for toy-far by bm25"
    assert tuned.results[0].inputs["candidates"].label == "retrieve for toy-far by rm3"


def test_a_stage_and_a_collection_change_the_lengths_that_are_read(plan: Plan, smallest: Path, tmp_path: Path) -> None:
    path = tmp_path / "lengths.toml"
    path.write_text(
        smallest.read_text().replace('name = "debiased"', 'name = "debiased"\nreading = { max_tokens = 300 }')
    )
    longer = planned(path, "seeds=[0]", "collections.toy-far.reading={max_tokens=600}")
    of = {
        step.label.split(" seed")[0] + step.label.split(" seed 0")[1]: step
        for step in longer.steps
        if "seed" in step.label
    }
    tokens = {
        name: step.settings["ranker"]["params"]["max_tokens"] for name, step in of.items() if "train maxp" in name
    }
    assert tokens == {
        "train maxp-twice/tiny zero-shot on toy": 180,
        "train maxp-twice/tiny tuned on toy-far": 180,
        "train maxp-twice/tiny debiased on toy-debiased": 300,
    }
    assert (
        of["score maxp-twice/tiny debiased on toy-debiased, scored on toy-far"].settings["reading"]["max_tokens"] == 600
    )
    assert of["score maxp-twice/tiny zero-shot on toy, scored on toy"].settings["reading"] == {}
    unchanged = "train maxp-twice/tiny seed 0 tuned on toy-far"
    assert names(longer.steps)[unchanged] == names(plan.steps)[unchanged]


def test_a_misspelt_length_of_a_stage_is_refused(smallest: Path, tmp_path: Path) -> None:
    path = tmp_path / "lengths.toml"
    path.write_text(smallest.read_text().replace('name = "debiased"', 'name = "debiased"\nreading = { max_token = 3 }'))
    with pytest.raises(SettingsError, match="reading of stage 'debiased'"):
        planned(path)


def test_grades_are_of_collections_whose_passages_are_looked_for(smallest: Path) -> None:
    passages = ["collections.passages={kind='toy-passages', of='toy'}", "positions.passages={toy='passages'}"]
    with pytest.raises(SettingsError, match="no collection with passages 'toy-far'; there are toy"):
        planned(smallest, *passages, "positions.grades={toy-far=2}")


def test_work_grows_with_what_is_read(plan: Plan) -> None:
    work = {step.label: step.work.operations for step in plan.steps}
    # 60 + 16 + 3 tokens against 3 x (60 + 16 + 3), and two epochs
    one, six = (work[f"train {name}/tiny seed 0 zero-shot on toy"] for name in ("firstp", "maxp-twice"))
    assert six == pytest.approx(6 * one)


def test_a_backbones_size_counts_in_training_scoring_and_audits(smallest: Path) -> None:
    def work(millions: float) -> dict[str, float]:
        plan = make_plan(load_experiment(smallest, [f"backbones.tiny.millions={millions}"]))
        return {step.label: step.work.operations for step in plan.steps}

    small, large = work(1.0), work(3.0)
    for name in ("train firstp/tiny seed 0 zero-shot on toy", "audit firstp/tiny seed 0 zero-shot on toy"):
        assert large[name] == pytest.approx(3 * small[name])
    scored = "score firstp/tiny seed 0 zero-shot on toy, scored on toy-far"
    assert large[scored] == pytest.approx(3 * small[scored]) and small[scored] > 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rankers=[{name='maxp', params={stridde=3}}]", "ranker 'maxp' has no parameter 'stridde'"),
        ("rankers=['maxq']", "no ranker 'maxq'. Did you mean 'maxp'"),
        ("rankers=[{name='maxp', params={compat='publised'}}]", "compat is 'published', or left out, not 'publised'"),
        ("backbones.tiny.params.layer=1", "backbone 'tiny' has no parameter 'layer'"),
        ("untrained=[{label='e', name='embedding', params={pool=1}, score_on=['toy']}]", "has no parameter 'pool'"),
    ],
)
def test_a_misspelt_ranker_backbone_or_parameter_is_refused_before_anything_runs(
    smallest: Path, override: str, message: str
) -> None:
    with pytest.raises(LongrankError, match=message):
        planned(smallest, override)


def test_two_results_of_one_name_are_refused(smallest: Path) -> None:
    judged = 'positions.judged={collections=["toy"], chat={name="scripted", params={replies=["1"]}}}'
    with pytest.raises(SettingsError, match=r"two different results would be called .*positions"):
        planned(smallest, judged)


def test_a_sweep_over_another_seed_does_not_rename_the_trainings(smallest: Path) -> None:
    swept = planned(smallest, "sweep={'warmup.training.seed'=[0, 1]}")
    cells = [cell.labels for cell in swept.cells if cell.labels.get("ranker") == "firstp" and "what" not in cell.labels]
    assert {(c["seed"], c["warmup.training.seed"]) for c in cells} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_steps_of_a_sweep_are_called_by_the_values_that_set_them_apart(smallest: Path) -> None:
    sweep = "sweep={'reading.max_tokens'=[120, 180], 'scoring.reading.max_tokens'=[60, 180]}"
    swept = planned(smallest, "seeds=[0]", sweep)
    labels = [step.label for step in swept.steps]
    assert "make toy" in labels and "warm up tiny on toy" in labels  # the same at every point
    trained = [label for label in labels if label.startswith("train maxp-twice/tiny seed 0 zero-shot")]
    assert [label.partition(", ")[2] for label in trained] == ["reading.max_tokens=120", "reading.max_tokens=180"]
    chosen = chosen_steps(swept, ["score maxp-twice*scored on toy, *max_tokens=120, scoring.reading.max_tokens=60"])
    assert [step.kind for step in chosen].count("score") == 1


def test_a_step_of_a_sweep_is_the_step_of_the_same_values_without_one(smallest: Path) -> None:
    swept = planned(smallest, "sweep={'reading.max_tokens'=[120, 180]}")
    alone = planned(smallest, "reading.max_tokens=120")
    assert {step.fingerprint for step in alone.steps} <= {step.fingerprint for step in swept.steps}
    inner = {step.inputs["model"].label for step in swept.steps if step.kind == "score"}
    assert inner <= {step.label for step in swept.steps}


def test_run_times_are_counted_over_all_rounds_with_all_models_in_memory(smallest: Path) -> None:
    def measured(*overrides: str) -> costs.Work:
        return next(step.work for step in planned(smallest, *overrides).steps if step.kind == "costs")

    few, many = measured(), measured("costs.queries=4", "costs.rounds=5")
    assert few.operations > 0
    assert many.operations == pytest.approx(2 * 3 * few.operations)  # twice the queries, six rounds for two
    one = measured('rankers=["firstp"]').memory_bytes - costs.FIXED_BYTES
    assert few.memory_bytes - costs.FIXED_BYTES == pytest.approx(2 * one)  # FirstP and MaxP on one tiny encoder each
    chat = "params={chat={name='openai', params={model='gpt-4o-mini'}}}"
    asked = measured(
        f"untrained=[{{name='rankgpt', label='gpt', score_on=['toy'], {chat}}}]", 'costs.untrained=["gpt"]'
    )
    assert (asked.operations, asked.memory_bytes, asked.queries_known) == (few.operations, few.memory_bytes, False)


def test_run_times_are_measured_on_the_split_that_is_scored(smallest: Path) -> None:
    def measured(*overrides: str) -> Step:
        return next(step for step in planned(smallest, *overrides).steps if step.kind == "costs")

    assert "split" not in measured().settings, "a file that scores the test split keeps its step"
    assert measured('scoring.split="train"').settings["split"] == "train"


def test_scoring_longer_texts_than_in_training_is_estimated_by_the_longer(smallest: Path) -> None:
    def scored(*overrides: str) -> float:
        steps = planned(smallest, "seeds=[0]", *overrides).steps
        return next(s.work.operations for s in steps if s.label.startswith("score maxp-twice/tiny seed 0 zero-shot"))

    assert scored("scoring.reading.max_tokens=360") == pytest.approx(2 * scored())  # six windows of 60 for three


def test_candidates_that_a_task_brings_are_no_row_of_a_first_stage(smallest: Path) -> None:
    task = "collections.needle={kind='longembed', task='needle', lengths=[256], queries=2, documents=3}"
    stages = 'stages=[{name="zero-shot", train_on="toy", score_on=["toy", "needle"]}]'
    rows = {
        (c.labels["ranker"], c.labels["scored_on"])
        for c in planned(smallest, task, stages).cells
        if c.kind != "scored" and "ranker" in c.labels
    }
    assert ("bm25", "toy") in rows
    assert ("bm25", "needle") not in rows
    assert ("random", "needle") in rows


def test_a_larger_budget_goes_on_where_a_smaller_one_was_spent(smallest: Path) -> None:
    def asked(budget: int) -> Step:
        params = f"{{chat={{name='openai', params={{model='gpt-4o-mini', budget={budget}}}}}}}"
        ready = f"untrained=[{{name='rankgpt', label='gpt', score_on=['toy'], params={params}}}]"
        return next(step for step in planned(smallest, ready).steps if step.kind == "untrained")

    assert asked(5).fingerprint == asked(10).fingerprint
    assert asked(10).hints["ranker"]["params"]["chat"]["params"]["budget"] == 10


def test_run_times_of_a_chat_model_are_the_same_step_whatever_it_may_cost(smallest: Path) -> None:
    def measured(budget: int, *overrides: str) -> Step:
        params = f"{{chat={{name='openai', params={{model='gpt-4o-mini', budget={budget}}}}}}}"
        ready = f"untrained=[{{name='rankgpt', label='gpt', score_on=['toy'], params={params}}}]"
        return next(step for step in planned(smallest, ready, *overrides).steps if step.kind == "costs")

    plain, timed = measured(5), measured(5, 'costs.untrained=["gpt"]')
    assert "untrained" not in plain.settings, "a file that measures none keeps its step"
    assert plain.fingerprint != timed.fingerprint == measured(10, 'costs.untrained=["gpt"]').fingerprint
    assert timed.hints["untrained"]["gpt"]["params"]["chat"]["params"]["budget"] == 5


def test_files_of_one_name_in_two_folders_are_two_files(smallest: Path, tmp_path: Path) -> None:
    for part in ("a", "b", "c"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "data.jsonl").write_text(f"{part}\n")
    named = ", ".join(
        f"{k}='{tmp_path / v / 'data.jsonl'}'" for k, v in zip(("documents", "queries", "qrels"), "abc", strict=True)
    )
    mine = f"collections.mine={{kind='files', {named}}}"
    found = planned(smallest, mine, 'statistics=["mine"]')
    (step,) = [step for step in found.steps if step.label == "make mine"]
    assert len({step.settings[part] for part in ("documents", "queries", "qrels")}) == 3


def test_before_anything_is_trained_times_follow_the_speed_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "product_speed", lambda: 1e11)
    assert costs.measured_speed([]) == 0.8e11
    assert costs.measured_speed([(costs.Work(operations=1e12), 13.0)]) == 1e11  # ten seconds beside the fixed three


def test_the_speed_of_a_core_is_that_of_some_computer_and_leaves_the_threads_as_they_were() -> None:
    threads = torch.get_num_threads()
    assert 1e8 < costs.product_speed() < 1e13
    assert torch.get_num_threads() == threads
