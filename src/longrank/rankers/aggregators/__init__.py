"""From the states of a document's chunks to one score: a module a family."""

from longrank.rankers.aggregators.scores import FirstScore, MaxScore, MeanScore, SumScore, TopScores
from longrank.rankers.aggregators.transformer import TransformerVector
from longrank.rankers.aggregators.vectors import AttentionVector, MaxVector, MeanVector, SumVector

__all__ = [
    "AttentionVector",
    "FirstScore",
    "MaxScore",
    "MaxVector",
    "MeanScore",
    "MeanVector",
    "SumScore",
    "SumVector",
    "TopScores",
    "TransformerVector",
]
