"""``longrank train``: rankers from a collection, candidates and a TOML file."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


def train(
    config: Annotated[Path, typer.Argument(help="TOML file: collection, candidates, ranker, [train] and out.")],
    *,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override, e.g. train.epochs=2; repeatable.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Where the model computes: cpu, cuda, cuda:1 or mps.")
    ] = None,
    estimate_only: Annotated[bool, typer.Option("--estimate", help="Say what it would cost, and stop.")] = False,
) -> None:
    """Train a ranker, for every seed and fold; a stopped command goes on where it was.

    longrank train maxp.toml --set seeds="[0, 1, 2]" --set train.epochs=2
    """
    from longrank.core.settings import load_settings
    from longrank.encoders.device import usable_device
    from longrank.training.config import TrainConfig

    chosen = [] if device is None else [f"device={device}"]
    settings = load_settings(TrainConfig, config, [*(overrides or []), *chosen])
    usable_device(settings.device)
    course = _Course(settings, _load(settings.collection), _runs(settings.candidates))
    if estimate_only:
        course.estimate(settings.seeds[0])
        return
    results = course.run()
    if _leads():
        _write_summary(settings, results)


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
class _Course:
    config: "TrainConfig"
    collection: "Collection"
    candidates: "Mapping[str, Run]"

    def run(self) -> list[Outcome]:
        from longrank.training.team import join_team

        self._claim_folder()
        team = join_team()
        if team.leads and team.size > 1:
            typer.echo(f"{team.size} processes share the queries of every update", err=True)
        outcomes = []
        for seed in self.config.seeds:
            folder = self.config.out / f"seed{seed}"
            parts = self._parts()
            found = [self._train(seed, part, folder / f"fold-{part.fold}" if part.fold else folder) for part in parts]
            if self.config.folds is not None and _leads():
                self._pool(seed, found, parts, folder)
            outcomes += found
        return outcomes

    def estimate(self, seed: int) -> None:
        from longrank.training.estimate import estimate

        ranker = self._ranker(seed)
        for stage in self._stages(ranker, seed, self._parts()[0].train):
            typer.echo(f"{stage.name}: {estimate(ranker, stage.sampler, stage.settings)}")

    def _train(self, seed: int, part: _Part, folder: Path) -> Outcome:
        from longrank.training.estimate import estimate
        from longrank.training.regimes import fit_stages

        label = f"seed {seed}" + (f", fold {part.fold}" if part.fold else "")
        ranker = self._ranker(seed)
        stages = self._stages(ranker, seed, part.train)
        for stage in stages:
            if _leads() and not (folder / stage.name / "state").is_dir():
                typer.echo(f"{label}, {stage.name}: {estimate(ranker, stage.sampler, stage.settings)}", err=True)
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
        if _leads():
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
        from longrank.core.settings import to_spec
        from longrank.rankers import checkpoint
        from longrank.rankers.zoo import build_ranker

        asked = to_spec(self.config.ranker) if self.config.ranker is not None else None
        if self.config.init is None and asked is not None:
            return build_ranker(asked, seed=seed).to(self._device)
        start = (self.config.init or "").replace("{seed}", str(seed))
        ranker = checkpoint.load(start)
        if asked is not None and ranker.spec is not None and asked.name != ranker.spec.name:
            raise TrainingError(
                f"{start} holds a ranker {ranker.spec.name!r}, the settings ask for {asked.name!r}: leave [ranker] "
                "out, or start from its backbone alone ([ranker.params.backbone] name = 'pretrained')"
            )
        return ranker.to(self._device)

    def _stages(self, ranker: "NeuralRanker", seed: int, query_ids: Sequence[str]) -> "list[Stage]":
        from longrank.training.regimes import Stage, leaderboard_settings

        config = self.config
        settings = config.train.model_copy(update={"seed": seed})
        before = [self._early_stage(stage, ranker, seed, query_ids) for stage in config.stages]
        weights = self._weights(ranker, query_ids)
        source = _Source(
            self.collection, self.candidates, query_ids, config.negatives, weights, config.balance_positions
        )
        if not config.leaderboard:
            return [*before, Stage("main", self._sampler(ranker, source, seed), settings)]
        by_set = {name: replace(source, candidates={name: run}) for name, run in self.candidates.items()}
        chosen = leaderboard_settings(self.candidates, settings)
        return before + [Stage(name, self._sampler(ranker, by_set[name], seed), chosen[name]) for name in by_set]

    def _early_stage(
        self, stage: "StageConfig", ranker: "NeuralRanker", seed: int, query_ids: Sequence[str]
    ) -> "Stage":
        from longrank.core.settings import parse_settings
        from longrank.corpora.splits import read_split
        from longrank.retrieval.pseudo_labels import pseudo_labels
        from longrank.training.regimes import Stage
        from longrank.training.settings import TrainSettings

        collection = self.collection if stage.collection is None else _load(stage.collection)
        candidates = self.candidates if stage.candidates is None else _runs(stage.candidates)
        if stage.split is not None:
            query_ids = read_split(stage.collection or self.config.collection, stage.split)
        if stage.labels == "pseudo":
            first = next(iter(candidates.values()))
            collection = replace(collection, qrels=pseudo_labels(first))
            query_ids = query_ids if stage.split is not None else tuple(first)
        table = {**self.config.train.model_dump(), **stage.train, "seed": seed}
        source = _Source(collection, candidates, query_ids, stage.negatives or self.config.negatives)
        settings = parse_settings(TrainSettings, table, source=f"stage {stage.name!r}")
        return Stage(stage.name, self._sampler(ranker, source, seed), settings)

    def _sampler(self, ranker: "NeuralRanker", source: _Source, seed: int) -> "Sampler":
        from longrank.training.balance import balanced
        from longrank.training.passages import PassageLevel
        from longrank.training.pools import PoolSampler
        from longrank.training.weights import WeightedSampler

        sampler = PoolSampler(
            source.collection, source.candidates, source.query_ids, negatives=source.negatives, seed=seed
        )
        for reason, count in sampler.skipped.items() if _leads() else ():
            typer.echo(f"{count} of {len(source.query_ids)} training queries are left out: {reason}", err=True)
        if source.weights is not None:
            return WeightedSampler(sampler, source.weights)
        if source.balance is not None:
            even = balanced(sampler, tokenizer=ranker.backbone.tokenizer, settings=source.balance, seed=seed)
            if _leads():
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
            values = evaluate(run, qrels, [self.config.measure], missing="zero")[self.config.measure]
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
            return ranker_teaches(checkpoint.load(place).to(self._device))
        return run_teaches(next(iter(_runs({"teacher": place}).values())))

    def _pool(self, seed: int, outcomes: Sequence[Outcome], parts: Sequence[_Part], folder: Path) -> None:
        from longrank.corpora.formats.trec import read_run, write_run
        from longrank.evaluation.measures import evaluate
        from longrank.rankers import checkpoint
        from longrank.training.folds import pool_runs

        runs = []
        for outcome, part in zip(outcomes, parts, strict=True):
            path = folder / f"fold-{part.fold}" / "test.trec"
            if not path.is_file():
                write_run(path, self._rerank(checkpoint.load(outcome.checkpoint).to(self._device), part.test))
            runs.append(read_run(path))
        pooled = pool_runs(runs, name=f"seed{seed}")
        write_run(folder / "pooled.trec", pooled)
        values = evaluate(pooled, self.collection.qrels, [self.config.measure], missing="skip")[self.config.measure]
        mean = sum(values.values()) / max(1, len(values))
        typer.echo(
            f"seed {seed}: {self.config.measure} {mean:.4f} over {len(values)} queries, {folder / 'pooled.trec'}"
        )

    def _claim_folder(self) -> None:
        """Refuse a folder of other settings: its half-finished states would be mixed with ours."""
        from longrank.core.disk import write_atomic
        from longrank.core.errors import TrainingError

        mark = self.config.mark
        path = self.config.out / "settings.mark"
        if path.is_file() and path.read_text(encoding="utf-8") != mark:
            raise TrainingError(
                f"{self.config.out} holds a training with other settings: choose another out, or remove it"
            )
        if _leads():
            write_atomic(path, mark)


def _leads() -> bool:
    """Whether this process, of several under a launcher, is the one that speaks and writes."""
    from longrank.training.team import join_team

    return join_team().leads


def _load(folder: Path) -> "Collection":
    from longrank.corpora.catalog.folder import load_folder

    return load_folder(folder)


def _runs(paths: Mapping[str, Path]) -> "dict[str, Run]":
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


def _write_summary(config: "TrainConfig", outcomes: Sequence[Outcome]) -> None:
    from longrank import __version__
    from longrank.core.disk import write_atomic
    from longrank.core.fingerprint import plain

    facts = {"version": __version__, "settings": plain(config), "outcomes": [plain(asdict(o)) for o in outcomes]}
    write_atomic(config.out / "summary.json", json.dumps(facts, indent=1))
    collapsed = sum(outcome.log.collapsed for outcome in outcomes)
    if collapsed:
        typer.echo(f"{collapsed} of {len(outcomes)} trainings collapsed to constant scores; none was left out")
