"""All rankers of the papers, a few lines each: start reading here.

Lengths are in tokens of the backbone's tokenizer. The defaults are the papers': 32 query tokens and 477 document
tokens make an input of 512 with [CLS] and two [SEP]; 1,431 tokens are three such chunks. ``compat="published"``
reads documents as the published code does, padding included; the default is what the papers say.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from longrank.chunking.splitters import Greedy, Sliding, Truncate
from longrank.core.registry import Registry, spelled_out
from longrank.core.seeds import derive
from longrank.core.types import Spec
from longrank.encoders.backbone import Backbone
from longrank.encoders.registry import BACKBONES
from longrank.rankers.aggregators import (
    AttentionVector,
    ConvolutionVector,
    CrossAttention,
    Drmm,
    FirstScore,
    KernelPool,
    LateInteraction,
    MaxScore,
    MaxVector,
    MeanScore,
    MeanVector,
    Model1,
    Pacrr,
    SumScore,
    SumVector,
    TopScores,
    TransformerVector,
)
from longrank.rankers.aggregators.interaction import Kernels
from longrank.rankers.aggregators.transformer import QueryProjection
from longrank.rankers.aggregators.vectors import Attention, ChunkSummary
from longrank.rankers.assembling import chunked, windowed
from longrank.rankers.layouts import Joint, Selected, Separate, Uncontextual
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.published import Compat, PaddedJoint, lower_cased
from longrank.rankers.readers import STARTED, SpecialVectors, Started, reader_for, readers_of

RANKERS: Registry[NeuralRanker] = Registry("ranker")


class WindowRanker(Protocol):
    """How a ranker over sliding windows is made: windows of ``size`` every ``stride`` over the first ``max_tokens``.

    ``keep`` reads at most so many of them: the first, the last and a draw from the middle (Li et al. 2023).
    """

    def __call__(
        self,
        backbone: Backbone,
        *,
        size: int = 150,
        stride: int = 100,
        max_tokens: int = 1431,
        keep: int | None = None,
        query_tokens: int = 32,
        compat: Compat = None,
    ) -> NeuralRanker:
        """The ranker."""
        ...


def over_windows(name: str, *, paper: str = "") -> Callable[[Callable[[Backbone], nn.Module]], WindowRanker]:
    """Decorator: an aggregator for a backbone becomes a ranker over sliding windows, registered under a name."""

    def register(aggregator: Callable[[Backbone], nn.Module]) -> WindowRanker:
        def make(
            backbone: Backbone,
            *,
            size: int = 150,
            stride: int = 100,
            max_tokens: int = 1431,
            keep: int | None = None,
            query_tokens: int = 32,
            compat: Compat = None,
        ) -> NeuralRanker:
            windows = Sliding(size, stride, max_tokens)
            return windowed(backbone, aggregator(backbone), windows, query_tokens, compat, keep=keep)

        make.__name__ = make.__qualname__ = aggregator.__name__
        make.__doc__ = aggregator.__doc__
        return RANKERS.add(name, paper=paper)(make)

    return register


# -- one input ---------------------------------------------------------------------------------------------------------


@RANKERS.add("firstp", paper="Dai and Callan 2019")
def firstp(backbone: Backbone, *, tokens: int = 477, query_tokens: int = 32, compat: Compat = None) -> NeuralRanker:
    """Score of the first chunk; nothing behind it is read."""
    aggregator = FirstScore(backbone.dim)
    if compat == "published":
        return NeuralRanker(Truncate(tokens), PaddedJoint(tokens, query_tokens), lower_cased(backbone), aggregator)
    return NeuralRanker(Truncate(tokens), Joint(query_tokens), backbone, aggregator)


@RANKERS.add("longp", paper="positional-bias, section 3")
def longp(backbone: Backbone, *, tokens: int = 1431, query_tokens: int = 32, compat: Compat = None) -> NeuralRanker:
    """One long input: FirstP with a backbone that reads further."""
    return firstp(backbone, tokens=tokens, query_tokens=query_tokens, compat=compat)


# -- window scores -----------------------------------------------------------------------------------------------------


@over_windows("maxp", paper="Dai and Callan 2019")
def maxp(backbone: Backbone) -> nn.Module:
    """Best window score, trained end to end."""
    return MaxScore(backbone.dim)


@over_windows("sump", paper="Dai and Callan 2019")
def sump(backbone: Backbone) -> nn.Module:
    """Sum of the window scores."""
    return SumScore(backbone.dim)


@over_windows("avgp-score")
def avgp_score(backbone: Backbone) -> nn.Module:
    """Mean of the window scores."""
    return MeanScore(backbone.dim)


@RANKERS.add("k-max", paper="Li et al. 2023 (Birch-Passage)")
def k_max(
    backbone: Backbone,
    *,
    k: int = 3,
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    keep: int | None = None,
    query_tokens: int = 32,
) -> NeuralRanker:
    """Learned combination of the k best window scores."""
    windows = Sliding(size, stride, max_tokens)
    return windowed(backbone, TopScores(backbone.dim, k=k), windows, query_tokens, keep=keep)


@RANKERS.add("select-k", paper="in the style of IDCM (Hofstätter et al. 2021) and KeyB (Li and Gaussier 2021)")
def select_k(
    backbone: Backbone,
    *,
    keep: int = 4,
    k: int = 3,
    size: int = 64,
    stride: int = 50,
    max_tokens: int = 4096,
    query_tokens: int = 32,
) -> NeuralRanker:
    """Word overlap picks a few windows, and only those are read; the k best scores are combined."""
    layout = Selected(Joint(query_tokens), keep)
    return NeuralRanker(Sliding(size, stride, max_tokens), layout, backbone, TopScores(backbone.dim, k=k))


# -- window vectors ----------------------------------------------------------------------------------------------------


@RANKERS.add("avgp", paper="MacAvaney et al. 2019")
def avgp(
    backbone: Backbone, *, size: int = 477, max_chunks: int = 3, query_tokens: int = 32, compat: Compat = None
) -> NeuralRanker:
    """Mean of the vectors of disjoint chunks."""
    aggregator = MeanVector(backbone.dim, over_real=compat == "published")
    return chunked(backbone, aggregator, Greedy(size, max_chunks), query_tokens, compat)


@over_windows("parade-avg", paper="Li et al. 2023")
def parade_avg(backbone: Backbone) -> nn.Module:
    """Mean of the window vectors: AvgP with another splitter."""
    return MeanVector(backbone.dim)


@over_windows("parade-sum", paper="Li et al. 2023")
def parade_sum(backbone: Backbone) -> nn.Module:
    """Sum of the window vectors."""
    return SumVector(backbone.dim)


@over_windows("parade-max", paper="Li et al. 2023")
def parade_max(backbone: Backbone) -> nn.Module:
    """Largest value of every dimension over the windows."""
    return MaxVector(backbone.dim)


@RANKERS.add("parade-cnn", paper="Li et al. 2023")
def parade_cnn(
    backbone: Backbone,
    *,
    keep_zeros: bool = False,
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    keep: int | None = None,
    query_tokens: int = 32,
    compat: Compat = None,
) -> NeuralRanker:
    """Neighbouring windows are merged by convolution, level by level, and every level is scored.

    ``keep_zeros`` hands nothing on from windows that a short document does not have.
    """
    aggregator = ConvolutionVector(backbone.dim, keep_zeros=keep_zeros)
    return windowed(backbone, aggregator, Sliding(size, stride, max_tokens), query_tokens, compat, keep=keep)


@RANKERS.add("parade-attn", paper="Li et al. 2023")
def parade_attn(
    backbone: Backbone,
    *,
    attention: Attention | None = None,
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    keep: int | None = None,
    query_tokens: int = 32,
    compat: Compat = None,
) -> NeuralRanker:
    """Window vectors weighted by learned attention: one weight a window, or per dimension as published."""
    chosen: Attention = attention or ("per-dimension" if compat == "published" else "scalar")
    aggregator = AttentionVector(backbone.dim, attention=chosen)
    return windowed(backbone, aggregator, Sliding(size, stride, max_tokens), query_tokens, compat, keep=keep)


@RANKERS.add("parade-transformer", paper="Li et al. 2023; positional-bias (RAND-L2, PRETR-L6, PRETR-Q-L6)")
def parade_transformer(
    backbone: Backbone,
    *,
    init: Started | None = None,
    layers: int = 2,
    heads: int | None = None,
    query: QueryProjection | None = None,
    separators: bool = True,
    positions: bool = True,
    specials: SpecialVectors | None = None,
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    keep: int | None = None,
    query_tokens: int = 32,
    compat: Compat = None,
) -> NeuralRanker:
    """A Transformer reads the window vectors in order: started at random (``layers``, ``heads``) or from ``init``.

    ``query`` lets it read the query's tokens first, through the windows' projection or its own. Without ``separators``
    it reads CLS and windows alone, as Li et al. write; without ``positions`` it does not see their order. The vectors
    of CLS and SEP (``specials``) start as words of the model it starts from, or of the backbone, or are drawn.
    """
    reader = reader_for(
        backbone,
        init,
        layers=layers,
        heads=heads,
        separators=separators,
        positions=positions,
        specials=specials,
        compat=compat,
    )
    aggregator = TransformerVector(backbone.dim, reader, query=query)
    return windowed(backbone, aggregator, Sliding(size, stride, max_tokens), query_tokens, compat, keep=keep)


# -- query and windows apart -------------------------------------------------------------------------------------------


@RANKERS.add("parade-lateir", paper="positional-bias (PRETR-LATEIR-L6)")
def parade_lateir(
    backbone: Backbone,
    *,
    init: Started | None = None,
    interaction: Started | None = None,
    layers: int = 2,
    size: int = 150,
    stride: int = 100,
    max_tokens: int = 1431,
    keep: int | None = None,
    query_tokens: int = 32,
) -> NeuralRanker:
    """Query and windows meet in a Transformer of their own (``interaction``), and another reads what it says."""
    meet = reader_for(backbone, interaction, layers=layers)
    read = reader_for(backbone, init, layers=layers)
    aggregator = LateInteraction(backbone.dim, meet, then=TransformerVector(meet.dim, read))
    return windowed(backbone, aggregator, Sliding(size, stride, max_tokens), Separate(query_tokens), keep=keep)


@RANKERS.add("mores", paper="in the style of MORES+ (Gao and Callan 2022)")
def mores(
    backbone: Backbone,
    *,
    layers: int = 2,
    heads: int | None = None,
    size: int = 477,
    max_chunks: int = 3,
    query_tokens: int = 32,
) -> NeuralRanker:
    """Query tokens attend to the tokens of all chunks at once."""
    aggregator = CrossAttention(backbone.dim, layers=layers, heads=heads or backbone.heads)
    return NeuralRanker(Greedy(size, max_chunks), Separate(query_tokens), backbone, aggregator)


# -- token interaction -------------------------------------------------------------------------------------------------


@RANKERS.add("cedr-knrm", paper="MacAvaney et al. 2019")
def cedr_knrm(
    backbone: Backbone,
    *,
    summary: ChunkSummary = "mean",
    kernels: Kernels = "cedr",
    size: int = 477,
    max_chunks: int = 3,
    keep: int | None = None,
    query_tokens: int = 32,
    compat: Compat = None,
) -> NeuralRanker:
    """Soft counts of similar token pairs in all layers, beside the chunks' ``summary``; "none" is KNRM alone.

    ``kernels`` counts and combines as CEDR does, or as capreolus, whose KNRM the PARADE paper shows; with ``keep`` at
    most so many of the chunks are read, the first, the last and a draw from the middle, as that paper reads.
    """
    aggregator = KernelPool(
        backbone.dim, layers=backbone.layers, summary=summary, kernels=kernels, over_real=compat == "published"
    )
    return chunked(backbone, aggregator, Greedy(size, max_chunks), query_tokens, compat, keep=keep)


@RANKERS.add("cedr-pacrr", paper="MacAvaney et al. 2019")
def cedr_pacrr(
    backbone: Backbone, *, size: int = 477, max_chunks: int = 3, query_tokens: int = 32, compat: Compat = None
) -> NeuralRanker:
    """The strongest n-gram matches of each query position in all layers, beside the mean chunk vector."""
    published = compat == "published"
    aggregator = Pacrr(backbone.dim, layers=backbone.layers, query_tokens=query_tokens, over_real=published)
    return chunked(backbone, aggregator, Greedy(size, max_chunks), query_tokens, compat)


@RANKERS.add("cedr-drmm", paper="MacAvaney et al. 2019")
def cedr_drmm(
    backbone: Backbone, *, size: int = 477, max_chunks: int = 3, query_tokens: int = 32, compat: Compat = None
) -> NeuralRanker:
    """Histograms of token similarities in all layers, beside the mean chunk vector."""
    aggregator = Drmm(backbone.dim, layers=backbone.layers, over_real=compat == "published")
    return chunked(backbone, aggregator, Greedy(size, max_chunks), query_tokens, compat)


@RANKERS.add("neural-model1", paper="Boytsov and Kolter 2021 (re-derivation)")
def neural_model1(backbone: Backbone, *, size: int = 477, max_chunks: int = 3, query_tokens: int = 32) -> NeuralRanker:
    """The query as a translation of the document's contextual token vectors."""
    return chunked(backbone, Model1(backbone.dim), Greedy(size, max_chunks), query_tokens)


