"""What a training run can be told, and the published recipes."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from longrank.core.errors import UnknownName
from longrank.core.settings import Settings
from longrank.training.schedule import ScheduleName

Precision = Literal["fp32", "bf16", "fp16"]


class TrainSettings(Settings):
    """Everything the loop can be told; the defaults are the positional-bias paper's."""

    loss: str = "pairwise-margin"
    loss_params: dict[str, float | str] = Field(default_factory=dict)
    epochs: int = Field(1, ge=1)
    examples_per_epoch: int | None = Field(None, ge=1)
    batch_size: int = Field(16, ge=1, description="queries an update; their gradients are averaged")
    backbone_rate: float = Field(1e-5, gt=0)
    aggregator_rate: float = Field(1e-4, gt=0)
    weight_decay: float = Field(1e-7, ge=0)
    schedule: ScheduleName = "constant"
    warmup_fraction: float = Field(0.2, ge=0, lt=1)
    max_gradient_norm: float | None = Field(None, gt=0)
    freeze_embeddings: bool = False
    save_every: int = Field(50, ge=1, description="updates between two resumable states")
    seed: int = 0

    epoch_repeats: int = Field(1, ge=1, description="times an epoch goes through the queries, with new draws")
    queries_at_once: int = Field(1, ge=1, description="queries encoded together; the rest of an update accumulates")
    head_rate: float | None = Field(None, gt=0, description="of the scoring head; the aggregator's if not given")
    layer_decay: float = Field(1.0, gt=0, le=1, description="factor of the backbone's rate for each layer further down")
    freeze_layers: int = Field(0, ge=0, description="backbone layers, and the embeddings below, that do not learn")
    final_factor: float = Field(0.0, ge=0, lt=1, description="where the linear schedule ends")
    restart_every_epoch: bool = Field(False, description="optimizer and schedule begin anew each epoch, as published")
    epoch_decay: float = Field(1.0, gt=0, le=1, description="factor of all rates for each epoch done")
    drop_last: bool = Field(False, description="leave out an epoch's last, incomplete update, as published")
    gradients: Literal["mean", "sum"] = Field("mean", description="over the queries of an update")
    precision: Precision = Field("fp32", description="of the backbone; aggregator, head and loss stay in fp32")
    recompute_tokens: int | None = Field(
        None, ge=1, description="encode in pieces of so many tokens and recompute them in the backward pass"
    )
    winner_only: bool = Field(False, description="MaxP: only the best chunk of a document gets a graph")
    fused_optimizer: bool = False
    early_stopping: int | None = Field(None, ge=1, description="epochs without improvement after which to stop")
    stop_on_collapse: bool = False
    tensorboard: bool = Field(False, description="write TensorBoard's files too (extra tensorboard)")
    dropout: float | None = Field(
        None, ge=0, lt=1, description="rate of every dropout that is on; the model's own if not given"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainSettings":
        if self.winner_only and self.recompute_tokens is not None:
            raise ValueError("winner_only already bounds memory: leave recompute_tokens out")
        return self

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # an option that is not used leaves the fingerprint alone, so that new ones keep old results
        table: dict[str, Any] = handler(self)
        fields = type(self).model_fields
        return {name: v for name, v in table.items() if name not in _OPTIONAL or v != fields[name].default}


_OPTIONAL = frozenset(list(TrainSettings.model_fields)[list(TrainSettings.model_fields).index("epoch_repeats") :])

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # positional-bias and long-document-models papers, from the authors' configurations and training loop
    "boytsov": {
        "loss": "pairwise-margin",
        "loss_params": {"margin": 1.0, "reduction": "sum"},
        "epochs": 1,
        "batch_size": 16,
        "backbone_rate": 1e-5,
        "aggregator_rate": 1e-4,
        "weight_decay": 1e-7,
        "schedule": "constant",
        "warmup_fraction": 0.2,
        "restart_every_epoch": True,
        "epoch_decay": 0.95,
        "drop_last": True,
        "gradients": "sum",
    },
    # PARADE: 36 epochs of 4,096 pairs, warm-up over ten epochs, linear decay to a tenth
    "li2023": {
        "loss": "pairwise-margin",
        "loss_params": {"margin": 1.0},
        "epochs": 36,
        "examples_per_epoch": 4096,
        "epoch_repeats": 4096,  # as often as it takes: 4,096 pairs, however few the queries
        "batch_size": 24,
        "backbone_rate": 3e-6,
        "aggregator_rate": 3e-6,
        "weight_decay": 0.01,
        "schedule": "linear",
        "warmup_fraction": 10 / 36,
        "final_factor": 0.1,
    },
}


def preset(name: str) -> Mapping[str, Any]:
    """The [train] table of a published recipe.

    >>> preset("li2023")["epochs"]
    36
    """
    if name not in PRESETS:
        raise UnknownName(f"no training preset {name!r}. Known: {', '.join(PRESETS)}")
    return PRESETS[name]
