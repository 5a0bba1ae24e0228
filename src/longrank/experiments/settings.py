"""An experiment as plain data: what a TOML file in ``experiments/`` holds, checked before anything is run."""

import copy
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from longrank.core.errors import SettingsError
from longrank.core.settings import Settings, apply_overrides, parse_settings, to_spec
from longrank.core.types import Spec
from longrank.evaluation.names import parse_measure
from longrank.evaluation.papers.tables import PAPERS
from longrank.experiments.records import LABELS
from longrank.experiments.sources import OF_ANOTHER, AnySource, RetrieverSettings
from longrank.experiments.told import AuditsSettings, CostSettings, PositionSettings
from longrank.training.pools import NegativeSettings
from longrank.training.settings import TrainSettings, preset

Names = tuple[str, ...]


class PaperSettings(Settings):
    """Which tables and figures of a paper an experiment corresponds to."""

    key: str = Field(description="as in docs/papers.md, e.g. 'positional-bias'")
    tables: tuple[int, ...] = ()
    figures: tuple[int, ...] = ()
    section: str = ""


_WHOLE = 1_000_000  # tokens of a document that is read to its end


class ReadingSettings(Settings):
    """Lengths in tokens, given to every ranker that has a parameter for them; a ranker's own params win."""

    query_tokens: int = Field(32, ge=1)
    chunk_tokens: int = Field(477, ge=1, description="FirstP, and disjoint chunks (AvgP, CEDR)")
    window_tokens: int = Field(150, ge=1, description="sliding windows (MaxP, PARADE)")
    window_stride: int = Field(100, ge=1)
    max_tokens: int = Field(1431, ge=1, description="of a document that are read at all")
    kept_windows: int | None = Field(
        None, ge=2, description="of the whole document: the first, the last and a draw from the middle; chunks of KNRM"
    )
    compat: Literal["published"] | None = None

    def params(self, ranker: str, known: Sequence[str]) -> dict[str, Any]:
        """Values for those of a ranker's parameters (``known``) that say how it reads."""
        if "stride" in known:
            found = {"size": self.window_tokens, "stride": self.window_stride, "max_tokens": self.max_tokens}
            if self.kept_windows is not None and "keep" in known:
                found |= {"keep": self.kept_windows, "max_tokens": _WHOLE}
        elif "max_chunks" in known:
            found = {"size": self.chunk_tokens, "max_chunks": math.ceil(self.max_tokens / self.chunk_tokens)}
            if self.kept_windows is not None and "keep" in known:
                found |= {"keep": self.kept_windows, "max_chunks": math.ceil(_WHOLE / self.chunk_tokens)}
        else:
            found = {"tokens": self.max_tokens if ranker == "longp" else self.chunk_tokens}
        whole: dict[str, Any] = {**found, "query_tokens": self.query_tokens}
        if self.compat is not None:
            whole["compat"] = self.compat
        return {name: value for name, value in whole.items() if name in known}


class BackboneSettings(Settings):
    """A backbone's registry name and arguments; ``millions`` of parameters above the embeddings are for estimates."""

    name: str
    params: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict, description="settings that differ from [training]")
    warmup: dict[str, Any] = Field(default_factory=dict, description="settings that differ from [warmup.training]")
    rankers: Names | None = Field(None, description="labels of those that use it; all, if not given")
    millions: float | None = Field(None, gt=0)


class RankerSettings(Settings):
    """A ranker of the zoo; ``label`` names it where the same one occurs with other params."""

    name: str
    label: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    backbones: Names | None = Field(None, description="all, if not given")
    training: dict[str, Any] = Field(default_factory=dict, description="settings that differ from [training]")

    @model_validator(mode="before")
    @classmethod
    def _labelled(cls, value: Any) -> Any:
        table = {"name": value} if isinstance(value, str) else value
        return {"label": table["name"], **table} if isinstance(table, dict) and "name" in table else table

    @property
    def spec_params(self) -> dict[str, Any]:
        """The params, inner tables of name and params as specs."""
        return dict(to_spec({"name": self.name, "params": self.params}).params)


class UntrainedSettings(Settings):
    """A ranker that needs no training: an embedding model, or a language model."""

    name: str
    label: str
    params: dict[str, Any] = Field(default_factory=dict)
    score_on: Names
    max_queries: int | None = Field(None, ge=1)
    baseline: str | None = Field(None, description="label of the untrained one whose gain it is, as FirstP's for LongP")

    @property
    def spec(self) -> Spec:
        """What ``rankers.ready`` builds."""
        return to_spec({"name": self.name, "params": self.params})


