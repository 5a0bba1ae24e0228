"""Which parameters learn, how fast, and with how much dropout."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from longrank.core.errors import SettingsError, TrainingError
from longrank.rankers.neural import NeuralRanker
from longrank.training.settings import TrainSettings


@contextmanager
def learning_as(ranker: NeuralRanker, settings: TrainSettings) -> Iterator[None]:
    """Parts frozen and dropout set as the settings say; afterwards all is as it was, for the next stage."""
    learnt = [(parameter, parameter.requires_grad) for parameter in ranker.parameters()]
    rates = [(part, name, getattr(part, name)) for part, name in _dropouts(ranker)]
    try:
        freeze(ranker, settings)
        if settings.dropout is not None:
            set_dropout(ranker, settings.dropout)
        yield
    finally:
        for parameter, before in learnt:
            parameter.requires_grad_(before)
        for part, name, rate in rates:
            setattr(part, name, rate)


def freeze(ranker: NeuralRanker, settings: TrainSettings) -> None:
    """Stop the embeddings, or the lowest layers with all below them, from learning."""
    if settings.freeze_embeddings or settings.freeze_layers:
        _embeddings(ranker).requires_grad_(False)
    if settings.freeze_layers:
        layers = _layers(ranker)
        if settings.freeze_layers > len(layers):
            raise SettingsError(f"freeze_layers={settings.freeze_layers}, but the backbone has {len(layers)} layers")
        for layer in layers[: settings.freeze_layers]:
            layer.requires_grad_(False)


def set_dropout(ranker: NeuralRanker, rate: float) -> None:
    """Give every dropout that is on this rate; attention dropout, off unless a backbone asks for it, stays off."""
    for part, name in _dropouts(ranker):
        if getattr(part, name) > 0:
            setattr(part, name, rate)


def make_optimizer(ranker: NeuralRanker, settings: TrainSettings) -> torch.optim.Optimizer:
    """AdamW with a rate for the backbone (falling by layer if asked for), the aggregator and its head."""
    groups = [
        {"params": parameters, "lr": rate, "base_rate": rate}
        for rate, parameters in [*_backbone_groups(ranker, settings), *_aggregator_groups(ranker, settings)]
        if parameters
    ]
    if not groups:
        raise TrainingError("no parameter is left to learn: freeze less")
    fused = True if settings.fused_optimizer else None
    return torch.optim.AdamW(groups, weight_decay=settings.weight_decay, fused=fused)


def _backbone_groups(ranker: NeuralRanker, settings: TrainSettings) -> list[tuple[float, list[nn.Parameter]]]:
    rate = settings.backbone_rate
    every = _learning(ranker.backbone)
    if settings.layer_decay == 1.0:
        return [(rate, every)]
    layers = _layers(ranker)
    depth = {id(p): number for number, layer in enumerate(layers) for p in layer.parameters()}
    # the top layer learns at the full rate, the embeddings one step below the lowest layer
    below: dict[int, list[nn.Parameter]] = {}
    for parameter in every:
        below.setdefault(len(layers) - 1 - depth.get(id(parameter), -1), []).append(parameter)
    return [(rate * settings.layer_decay**steps, parameters) for steps, parameters in sorted(below.items())]


def _aggregator_groups(ranker: NeuralRanker, settings: TrainSettings) -> list[tuple[float, list[nn.Parameter]]]:
    every = _learning(ranker.aggregator)
    if settings.head_rate is None:
        return [(settings.aggregator_rate, every)]
    named = dict(ranker.aggregator.named_modules())
    head = {id(p) for name, part in named.items() if name.split(".")[-1] == "head" for p in part.parameters()}
    if not head:
        raise SettingsError("head_rate was given, but this ranker's aggregator has no head: leave it out")
    rest = [p for p in every if id(p) not in head]
    return [(settings.aggregator_rate, rest), (settings.head_rate, [p for p in every if id(p) in head])]


def _dropouts(ranker: NeuralRanker) -> Iterator[tuple[nn.Module, str]]:
    """Every part that drops, and what its rate is called."""
    for part in ranker.modules():
        # attention often has its rate as a number: T5's, Longformer's and PyTorch's under the first of these names
        names = ("p",) if isinstance(part, nn.Dropout) else ("dropout", "attention_dropout")
        yield from ((part, name) for name in names if isinstance(getattr(part, name, None), float))


def _learning(part: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in part.parameters() if parameter.requires_grad]


def _embeddings(ranker: NeuralRanker) -> nn.Module:
    model: Any = ranker.backbone.model
    try:
        found = getattr(model, "embeddings", None) or model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        found = None
    if isinstance(found, nn.Module):
        return found
    raise SettingsError(
        f"the embeddings of a {type(model).__name__} are not known: leave freeze_embeddings and freeze_layers out"
    )


def _layers(ranker: NeuralRanker) -> list[nn.Module]:
    model: Any = ranker.backbone.model
    for path in ("encoder.layer", "transformer.layer", "encoder.block", "layers"):
        place = model
        for name in path.split("."):
            place = getattr(place, name, None)
        if place is not None:
            return list(place)
    raise SettingsError(
        f"the layers of a {type(model).__name__} are not known: leave freeze_layers and layer_decay out"
    )
