"""What a step will cost, from counts of operations and this machine's speed; good to a factor of two, said before."""

import math
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from longrank.experiments.settings import BackboneSettings
from longrank.training.settings import TrainSettings

# share of a core's speed in large products that training and scoring reached: .83 with AVX2, .78 with AVX-512
EFFICIENCY = 0.8
FIXED_SECONDS = 3.0  # of any step: reading models and texts
FIXED_BYTES = 700 * 2**20  # of a process that has loaded torch and transformers
_MINILM_LAYER = 1.77  # millions of parameters
_BASE_MODEL = 85.0  # millions of parameters above the embeddings, of a model nobody told us about
_EMBEDDINGS = 24.0  # millions, of a base model
_BYTES_PER_PARAMETER = 16  # weight, gradient and two moments


@dataclass(frozen=True)
class Work:
    """Operations and memory of a step; ``queries_known`` is False where the file does not tell how many there are."""

    operations: float = 0.0
    memory_bytes: float = FIXED_BYTES
    queries_known: bool = True

    def seconds(self, speed: float) -> float:
        """Time at a speed in operations a second."""
        return FIXED_SECONDS + self.operations / speed


def train_work(
    ranker: Mapping[str, Any], backbone: BackboneSettings, training: TrainSettings, *, queries: int | None
) -> Work:
    """Work of a training: three passes forward's worth for each document of each example."""
    each = (queries or 0) * training.epoch_repeats
    examples = min(each or math.inf, training.examples_per_epoch or math.inf)
    known = math.isfinite(examples)
    tokens = tokens_per_document(ranker["params"]) * 2  # a positive and a negative
    millions = parameters_in_millions(backbone.name, backbone.params, backbone.millions)
    operations = 6e6 * millions * tokens * training.epochs * (examples if known else 0)
    graph = tokens * millions * 2e3  # bytes that wait for the backward pass, measured on MiniLM
    memory = FIXED_BYTES + (millions + _EMBEDDINGS) * 1e6 * _BYTES_PER_PARAMETER + graph
    return Work(operations, memory, known)


def score_work(ranker: Mapping[str, Any], backbone: BackboneSettings, *, queries: int | None, depth: int) -> Work:
    """Work of scoring ``depth`` candidates of each query."""
    millions = parameters_in_millions(backbone.name, backbone.params, backbone.millions)
    tokens = tokens_per_document(ranker["params"])
    memory = FIXED_BYTES + (millions + _EMBEDDINGS) * 4e6
    return Work(2e6 * millions * tokens * depth * (queries or 0), memory, queries is not None)


def untrained_work(params: Mapping[str, Any]) -> Work:
    """Work of a ranker that needs no training: how much of a text it reads is not known here, so memory alone is."""
    if "chat" in params:  # another machine does it
        return Work(queries_known=False)
    backbone = params.get("backbone")
    name, inner = (backbone, {}) if isinstance(backbone, str) else ("", {})
    if isinstance(backbone, Mapping):
        name, inner = str(backbone.get("name")), backbone.get("params", {})
    millions = parameters_in_millions(name, inner, None) if name else _BASE_MODEL
    return Work(0.0, FIXED_BYTES + (millions + _EMBEDDINGS) * 4e6, queries_known=False)


def side_by_side(works: Iterable[Work], *, times: int = 1) -> Work:
    """Work of one process that holds all models at once and does each so many times.

    >>> each = Work(operations=5.0, memory_bytes=FIXED_BYTES + 100)
    >>> side_by_side([each, each], times=3) == Work(operations=30.0, memory_bytes=FIXED_BYTES + 200)
    True
    """
    known = list(works)
    memory = FIXED_BYTES + sum(work.memory_bytes - FIXED_BYTES for work in known)
    return Work(times * sum(work.operations for work in known), memory, all(work.queries_known for work in known))


def tokens_per_document(params: Mapping[str, Any]) -> int:
    """Tokens that a ranker reads of a long document, the query beside each piece included.

    >>> tokens_per_document({"tokens": 477, "query_tokens": 32})
    512
    >>> tokens_per_document({"size": 150, "stride": 100, "max_tokens": 1431, "query_tokens": 32})
    2590
    """
    beside = params.get("query_tokens", 32) + 3
    if "size" not in params:
        return int(params.get("tokens", 477) + beside)
    if "stride" in params:
        rows = math.ceil(max(0, params["max_tokens"] - params["size"]) / params["stride"]) + 1
    else:
        rows = params["max_chunks"]
    return int(min(rows, params.get("keep") or rows) * (params["size"] + beside))


def parameters_in_millions(name: str, params: Mapping[str, Any], told: float | None) -> float:
    """Parameters above the embeddings: as told, or as the name and params of a backbone suggest."""
    if told is not None:
        return told
    if name == "minilm":
        return _MINILM_LAYER * (params.get("layers") or 6)
    if name == "pretrained":
        return _BASE_MODEL
    return 12e-6 * int(params.get("layers", 2)) * int(params.get("dim", 64)) ** 2


def measured_speed(done: Iterable[tuple[Work, float]]) -> float:
    """Operations a second of steps that are done (work, seconds); what this machine promises if none is of weight.

    >>> measured_speed([(Work(operations=4e12), 23.0)])
    200000000000.0
    """
    found = [work.operations / (seconds - FIXED_SECONDS) for work, seconds in done if seconds > 4 * FIXED_SECONDS]
    return statistics.median(found) if found else EFFICIENCY * product_speed()


@cache
def product_speed() -> float:
    """Operations a second of one core in a linear layer of MiniLM's size: the best of a few, in milliseconds."""
    import torch

    from longrank.encoders.products import fast_products

    states, weight = torch.ones(1024, 384), torch.ones(1536, 384)
    threads, times = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(), fast_products():
            for _ in range(8):
                began = time.perf_counter()
                torch.nn.functional.linear(states, weight)
                times.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    return 2 * states.numel() * len(weight) / min(times)


def duration(seconds: float) -> str:
    """Seconds in a unit that suits them.

    >>> duration(5400.0), duration(1.2e9)
    ('1.5 h', '38 years')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:,.0f} days" if days < 730 else f"{days / 365.25:,.0f} years"
