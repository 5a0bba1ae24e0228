"""``longrank train``, from a TOML file to checkpoints."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from longrank.cli.rerank import rerank
from longrank.cli.train import train
from longrank.core.errors import CheckpointError, LongrankError, SettingsError, TrainingError, UnknownName
from longrank.core.types import CharSpan, Collection, GoldSpan, Qrels, Run
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import read_run, write_run
from longrank.corpora.splits import write_splits
from longrank.rankers import checkpoint
from longrank.training.distillation import ranker_teaches, run_teaches
from longrank.training.estimate import estimate
from longrank.training.examples import CandidateSampler
from longrank.training.settings import TrainSettings

Command = Callable[..., Result]

CONFIG = """
collection = "{folder}/collection"
candidates = "{folder}/near.trec"
out = "{folder}/out"
validation_split = "dev"
measure = "RR"

[ranker]
name = "firstp"

[ranker.params]
tokens = 12
query_tokens = 4
backbone = {{ name = "tiny", params = {{ layers = 1, dim = 16, positions = 32, vocabulary = 256 }} }}

[negatives]
hard = 2
hard_depth = 5

[train]
batch_size = 2
backbone_rate = 1e-3
"""


@pytest.fixture
def command(tmp_path: Path, collection: Collection, candidates: Run) -> Command:
    save_collection(collection, tmp_path / "collection")
    write_splits(tmp_path / "collection", {"train": ("q0", "q1", "q2", "q3"), "dev": ("q4", "q5")})
    write_run(tmp_path / "near.trec", candidates)
    write_run(tmp_path / "far.trec", replace(candidates, name="far"))
    app = typer.Typer()
    app.command()(train)

    def run(*overrides: str, text: str = CONFIG, options: tuple[str, ...] = ()) -> Result:
        path = tmp_path / "config.toml"
        path.write_text(text.format(folder=tmp_path))
        sets = [part for override in overrides for part in ("--set", override)]
        result = CliRunner().invoke(app, [str(path), *sets, *options])
        if isinstance(result.exception, LongrankError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return run


def test_every_seed_leaves_a_checkpoint_and_a_line(command: Command, tmp_path: Path) -> None:
    result = command("seeds=[0, 1]")
    for seed in (0, 1):
        assert f"seed {seed}: loss" in result.stdout
        assert checkpoint.load(tmp_path / f"out/seed{seed}/main/best").trained
    assert "4 examples of about" in result.stderr  # the estimate
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert [outcome["seed"] for outcome in summary["outcomes"]] == [0, 1]
    assert len(summary["outcomes"][0]["log"]["validation"]) == 1
    again = command("seeds=[0, 1]")
    assert again.stdout == result.stdout


def test_spaces_around_a_measure_do_no_harm(command: Command, tmp_path: Path) -> None:
    command('measure=" RR@5 "')
    assert json.loads((tmp_path / "out/summary.json").read_text())["outcomes"][0]["log"]["validation"]


def test_an_estimate_can_be_had_alone(command: Command, tmp_path: Path) -> None:
    result = command(options=("--estimate",))
    assert result.stdout.startswith("main: 4 examples of about")
    assert not (tmp_path / "out").exists()


def test_other_settings_in_the_same_folder_are_refused(command: Command) -> None:
    command()
    with pytest.raises(TrainingError, match="choose another out"):
        command("train.epochs=2")


def test_fine_tuning_starts_from_the_checkpoint_of_the_same_seed(command: Command, tmp_path: Path) -> None:
    command("seeds=[3]")
    start = checkpoint.load(tmp_path / "out/seed3/main/best")
    place = f"{tmp_path}/out/seed{{seed}}/main/best"
    command("seeds=[3]", f"init='{place}'", f"out='{tmp_path}/tuned'", "train.backbone_rate=1e-12")
    tuned = checkpoint.load(tmp_path / "tuned/seed3/main/best")
    for name, value in start.backbone.state_dict().items():
        assert torch.allclose(value, tuned.backbone.state_dict()[name], atol=1e-6), name
    with pytest.raises(TrainingError, match="holds a ranker 'firstp', the settings ask for 'longp'"):
        command("seeds=[3]", f"init='{place}'", f"out='{tmp_path}/other'", "ranker.name='longp'")
    with pytest.raises(TrainingError, match="was trained with another tokens than"):
        command("seeds=[3]", f"init='{place}'", f"out='{tmp_path}/other'", "ranker.params.tokens=24")


def test_folds_are_tested_once_and_pooled(command: Command, tmp_path: Path) -> None:
    (tmp_path / "folds.json").write_text('[["q0", "q1", "q2"], ["q3", "q4", "q5"]]')
    text = CONFIG.replace('validation_split = "dev"', 'folds = "{folder}/folds.json"')
    result = command("depth=3", text=text)
    assert "over 6 queries" in result.stdout
    pooled = read_run(tmp_path / "out/seed0/pooled.trec")
    assert sorted(pooled) == ["q0", "q1", "q2", "q3", "q4", "q5"]
    assert all(len(row) == 3 for row in pooled.scores.values())


def test_stages_candidate_sets_and_pseudo_labels_follow_each_other(command: Command, tmp_path: Path) -> None:
    stage = """
