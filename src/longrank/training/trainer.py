"""One training loop: gradient accumulation query by query, rates by part, resumable to the identical result."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from longrank.core.disk import write_atomic
from longrank.core.errors import SettingsError, TrainingError
from longrank.core.fingerprint import fingerprint
from longrank.core.progress import Meter
from longrank.core.seeds import derive
from longrank.core.types import Document, Query, Spec
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.training import resume
from longrank.training.examples import Sampler, TrainExample, examples_per_epoch
from longrank.training.forward import Asked, check_forward, train_scores
from longrank.training.journal import Journal
from longrank.training.losses import Loss, Targets
from longrank.training.optimizer import learning_as, make_optimizer
from longrank.training.registry import LOSSES
from longrank.training.schedule import rate_factor
from longrank.training.settings import TrainSettings
from longrank.training.team import Team, join_team

__all__ = ["Augment", "Teach", "TrainLog", "TrainSettings", "Validate", "fit"]

Validate = Callable[[NeuralRanker], float]
Augment = Callable[[Document, int], Document]
Teach = Callable[[Query, Sequence[Document]], Sequence[float]]

_PROBED = 8  # queries whose scores are looked at for collapse
_SAME_SCORE = 1e-5


@dataclass
class TrainLog:
    """What happened: mean loss and validation value of each epoch, the best epoch, and collapse if it was seen."""

    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    best_epoch: int = -1
    collapsed: bool = False
    stopped_early: bool = False


@dataclass
class _Progress:
    epoch: int = 0
    example: int = 0
    update: int = 0
    loss_sum: float = 0.0
    flat: int = 0  # examples whose scores were all the same
    log: TrainLog = field(default_factory=TrainLog)
    scaler: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Job:
    ranker: NeuralRanker
    sampler: Sampler
    loss: Loss
    settings: TrainSettings
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    folder: Path
    augment: Augment | None
    teach: Teach | None
    examples: int  # an epoch
    team: Team

    @property
    def updates_per_epoch(self) -> int:
        batches = self.examples / self.settings.batch_size
        return math.floor(batches) if self.settings.drop_last else math.ceil(batches)

    @property
    def mark(self) -> str:
        teacher = () if self.teach is None else ("teacher",)
        return fingerprint(self.settings, self.examples, self.ranker.spec, self.augment is not None, *teacher)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Examples of an epoch, the repeats one after another."""
        repeats = self.settings.epoch_repeats
        every = (example for r in range(repeats) for example in self.sampler.epoch(number * repeats + r))
        return islice(every, self.examples)

    def rate(self, progress: _Progress) -> float:
        """Factor of all base rates at the next update."""
        settings, per_epoch = self.settings, self.updates_per_epoch
        restart = settings.restart_every_epoch
        factor = rate_factor(
            settings.schedule,
            progress.update % per_epoch if restart else progress.update,
            total=per_epoch * (1 if restart else settings.epochs),
            warmup_fraction=settings.warmup_fraction,
            final_factor=settings.final_factor,
        )
        return factor * settings.epoch_decay**progress.epoch


def fit(
    ranker: NeuralRanker,
    sampler: Sampler,
    *,
    settings: TrainSettings,
    folder: Path,
    validate: Validate | None = None,
    augment: Augment | None = None,
    teach: Teach | None = None,
) -> TrainLog:
    """Train in place and leave the best weights (the last ones without ``validate``) in the ranker and on disk.

    ``folder/state`` lets a killed run continue to the identical weights; ``folder/best`` and ``folder/last`` are
    checkpoints, ``folder/metrics.jsonl`` has a line an update. ``teach`` gives a teacher's scores of the documents.
    """
    if settings.early_stopping is not None and validate is None:
        raise SettingsError("early_stopping looks at validation values, and there is no validation: give a split")
    with learning_as(ranker, settings):
        job = _job(ranker, sampler, settings=settings, folder=folder, augment=augment, teach=teach)
        progress = _run_epochs(job, validate)
    if job.team.leads:
        checkpoint.save(ranker, folder / "last")
        write_atomic(folder / "log.json", json.dumps(asdict(progress.log), indent=1))
    job.team.wait()
    checkpoint.put_back(ranker, folder / "best")
    return progress.log


