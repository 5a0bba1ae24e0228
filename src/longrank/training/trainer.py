"""One training loop: gradient accumulation query by query, two learning rates, resumable to the identical result."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from longrank.core.disk import write_atomic
from longrank.core.errors import TrainingError
from longrank.core.fingerprint import fingerprint
from longrank.core.progress import Meter
from longrank.core.seeds import derive
from longrank.core.settings import Settings
from longrank.core.types import Document, Spec
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.training import resume
from longrank.training.examples import Sampler, TrainExample, examples_per_epoch
from longrank.training.losses import LOSSES, Loss
from longrank.training.schedule import ScheduleName, rate_factor

Validate = Callable[[NeuralRanker], float]
Augment = Callable[[Document, int], Document]


class TrainSettings(Settings):
    """Everything the loop can be told; the defaults are the positional-bias paper's."""

    loss: str = "pairwise-margin"
    loss_params: dict[str, float] = {}
    epochs: int = Field(1, ge=1)
    examples_per_epoch: int | None = Field(None, ge=1)
    batch_size: int = Field(16, ge=1, description="queries an update; their gradients are averaged")
    backbone_rate: float = Field(1e-5, gt=0)
    aggregator_rate: float = Field(1e-4, gt=0)
    weight_decay: float = Field(1e-7, ge=0)
    schedule: ScheduleName = "constant"
    warmup_fraction: float = Field(0.2, ge=0, lt=1)
    max_gradient_norm: float | None = Field(None, gt=0)
    freeze_embeddings: bool = False
    save_every: int = Field(50, ge=1, description="updates between two resumable states")
    seed: int = 0


@dataclass
class TrainLog:
    """What happened: mean loss and validation value of each epoch, the best epoch, and collapse if it was seen."""

    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    best_epoch: int = -1
    collapsed: bool = False


@dataclass
class _Progress:
    epoch: int = 0
    example: int = 0
    update: int = 0
    loss_sum: float = 0.0
    flat: int = 0  # examples whose scores were all the same
    log: TrainLog = field(default_factory=TrainLog)


@dataclass(frozen=True, eq=False)
class _Job:
    ranker: NeuralRanker
    sampler: Sampler
    loss: Loss
    settings: TrainSettings
    optimizer: torch.optim.Optimizer
    folder: Path
    augment: Augment | None

    @property
    def examples(self) -> int:
        return examples_per_epoch(self.sampler, self.settings.examples_per_epoch)

    @property
    def updates(self) -> int:
        return math.ceil(self.examples / self.settings.batch_size) * self.settings.epochs

    @property
    def mark(self) -> str:
        return fingerprint(self.settings, self.examples, self.ranker.spec, self.augment is not None)


def fit(
    ranker: NeuralRanker,
    sampler: Sampler,
    *,
    settings: TrainSettings,
    folder: Path,
    validate: Validate | None = None,
    augment: Augment | None = None,
) -> TrainLog:
    """Train in place and leave the best weights (the last ones without ``validate``) in the ranker and on disk.

    ``folder/state`` lets a killed run continue to the identical weights; ``folder/best`` is a checkpoint.
    """
    if len(sampler) == 0:
        raise TrainingError("the training set is empty")
    if settings.freeze_embeddings:
        ranker.backbone.model.embeddings.requires_grad_(False)
    loss = LOSSES.build(Spec(settings.loss, settings.loss_params))
    job = _Job(ranker, sampler, loss, settings, _optimizer(ranker, settings), folder, augment)
    with torch.random.fork_rng():
        torch.manual_seed(derive("training", settings.seed))
        saved = resume.load(folder / "state", ranker, job.optimizer, mark=job.mark)
        progress = _Progress() if saved is None else _Progress(**{**saved, "log": TrainLog(**saved["log"])})
        while progress.epoch < settings.epochs:
            _run_epoch(job, progress)
            _end_epoch(job, progress, validate)
            _save(job, progress)
    ranker.load_state_dict(checkpoint.load(folder / "best").state_dict())
    write_atomic(folder / "log.json", json.dumps(asdict(progress.log), indent=1))
    return progress.log


def _run_epoch(job: _Job, progress: _Progress) -> None:
    settings = job.settings
    examples = islice(job.sampler.epoch(progress.epoch), progress.example, job.examples)
    job.ranker.train()
    what = f"epoch {progress.epoch + 1}/{settings.epochs}"
    with Meter(what, total=job.examples, done=progress.example) as meter:
        while batch := list(islice(examples, settings.batch_size)):
            _update(job, progress, batch)
            meter.advance(len(batch), f"loss {progress.loss_sum / progress.example:.3f}")
            if progress.update % settings.save_every == 0:
                _save(job, progress)


def _update(job: _Job, progress: _Progress, batch: list[TrainExample]) -> None:
    """One optimizer step: queries go through one by one, their gradients are averaged."""
    settings = job.settings
    factor = rate_factor(
        settings.schedule, progress.update, total=job.updates, warmup_fraction=settings.warmup_fraction
    )
    for group in job.optimizer.param_groups:
        group["lr"] = group["base_rate"] * factor
    for example in batch:
        scores = _scores(job.ranker, example, job.augment, progress.epoch)
        value = job.loss(scores.unsqueeze(0))
        if not torch.isfinite(value):
            raise TrainingError(
                f"the loss is {value.item()} at query {example.query.id!r} (update {progress.update}): "
                f"the last good state is in {job.folder}; lower the learning rates or check the data"
            )
        (value / len(batch)).backward()  # type: ignore[no-untyped-call]
        progress.loss_sum += value.item()
        progress.flat += int((scores.max() - scores.min()).item() < 1e-6)
    if settings.max_gradient_norm is not None:
        torch.nn.utils.clip_grad_norm_(job.ranker.parameters(), settings.max_gradient_norm)
    job.optimizer.step()
    job.optimizer.zero_grad(set_to_none=True)
    progress.update += 1
    progress.example += len(batch)


def _scores(ranker: NeuralRanker, example: TrainExample, augment: Augment | None, epoch: int) -> Tensor:
    documents = [example.positive, *example.negatives]
    if augment is not None:
        documents = [augment(document, epoch) for document in documents]
    scores: Tensor = ranker(example.query, documents)
    return scores


def _end_epoch(job: _Job, progress: _Progress, validate: Validate | None) -> None:
    log = progress.log
    log.losses.append(progress.loss_sum / job.examples)
    log.collapsed |= progress.flat > job.examples // 2
    job.ranker.eval()
    job.ranker.trained = True
    better = True
    if validate is not None:
        value = validate(job.ranker)
        better = not log.validation or value > max(log.validation)
        log.validation.append(value)
    if better:
        log.best_epoch = progress.epoch
        checkpoint.save(job.ranker, job.folder / "best")
    progress.epoch, progress.example, progress.loss_sum, progress.flat = progress.epoch + 1, 0, 0.0, 0


def _save(job: _Job, progress: _Progress) -> None:
    resume.save(job.folder / "state", job.ranker, job.optimizer, mark=job.mark, progress=asdict(progress))


def _optimizer(ranker: NeuralRanker, settings: TrainSettings) -> torch.optim.Optimizer:
    rates = {"backbone": settings.backbone_rate, "aggregator": settings.aggregator_rate}
    groups: list[dict[str, Any]] = [
        {"params": parameters, "lr": rates[name], "base_rate": rates[name]}
        for name, parameters in ranker.parameter_groups().items()
        if parameters
    ]
    return torch.optim.AdamW(groups, weight_decay=settings.weight_decay)
