"""The steps that training and scoring read: collections, candidates and warmed-up backbones."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longrank.core.errors import SettingsError
from longrank.core.fingerprint import file_hash, plain
from longrank.core.settings import parse_settings
from longrank.experiments.costs import Work, train_work
from longrank.experiments.settings import BackboneSettings, Experiment, RankerSettings, ReadingSettings
from longrank.experiments.sources import (
    OF_ANOTHER,
    FilesSource,
    FolderSource,
    IrDatasetsSource,
    LongEmbedSource,
    Source,
    ToyFarSource,
    ToyPassagesSource,
    ToySource,
)
from longrank.experiments.step import Step
from longrank.experiments.told import JudgedSettings, SnippetSettings
from longrank.training.settings import TrainSettings

_NOT_ITS_TEXTS = {
    "measures",
    "sizes",
    "depth",
    "retriever",
    "beside",
    "reading",
    "of",
    "path",
}  # what changes nothing of a collection


class Inputs:
    """What the trainings and scorings of one experiment have in common, each step once."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.hints: Mapping[str, Any] = {"device": experiment.device}
        self._known: dict[Any, Step] = {}

    def collection(self, name: str) -> Step:
        """The step that makes or finds a collection."""
        if ("collection", name) not in self._known:
            self._refuse_circle(name)
            self._known["collection", name] = self._collection(name, self.experiment.collections[name])
        return self._known["collection", name]

    def _refuse_circle(self, name: str) -> None:
        chain = [name]
        while isinstance(source := self.experiment.collections[chain[-1]], OF_ANOTHER):
            chain.append(source.of)
            if source.of in chain[:-1]:
                raise SettingsError(f"collection {' is made of '.join(map(repr, chain))}: one must be made of another")

    def _collection(self, name: str, source: Source) -> Step:
        settings = source.model_dump(mode="json", exclude=_NOT_ITS_TEXTS)
        inputs, hints = dict[str, Step](), dict[str, Any]()
        if isinstance(source, (ToyFarSource, ToyPassagesSource)):
            world = self.experiment.collections[source.of]
            if not isinstance(world, ToySource):
                raise SettingsError(f"collection {name!r} is of {source.of!r}, which is no toy world")
            settings["world"] = _world(world)
        elif isinstance(source, OF_ANOTHER):
            inputs["of"] = self.collection(source.of)
        elif isinstance(source, (FolderSource, LongEmbedSource)) and source.path is not None:
            hints["path"] = str(source.path)
            parts = sorted(p for p in source.path.rglob("*") if _counts(p, source.path))
            settings["contents"] = _contents({str(p.relative_to(source.path)): p for p in parts})
        elif isinstance(source, FilesSource):
            files = {part: getattr(source, part) for part in ("documents", "queries", "qrels")}
            hints |= {part: str(path) for part, path in files.items()}
            settings |= _contents(files)
        known = not isinstance(source, IrDatasetsSource) and all(step.work.queries_known for step in inputs.values())
        return Step("collection", f"make {name}", settings, inputs, hints, Work(queries_known=known))

    def candidates(self, name: str, retriever: str | None = None) -> Step:
        """The step that retrieves for all queries of a collection, by its own first stage if none is named."""
        chosen = retriever or self.experiment.first_stage_of(name)
        if ("candidates", name, chosen) not in self._known:
            settings = self.experiment.retrievers[chosen]
            table = settings.model_dump(mode="json", exclude={"runs"}, exclude_defaults=True)
            hints: dict[str, Any] = {}
            if settings.method == "run":
                if name not in settings.runs:
                    raise SettingsError(f"retriever {chosen!r} has no run of collection {name!r}: add it to its runs")
                table["contents"] = _contents({settings.runs[name].name: settings.runs[name]})
                hints["run"] = str(settings.runs[name])
            inputs = {"collection": self.collection(name)}
            self._known["candidates", name, chosen] = Step(
                "candidates", f"retrieve for {name} by {chosen}", table, inputs, hints, self.collection(name).work
            )
        return self._known["candidates", name, chosen]

    def warmed(self, backbone: str) -> Step | None:
        """The step that warms a backbone up, None if it is used as it is."""
        warmup = self.experiment.warmup
        if warmup is None or (warmup.backbones is not None and backbone not in warmup.backbones):
            return None
        if ("warm-up", backbone) not in self._known:
            chosen, reading = self.experiment.backbones[backbone], self.experiment.reading
            ranker = {"name": "firstp", "params": _reading_params("firstp", reading)}
            table = {**warmup.training.model_dump(), **chosen.warmup}
            training = parse_settings(TrainSettings, table, source=f"warm-up of {backbone!r}")
            settings = {"backbone": backbone_table(chosen), "ranker": ranker, "training": plain(training)}
            work = train_work(ranker, chosen, training, queries=known_size(self.experiment, warmup.on, "train"))
            inputs = {"on": self.collection(warmup.on)}
            label = f"warm up {backbone} on {warmup.on}"
            self._known["warm-up", backbone] = Step("warm-up", label, settings, inputs, self.hints, work)
        return self._known["warm-up", backbone]

    def judged(self, name: str, asked: JudgedSettings, tokenizer: str) -> Step:
        """The step in which a chat model grades pieces; its budget and its cache are no part of what the step is."""
        from longrank.chat.registry import CHATS, without_money

        CHATS.check(asked.spec.name, asked.spec.params)
        settings = {
            "chat": plain(without_money(asked.spec)),
            "sample": asked.sample,
            "grade": asked.grade,
            "tokenizer": tokenizer,
        }
        inputs, hints = {"collection": self.collection(name)}, {"chat": plain(asked.spec)}
        return Step("judged", f"judge pieces of {name}", settings, inputs, hints, inputs["collection"].work)

    def snippets(self, name: str, source: SnippetSettings) -> Step:
        """The step that reads judged snippets; a plan can be shown before the file is there."""
        contents = file_hash(source.file) if source.file.is_file() else "not there"
        settings = {"contents": contents, **source.model_dump(include={"grade", "tokens"}, exclude_none=True)}
        return Step("snippets", f"snippets of {name}", settings, {}, {"file": str(source.file)})