class WarmupSettings(Settings):
    """Passage-level training of a backbone, once, before it is shared by all rankers and seeds."""

    on: str = Field(description="a collection with evidence passages: toy, toy-far or far-relevant")
    backbones: Names | None = None
    training: TrainSettings = TrainSettings()


class TeacherSettings(Settings):
    """Whose scores a stage learns from: the same ranker and seed, of another stage and backbone."""

    stage: str
    backbone: str


class StageSettings(Settings):
    """One training and what is scored with it; what is left out is the experiment's."""

    name: str = Field(pattern=r"^[\w.-]+$")
    train_on: str
    score_on: Names = ()
    start_from: str | None = Field(None, description="an earlier stage, of the same ranker, backbone and seed")
    cross_validate: bool = Field(False, description="train on all folds but one, score that one, for each")
    rankers: Names | None = Field(None, description="labels")
    backbones: Names | None = None
    retriever: str | None = Field(None, description="whose candidates are negatives")
    labels: Literal["judged", "pseudo"] = Field("judged", description="pseudo: the best candidate counts as relevant")
    reading: dict[str, int] = Field(default_factory=dict, description="lengths that differ from [reading]")
    training: dict[str, Any] = Field(default_factory=dict)
    negatives: NegativeSettings | None = None
    passage_level: bool = False
    teacher: TeacherSettings | None = None
    shown_with: str | None = Field(None, description="an earlier or later stage in whose columns its scores stand")
    ensemble: str | None = Field(
        None, description="mix each ranker with the first stage too: the weights are best on the other folds by this"
    )

    @model_validator(mode="after")
    def _folds_alone(self) -> "StageSettings":
        if self.ensemble is not None and not self.cross_validate:
            raise ValueError("the weights of an ensemble are found on other folds: it needs cross_validate")
        if self.cross_validate and set(self.score_on) - {self.train_on}:
            raise ValueError("a cross-validated stage scores the collection it is trained on, and no other")
        return self


class ScoringSettings(Settings):
    """How the trained rankers are tried."""

    depth: int = Field(100, ge=1, description="candidates a query")
    split: str = "test"
    max_queries: int | None = Field(None, ge=1, description="the first of the split, if it has more")
    reading: dict[str, int] = Field(default_factory=dict, description="lengths that differ from those of training")


class Experiment(Settings):
    """Everything ``longrank run`` does for one file."""

    title: str
    size: Literal["laptop", "paper"]
    about: str = Field("", description="what is shown, and how it departs from the paper")
    papers: tuple[PaperSettings, ...] = ()
    collections: dict[str, AnySource]
    retrievers: dict[str, RetrieverSettings] = Field(default_factory=lambda: {"bm25": RetrieverSettings()})
    retriever: str | None = Field(
        None, description="the one scored, and trained with, unless a collection or stage says so; the first"
    )
    backbones: dict[str, BackboneSettings] = Field(default_factory=dict)
    rankers: tuple[RankerSettings, ...] = ()
    untrained: tuple[UntrainedSettings, ...] = ()
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    reading: ReadingSettings = ReadingSettings()
    warmup: WarmupSettings | None = None
    preset: str | None = Field(None, description="a published recipe, under what [training] says")
    training: TrainSettings = TrainSettings()
    negatives: NegativeSettings = NegativeSettings()
    validation: str | None = Field(None, description="measure on the dev split by which an epoch is chosen")
    stages: tuple[StageSettings, ...] = ()
    scoring: ScoringSettings = ScoringSettings()
    measures: Names = ("RR",)
    relevant_ranks: bool = Field(False, description="records say where each relevant candidate was ranked")
    device: str = Field("cpu", description="where rankers are trained and score; no part of what a step is")
    baselines: tuple[Literal["retriever", "random", "perfect"], ...] = ()
    gains_over: str | None = Field(None, description="label of the ranker that gains refer to, if not FirstP")
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict, description="dotted key -> values")
    positions: PositionSettings | None = None
    statistics: Names = ()
    costs: CostSettings | None = None
    audits: AuditsSettings | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, table: Any) -> Any:
        if not isinstance(table, dict) or table.get("preset") is None:
            return table
        return {**table, "training": {**preset(table["preset"]), **table.get("training", {})}}

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"{list(seeds)} hold one twice")
        return seeds

    @model_validator(mode="after")
    def _names_are_known(self) -> "Experiment":
        for kind, known, used in _references(self):
            for name in used:
                if name not in known:
                    raise ValueError(f"no {kind} {name!r}; there are {', '.join(known) or 'none'}")
        labels = [ranker.label for ranker in self.rankers] + [ranker.label for ranker in self.untrained]
        own = [c.measures for c in self.collections.values() if c.measures]
        for measure in dict.fromkeys(name for names in (self.measures, *own) for name in names):
            parse_measure(measure)
        chosen_by = [self.validation, *(stage.ensemble for stage in self.stages)]
        for measure in filter(None, chosen_by):
            parse_measure(measure)
        names = [stage.name for stage in self.stages]
        if len(set(names)) < len(names):
            raise ValueError(f"two stages have one name, of {', '.join(names)}: give each its own")
        _columns_are_shared_by_others(self.stages, labels)
        if "seed" in self.training.model_fields_set:
            raise ValueError("training.seed would change nothing: name the seeds of trainings in seeds = [0, 1]")
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"two rankers are labelled {twice!r}: give one of them another label")
        return self

    @property
    def first_stage(self) -> str:
        """Name of the retriever whose candidates are scored where a collection names none of its own."""
        return self.retriever or next(iter(self.retrievers))

    def first_stage_of(self, collection: str) -> str:
        """Name of the retriever whose candidates of this collection are scored."""
        source = self.collections.get(collection)
        return (source.retriever if source else None) or self.first_stage


