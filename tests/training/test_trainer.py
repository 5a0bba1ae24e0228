"""The loop: it learns, stops, goes on to the identical weights, and refuses what it cannot use."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from longrank.core.errors import MissingExtra, SettingsError, TrainingError
from longrank.core.types import Collection, Document, Run, Spec
from longrank.encoders.backbone import Backbone
from longrank.encoders.tiny import tiny
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.training.examples import CandidateSampler, TrainExample
from longrank.training.regimes import Stage, fit_stages
from longrank.training.settings import PRESETS, TrainSettings
from longrank.training.trainer import TrainLog, fit

MakeRanker = Callable[..., NeuralRanker]
Train = Callable[..., tuple[NeuralRanker, TrainLog]]
Weights = Callable[[NeuralRanker], torch.Tensor]
FAST = {"batch_size": 2, "backbone_rate": 1e-3, "aggregator_rate": 1e-3}


class Interruption:
    """An augmentation that changes nothing and interrupts the training at one document."""

    def __init__(self, at: int | None) -> None:
        self.left = at

    def __call__(self, document: Document, epoch: int) -> Document:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return document


def test_training_lowers_the_loss(train: Train) -> None:
    _, log = train(dropout=False, epochs=8, backbone_rate=1e-2, aggregator_rate=1e-2, schedule="linear")
    assert log.losses[-1] < 0.1 * log.losses[0]


@pytest.mark.parametrize(("at", "changes"), [(1, {}), (16, {}), (30, {"restart_every_epoch": True})])
def test_an_interrupted_training_goes_on_to_identical_weights(
    make_ranker: MakeRanker,
    sampler: CandidateSampler,
    tmp_path: Path,
    *,
    at: int,
    changes: dict[str, object],
    weights: Weights,
) -> None:
    # 6 queries of 3 documents make 18 documents an epoch
    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "save_every": 2, **changes})
    whole = make_ranker()
    expected = fit(whole, sampler, settings=settings, folder=tmp_path / "whole", augment=Interruption(None))
    with pytest.raises(KeyboardInterrupt):
        fit(make_ranker(), sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(at))
    resumed = make_ranker(seed=1)  # its weights come from the state, unless nothing was saved yet
    if at == 1:
        resumed = make_ranker()
    log = fit(resumed, sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(None))
    assert torch.equal(weights(resumed), weights(whole))
    assert log == expected


def test_a_training_that_drops_attention_goes_on_to_identical_weights(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "save_every": 2})

    def ranker(rate: float, seed: int = 0) -> NeuralRanker:
        made = make_ranker(seed=seed)
        for name, part in made.named_modules():
            if name.endswith("attention.self.dropout"):
                part.p = rate
        return made

    whole, without, resumed = ranker(0.2), ranker(0.0), ranker(0.2, seed=1)
    fit(whole, sampler, settings=settings, folder=tmp_path / "whole", augment=Interruption(None))
    fit(without, sampler, settings=settings, folder=tmp_path / "without", augment=Interruption(None))
    with pytest.raises(KeyboardInterrupt):
        fit(ranker(0.2), sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(16))
    fit(resumed, sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(None))
    assert torch.equal(weights(resumed), weights(whole))
    assert not torch.allclose(weights(without), weights(whole))


def test_a_killed_process_goes_on_to_identical_weights(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "save_every": 1})
    whole = make_ranker()
    fit(whole, sampler, settings=settings, folder=tmp_path / "whole", augment=Interruption(None))
    child = os.fork() if hasattr(os, "fork") else pytest.skip("needs fork")
    if child == 0:  # pragma: no cover
        torch.set_num_threads(1)
        try:
            fit(make_ranker(), sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(25))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    (tmp_path / "cut" / ".123-state").mkdir()  # what a kill within a save leaves behind
    resumed = make_ranker(seed=1)
    fit(resumed, sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(None))
    assert torch.equal(weights(resumed), weights(whole))
    assert not (tmp_path / "cut" / ".123-state").exists()


def test_a_state_that_a_kill_left_moved_aside_is_put_back(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "save_every": 1})
    whole = make_ranker()
    fit(whole, sampler, settings=settings, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(make_ranker(), sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(30))
    # between the two renames of a new state the old one has another name, and the new one is not there yet
    (tmp_path / "cut" / "state").rename(tmp_path / "cut" / ".99-old-state")
    (tmp_path / "cut" / ".99-state").mkdir()
    resumed = make_ranker()
    fit(resumed, sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(None))
    updates = (tmp_path / "cut" / "metrics.jsonl").read_text().count('"rate_factor"')
    assert updates == 6  # none was done again
    assert torch.equal(weights(resumed), weights(whole))
    assert not list((tmp_path / "cut").glob(".*"))


def test_a_ranker_with_tied_weights_is_trained_and_goes_on(
    sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=256, d_model=16, num_layers=1, num_heads=2, d_ff=32, d_kv=8)
    words = tiny(layers=1, dim=16, vocabulary=256, pooling="mean")
    Backbone(T5EncoderModel(config), words.tokenizer, words.specials, pooling="mean").save(tmp_path / "t5")
    spec = Spec("firstp", {"backbone": Spec("pretrained", {"model": str(tmp_path / "t5")}), "tokens": 12})
    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "save_every": 1})
    whole, cut = build_ranker(spec), build_ranker(spec)
    fit(whole, sampler, settings=settings, folder=tmp_path / "whole", augment=Interruption(None))
    with pytest.raises(KeyboardInterrupt):
        fit(cut, sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(25))
    resumed = build_ranker(spec)
    fit(resumed, sampler, settings=settings, folder=tmp_path / "cut", augment=Interruption(None))
    assert torch.equal(weights(resumed), weights(whole))
    assert torch.equal(weights(checkpoint.load(tmp_path / "cut" / "best")), weights(whole))


def test_a_finished_training_is_not_done_again(train: Train, tmp_path: Path, weights: Weights) -> None:
    first, log = train()
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    second, again = train()
    assert torch.equal(weights(first), weights(second))
    assert again == log
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before
    assert second.trained
    assert checkpoint.load(tmp_path / "run" / "last").trained


def test_what_one_stage_freezes_and_drops_does_not_hold_for_the_next(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path
) -> None:
    ranker = make_ranker()
    rates: list[set[float]] = []
    embeddings: list[torch.Tensor] = []

    def validate(ranker: NeuralRanker) -> float:
        rates.append({part.p for part in ranker.modules() if isinstance(part, torch.nn.Dropout)})
        embeddings.append(ranker.backbone.model.get_input_embeddings().weight.detach().clone())
        return 0.0

    changes = {"warm": {"freeze_embeddings": True, "dropout": 0.0}, "main": {"dropout": 0.3}, "plain": {}}
    stages = [Stage(n, sampler, TrainSettings.model_validate({**FAST, **change})) for n, change in changes.items()]
    fit_stages(ranker, stages, folder=tmp_path, validate=validate)
    assert rates == [{0.0}, {0.0, 0.3}, {0.0, 0.1}]  # dropout of attention is off
    assert not torch.equal(embeddings[1], embeddings[0])


def test_one_query_at_a_time_and_all_at_once_give_the_same_gradient(train: Train, tmp_path: Path) -> None:
    first = []
    for at_once in (1, 6):
        train(str(at_once), dropout=False, batch_size=6, queries_at_once=at_once)
        first.append(json.loads((tmp_path / str(at_once) / "metrics.jsonl").read_text().splitlines()[0]))
    assert first[1]["loss"] == pytest.approx(first[0]["loss"], rel=1e-6)
    assert first[1]["gradient_norm"] == pytest.approx(first[0]["gradient_norm"], rel=1e-6)


def test_summed_gradients_are_averaged_ones_times_the_batch(train: Train, tmp_path: Path) -> None:
    for name in ("mean", "sum"):
        train(name, dropout=False, gradients=name)
    mean, total = (
        json.loads((tmp_path / name / "metrics.jsonl").read_text().splitlines()[0]) for name in ("mean", "sum")
    )
    assert total["gradient_norm"] == pytest.approx(2 * mean["gradient_norm"], rel=1e-5)


def test_metrics_have_a_line_an_update_and_validation_values(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path
) -> None:
    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "warmup_fraction": 0.5})
    fit(make_ranker(), sampler, settings=settings, folder=tmp_path, validate=lambda ranker: 0.5)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "loss" in line]
    assert [line["update"] for line in updates] == [1, 2, 3, 4, 5, 6]
    assert [line["rate_factor"] for line in updates] == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1])
    assert all(line["tokens_per_second"] > 0 for line in updates)
    assert [line["validation"] for line in lines if "validation" in line] == [0.5, 0.5]


def test_a_restart_every_epoch_warms_up_again_at_a_lower_rate(train: Train, tmp_path: Path) -> None:
    train(epochs=2, warmup_fraction=0.5, restart_every_epoch=True, epoch_decay=0.9)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    # three updates an epoch, of which round(1.5) = 2 warm up
    assert [line["rate_factor"] for line in lines] == pytest.approx([0.5, 1, 1, 0.45, 0.9, 0.9])


def test_an_incomplete_update_is_left_out_as_published(train: Train, tmp_path: Path) -> None:
    _, log = train(batch_size=4, drop_last=True)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
    assert len(log.losses) == 1
    with pytest.raises(TrainingError, match="6 examples do not fill one update of 7"):
        train("other", batch_size=7, drop_last=True)


def test_an_epoch_repeats_its_queries_with_new_draws(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path
) -> None:
    asked: list[str] = []

    def note(document: Document, epoch: int) -> Document:
        asked.append(document.id)
        return document

    settings = TrainSettings.model_validate({**FAST, "epoch_repeats": 2, "examples_per_epoch": 10})
    fit(make_ranker(), sampler, settings=settings, folder=tmp_path, augment=note)
    assert len(asked) == 10 * 3
    expected = [e.positive.id for number in (0, 1) for e in sampler.epoch(number)]
    assert asked[::3] == expected[:10]


def test_the_best_epoch_is_kept_and_patience_ends(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    values = iter([0.2, 0.6, 0.5, 0.6, 0.9])
    seen: list[torch.Tensor] = []

    def validate(ranker: NeuralRanker) -> float:
        seen.append(weights(ranker).clone())
        return next(values)

    settings = TrainSettings.model_validate({**FAST, "epochs": 9, "early_stopping": 2})
    ranker = make_ranker()
    log = fit(ranker, sampler, settings=settings, folder=tmp_path, validate=validate)
    assert log.validation == [0.2, 0.6, 0.5, 0.6]  # an equal value is no improvement
    assert (log.best_epoch, log.stopped_early) == (1, True)
    assert torch.equal(weights(ranker), seen[1])
    assert torch.equal(weights(checkpoint.load(tmp_path / "best")), seen[1])
    assert torch.equal(weights(checkpoint.load(tmp_path / "last")), seen[3])


def test_early_stopping_without_validation_is_refused(train: Train) -> None:
    with pytest.raises(SettingsError, match="no validation"):
        train(early_stopping=1)


def test_constant_scores_are_reported_as_collapse_and_can_end_the_training(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path
) -> None:
    ranker = make_ranker()
    with torch.no_grad():
        for name, value in ranker.aggregator.named_parameters():
            value.zero_() if name.endswith("weight") else None
    settings = TrainSettings.model_validate({**FAST, "aggregator_rate": 1e-12, "epochs": 3, "stop_on_collapse": True})
    log = fit(ranker, sampler, settings=settings, folder=tmp_path)
    assert log.collapsed
    assert len(log.losses) == 1


def test_a_ranker_that_learns_has_not_collapsed(train: Train) -> None:
    assert not train()[1].collapsed


def test_a_loss_that_is_not_a_number_stops_and_names_the_query(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "save_every": 1})
    good = make_ranker()
    one = settings.model_copy(update={"epochs": 1})
    fit(good, sampler, settings=one, folder=tmp_path / "good")
    ranker = make_ranker()

    def poison(document: Document, epoch: int) -> Document:
        if epoch == 1:
            with torch.no_grad():
                next(ranker.aggregator.parameters()).fill_(float("nan"))
        return document

    with pytest.raises(TrainingError, match=r"the loss is nan at query 'q\d' \(update 3\).*last-good, to start again"):
        fit(ranker, sampler, settings=settings, folder=tmp_path / "bad", augment=poison)
    assert torch.equal(weights(checkpoint.load(tmp_path / "bad" / "last-good")), weights(ranker))
    assert torch.isfinite(weights(ranker)).all()
    kept = checkpoint.load(tmp_path / "bad" / "best")
    assert torch.isfinite(weights(kept)).all()
    state = json.loads((tmp_path / "bad" / "state" / "progress.json").read_text())
    assert state["progress"]["epoch"] == 1


def test_a_gradient_that_is_not_finite_stops_before_the_step(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path, weights: Weights
) -> None:
    ranker = make_ranker()
    next(ranker.aggregator.parameters()).register_hook(lambda gradient: gradient * float("inf"))  # type: ignore[no-untyped-call]
    with pytest.raises(TrainingError, match=r"the gradient is (nan|inf) over queries 'q\d'.*none of its 0 updates"):
        fit(ranker, sampler, settings=TrainSettings.model_validate(FAST), folder=tmp_path)
    assert torch.isfinite(weights(ranker)).all()


def test_the_state_of_another_run_is_refused(train: Train) -> None:
    train()
    with pytest.raises(TrainingError, match="other settings"):
        train(epochs=2)


@pytest.mark.parametrize("name", ["progress.json", "weights.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_state_is_named_and_not_used(train: Train, tmp_path: Path, name: str, damage: str) -> None:
    train()
    path = tmp_path / "run" / "state" / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TrainingError, match=r"state is damaged .* remove it to start again"):
        train()


def test_a_full_disk_leaves_the_old_state(
    make_ranker: MakeRanker,
    sampler: CandidateSampler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: Weights,
) -> None:
    import safetensors.torch

    settings = TrainSettings.model_validate({**FAST, "epochs": 2, "save_every": 1})
    written = safetensors.torch.save_file
    left = 3  # a state is two files: the second state stays incomplete

    def save_file(*values: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        written(*values)

    monkeypatch.setattr(safetensors.torch, "save_file", save_file)
    with pytest.raises(OSError, match="No space left"):
        fit(make_ranker(), sampler, settings=settings, folder=tmp_path / "full")
    monkeypatch.undo()
    state = json.loads((tmp_path / "full" / "state" / "progress.json").read_text())
    assert state["progress"]["update"] == 1
    whole, resumed = make_ranker(), make_ranker()
    fit(whole, sampler, settings=settings, folder=tmp_path / "whole")
    fit(resumed, sampler, settings=settings, folder=tmp_path / "full")
    assert torch.equal(weights(whole), weights(resumed))


def test_a_full_disk_leaves_the_old_checkpoint(
    make_ranker: MakeRanker,
    sampler: CandidateSampler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: Weights,
) -> None:
    import safetensors.torch

    settings = TrainSettings.model_validate({**FAST, "epochs": 2})
    written, checkpoints = safetensors.torch.save_file, 0

    def save_file(tensors: dict[str, torch.Tensor], path: Path) -> None:
        nonlocal checkpoints
        checkpoints += "aggregator" in path.name
        if checkpoints == 2:
            raise OSError(28, "No space left on device")
        written(tensors, path)

    monkeypatch.setattr(safetensors.torch, "save_file", save_file)
    with pytest.raises(OSError, match="No space left"):
        fit(make_ranker(), sampler, settings=settings, folder=tmp_path / "full")
    monkeypatch.undo()
    first = make_ranker()
    fit(first, sampler, settings=settings.model_copy(update={"epochs": 1}), folder=tmp_path / "first")
    assert torch.equal(weights(checkpoint.load(tmp_path / "full" / "best")), weights(first))
    whole, resumed = make_ranker(), make_ranker()
    fit(whole, sampler, settings=settings, folder=tmp_path / "whole")
    fit(resumed, sampler, settings=settings, folder=tmp_path / "full")
    assert torch.equal(weights(whole), weights(resumed))


def test_gradients_are_clipped_to_the_norm_asked_for(train: Train, tmp_path: Path) -> None:
    norms: list[float] = []

    def note(optimizer: torch.optim.Optimizer, arguments: object, named: object) -> None:
        found = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norms.append(torch.cat([gradient.flatten() for gradient in found]).norm().item())

    handle = register_optimizer_step_pre_hook(note)
    try:
        train(dropout=False, max_gradient_norm=0.01)
    finally:
        handle.remove()
    before = [json.loads(line)["gradient_norm"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert min(before) > 0.01
    assert norms == pytest.approx([0.01] * 3, rel=1e-3)


def test_weights_decay_by_rate_times_decay_where_nothing_is_learnt(
    make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path
) -> None:
    # examples of weight 0 have no gradient; three updates at rate .01 and decay 2 leave (1 - .02) ** 3
    class Weightless:
        def __len__(self) -> int:
            return len(sampler)

        def epoch(self, number: int) -> Iterator[TrainExample]:
            return (replace(example, weight=0.0) for example in sampler.epoch(number))

    rates = {"backbone_rate": 0.01, "aggregator_rate": 0.01, "warmup_fraction": 0.0, "weight_decay": 2.0}
    ranker = make_ranker()
    before = {name: value.clone() for name, value in ranker.aggregator.named_parameters()}
    fit(ranker, Weightless(), settings=TrainSettings.model_validate({**FAST, **rates}), folder=tmp_path)
    for name, value in ranker.aggregator.named_parameters():
        assert torch.allclose(value, before[name] * 0.98**3), name


def test_an_empty_training_set_is_refused(make_ranker: MakeRanker, tmp_path: Path) -> None:
    class Nothing:
        def __len__(self) -> int:
            return 0

        def epoch(self, number: int) -> Iterator[TrainExample]:
            return iter(())

    with pytest.raises(TrainingError, match="empty"):
        fit(make_ranker(), Nothing(), settings=TrainSettings(), folder=tmp_path)


def test_queries_with_labels_of_one_class_only_are_refused(collection: Collection, candidates: Run) -> None:
    everything = {q: dict.fromkeys(collection.documents, 1) for q in collection.queries}
    with pytest.raises(TrainingError, match="none of the 6 training queries"):
        CandidateSampler(
            replace(collection, qrels=replace(collection.qrels, grades=everything)),
            candidates,
            tuple(collection.queries),
        )


@pytest.mark.parametrize("changes", [{"backbone_rate": 0.0}, {"epochs": 0}, {"precision": "fp8"}, {"layer_decay": 2}])
def test_settings_out_of_range_are_refused(train: Train, changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        train(**changes)


def test_an_unused_option_leaves_the_stored_form_alone() -> None:
    stored = TrainSettings().model_dump()
    assert "winner_only" not in stored
    assert TrainSettings(winner_only=True).model_dump()["winner_only"] is True
    assert TrainSettings.model_validate(stored) == TrainSettings()


@pytest.mark.parametrize(
    "changes", [{"precision": "fp16"}, {"precision": "bf16"}, {"winner_only": True}, {"recompute_tokens": 32}]
)
def test_every_way_of_computing_trains_and_resumes(train: Train, weights: Weights, changes: dict[str, object]) -> None:
    plain, _ = train("plain", dropout=False, save_every=2)
    ranker, log = train("other", dropout=False, save_every=2, **changes)
    assert (weights(ranker) - weights(plain)).abs().max() < 0.02
    again, log_again = train("other", dropout=False, save_every=2, **changes)
    assert torch.equal(weights(ranker), weights(again))
    assert log == log_again


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_valid_and_trains(train: Train, name: str) -> None:
    settings = TrainSettings.model_validate(PRESETS[name])
    assert settings.loss == "pairwise-margin"
    _, log = train(**{**PRESETS[name], "epochs": 1, "examples_per_epoch": 4, "batch_size": 2})
    assert len(log.losses) == 1


def test_tensorboard_that_is_not_installed_is_named(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match="tensorboard"):
        train(tensorboard=True)


def test_tensorboard_gets_the_values_of_every_update(train: Train, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    train(tensorboard=True)
    (path,) = (tmp_path / "run" / "tensorboard").iterdir()
    written = path.read_bytes()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    # each value is an event that names its series once
    for name in ("loss", "rate_factor", "gradient_norm", "tokens_per_second"):
        assert written.count(name.encode()) == len(lines) == 3


def test_the_settings_can_be_read_without_loading_torch() -> None:
    code = "import sys, longrank.training.config; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
