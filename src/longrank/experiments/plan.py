"""From an experiment to the steps that make it: what each reads, what it is called, and what it will cost."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from longrank.core.errors import SettingsError
from longrank.core.fingerprint import fingerprint, plain
from longrank.core.settings import parse_settings
from longrank.core.types import Spec
from longrank.experiments.costs import Work, score_work, side_by_side, train_work, untrained_work
from longrank.experiments.inputs import Inputs, backbone_table, known_size, length_params, ranker_table
from longrank.experiments.points import named_by_point
from longrank.experiments.records import ENSEMBLE
from longrank.experiments.settings import (
    Experiment,
    RankerSettings,
    ReadingSettings,
    StageSettings,
    UntrainedSettings,
    variants,
)
from longrank.experiments.sources import IrDatasetsSource, LongEmbedSource
from longrank.experiments.step import Cell, Plan, Step, needed_steps
from longrank.experiments.told import AuditsSettings, CostSettings, PositionSettings
from longrank.training.settings import TrainSettings


def make_plan(experiment: Experiment) -> Plan:
    """The steps of an experiment, those that several cells need once."""
    cells = named_by_point([(at, list(_Planner(variant, at).cells())) for variant, at in variants(experiment)])
    unique: dict[str, Cell] = {}
    for cell in cells:
        first = unique.setdefault(fingerprint(cell.labels), cell)
        if [step.fingerprint for step in first.results] != [step.fingerprint for step in cell.results]:
            raise SettingsError(f"two different results would be called {dict(cell.labels)}: give one another name")
    return Plan(experiment, needed_steps(unique.values()), tuple(unique.values()))


class _Planner:
    """The cells of one point of a sweep."""

    def __init__(self, experiment: Experiment, labels: Mapping[str, Any]) -> None:
        self.experiment, self.labels = experiment, labels
        self.inputs = Inputs(experiment)
        self._known: dict[Any, Step] = {}

    def cells(self) -> Iterator[Cell]:
        """Baselines, stage by stage every ranker, backbone and seed, other first stages, and what collections tell."""
        yield from self._baselines()
        for ready in self.experiment.untrained:
            yield from self._untrained(ready)
        for stage in self.experiment.stages:
            for ranker, backbone in self._systems(stage):
                for seed in self.experiment.seeds:
                    yield from self._scored(stage, ranker, backbone, seed)
        yield from self._shown_beside()
        yield from self._told()

    # -- cells ---------------------------------------------------------------------------------------------------------

    def _baselines(self) -> Iterator[Cell]:
        for name in self._scored_collections():
            given = isinstance(self.experiment.collections[name], LongEmbedSource)  # brings candidates, in no order
            for baseline in self.experiment.baselines:
                if given and baseline == "retriever":
                    continue
                shown = self.experiment.first_stage_of(name) if baseline == "retriever" else baseline
                labels = self._labelled(shown, "baseline", name)
                yield Cell(
                    labels,
                    baseline,
                    (self.inputs.candidates(name),),
                    self.inputs.collection(name),
                    (),
                    *self._tried(name),
                )

    def _scored_collections(self) -> tuple[str, ...]:
        trained = [stage.score_on for stage in self.experiment.stages]
        untrained = [ranker.score_on for ranker in self.experiment.untrained]
        return tuple(dict.fromkeys(name for names in (*trained, *untrained) for name in names))

    def _shown_beside(self) -> Iterator[Cell]:
        """First stages that nothing reranks, as systems of their own."""
        for name in self._scored_collections():
            for retriever in self.experiment.collections[name].beside:
                labels = self._labelled(retriever, "untrained", name)
                step, collection = self.inputs.candidates(name, retriever), self.inputs.collection(name)
                cell = Cell(labels, "retriever", (step,), collection, (), *self._tried(name))
                yield replace(cell, ranked=False)  # ranks tell first stages apart that are reranked

    def _scored(self, stage: StageSettings, ranker: RankerSettings, backbone: str, seed: int) -> Iterator[Cell]:
        trained = self._history(stage)
        for name in stage.score_on:
            folds = self._folds(name) if stage.cross_validate else (None,)
            models = [self.trained(stage, ranker, backbone, seed, fold=fold) for fold in folds]
            runs = [self._score(m, stage, name, ranker, backbone, fold=m.settings["fold"]) for m in models]
            shown = stage.shown_with or stage.name
            labels = self._labelled(ranker.label, shown, name, backbone=backbone, seed=seed, trained_on=trained)
            cell = Cell(labels, "scored", tuple(runs), self.inputs.collection(name), tuple(models), *self._tried(name))
            yield cell
            if stage.ensemble is not None:
                yield replace(
                    cell,
                    labels={**labels, "ranker": f"{ranker.label}{ENSEMBLE}"},
                    kind="ensemble",
                    results=(*runs, self.inputs.candidates(name)),
                    weighed_by=stage.ensemble,
                )

    def _untrained(self, ranker: UntrainedSettings) -> Iterator[Cell]:
        from longrank.rankers.ready import READY

        READY.check(ranker.name, ranker.params)
        scoring = self.experiment.scoring
        shaping = _without_money(ranker.spec)
        for name in ranker.score_on:
            settings = {
                "ranker": plain(shaping),
                "depth": self._depth(name),
                "split": scoring.split,
                "max_queries": ranker.max_queries or scoring.max_queries,
            }
            inputs = {"collection": self.inputs.collection(name), "candidates": self.inputs.candidates(name)}
            hints, work = {"ranker": plain(ranker.spec)}, untrained_work(ranker.params)
            run = Step("untrained", f"score {ranker.label} on {name}", settings, inputs, hints, work)
            labels = self._labelled(ranker.label, "untrained", name)
            yield Cell(labels, "scored", (run,), self.inputs.collection(name), (), *self._tried(name))

    def _told(self) -> Iterator[Cell]:
        """Positions and sizes of collections, and run-times."""
        experiment = self.experiment
        if experiment.positions is not None:
            for name, step in self._positions(experiment.positions):
                yield Cell({"collection": name, "what": "positions", **self.labels}, "positions", (step,))
        for name in experiment.statistics:
            inner = self.inputs.collection(name)
            step = Step("statistics", f"sizes of {name}", {}, {"collection": inner}, work=inner.work)
            yield Cell({"collection": name, "what": "statistics", **self.labels}, "statistics", (step,))
        if experiment.costs is not None:
            yield self._costs()
        if experiment.audits is not None:
            yield from self._audits(experiment.audits)

    def _positions(self, positions: PositionSettings) -> Iterator[tuple[str, Step]]:
        every = positions.model_dump(include={"tokenizer", "sample"})
        for name in positions.collections:
            grade = positions.grades.get(name)
            settings = every if grade is None else {**every, "grade": grade}
            inputs = {"collection": self.inputs.collection(name)}
            if name in positions.passages:
                inputs["passages"] = self.inputs.collection(positions.passages[name])
            work = self.inputs.collection(name).work
            yield name, Step("positions", f"positions of {name}", settings, inputs, work=work)
        if positions.judged is not None:
            for name in positions.judged.collections:
                yield name, self.inputs.judged(name, positions.judged, positions.tokenizer)
        for name, snippets in positions.snippets.items():
            yield name, self.inputs.snippets(name, snippets)

    def _costs(self) -> Cell:
        costs = self.experiment.costs
        if costs is None:
            raise SettingsError("no [costs] to measure")
        stage = next(stage for stage in self.experiment.stages if stage.name == costs.stage)
        seed, name = self.experiment.seeds[0], (*stage.score_on, stage.train_on)[0]
        fold = self._first_fold(stage)
        rankers = {f"{r.label} {b}": self.trained(stage, r, b, seed, fold=fold) for r, b in self._systems(stage)}
        ready = {ranker.label: ranker.spec for ranker in self.experiment.untrained if ranker.label in costs.untrained}
        inputs = {"collection": self.inputs.collection(name), "candidates": self.inputs.candidates(name), **rankers}
        settings = {
            **costs.model_dump(exclude={"stage", "untrained"}),
            "rankers": list(rankers),
            **({"split": self.experiment.scoring.split} if self.experiment.scoring.split != "test" else {}),
            **({"fold": fold} if fold else {}),
            **({"untrained": {label: plain(_without_money(spec)) for label, spec in ready.items()}} if ready else {}),
        }
        hints = {"untrained": {label: plain(spec) for label, spec in ready.items()}} if ready else {}
        step = Step("costs", f"run-times on {name}", settings, inputs, hints, self._costs_work(costs, stage, seed))
        return Cell({"what": "costs", "scored_on": name, **self.labels}, "costs", (step,))

    def _costs_work(self, costs: CostSettings, stage: StageSettings, seed: int) -> Work:
        fold, works = self._first_fold(stage), list[Work]()
        for ranker, backbone in self._systems(stage):
            model = self.trained(stage, ranker, backbone, seed, fold=fold)
            works.append(self._scoring_work(model, backbone, queries=costs.queries, depth=costs.depth))
        works += [untrained_work(one.params) for one in self.experiment.untrained if one.label in costs.untrained]
        return side_by_side(works, times=costs.rounds + 1)  # one round warms up

    def _audits(self, audits: AuditsSettings) -> Iterator[Cell]:
        for stage in map(self._stage, audits.stages):
            for ranker, backbone in self._systems(stage):
                if audits.rankers is not None and ranker.label not in audits.rankers:
                    continue
                for seed in self.experiment.seeds:
                    model = self.trained(stage, ranker, backbone, seed, fold=self._first_fold(stage))
                    design = audits.design
                    depth = design.documents_per_query
                    work = self._scoring_work(model, backbone, queries=design.queries, depth=depth)
                    label = f"audit {model.label.removeprefix('train ')}"
                    step = Step("audit", label, plain(design), {"model": model}, self.inputs.hints, work)
                    labels = self._labelled(ranker.label, stage.name, "audit", backbone=backbone, seed=seed)
                    yield Cell({**labels, "trained_on": self._history(stage), "what": "audit"}, "audit", (step,))

    def _labelled(
        self, ranker: str, stage: str, scored_on: str, *, backbone: str = "", seed: int = -1, trained_on: str = ""
    ) -> dict[str, Any]:
        return {
            "ranker": ranker,
            "backbone": backbone,
            "seed": seed,
            "stage": stage,
            "trained_on": trained_on,
            "scored_on": scored_on,
            "retriever": self.experiment.first_stage_of(scored_on),
            **self.labels,
        }

    def _tried(self, collection: str) -> tuple[tuple[str, ...], str, int | None, int, bool]:
        own, experiment = self.experiment.collections[collection].measures, self.experiment
        measures, scoring = own or experiment.measures, experiment.scoring
        return measures, scoring.split, scoring.max_queries, self._depth(collection), experiment.relevant_ranks

    def _depth(self, collection: str) -> int:
        return self.experiment.collections[collection].depth or self.experiment.scoring.depth

    def _systems(self, stage: StageSettings) -> Iterator[tuple[RankerSettings, str]]:
        for ranker in self.experiment.rankers:
            if stage.rankers is None or ranker.label in stage.rankers:
                for backbone, chosen in self.experiment.backbones.items():
                    wanted = chosen.rankers is None or ranker.label in chosen.rankers
                    if wanted and all(n is None or backbone in n for n in (ranker.backbones, stage.backbones)):
                        yield ranker, backbone

    def _stage(self, name: str) -> StageSettings:
        return next(stage for stage in self.experiment.stages if stage.name == name)

    def _reading(self, stage: StageSettings) -> ReadingSettings:
        if not stage.reading:
            return self.experiment.reading
        table = {**self.experiment.reading.model_dump(), **stage.reading}
        return parse_settings(ReadingSettings, table, source=f"reading of stage {stage.name!r}")

    def _history(self, stage: StageSettings) -> str:
        before = f"{self._history(self._stage(stage.start_from))} > " if stage.start_from else ""
        return before + stage.train_on

    def _folds(self, name: str) -> tuple[str, ...]:
        source = self.experiment.collections[name]
        if isinstance(source, IrDatasetsSource) and source.fold_ids:
            return tuple(source.fold_ids)
        if source.folds is None:
            raise SettingsError(
                f"a stage is cross-validated on {name!r}, which has no folds: set collections.{name}.folds"
            )
        return tuple(f"{number + 1}" for number in range(source.folds))

    def _first_fold(self, stage: StageSettings) -> str | None:
        """The fold whose model stands for all of a cross-validated stage, so that none is trained besides them."""
        return self._folds(stage.train_on)[0] if stage.cross_validate else None

    # -- steps ---------------------------------------------------------------------------------------------------------

    def trained(
        self, stage: StageSettings, ranker: RankerSettings, backbone: str, seed: int, *, fold: str | None
    ) -> Step:
        """The step that trains one ranker."""
        key = ("train", stage.name, ranker.label, backbone, seed, fold)
        if key not in self._known:
            self._known[key] = self._train(stage, ranker, backbone, seed, fold=fold)
        return self._known[key]

    def _train(
        self, stage: StageSettings, ranker: RankerSettings, backbone: str, seed: int, *, fold: str | None
    ) -> Step:
        experiment, chosen = self.experiment, self.experiment.backbones[backbone]
        reading, changed = self._reading(stage), dict[str, Any]()
        inputs = {"collection": self.inputs.collection(stage.train_on)}
        inputs["candidates"] = self.inputs.candidates(stage.train_on, stage.retriever)
        warmed = self.inputs.warmed(backbone)
        if stage.start_from is not None:
            before = self._stage(stage.start_from)
            same_folds = fold if before.cross_validate else None
            inputs["start"] = self.trained(before, ranker, backbone, seed, fold=same_folds)
            if self._reading(before) != reading:
                changed = {"reading": length_params(ranker, reading)}
        elif warmed is not None:
            inputs["warm-up"] = warmed
        if stage.teacher is not None:
            teaching = self._stage(stage.teacher.stage)
            same_folds = fold if teaching.cross_validate else None
            inputs["teacher"] = self.trained(teaching, ranker, stage.teacher.backbone, seed, fold=same_folds)
        table = {
            **experiment.training.model_dump(),
            **chosen.training,
            **ranker.training,
            **stage.training,
            "seed": seed,
        }
        training = parse_settings(TrainSettings, table, source=f"training of {ranker.label!r} in stage {stage.name!r}")
        spec = ranker_table(ranker, reading)
        settings = {
            "ranker": spec,
            "backbone": backbone_table(chosen),
            "training": plain(training),
            "negatives": (stage.negatives or experiment.negatives).model_dump(exclude_defaults=True),
            "labels": stage.labels,
            "passage_level": stage.passage_level,
            "validation": experiment.validation,
            "fold": fold,
            **changed,  # lengths, where they are not those of the model it starts from
        }
        label = f"train {ranker.label}/{backbone} seed {seed} {stage.name} on {stage.train_on}"
        if len(experiment.retrievers) > 1:
            label += f" with {stage.retriever or experiment.first_stage_of(stage.train_on)}"
        queries = known_size(experiment, stage.train_on, "train")
        work = train_work(spec, chosen, training, queries=queries)
        return Step("train", label + (f" fold {fold}" if fold else ""), settings, inputs, self.inputs.hints, work)

    def _scoring_work(
        self, model: Step, backbone: str, *, queries: int | None, depth: int, reading: Mapping[str, Any] | None = None
    ) -> Work:
        """Work of scoring as the model was trained, or with other lengths."""
        table = model.settings["ranker"]
        read = {**table, "params": {**table["params"], **(reading or {})}}
        return score_work(read, self.experiment.backbones[backbone], queries=queries, depth=depth)

    def _score(
        self, model: Step, stage: StageSettings, name: str, ranker: RankerSettings, backbone: str, *, fold: str | None
    ) -> Step:
        scoring = self.experiment.scoring
        lengths = {**scoring.reading, **self.experiment.collections[name].reading}
        changes: dict[str, Any] = {}
        if lengths:
            table = {**self._reading(stage).model_dump(), **lengths}
            other = parse_settings(ReadingSettings, table, source=f"lengths in scoring {name!r}")
            changes = {k: v for k, v in ranker_table(ranker, other)["params"].items() if k != "backbone"}
        settings = {
            "depth": self._depth(name),
            "split": scoring.split,
            "max_queries": scoring.max_queries,
            "fold": fold,
            "reading": changes,
            **({"of_split": True} if fold and scoring.max_queries else {}),  # once it was so many of each fold
        }
        inputs = {
            "model": model,
            "collection": self.inputs.collection(name),
            "candidates": self.inputs.candidates(name),
        }
        queries = known_size(self.experiment, name, scoring.split)
        if queries is not None and scoring.max_queries is not None:
            queries = min(queries, scoring.max_queries)
        work = self._scoring_work(model, backbone, queries=queries, depth=self._depth(name), reading=changes)
        label = f"score {model.label.removeprefix('train ')}, scored on {name}"
        return Step("score", label, settings, inputs, self.inputs.hints, work)


def _without_money(spec: Spec) -> Spec:
    from longrank.chat.registry import without_money

    chat = spec.params.get("chat")
    return Spec(spec.name, {**spec.params, "chat": without_money(chat)}) if isinstance(chat, Spec) else spec