@RANKERS.add("neural-model1-context-free", paper="Boytsov and Kolter 2021 (re-derivation)")
def neural_model1_context_free(
    backbone: Backbone, *, p_self: float = 0.05, size: int = 477, max_chunks: int = 3, query_tokens: int = 32
) -> NeuralRanker:
    """The query as a translation of the document's words; the backbone lends its word vectors and is not run."""
    aggregator = Model1(backbone.dim, p_self=p_self, words=backbone.model.get_input_embeddings().weight)
    return NeuralRanker(Greedy(size, max_chunks), Uncontextual(query_tokens), backbone, aggregator)


# -- by its spec -------------------------------------------------------------------------------------------------------


def build_ranker(spec: Spec, *, seed: int = 0) -> NeuralRanker:
    """The ranker a spec describes, backbone included; new weights depend on the seed alone.

    ``backbone`` is a spec, a name or a table ``{"name": ..., "params": {...}}``. ``init`` and ``interaction`` are specs
    of backbones, or folders. The ranker remembers the spec, so that it can be
    saved; of a pretrained aggregator it remembers the config, because the weights will be in the checkpoint.
    """
    spec = spelled_out(spec, {"backbone"})
    folders = {
        name: Spec("pretrained", {"model": v})
        for name, v in spec.params.items()
        if name in STARTED and isinstance(v, str)
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive("ranker-weights", seed))
        parts = dict.fromkeys(("backbone", *STARTED), BACKBONES)
        ranker = RANKERS.build(Spec(spec.name, {**spec.params, **folders}), parts)
    configs = {name: reader.config for name, reader in readers_of(ranker.aggregator).items() if spec.params.get(name)}
    ranker.spec = Spec(spec.name, {**spec.params, **configs})
    return ranker.eval()
