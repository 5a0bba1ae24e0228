"""Candidates for the rankers: BM25, feedback, expansion, dense and hybrid retrieval, fusion and pseudo-labels."""

from longrank.retrieval.analysis import AnalysisSettings, Analyzer
from longrank.retrieval.bm25 import BM25, BM25Settings

__all__ = ["BM25", "AnalysisSettings", "Analyzer", "BM25Settings"]