def _job(
    ranker: NeuralRanker,
    sampler: Sampler,
    *,
    settings: TrainSettings,
    folder: Path,
    augment: Augment | None,
    teach: Teach | None,
) -> _Job:
    if len(sampler) == 0:
        raise TrainingError("the training set is empty")
    check_forward(ranker, settings)
    loss = LOSSES.build(Spec(settings.loss, settings.loss_params))
    device = next(ranker.parameters()).device.type
    scaler = torch.amp.GradScaler(device, enabled=settings.precision == "fp16")
    examples = examples_per_epoch(sampler, settings.examples_per_epoch, repeats=settings.epoch_repeats)
    optimizer = make_optimizer(ranker, settings)
    job = _Job(ranker, sampler, loss, settings, optimizer, scaler, folder, augment, teach, examples, join_team())
    if not job.updates_per_epoch:
        raise TrainingError(
            f"{examples} examples do not fill one update of {settings.batch_size}, and drop_last leaves it out: "
            "lower batch_size, or raise epoch_repeats"
        )
    return job


def _run_epochs(job: _Job, validate: Validate | None) -> _Progress:
    settings, folder = job.settings, job.folder
    with torch.random.fork_rng():
        torch.manual_seed(derive("training", settings.seed))
        job.team.wait()
        saved = resume.load(folder / "state", job.ranker, job.optimizer, mark=job.mark)
        progress = _Progress() if saved is None else _Progress(**{**saved, "log": TrainLog(**saved["log"])})
        if progress.scaler:
            job.scaler.load_state_dict(progress.scaler)
        job.ranker.trained = job.ranker.trained or progress.epoch > 0
        job.team.wait()
        with Journal(
            folder if job.team.leads else None, updates_done=progress.update, tensorboard=settings.tensorboard
        ) as journal:
            while progress.epoch < settings.epochs and not progress.log.stopped_early:
                _run_epoch(job, progress, journal)
                _end_epoch(job, progress, validate, journal)
                _save(job, progress)
    return progress


def _run_epoch(job: _Job, progress: _Progress, journal: Journal) -> None:
    settings = job.settings
    if settings.restart_every_epoch and progress.example == 0:
        job.optimizer.state.clear()
    examples = islice(job.epoch(progress.epoch), progress.example, None)
    job.ranker.train()
    what = f"epoch {progress.epoch + 1}/{settings.epochs}"
    shown = f", validation {progress.log.validation[-1]:.3f}" if progress.log.validation else ""
    began, tokens = perf_counter(), 0
    with Meter(what, total=job.examples, done=progress.example) as meter:
        while batch := list(islice(examples, settings.batch_size)):
            if settings.drop_last and len(batch) < settings.batch_size:
                break
            tokens += _update(job, progress, batch, journal)
            speed = tokens / (perf_counter() - began)
            mean = progress.loss_sum / progress.example
            meter.advance(len(batch), f"loss {mean:.3f}{shown}, {speed:,.0f} tokens/s")
            if progress.update % settings.save_every == 0:
                _save(job, progress)


def _update(job: _Job, progress: _Progress, batch: list[TrainExample], journal: Journal) -> int:
    """One optimizer step: queries go through a few at a time, their gradients are averaged; gives the tokens read."""
    settings, factor = job.settings, job.rate(progress)
    for group in job.optimizer.param_groups:
        group["lr"] = group["base_rate"] * factor
    began, before, tokens = perf_counter(), (progress.loss_sum, progress.flat), 0
    job.team.seed(progress.update, settings.seed)
    share = len(batch) if settings.gradients == "mean" else 1
    pending = iter(job.team.share(batch))
    while together := list(islice(pending, settings.queries_at_once)):
        scored = train_scores(job.ranker, [_asked(job, e, progress.epoch) for e in together], settings=settings)
        values = [_loss(job, progress, e, s) for e, s in zip(together, scored.scores, strict=True)]
        total = values[0] if len(values) == 1 else torch.stack(values).sum()
        job.scaler.scale(total / share).backward()  # type: ignore[no-untyped-call]
        tokens += scored.tokens
    if job.team.size > 1:
        progress.loss_sum = before[0] + job.team.total(progress.loss_sum - before[0])
        progress.flat = before[1] + round(job.team.total(progress.flat - before[1]))
        tokens = round(job.team.total(tokens))
    norm = _step(job, progress, batch)
    progress.update += 1
    progress.example += len(batch)
    journal.write(
        update=progress.update,
        epoch=progress.epoch,
        loss=(progress.loss_sum - before[0]) / len(batch),
        rate_factor=factor,
        gradient_norm=norm,
        tokens_per_second=tokens / (perf_counter() - began),
    )
    return tokens