[[stages]]
name = "pseudo"
labels = "pseudo"
train = {{ loss = "pairwise-softmax" }}
"""
    command(
        f"candidates={{near='{tmp_path}/near.trec', far='{tmp_path}/far.trec'}}",
        "leaderboard=true",
        "train.warmup_fraction=0",
        text=CONFIG + stage,
    )
    folder = tmp_path / "out/seed0"
    assert sorted(path.name for path in folder.iterdir()) == ["far", "near", "pseudo"]
    factors = {}
    for name in ("near", "far"):
        lines = (folder / name / "metrics.jsonl").read_text().splitlines()
        factors[name] = [json.loads(line)["rate_factor"] for line in lines if "rate_factor" in line]
    # two updates each, no warm-up: constant, and falling from 1 to 0.01 in the last set
    assert factors == {"near": [1.0, 1.0], "far": [1.0, pytest.approx(0.505)]}


def test_a_stage_with_a_collection_of_its_own_is_trained_on_its_own_queries(
    command: Command, tmp_path: Path, collection: Collection
) -> None:
    renamed = {f"other-{q}": replace(query, id=f"other-{q}") for q, query in collection.queries.items()}
    qrels = Qrels({f"other-{q}": row for q, row in collection.qrels.grades.items()})
    save_collection(replace(collection, queries=renamed, qrels=qrels), tmp_path / "other")
    write_splits(tmp_path / "other", {"train": ("other-q1", "other-q2", "other-q3")})
    bad = {f"bad{number}": -float(number) for number in range(6)}
    write_run(tmp_path / "other.trec", Run("other", dict.fromkeys(renamed, bad)))
    stage = '[[stages]]\nname = "before"\ncollection = "{folder}/other"\ncandidates = "{folder}/other.trec"\n'
    assert "before: 3 examples of about" in command(text=CONFIG + stage).stderr


def test_no_stage_is_trained_on_what_its_fold_tests(command: Command, tmp_path: Path) -> None:
    (tmp_path / "folds.json").write_text('[["q0", "q1", "q2"], ["q3", "q4", "q5"]]')
    write_splits(tmp_path / "collection", {"train": tuple(f"q{n}" for n in range(6))})
    stages = """
[[stages]]
name = "judged"
split = "train"

