"""What a training will cost, from a few of its own examples, before it starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import torch
from torch import Tensor

from longrank.rankers.neural import NeuralRanker
from longrank.training.examples import Sampler, TrainExample, examples_per_epoch
from longrank.training.forward import Asked, train_scores
from longrank.training.optimizer import learning_as
from longrank.training.settings import TrainSettings

_LOOKED_AT, _TIMED = 32, 3
_OPTIMIZER_BYTES = 12  # of a learning parameter: its gradient and two moments in single precision


@dataclass(frozen=True)
class Estimate:
    """Cost of the whole training; memory is what the model, its optimizer and one graph take."""

    examples: int
    tokens_per_example: float
    seconds: float
    memory_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.examples:,} examples of about {self.tokens_per_example:,.0f} tokens: "
            f"about {_duration(self.seconds)} and {self.memory_bytes / 2**20:,.0f} MiB"
        )


def estimate(ranker: NeuralRanker, sampler: Sampler, settings: TrainSettings) -> Estimate:
    """Time and memory, from the lengths of some examples and a few steps without an update; the ranker is unchanged.

    Validation is not counted. Documents longer than those looked at take more memory in proportion.
    """
    looked_at = list(islice(sampler.epoch(0), _LOOKED_AT))
    lengths = [_tokens(ranker, example) for example in looked_at]
    mean = sum(lengths) / len(lengths)
    every = list(ranker.parameters())
    with learning_as(ranker, settings):
        per_token, graph = _measured(ranker, looked_at[:_TIMED], settings)
        learning = sum(p.numel() for p in every if p.requires_grad)
    total = examples_per_epoch(sampler, settings.examples_per_epoch, repeats=settings.epoch_repeats) * settings.epochs
    held = sum(p.numel() * p.element_size() for p in every) + learning * _OPTIMIZER_BYTES
    largest = max(lengths) * settings.queries_at_once
    return Estimate(total, mean, total * mean * per_token, held + round(graph * largest))


def _tokens(ranker: NeuralRanker, example: TrainExample) -> int:
    asked = ranker.backbone.tokenizer.tokenize(example.query.text)
    split = ranker.split([example.positive, *example.negatives])
    return sum(len(row) for row in ranker.layout.rows(ranker.backbone, asked, split))


def _measured(ranker: NeuralRanker, examples: list[TrainExample], settings: TrainSettings) -> tuple[float, float]:
    """Seconds and bytes of graph for a token of the documents."""
    was_training = ranker.training
    tokens, seconds, held = 0, 0.0, 0
    with torch.random.fork_rng():
        ranker.train()
        for number, example in enumerate([examples[0], *examples]):
            began = perf_counter()
            with _counting() as sizes:
                asked = Asked(example.query, [example.positive, *example.negatives])
                (scores,) = train_scores(ranker, [asked], settings=settings).scores
            scores.sum().backward()  # type: ignore[no-untyped-call]
            if number:  # the first one warms up
                seconds += perf_counter() - began
                held += sum(sizes.values())
                tokens += _tokens(ranker, example)
    ranker.zero_grad(set_to_none=True)
    ranker.train(was_training)
    return seconds / tokens, held / tokens


@contextmanager
def _counting() -> Iterator[dict[int, int]]:
    """Bytes of each storage that autograd keeps for the backward pass, parameters aside."""
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield sizes


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
