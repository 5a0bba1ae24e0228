"""What a training file asks for: a training for every seed and fold, each with its stages."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from longrank.core.types import Collection, Run
    from longrank.rankers.neural import NeuralRanker
    from longrank.training.balance import PositionBalance
    from longrank.training.config import StageConfig, TrainConfig
    from longrank.training.examples import Sampler
    from longrank.training.pools import NegativeSettings
    from longrank.training.regimes import Stage
    from longrank.training.trainer import Augment, Teach, TrainLog, Validate


@dataclass(frozen=True)
class Outcome:
    """What one seed, or one seed and fold, came to."""

    seed: int
    fold: str | None
    log: "TrainLog"
    checkpoint: Path


@dataclass(frozen=True)
class _Part:
    """Queries of one training: of the splits, or of a fold."""

    fold: str | None
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Source:
    """Where the examples of a stage come from."""

    collection: "Collection"
    candidates: "Mapping[str, Run]"
    query_ids: Sequence[str]
    negatives: "NegativeSettings"
    weights: "Mapping[tuple[str, str], float] | None" = None
    balance: "PositionBalance | None" = None


@dataclass(frozen=True, eq=False)
class Course:
    """All trainings of one file; what was stopped goes on where it was."""

    config: "TrainConfig"
    collection: "Collection"
    candidates: "Mapping[str, Run]"

    def run(self) -> list[Outcome]:
        """Train every seed and fold that is not trained yet."""
        from longrank.training.team import join_team

        self._check_folder()
        team = join_team()
        if team.leads and team.size > 1:
            typer.echo(f"{team.size} processes share the queries of every update", err=True)
        outcomes = []
        for seed in self.config.seeds:
            folder = self.config.out / f"seed{seed}"
            parts = self._parts()
            found = [self._train(seed, part, folder / f"fold-{part.fold}" if part.fold else folder) for part in parts]
            if self.config.folds is not None and leads():
                self._pool(seed, found, parts, folder)
            outcomes += found
        return outcomes

    def estimate(self, seed: int) -> None:
        """Say what the stages of one training would cost."""
        from longrank.training.estimate import estimate

        ranker = self._ranker(seed)
        for stage in self._stages(ranker, seed, self._parts()[0]):
            typer.echo(f"{stage.name}: {estimate(ranker, stage.sampler, stage.settings)}")

    def _train(self, seed: int, part: _Part, folder: Path) -> Outcome:
        from longrank.training.estimate import estimate
        from longrank.training.regimes import fit_stages

        label = f"seed {seed}" + (f", fold {part.fold}" if part.fold else "")
        ranker = self._ranker(seed)
        stages = self._stages(ranker, seed, part)
        for stage in stages:
            if leads() and not (folder / stage.name / "state").is_dir():
                typer.echo(f"{label}, {stage.name}: {estimate(ranker, stage.sampler, stage.settings)}", err=True)
        self._claim_folder()
        with self._drawn_positions(ranker):
            logs = fit_stages(
                ranker,
                stages,
                folder=folder,
                validate=self._validate(part.validation),
                augment=self._shuffle(seed),
                teach=self._teach(seed),
            )
        outcome = Outcome(seed, part.fold, logs[stages[-1].name], folder / stages[-1].name / "best")
        if leads():
            typer.echo(f"{label}: {_shown(outcome, self.config.measure)}")
        return outcome

    @property
    def _device(self) -> str:
        from longrank.training.team import own_device

        return own_device(self.config.device)

    def _parts(self) -> list[_Part]:
        from longrank.corpora.splits import read_split
        from longrank.training.folds import cross_validation, read_folds

        config = self.config
        if config.folds is not None:
            rounds = cross_validation(read_folds(config.folds), self.collection.queries)
            return [_Part(fold.name, fold.train, (), fold.test) for fold in rounds]
        validation: tuple[str, ...] = ()
        if config.validation_split is not None:
            validation = read_split(config.collection, config.validation_split)[: config.max_validation_queries]
        return [_Part(None, read_split(config.collection, config.train_split), validation, ())]

    def _ranker(self, seed: int) -> "NeuralRanker":
        from longrank.core.errors import TrainingError
        from longrank.core.fingerprint import plain
        from longrank.core.settings import to_spec
        from longrank.rankers import checkpoint
        from longrank.rankers.zoo import build_ranker

        asked = to_spec(self.config.ranker) if self.config.ranker is not None else None
        if self.config.init is None and asked is not None:
            return build_ranker(asked, seed=seed).to(self._device)
        start = (self.config.init or "").replace("{seed}", str(seed))
        ranker = checkpoint.load(start, remote_code=self.config.init_remote_code)
        if asked is not None and ranker.spec is not None and asked.name != ranker.spec.name:
            raise TrainingError(
                f"{start} holds a ranker {ranker.spec.name!r}, the settings ask for {asked.name!r}: leave [ranker] "
                "out, or start from its backbone alone ([ranker.params.backbone] name = 'pretrained')"
            )
        held = {} if ranker.spec is None else dict(ranker.spec.params)
        other = [
            name for name, value in (asked.params if asked else {}).items() if plain(held.get(name)) != plain(value)
        ]
        if other:
            raise TrainingError(
                f"{start} was trained with another {', '.join(other)} than [ranker] asks for, and a checkpoint keeps "
                "its own: leave [ranker] out, or these parameters"
            )
        return ranker.to(self._device)

    def _stages(self, ranker: "NeuralRanker", seed: int, part: _Part) -> "list[Stage]":
        from longrank.training.regimes import Stage, leaderboard_settings

        config = self.config
        settings = config.train.model_copy(update={"seed": seed})
        before = [self._early_stage(stage, ranker, seed, part) for stage in config.stages]
        weights = self._weights(ranker, part.train)
        source = _Source(
            self.collection, self.candidates, part.train, config.negatives, weights, config.balance_positions
        )
        if not config.leaderboard:
            return [*before, Stage("main", self._sampler(ranker, source, seed), settings)]
        by_set = {name: replace(source, candidates={name: run}) for name, run in self.candidates.items()}
        chosen = leaderboard_settings(self.candidates, settings)
        return before + [Stage(name, self._sampler(ranker, by_set[name], seed), chosen[name]) for name in by_set]

    def _early_stage(self, stage: "StageConfig", ranker: "NeuralRanker", seed: int, part: _Part) -> "Stage":
        from longrank.core.settings import parse_settings
        from longrank.corpora.splits import read_split
        from longrank.retrieval.pseudo_labels import pseudo_labels
        from longrank.training.regimes import Stage
        from longrank.training.settings import TrainSettings

        place, split = stage.collection or self.config.collection, stage.split or self.config.train_split
        own = stage.collection is not None or stage.split is not None
        collection = load(place, [split]) if own else self.collection
        candidates = self.candidates if stage.candidates is None else runs(stage.candidates)
        first = next(iter(candidates.values())) if stage.labels == "pseudo" else None
        if first is not None:
            collection = replace(collection, qrels=pseudo_labels(first))
        if first is not None and stage.collection is not None and stage.split is None:
            query_ids = tuple(first)  # such a collection may have no splits
        else:
            query_ids = read_split(place, split) if own else part.train
        query_ids = self._unleaked(stage.name, query_ids, collection, part)
        table = {**self.config.train.model_dump(), **stage.train, "seed": seed}
        source = _Source(collection, candidates, query_ids, stage.negatives or self.config.negatives)
        settings = parse_settings(TrainSettings, table, source=f"stage {stage.name!r}")
        return Stage(stage.name, self._sampler(ranker, source, seed), settings)

    def _unleaked(self, name: str, query_ids: Sequence[str], collection: "Collection", part: _Part) -> tuple[str, ...]:
        """The queries of an early stage without those that are tested or validated on, by their texts."""
        from longrank.training.folds import unleaked

        queries = self.collection.queries
        held_out = [queries[query_id] for query_id in (*part.validation, *part.test) if query_id in queries]
        kept = unleaked(query_ids, collection.queries, held_out)
        if len(kept) < len(query_ids) and leads():
            left = f"{len(query_ids) - len(kept)} of {len(query_ids)} queries of stage {name!r} are left out"
            typer.echo(f"{left}: they are tested or validated on", err=True)
        return kept

    def _sampler(self, ranker: "NeuralRanker", source: _Source, seed: int) -> "Sampler":
        from longrank.training.balance import balanced
        from longrank.training.passages import PassageLevel
        from longrank.training.pools import PoolSampler
        from longrank.training.weights import WeightedSampler

        sampler = PoolSampler(
            source.collection, source.candidates, source.query_ids, negatives=source.negatives, seed=seed
        )
        for reason, count in sampler.skipped.items() if leads() else ():
            typer.echo(f"{count} of {len(source.query_ids)} training queries are left out: {reason}", err=True)
        if source.weights is not None:
            return WeightedSampler(sampler, source.weights)
        if source.balance is not None:
            even = balanced(sampler, tokenizer=ranker.backbone.tokenizer, settings=source.balance, seed=seed)
            if leads():
                typer.echo(f"balanced by position: {even}", err=True)
            return even
        return PassageLevel(sampler, ranker.split, seed) if self.config.passage_level else sampler

    def _weights(self, ranker: "NeuralRanker", query_ids: Sequence[str]) -> "Mapping[tuple[str, str], float] | None":
        from longrank.training.weights import position_weights

        if self.config.position_weights is None:
            return None
        return position_weights(
            self.collection,
            query_ids,
            tokenizer=ranker.backbone.tokenizer,
            settings=self.config.position_weights,
        )

    def _drawn_positions(self, ranker: "NeuralRanker") -> AbstractContextManager[None]:
        from longrank.rankers.mitigation import random_offsets, sorted_random_positions

        if self.config.positions is None:
            return nullcontext()
        return random_offsets(ranker) if self.config.positions == "random-offsets" else sorted_random_positions(ranker)

    def _shuffle(self, seed: int) -> "Augment | None":
        from longrank.core.seeds import derive
        from longrank.synthetic.debias import SegmentShuffle

        asked = self.config.shuffle
        if asked is None:
            return None
        return SegmentShuffle(asked.model_copy(update={"seed": derive(f"shuffle-{asked.seed}", seed)}))

    def _validate(self, query_ids: Sequence[str]) -> "Validate | None":
        from longrank.core.types import Qrels
        from longrank.evaluation.measures import evaluate

        if not query_ids:
            return None
        grades = self.collection.qrels.grades
        qrels = Qrels({q: grades[q] for q in query_ids if q in grades})

        def validate(ranker: "NeuralRanker") -> float:
            run = self._rerank(ranker, query_ids)
            (values,) = evaluate(run, qrels, [self.config.measure], missing="zero").values()
            return sum(values.values()) / max(1, len(values))

        return validate

    def _rerank(self, ranker: "NeuralRanker", query_ids: Sequence[str]) -> "Run":
        from longrank.rankers.rerank import rerank

        *_, last = self.candidates.values()
        name = ranker.spec.name if ranker.spec is not None else "longrank"
        return rerank(ranker, last, self.collection, depth=self.config.depth, query_ids=query_ids, name=name)

    def _teach(self, seed: int) -> "Teach | None":
        from longrank.rankers import checkpoint
        from longrank.training.distillation import ranker_teaches, run_teaches

        if self.config.teacher is None:
            return None
        place = Path(self.config.teacher.replace("{seed}", str(seed)))
        if place.is_dir():
            teacher = checkpoint.load(place, remote_code=self.config.teacher_remote_code)
            return ranker_teaches(teacher.to(self._device))
        return run_teaches(next(iter(runs({"teacher": place}).values())))

    def _pool(self, seed: int, outcomes: Sequence[Outcome], parts: Sequence[_Part], folder: Path) -> None:
        from longrank.corpora.formats.trec import read_run, write_run
        from longrank.evaluation.measures import evaluate
        from longrank.rankers import checkpoint
        from longrank.training.folds import pool_runs

        runs = []
        for outcome, part in zip(outcomes, parts, strict=True):
            path = folder / f"fold-{part.fold}" / "test.trec"
            if not path.is_file():
                ranker = self._ranker(seed)
                checkpoint.put_back(ranker, outcome.checkpoint)
                write_run(path, self._rerank(ranker, part.test))
            runs.append(read_run(path))
        pooled = pool_runs(runs, name=f"seed{seed}")
        write_run(folder / "pooled.trec", pooled)
        (values,) = evaluate(pooled, self.collection.qrels, [self.config.measure], missing="skip").values()
        mean = sum(values.values()) / max(1, len(values))
        typer.echo(
            f"seed {seed}: {self.config.measure} {mean:.4f} over {len(values)} queries, {folder / 'pooled.trec'}"
        )

    @cached_property
    def _mark(self) -> str:
        """Fingerprint of the settings and of the files they name, whose content may change under the same name."""
        from longrank.core.fingerprint import file_hash, fingerprint

        config = self.config
        named = [*config.candidates.values(), config.folds, Path(config.teacher) if config.teacher else None]
        return fingerprint(config.mark, [file_hash(path) for path in named if path is not None and path.is_file()])

    def _check_folder(self) -> None:
        """Refuse a folder of other settings: its half-finished states would be mixed with ours."""
        from longrank.core.errors import TrainingError

        path = self.config.out / "settings.mark"
        if path.is_file() and path.read_text(encoding="utf-8") != self._mark:
            raise TrainingError(
                f"{self.config.out} holds a training with other settings, candidates or folds: choose another out, or "
                "remove it"
            )

    def _claim_folder(self) -> None:
        """Mark the folder as ours, once nothing can be refused any more."""
        from longrank.core.disk import write_atomic

        if leads():
            write_atomic(self.config.out / "settings.mark", self._mark)


def leads() -> bool:
    """Whether this process, of several under a launcher, is the one that speaks and writes."""
    from longrank.training.team import join_team

    return join_team().leads


def load(folder: Path, splits: Sequence[str]) -> "Collection":
    """The collection of a folder with the queries of these splits."""
    from longrank.corpora.catalog.folder import load_folder

    return load_folder(folder, split=tuple(splits))


def runs(paths: Mapping[str, Path]) -> "dict[str, Run]":
    """Run files by their names."""
    from longrank.corpora.formats.trec import read_run

    return {name: read_run(path) for name, path in paths.items()}


def _shown(outcome: Outcome, measure: str) -> str:
    log = outcome.log
    text = f"loss {log.losses[0]:.3f} -> {log.losses[-1]:.3f}"
    if log.validation:
        text += f", {measure} {max(log.validation):.4f} after epoch {log.best_epoch + 1}"
    if log.stopped_early:
        text += ", stopped early"
    if log.collapsed:
        text += ", COLLAPSED: its scores have become constant"
    return f"{text}, {outcome.checkpoint}"
