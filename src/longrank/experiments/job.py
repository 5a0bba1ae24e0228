"""A step at work: its settings, its folder, and the folders of what it reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrank.core.types import Run
from longrank.corpora.formats.trec import read_run
from longrank.experiments.collections import Opened, open_collection
from longrank.experiments.step import Step

if TYPE_CHECKING:
    from longrank.rankers.neural import NeuralRanker

RUN, FACTS, LOG, MODEL, PROFILE = "run.trec", "facts.json", "log.json", "best", "positions.jsonl"
COSTS, CARD = "costs.json", "card.json"
RESUMABLE = frozenset({"warm-up", "train", "audit"})  # what an interrupted one left behind is gone on with
VOLATILE = frozenset({"metrics.jsonl", COSTS})  # files that hold times, so are never the same twice


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
        return open_collection(self.inputs[role])

    def candidates(self) -> Run:
        """The run of the input called so."""
        return read_run(self.inputs["candidates"] / RUN)

    def model(self, role: str = "model") -> "NeuralRanker":
        """The trained ranker of an input, where rankers are to run."""
        from longrank.rankers import checkpoint

        return checkpoint.load(self.inputs[role] / MODEL).to(self.step.hints.get("device", "cpu"))