def backbone_table(backbone: BackboneSettings) -> dict[str, Any]:
    """Name and params of a backbone, checked."""
    from longrank.encoders.registry import BACKBONES

    BACKBONES.check(backbone.name, backbone.params)
    return {"name": backbone.name, "params": plain(backbone.params)}


def ranker_table(ranker: RankerSettings, reading: ReadingSettings) -> dict[str, Any]:
    """Name and params of a ranker, checked, with the lengths it is to read."""
    from longrank.rankers.zoo import RANKERS

    RANKERS.check(ranker.name, ranker.params)
    params = {**_reading_params(ranker.name, reading), **plain(ranker.spec_params)}
    return {"name": ranker.name, "params": params}


def length_params(ranker: RankerSettings, reading: ReadingSettings) -> dict[str, Any]:
    """The lengths alone that a ranker is to read; its own params win."""
    return {name: v for name, v in _reading_params(ranker.name, reading).items() if name not in ranker.params}


def _reading_params(ranker: str, reading: ReadingSettings) -> dict[str, Any]:
    from longrank.rankers.zoo import RANKERS

    return reading.params(ranker, list(inspect.signature(RANKERS[ranker].make).parameters))


def _world(source: ToySource) -> dict[str, Any]:
    from longrank.synthetic.toy import ToySettings

    return source.model_dump(mode="json", include=set(ToySettings.model_fields))


def known_size(experiment: Experiment, name: str, split: str) -> int | None:
    """Queries of a split as far as the file tells."""
    source = experiment.collections[name]
    if split in source.sizes:
        return source.sizes[split]
    if isinstance(source, OF_ANOTHER):
        return known_size(experiment, source.of, split)
    return getattr(source, split, None) if isinstance(source, ToySource) else None


def _counts(path: Path, folder: Path) -> bool:
    """Whether a file of a collection folder is part of the collection: not what was cached beside it."""
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _contents(paths: Mapping[str, Path]) -> dict[str, str]:
    """Hash of each file, by what it is called."""
    missing = next((path for path in paths.values() if not path.is_file()), None)
    if missing is not None or not paths:
        raise SettingsError(f"{missing or 'the folder'} does not exist or is empty: name another path in the file")
    return {name: file_hash(path) for name, path in paths.items()}