def _asked(job: _Job, example: TrainExample, epoch: int) -> Asked:
    documents = [example.positive, *example.negatives]
    if job.augment is not None:
        documents = [job.augment(document, epoch) for document in documents]
    return Asked(example.query, documents)


def _loss(job: _Job, progress: _Progress, example: TrainExample, scores: Tensor) -> Tensor:
    teacher = None
    if job.teach is not None:
        known = job.teach(example.query, [example.positive, *example.negatives])
        teacher = torch.tensor(known, dtype=scores.dtype, device=scores.device).unsqueeze(0)
    value = job.loss(scores.unsqueeze(0), Targets(teacher)) * example.weight
    if not torch.isfinite(value):
        raise _broken(job, progress, f"the loss is {value.item()} at query {example.query.id!r}")
    progress.loss_sum += value.item()
    progress.flat += int((scores.max() - scores.min()).item() < 1e-6)
    return value


def _step(job: _Job, progress: _Progress, batch: Sequence[TrainExample]) -> float:
    limit = job.settings.max_gradient_norm
    parameters = [p for group in job.optimizer.param_groups for p in group["params"]]
    job.team.add_gradients(parameters)
    job.scaler.unscale_(job.optimizer)
    norm = torch.nn.utils.clip_grad_norm_(parameters, math.inf if limit is None else limit).item()
    if not math.isfinite(norm) and not job.scaler.is_enabled():  # a scaler leaves such a step out and goes on
        names = ", ".join(repr(example.query.id) for example in batch)
        raise _broken(job, progress, f"the gradient is {norm} over queries {names}")
    job.scaler.step(job.optimizer)
    job.scaler.update()
    job.optimizer.zero_grad(set_to_none=True)
    return norm if math.isfinite(norm) else 0.0


def _broken(job: _Job, progress: _Progress, what: str) -> TrainingError:
    """The error to raise; what was saved last becomes a checkpoint that another training can start from."""
    kept = f"none of its {progress.update} updates had been saved yet"
    if job.team.leads and resume.put_saved_weights(job.folder / "state", job.ranker):
        checkpoint.save(job.ranker, job.folder / "last-good")
        kept = f"the weights saved last are a checkpoint, {job.folder / 'last-good'}, to start again from with init"
    return TrainingError(
        f"{what} (update {progress.update}); {kept}. Lower the learning rates or check the data, and train into "
        "another folder"
    )


def _end_epoch(job: _Job, progress: _Progress, validate: Validate | None, journal: Journal) -> None:
    log, patience = progress.log, job.settings.early_stopping
    log.losses.append(progress.loss_sum / progress.example)
    job.ranker.eval()
    job.ranker.trained = True
    log.collapsed = log.collapsed or progress.flat > progress.example // 2 or _constant(job, progress.epoch)
    better = True
    if validate is not None:
        value = job.team.total(validate(job.ranker) if job.team.leads else 0.0)
        better = not log.validation or value > max(log.validation)
        log.validation.append(value)
        journal.write(update=progress.update, epoch=progress.epoch, validation=value)
    if better:
        log.best_epoch = progress.epoch
        if job.team.leads:
            checkpoint.save(job.ranker, job.folder / "best")
    tired = patience is not None and progress.epoch - log.best_epoch >= patience
    log.stopped_early = tired or (log.collapsed and job.settings.stop_on_collapse)
    progress.epoch, progress.example, progress.loss_sum, progress.flat = progress.epoch + 1, 0, 0.0, 0


def _constant(job: _Job, epoch: int) -> bool:
    """Whether the ranker, dropout off, tells no positive from its negatives in a handful of examples."""
    for example in islice(job.epoch(epoch), _PROBED):
        values = job.ranker.score(example.query, [example.positive, *example.negatives]).values
        if max(values) - min(values) >= _SAME_SCORE:
            return False
    return True


def _save(job: _Job, progress: _Progress) -> None:
    if not job.team.leads:
        return
    progress.scaler = job.scaler.state_dict()
    resume.save(job.folder / "state", job.ranker, job.optimizer, mark=job.mark, progress=asdict(progress))