def _columns_are_shared_by_others(stages: Sequence[StageSettings], labels: Sequence[str]) -> None:
    """Two trainings of one ranker in one column would be taken for two seeds."""
    shown: dict[tuple[str, str], str] = {}
    for stage in stages:
        column = stage.shown_with or stage.name
        if stage.shown_with and any(other.shown_with for other in stages if other.name == stage.shown_with):
            raise ValueError(f"{stage.name!r} is shown with {column!r}, which is shown with another itself")
        for label in labels if stage.rankers is None else stage.rankers:
            other = shown.setdefault((column, label), stage.name)
            if other != stage.name:
                raise ValueError(
                    f"{stage.name!r} and {other!r} stand in the columns of {column!r} and both train {label!r}: "
                    "name the rankers of each, under other labels"
                )


def _references(experiment: Experiment) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Every name used, beside those it may be."""
    e, stages = experiment, experiment.stages
    collections, backbones = list(e.collections), list(e.backbones)
    rankers, names = [r.label for r in e.rankers], [s.name for s in stages]
    yield "collection", collections, [c.of for c in e.collections.values() if isinstance(c, OF_ANOTHER)]
    yield "collection", collections, [name for s in stages for name in (s.train_on, *s.score_on)]
    yield "collection", collections, [name for u in e.untrained for name in u.score_on]
    untrained, costs = [u.label for u in e.untrained], e.costs.untrained if e.costs else ()
    yield "untrained ranker", untrained, [*(u.baseline for u in e.untrained if u.baseline), *costs]
    yield "collection", collections, [*e.statistics, *(e.positions.of_collections if e.positions else ())]
    yield "collection", collections, [n for pair in (e.positions.passages if e.positions else {}).items() for n in pair]
    if e.positions:
        yield "collection with passages", list(e.positions.passages), list(e.positions.grades)
    yield "collection", collections, [e.warmup.on] if e.warmup else []
    yield "retriever", list(e.retrievers), [e.first_stage, *(s.retriever for s in stages if s.retriever)]
    own = [(c.retriever, *c.beside) for c in e.collections.values()]
    yield "retriever", list(e.retrievers), [name for names in own for name in names if name]
    yield "ranker", rankers, [] if not rankers else [name for s in stages for name in s.rankers or ()]
    yield "ranker", rankers, [] if not rankers else [n for b in e.backbones.values() for n in b.rankers or ()]
    yield "ranker", rankers, e.audits.rankers or () if e.audits and rankers else ()
    yield "ranker", [*rankers, *untrained], [e.gains_over] if e.gains_over and rankers else []
    yield "paper", PAPERS, [paper.key for paper in e.papers]
    limited = [*(r.backbones for r in e.rankers), *(s.backbones for s in stages), e.warmup and e.warmup.backbones]
    yield "backbone", backbones, [name for row in limited for name in row or ()]
    yield "backbone", backbones, [s.teacher.backbone for s in stages if s.teacher]
    for place, stage in enumerate(stages):
        yield "earlier stage", names[:place], [stage.start_from] if stage.start_from else []
        yield "earlier stage", names[:place], [stage.teacher.stage] if stage.teacher else []
    yield "stage", names, [stage.shown_with for stage in stages if stage.shown_with]
    yield "stage", names, [*([e.costs.stage] if e.costs else []), *(e.audits.stages if e.audits else ())]


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a TOML file, with ``dotted.key=value`` overrides.

    ``rankers=["maxp"]`` selects: a label of the file keeps the file's params, and those left out are forgotten.
    """
    table = _toml(path)
    known = {_ranker_label(entry): entry for entry in table.get("rankers", ())}
    changed = apply_overrides(table, overrides)
    changed["rankers"] = [known.get(_ranker_label(entry), entry) for entry in changed.get("rankers", ())]
    left_out = set(known) - {_ranker_label(entry) for entry in changed["rankers"]}
    for table in _choosing_rankers(changed):
        table["rankers"] = [name for name in table["rankers"] if name not in left_out]
    if changed.get("gains_over") in left_out:
        del changed["gains_over"]
    experiment = parse_settings(Experiment, changed, source=str(path))
    for _ in variants(experiment):  # a sweep that does not fit is found before anything runs
        pass
    return experiment


