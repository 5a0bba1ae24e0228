"""A step at work: its settings, its folder, and the folders of what it reads."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrank.core.settings import to_spec
from longrank.core.types import Run, Spec
from longrank.corpora.formats.trec import read_run
from longrank.experiments.collections import Opened, open_collection
from longrank.experiments.step import Step

if TYPE_CHECKING:
    from longrank.rankers.neural import NeuralRanker

RUN, FACTS, LOG, MODEL, PROFILE = "run.trec", "facts.json", "log.json", "best", "positions.jsonl"
COSTS, CARD, GRADES = "costs.json", "card.json", "grades.jsonl"
# kinds of which an interrupted one is gone on with
RESUMABLE = frozenset({"warm-up", "train", "audit", "judged", "untrained"})
VOLATILE = frozenset({"metrics.jsonl", COSTS})  # files that hold times, so are never the same twice
_REPLIES = "replies"


@dataclass(frozen=True)
class Job:
    """A step to make, where its files go, and where its inputs' files are."""

    step: Step
    folder: Path
    inputs: Mapping[str, Path]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The step's."""
        return self.step.settings

    def collection(self, role: str = "collection") -> Opened:
        """The collection of an input."""
        return open_collection(self.inputs[role], self.step.inputs[role].hints)

    def candidates(self) -> Run:
        """The run of the input called so."""
        return read_run(self.inputs["candidates"] / RUN)

    def model(self, role: str = "model") -> "NeuralRanker":
        """The trained ranker of an input, where rankers are to run."""
        from longrank.rankers import checkpoint
        from longrank.rankers.zoo import build_ranker

        spec, folder = ranker_spec(self.step.inputs[role].settings), self.inputs[role] / MODEL
        if allows_code(spec):  # what was allowed is the backbone's code, not that of a checkpoint
            ranker = build_ranker(spec)
            checkpoint.put_back(ranker, folder)
        else:
            ranker = checkpoint.load(folder)
        return ranker.to(self.step.hints.get("device", "cpu"))

    @contextmanager
    def keeping_replies(self, chat: Spec) -> Iterator[Spec]:
        """A chat model that, unless it has a cache, keeps paid replies here until all came: a kill loses none."""
        from longrank.chat.registry import CHATS

        can = "cache" in signature(CHATS[chat.name].make).parameters
        own = can and chat.params.get("cache") is None
        yield Spec(chat.name, {**chat.params, "cache": str(self.folder / _REPLIES)}) if own else chat
        shutil.rmtree(self.folder / _REPLIES, ignore_errors=True)


def ranker_spec(settings: Mapping[str, Any]) -> Spec:
    """The ranker that a training step's settings ask for, with its backbone."""
    spec = to_spec(settings["ranker"])
    return Spec(spec.name, {"backbone": to_spec(settings["backbone"]), **spec.params})


def allows_code(spec: Spec) -> bool:
    """Whether a ranker's backbone may run Python code of its own."""
    backbone = spec.params["backbone"]
    return isinstance(backbone, Spec) and backbone.params.get("remote_code") is not None