[[stages]]
name = "pseudo"
labels = "pseudo"
"""
    text = CONFIG.replace('validation_split = "dev"', 'folds = "{folder}/folds.json"') + stages
    said = command(text=text).stderr
    assert said.count("3 of 6 queries of stage 'judged' are left out: they are tested or validated on") == 2
    # three training queries in every stage of both folds
    assert [said.count(f"{stage}: 3 examples of about") for stage in ("judged", "pseudo", "main")] == [2, 2, 2]


def test_a_refused_training_can_be_put_right(command: Command, tmp_path: Path) -> None:
    (tmp_path / "folds.json").write_text('[["q0", "q1"], ["q1", "q2"]]')
    text = CONFIG.replace('validation_split = "dev"', 'folds = "{folder}/folds.json"')
    for wrong in ("ranker.name='maxq'", "measure='RRR'", "train.loss='hinge'", "seeds=[0]"):
        with pytest.raises(LongrankError):
            command(wrong, text=text)
    (tmp_path / "folds.json").write_text('[["q0", "q1"], ["q2"]]')
    assert "over 3 queries" in command(text=text).stdout


def test_changed_candidates_are_noticed(command: Command, tmp_path: Path, candidates: Run) -> None:
    command()
    flipped = {query: {name: -score for name, score in row.items()} for query, row in candidates.scores.items()}
    write_run(tmp_path / "near.trec", replace(candidates, scores=flipped))
    with pytest.raises(TrainingError, match="other settings, candidates or folds"):
        command()


def test_seeds_trained_later_join_the_summary(command: Command, tmp_path: Path) -> None:
    for seeds in ("[0, 2]", "[1]", "[2]"):
        command(f"seeds={seeds}")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert [outcome["seed"] for outcome in summary["outcomes"]] == [0, 1, 2]


def test_a_beir_folder_is_trained_and_validated_on_by_its_splits(
    command: Command, tmp_path: Path, collection: Collection
) -> None:
    beir = tmp_path / "beir"
    save_collection(collection, beir, format="beir", split="train")
    whole = (beir / "qrels" / "train.tsv").read_text().splitlines(keepends=True)
    for split, wanted in (("train", "q0 q1 q2"), ("dev", "q3"), ("test", "q4 q5")):
        rows = [line for line in whole[1:] if line.split()[0] in wanted.split()]
        (beir / "qrels" / f"{split}.tsv").write_text("".join([whole[0], *rows]))
    result = command(f"collection='{beir}'")
    assert "3 examples of about" in result.stderr
    assert "RR " in result.stdout  # validated on q3


def test_a_student_learns_from_a_teacher(command: Command, tmp_path: Path) -> None:
    command()
    teacher = tmp_path / "out/seed0/main/best"
    out = command(f"teacher='{teacher}'", "train.loss='margin-mse'", f"out='{tmp_path}/student'").stdout
    assert "seed 0: loss" in out
    with pytest.raises(TrainingError, match="has no score of 'good"):
        write_run(tmp_path / "part.trec", Run("part", {"q0": {"bad0": 1.0}}))
        command(f"teacher='{tmp_path}/part.trec'", "train.loss='mse'", f"out='{tmp_path}/broken'")


def test_a_teacher_scores_a_pair_once(collection: Collection, candidates: Run) -> None:
    from longrank.core.types import Document, Query, Scores

    asked: list[str] = []

    class Length:
        def score(self, query: Query, documents: list[Document]) -> Scores:
            asked.extend(document.id for document in documents)
            return Scores([float(len(document.text)) for document in documents])

    teach = ranker_teaches(Length())  # type: ignore[arg-type]
    documents = [collection.documents["good0"], collection.documents["bad0"]]
    first = teach(collection.queries["q0"], documents)
    assert teach(collection.queries["q0"], documents[::-1]) == first[::-1]
    assert asked == ["good0", "bad0"]
    assert run_teaches(candidates)(collection.queries["q0"], documents) == [1.0, 0.0]


def test_passage_level_training_and_a_preset_run(command: Command, tmp_path: Path) -> None:
    command("passage_level=true", "preset='boytsov'", "train.epochs=1")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["settings"]["train"]["gradients"] == "sum"
    assert summary["settings"]["train"]["batch_size"] == 2  # the file's own word counts


def test_what_was_trained_on_few_tokens_can_read_more_and_fewer(command: Command, tmp_path: Path) -> None:
    command()
    app = typer.Typer()
    app.command()(rerank)
    base = [str(tmp_path / "out/seed0/main/best"), str(tmp_path / "collection"), "--candidates"]
    base += [str(tmp_path / "near.trec"), "--out", str(tmp_path / "new.trec"), "--split", "dev"]
    cuts = {}
    for tokens in ("6", "12", "24"):
        result = CliRunner().invoke(app, [*base, "--read", f"tokens={tokens}"])
        assert result.exit_code == 0, result.output
        cuts[tokens] = int(result.output.partition("(")[2].partition(" tokens")[0] or 0)
    plain = CliRunner().invoke(app, base)
    # q4 and q5 have seven candidates each, six tokens apart where all are longer than both
    assert cuts["6"] - cuts["12"] == 6 * 14
    assert cuts["12"] > cuts["24"]
    assert f"({cuts['12']} tokens)" in plain.output
    for wrong, message in (("tokens=many", "give a number of tokens"), ("layers=1", "no length")):
        failed = CliRunner().invoke(app, [*base, "--read", wrong])
        assert isinstance(failed.exception, SettingsError)
        assert message in str(failed.exception)


def test_mitigations_can_be_asked_for(command: Command, tmp_path: Path, collection: Collection) -> None:
    # of the training queries' evidence three stand at the start and one further back: bins of two weigh 2/3 and 2
    starts = {"good0": 0, "good1": 0, "good2": 0, "good3": 50}
    spans = tuple(GoldSpan(f"q{name[-1]}", name, CharSpan(start, start + 2), "test") for name, start in starts.items())
    save_collection(replace(collection, spans=spans), tmp_path / "spans")
    write_splits(tmp_path / "spans", {"train": ("q0", "q1", "q2", "q3"), "dev": ("q4", "q5")})
    losses, said = {}, {}
    changes = {
        "plain": (),
        "weighted": ("position_weights={bins = 2}",),
        "balanced": ("balance_positions={bins = 2}",),
        "shuffled": ("shuffle={unit = 'words'}",),
        "offsets": ("positions='random-offsets'",),
        "spread": ("positions='sorted-random'",),
    }
    for name, change in changes.items():
        place = (f"collection='{tmp_path}/spans'", f"out='{tmp_path}/{name}'")
        said[name] = command(*place, "train.epochs=2", *change).stderr
        losses[name] = json.loads((tmp_path / name / "summary.json").read_text())["outcomes"][0]["log"]["losses"]
    assert len({tuple(values) for values in losses.values()}) == len(changes)
    assert "balanced by position: 2 of 4 training pairs an epoch, 1 in each of 2 bins" in said["balanced"]
    assert "main: 4 examples of" in said["balanced"]  # two an epoch
    with pytest.raises(TrainingError, match="other settings"):
        command(f"collection='{tmp_path}/spans'", f"out='{tmp_path}/plain'", "train.epochs=2", *changes["weighted"])
    for name in ("weighted", "balanced"):
        with pytest.raises(TrainingError, match=r"spans\.jsonl"):
            command(f"out='{tmp_path}/no-spans-{name}'", *changes[name])
    with pytest.raises(SettingsError, match="leave passage_level and shuffle out"):
        command("passage_level=true", *changes["weighted"])


@pytest.mark.parametrize(
    ("override", "kind", "message"),
    [
        ("train.backbone_rate=0", SettingsError, "backbone_rate"),
        ("train.epoch=2", SettingsError, "train.epoch"),
        ("seeds=[1, 1]", SettingsError, "hold one twice"),
        ("seeds=[]", SettingsError, "seeds"),
        ("preset='none'", UnknownName, "boytsov, li2023"),
        ("ranker.name='maxq'", UnknownName, "maxq"),
        ("train.loss='hinge'", UnknownName, "hinge"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    command: Command, override: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        command(override)


def test_data_that_cannot_be_trained_on_is_refused_before_anything_is_written(
    command: Command, tmp_path: Path, collection: Collection
) -> None:
    command(options=("--estimate",))  # the fixture's data are fine
    write_splits(tmp_path / "collection", {"train": (), "dev": ("q4", "q5")})
    with pytest.raises(TrainingError, match="none of the 0 training queries"):
        command()
    nothing = {query_id: dict.fromkeys(row, 0) for query_id, row in collection.qrels.grades.items()}
    save_collection(replace(collection, qrels=Qrels(nothing)), tmp_path / "one-class")
    write_splits(tmp_path / "one-class", {"train": ("q0", "q1"), "dev": ("q4", "q5")})
    with pytest.raises(TrainingError, match="2 have no relevant document"):
        command(f"collection='{tmp_path}/one-class'", f"out='{tmp_path}/other'")
    with pytest.raises(LongrankError, match="no split 'training'"):
        command("train_split='training'", f"out='{tmp_path}/third'")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        command(f"init='{tmp_path}/collection'", f"out='{tmp_path}/fourth'")
    assert not list(tmp_path.glob("*/seed*"))


def test_the_estimate_counts_examples_and_leaves_the_ranker_alone(
    make_ranker: Callable[..., object], sampler: CandidateSampler
) -> None:
    from longrank.rankers.neural import NeuralRanker

    ranker = make_ranker("maxp")
    assert isinstance(ranker, NeuralRanker)
    before = {name: value.clone() for name, value in ranker.state_dict().items()}
    short = estimate(ranker, sampler, TrainSettings(epochs=2))
    assert short.examples == 12
    assert short.seconds > 0
    # weights, gradient and two moments of every parameter, and a graph above that
    assert short.memory_bytes > 16 * sum(p.numel() for p in ranker.parameters())
    assert all(p.grad is None for p in ranker.parameters())
    frozen = estimate(ranker, sampler, TrainSettings(epochs=2, freeze_embeddings=True))
    assert frozen.memory_bytes < short.memory_bytes
    assert all(p.requires_grad for p in ranker.parameters())
    assert all(torch.equal(value, before[name]) for name, value in ranker.state_dict().items())