def _choosing_rankers(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The stages, backbones and audits that name rankers."""
    audits = [table["audits"]] if "audits" in table else []
    every = [*table.get("stages", ()), *table.get("backbones", {}).values(), *audits]
    return [each for each in every if isinstance(each, dict) and "rankers" in each]


def _toml(path: Path, *above: Path) -> dict[str, Any]:
    """A file's table, over that of the file it ``extends``: tables are merged, all else is replaced."""
    if path.resolve() in above:
        raise SettingsError(f"{path} extends itself: its `extends` must lead to a file without one")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"no experiment file {path}; the folder experiments/ holds one a table and figure"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    base = table.pop("extends", None)
    return table if base is None else _merged(_toml(path.parent / base, path.resolve(), *above), table)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(below[key], value) if isinstance(value, Mapping) and isinstance(below.get(key), Mapping) else value
        for key, value in above.items()
    }
    return {**below, **both}


def _ranker_label(entry: Any) -> str:
    return str(entry.get("label", entry.get("name"))) if isinstance(entry, Mapping) else str(entry)


def variants(experiment: Experiment) -> Iterator[tuple[Experiment, dict[str, Any]]]:
    """One experiment for every point of the sweep, with labels that say which.

    A label is the last word of a key, or the whole key where two end alike or cells have such a label. A value that is
    a table changes several settings at once; its keys become the labels.
    """
    table = experiment.model_dump(exclude={"sweep", "preset"}, exclude_unset=True)
    table["training"] = experiment.training.model_dump(exclude={"seed"})
    last = [key.rpartition(".")[2] for key in experiment.sweep]
    taken = set(LABELS) - {"retriever"}
    short = {
        key: name if last.count(name) == 1 and name not in taken else key
        for key, name in zip(experiment.sweep, last, strict=True)
    }
    for point in product(*experiment.sweep.values()):
        changed, labels = copy.deepcopy(table), dict[str, Any]()
        for key, value in zip(experiment.sweep, point, strict=True):
            labels |= _put(changed, key, value, label=short[key])
        yield parse_settings(Experiment, changed, source=f"sweep at {labels}") if labels else experiment, labels


def _put(table: dict[str, Any], key: str, value: Any, *, label: str) -> dict[str, Any]:
    """Set a dotted key (a table is merged); gives the labels."""
    *path, last = key.split(".")
    place = table
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise SettingsError(f"sweep {key!r}: {part!r} is a value, not a table")
    if not isinstance(value, Mapping):
        place[last] = value
        return {label: _label(value)}
    place[last] = {**place.get(last, {}), **value}
    return {name: _label(item) for name, item in value.items()}


def _label(value: Any) -> str | int | float | bool:
    return value if isinstance(value, (str, int, float, bool)) else str(value)
