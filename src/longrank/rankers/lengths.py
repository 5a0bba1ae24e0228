"""A trained ranker that reads other lengths than it was trained with: the same weights, other windows."""

from collections.abc import Mapping

import torch

from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import Spec
from longrank.encoders.registry import BACKBONES
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.readers import STARTED
from longrank.rankers.zoo import RANKERS

LENGTHS = frozenset({"tokens", "size", "stride", "max_tokens", "max_chunks", "keep", "query_tokens"})


def with_lengths(ranker: NeuralRanker, lengths: Mapping[str, int]) -> NeuralRanker:
    """A ranker that shares the backbone and copies the aggregator of another one, and reads as ``lengths`` say.

    For a matrix of passages trained on and passages read: train once, read in many ways. ``lengths`` are parameters of
    the ranker (``size``, ``stride``, ``max_tokens``, ...); none gives the ranker itself, to the bit.
    """
    if ranker.spec is None:
        raise ModelError("this ranker was composed by hand: change its splitter by hand too")
    wrong = next((name for name in lengths if name not in LENGTHS), None)
    if wrong is not None:
        raise SettingsError(f"{wrong!r} is no length: a trained ranker can read other {', '.join(sorted(LENGTHS))}")
    spec = Spec(ranker.spec.name, {**ranker.spec.params, **lengths})
    with torch.random.fork_rng(devices=[]):  # new weights, replaced below
        made = RANKERS.build(
            Spec(spec.name, {**spec.params, "backbone": ranker.backbone}), dict.fromkeys(STARTED, BACKBONES)
        )
    try:
        made.aggregator.load_state_dict(ranker.aggregator.state_dict())
    except RuntimeError:
        asked = ", ".join(f"{name}={value}" for name, value in lengths.items())
        raise ModelError(
            f"a trained {spec.name!r} cannot read with {asked}: the size of its aggregator depends on it; train it anew"
        ) from None
    made.to(next(ranker.parameters()).device)
    made.spec, made.trained, made.strict = spec, ranker.trained, ranker.strict
    made.token_budget = ranker.token_budget
    return made.train(ranker.training)
