"""All rankers of the papers, a few lines each: start reading here.

Lengths are in tokens of the backbone's tokenizer. The defaults are the papers': 32 query tokens and 477 document
tokens make an input of 512 with [CLS] and two [SEP]; 1,431 tokens are three such chunks.
"""

from typing import Literal

import torch

from longrank.chunking.splitters import Greedy, Sliding, Truncate
from longrank.core.registry import Registry
from longrank.core.seeds import derive
from longrank.core.types import Spec
from longrank.encoders.backbone import Backbone
from longrank.encoders.registry import BACKBONES
from longrank.rankers.aggregators import (
    AttentionVector,
    FirstScore,
    MaxScore,
    MaxVector,
    MeanScore,
    MeanVector,
    SumScore,
    SumVector,
    TopScores,
    TransformerVector,
)
from longrank.rankers.layouts import Joint
from longrank.rankers.neural import NeuralRanker

RANKERS: Registry[NeuralRanker] = Registry("ranker")


@RANKERS.add("firstp", paper="Dai and Callan 2019")
def firstp(backbone: Backbone, *, tokens: int = 477, query_tokens: int = 32) -> NeuralRanker:
    """Score of the first chunk; nothing behind it is read."""
    return NeuralRanker(Truncate(tokens), Joint(query_tokens), backbone, FirstScore(backbone.dim))


@RANKERS.add("longp", paper="positional-bias, section 3")
def longp(backbone: Backbone, *, tokens: int = 1431, query_tokens: int = 32) -> NeuralRanker:
    """One long input: FirstP with a backbone that reads further."""
    return firstp(backbone, tokens=tokens, query_tokens=query_tokens)


@RANKERS.add("avgp", paper="MacAvaney et al. 2019")
def avgp(backbone: Backbone, *, size: int = 477, max_chunks: int = 3, query_tokens: int = 32) -> NeuralRanker:
    """Mean of the vectors of disjoint chunks."""
    return NeuralRanker(Greedy(size, max_chunks), Joint(query_tokens), backbone, MeanVector(backbone.dim))


@RANKERS.add("maxp", paper="Dai and Callan 2019")
def maxp(
    backbone: Backbone, *, size: int = 150, stride: int = 100, max_tokens: int = 1431, query_tokens: int = 32
) -> NeuralRanker:
    """Best window score, trained end to end."""
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, MaxScore(backbone.dim))


@RANKERS.add("sump", paper="Dai and Callan 2019")
def sump(
    backbone: Backbone, *, size: int = 150, stride: int = 100, max_tokens: int = 1431, query_tokens: int = 32
) -> NeuralRanker:
    """Sum of the window scores."""
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, SumScore(backbone.dim))


@RANKERS.add("avgp-score")
def avgp_score(
    backbone: Backbone, *, size: int = 150, stride: int = 100, max_tokens: int = 1431, query_tokens: int = 32
) -> NeuralRanker:
    """Mean of the window scores."""
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, MeanScore(backbone.dim))


@RANKERS.add("k-max", paper="Li et al. 2023 (Birch-Passage)")
def k_max(
    backbone: Backbone,
    *,
    k: int = 3,
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    query_tokens: int = 32,
) -> NeuralRanker:
    """Learned combination of the k best window scores."""
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, TopScores(backbone.dim, k=k))


@RANKERS.add("parade-avg", paper="Li et al. 2023")
def parade_avg(
    backbone: Backbone, *, size: int = 150, stride: int = 100, max_tokens: int = 1431, query_tokens: int = 32
) -> NeuralRanker:
    """Mean of the window vectors: AvgP with another splitter."""
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, MeanVector(backbone.dim))


@RANKERS.add("parade-sum", paper="Li et al. 2023")
def parade_sum(
    backbone: Backbone, *, size: int = 150, stride: int = 100, max_tokens: int = 1431, query_tokens: int = 32
) -> NeuralRanker:
    """Sum of the window vectors."""
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, SumVector(backbone.dim))


@RANKERS.add("parade-max", paper="Li et al. 2023")
def parade_max(
    backbone: Backbone, *, size: int = 150, stride: int = 100, max_tokens: int = 1431, query_tokens: int = 32
) -> NeuralRanker:
    """Largest value of every dimension over the windows."""
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, MaxVector(backbone.dim))


@RANKERS.add("parade-attn", paper="Li et al. 2023")
def parade_attn(
    backbone: Backbone,
    *,
    attention: Literal["scalar", "per-dimension"] = "scalar",
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    query_tokens: int = 32,
) -> NeuralRanker:
    """Window vectors weighted by learned attention."""
    aggregator = AttentionVector(backbone.dim, attention=attention)
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, aggregator)


@RANKERS.add("parade-transformer", paper="Li et al. 2023; positional-bias (RAND-L2)")
def parade_transformer(
    backbone: Backbone,
    *,
    layers: int = 2,
    heads: int | None = None,
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    query_tokens: int = 32,
) -> NeuralRanker:
    """A small Transformer, started at random, reads the window vectors in order."""
    aggregator = TransformerVector(backbone.dim, layers=layers, heads=heads or backbone.heads)
    return NeuralRanker(Sliding(size, stride, max_tokens), Joint(query_tokens), backbone, aggregator)


def build_ranker(spec: Spec, *, seed: int = 0) -> NeuralRanker:
    """The ranker a spec describes, backbone included; new weights depend on the seed alone.

    It remembers the spec, so that it can be saved.
    """
    with torch.random.fork_rng():
        torch.manual_seed(derive("ranker-weights", seed))
        ranker = RANKERS.build(spec, {"backbone": BACKBONES})
    ranker.spec = spec
    return ranker.eval()
