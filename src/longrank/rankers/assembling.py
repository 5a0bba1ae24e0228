"""Splitter, layout, backbone and aggregator put together, as the papers say or as the published code does."""

from torch import nn

from longrank.chunking.splitters import Greedy, Sampled, Sliding
from longrank.core.contracts import Splitter
from longrank.core.errors import SettingsError
from longrank.encoders.backbone import Backbone
from longrank.rankers.layouts import Joint, Layout
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.published import Compat, PaddedJoint, lower_cased, padded


def windowed(
    backbone: Backbone,
    aggregator: nn.Module,
    windows: Sliding,
    layout: Layout | int,
    compat: Compat = None,
    *,
    keep: int | None = None,
) -> NeuralRanker:
    """A ranker over sliding windows; ``layout`` may be the length of the query beside each."""
    if isinstance(layout, int):
        layout = Joint(layout)
    if compat == "published" and keep is None:
        joint = PaddedJoint(windows.size, layout.query_tokens)
        return NeuralRanker(padded(windows), joint, lower_cased(backbone), aggregator)
    return NeuralRanker(_kept(windows, keep, compat), layout, backbone, aggregator)


def chunked(
    backbone: Backbone,
    aggregator: nn.Module,
    chunks: Greedy,
    query_tokens: int,
    compat: Compat = None,
    *,
    keep: int | None = None,
) -> NeuralRanker:
    """A ranker over disjoint chunks."""
    if compat == "published" and keep is None:
        windows = padded(Sliding(chunks.size, chunks.size, chunks.max_chunks and chunks.max_chunks * chunks.size))
        joint = PaddedJoint(chunks.size, query_tokens, read_padding=True)
        return NeuralRanker(windows, joint, lower_cased(backbone), aggregator)
    return NeuralRanker(_kept(chunks, keep, compat), Joint(query_tokens), backbone, aggregator)


def _kept(splitter: Splitter, keep: int | None, compat: Compat) -> Splitter:
    if keep is None:
        return splitter
    if compat == "published":
        raise SettingsError("the published code reads every window: leave keep or compat out")
    return Sampled(splitter, keep)
