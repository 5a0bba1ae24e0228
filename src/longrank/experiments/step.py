"""A step is one thing that is made once; a cell is one place of the tables; a plan holds both."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from longrank import __version__
from longrank.core.fingerprint import fingerprint, plain
from longrank.experiments.costs import Work
from longrank.experiments.settings import Experiment

# counts changes of a kind that make earlier results incomparable
CODE: Mapping[str, int] = {
    "collection": 1,
    "candidates": 1,
    "warm-up": 1,
    "train": 1,
    "score": 1,
    "untrained": 1,
    "positions": 1,
    "judged": 1,
    "snippets": 1,
    "statistics": 1,
    "costs": 1,
    "audit": 2,
}


@dataclass(frozen=True, eq=False)
class Step:
    """One thing that is made once: its kind and settings, and the steps whose folders it reads.

    ``hints`` (paths, say) help to make it but are no part of what it is.
    """

    kind: str
    label: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, "Step"] = field(default_factory=dict)
    hints: Mapping[str, Any] = field(default_factory=dict)
    work: Work = field(default_factory=Work)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the settings, the inputs, the package's version and the kind's code number."""
        inputs = {role: step.fingerprint for role, step in self.inputs.items()}
        return fingerprint(self.kind, CODE[self.kind], __version__, plain(self.settings), inputs)

    @property
    def folder(self) -> str:
        """Name of its folder in the store."""
        return f"{self.kind}-{self.fingerprint}"


@dataclass(frozen=True)
class Cell:
    """One place of the tables, and the steps it is read from; several with folds."""

    labels: Mapping[str, str | int | float | bool]
    kind: str  # "scored", "ensemble", "retriever", "random", "perfect", "positions", "statistics", "costs" or "audit"
    results: tuple[Step, ...]
    collection: Step | None = None
    trained: tuple[Step, ...] = ()
    measures: tuple[str, ...] = ()
    split: str = "test"
    max_queries: int | None = None
    depth: int = 100
    ranked: bool = False  # whether the ranks of relevant documents are kept
    weighed_by: str = ""  # the measure that finds an ensemble's weights; its last result is the first stage

    @property
    def scorings(self) -> tuple[Step, ...]:
        """The steps in which a ranker scored; several with folds."""
        if self.kind == "ensemble":
            return self.results[:-1]
        return self.results if self.kind == "scored" else ()


@dataclass(frozen=True)
class Plan:
    """Steps, each behind those it reads, and the cells they fill."""

    experiment: Experiment
    steps: tuple[Step, ...]
    cells: tuple[Cell, ...]


def needed_steps(cells: Iterable[Cell]) -> tuple[Step, ...]:
    """The steps that cells are read from, and all that those read: each once, and behind what it reads."""
    steps: dict[str, Step] = {}
    for cell in cells:
        for step in (*cell.results, *([cell.collection] if cell.collection else [])):
            _add(step, steps)
    return tuple(steps.values())


def _add(step: Step, steps: dict[str, Step]) -> None:
    if step.fingerprint not in steps:
        for inner in step.inputs.values():
            _add(inner, steps)
        steps[step.fingerprint] = step
