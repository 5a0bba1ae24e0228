"""Runs and judgements to numbers one can trust: measures, tests, comparisons. Knows no model."""

from longrank.evaluation.columns import RunColumns, read_columns
from longrank.evaluation.comparison import Comparison, Estimate, compare
from longrank.evaluation.measures import Evaluation, PerQuery, evaluate, evaluate_columns, evaluate_run
from longrank.evaluation.pooling import average_seeds, join_collections, pool

__all__ = [
    "Comparison",
    "Estimate",
    "Evaluation",
    "PerQuery",
    "RunColumns",
    "average_seeds",
    "compare",
    "evaluate",
    "evaluate_columns",
    "evaluate_run",
    "join_collections",
    "pool",
    "read_columns",
]
