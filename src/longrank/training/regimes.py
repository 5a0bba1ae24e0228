"""Trainings in stages: each starts from the best weights of the one before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from longrank.core.errors import TrainingError
from longrank.core.types import Run
from longrank.rankers.neural import NeuralRanker
from longrank.training.examples import Sampler
from longrank.training.settings import TrainSettings
from longrank.training.trainer import Augment, Teach, TrainLog, Validate, fit


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage's examples and settings; ``name`` is its folder's."""

    name: str
    sampler: Sampler
    settings: TrainSettings


def fit_stages(
    ranker: NeuralRanker,
    stages: Sequence[Stage],
    *,
    folder: Path,
    validate: Validate | None = None,
    augment: Augment | None = None,
    teach: Teach | None = None,
) -> dict[str, TrainLog]:
    """Train stage after stage, each in ``folder/<name>`` and each resumable; gives the logs by name."""
    names = [stage.name for stage in stages]
    if not stages or len(set(names)) < len(names):
        raise TrainingError(f"stages need names of their own, got {', '.join(names) or 'none'}")
    return {
        stage.name: fit(
            ranker,
            stage.sampler,
            settings=stage.settings,
            folder=folder / stage.name,
            validate=validate,
            augment=augment,
            teach=teach,
        )
        for stage in stages
    }


def leaderboard_settings(candidates: Mapping[str, Run], settings: TrainSettings) -> dict[str, TrainSettings]:
    """Settings of a stage for each candidate set: one epoch each, the last on a one-cycle schedule.

    Name the sets from the weakest retriever to the strongest.
    """
    once = settings.model_copy(update={"epochs": 1})
    found = dict.fromkeys(candidates, once)
    found[list(candidates)[-1]] = once.model_copy(update={"schedule": "one-cycle"})
    return found
