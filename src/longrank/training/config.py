"""What ``longrank train`` reads from a TOML file."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from longrank.core.fingerprint import fingerprint
from longrank.core.settings import Settings, to_spec
from longrank.synthetic.debias import DebiasSettings
from longrank.training.balance import PositionBalance
from longrank.training.pools import NegativeSettings
from longrank.training.settings import TrainSettings, preset
from longrank.training.weights import PositionWeights

DrawnPositions = Literal["random-offsets", "sorted-random"]


class StageConfig(Settings):
    """A training before the main one; what is left out is taken from the main one."""

    name: str = Field(pattern=r"^[\w.-]+$")
    collection: Path | None = None
    candidates: dict[str, Path] | None = None
    split: str | None = None
    labels: Literal["judged", "pseudo"] = Field("judged", description="pseudo: the best candidate counts as relevant")
    negatives: NegativeSettings | None = None
    train: dict[str, Any] = Field(default_factory=dict, description="settings that differ from [train]")

    @field_validator("candidates", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return named_candidates(value)


class TrainConfig(Settings):
    """A training run, or several: one a seed and a fold."""

    collection: Path
    candidates: dict[str, Path]
    out: Path
    ranker: dict[str, Any] | None = Field(None, description="name and params of a ranker; not needed with init")
    init: str | None = Field(None, description="checkpoint to start from; '{seed}' stands for the seed")
    init_remote_code: str | None = Field(None, description="Python code of init's own that may run, name@version")
    teacher: str | None = Field(None, description="checkpoint, or run file of its scores; '{seed}' as above")
    teacher_remote_code: str | None = Field(None, description="Python code of teacher's own that may run, name@version")
    train_split: str = "train"
    validation_split: str | None = None
    measure: str = "RR@10"
    depth: int = Field(100, ge=1, description="candidates a query for validation and for the runs of folds")
    max_validation_queries: int = Field(5000, ge=1)
    folds: Path | None = Field(None, description="JSON lists of query ids: cross-validation in place of splits")
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    preset: str | None = None
    leaderboard: bool = Field(False, description="one epoch with each candidate set, the last on a one-cycle schedule")
    passage_level: bool = Field(False, description="MaxP on single chunks, each as relevant as its document")
    device: str = "cpu"
    negatives: NegativeSettings = NegativeSettings()
    train: TrainSettings = TrainSettings()
    stages: tuple[StageConfig, ...] = ()
    position_weights: PositionWeights | None = Field(None, description="inverse-propensity weights, from spans")
    balance_positions: PositionBalance | None = Field(None, description="as many pairs of every position, from spans")
    shuffle: DebiasSettings | None = Field(None, description="shuffle the documents' segments, each epoch anew")
    positions: DrawnPositions | None = Field(None, description="position ids drawn anew for every training row")

    @field_validator("candidates", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return named_candidates(value)

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, table: Any) -> Any:
        if not isinstance(table, dict) or table.get("preset") is None:
            return table
        return {**table, "train": {**preset(table["preset"]), **table.get("train", {})}}

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
        if self.ranker is None and self.init is None:
            raise ValueError("give a [ranker] table, or a checkpoint as init")
        if self.ranker is not None:
            to_spec(self.ranker)
        if self.folds is not None and self.validation_split is not None:
            raise ValueError("folds are tested, not validated on: leave validation_split out")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} hold one twice")
        self._check_positions()
        return self

    def _check_positions(self) -> None:
        by_place = [name for name in ("position_weights", "balance_positions") if getattr(self, name) is not None]
        if len(by_place) > 1:
            raise ValueError(
                "position_weights and balance_positions both make up for rare places, together twice: leave one out"
            )
        if by_place and (self.passage_level or self.shuffle is not None):
            raise ValueError(
                f"{by_place[0]} is about where evidence stands in a whole document as it is: leave passage_level and "
                "shuffle out"
            )

    @property
    def mark(self) -> str:
        """Fingerprint of what a folder of results depends on; an option that is not used leaves it alone."""
        later = {"position_weights", "balance_positions", "shuffle", "positions"}
        later |= {"init_remote_code", "teacher_remote_code"}
        unused = {name for name in later if getattr(self, name) is None}
        return fingerprint(self.model_dump(exclude={"seeds", "out", "device"} | unused))


def named_candidates(value: Any) -> Any:
    """A table of run files; a single file is named after itself.

    >>> named_candidates("runs/toy.bm25.trec")
    {'toy.bm25.trec': 'runs/toy.bm25.trec'}
    """
    return {Path(value).name: value} if isinstance(value, (str, Path)) else value
