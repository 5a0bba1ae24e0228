"""From the states of a document's chunks to one score: a module a family."""

from longrank.rankers.aggregators.interaction import Drmm, KernelPool, Pacrr
from longrank.rankers.aggregators.late import CrossAttention, LateInteraction
from longrank.rankers.aggregators.model1 import Model1
from longrank.rankers.aggregators.scores import FirstScore, MaxScore, MeanScore, SumScore, TopScores
from longrank.rankers.aggregators.transformer import TransformerVector, VectorReader, random_encoder
from longrank.rankers.aggregators.vectors import AttentionVector, ConvolutionVector, MaxVector, MeanVector, SumVector

__all__ = [
    "AttentionVector",
    "ConvolutionVector",
    "CrossAttention",
    "Drmm",
    "FirstScore",
    "KernelPool",
    "LateInteraction",
    "MaxScore",
    "MaxVector",
    "MeanScore",
    "MeanVector",
    "Model1",
    "Pacrr",
    "SumScore",
    "SumVector",
    "TopScores",
    "TransformerVector",
    "VectorReader",
    "random_encoder",
]
