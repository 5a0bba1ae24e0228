"""Relevant documents by rank bin and by the retriever that found them."""

from itertools import pairwise

import pytest

from longrank.core.errors import DataError, SettingsError
from longrank.core.types import Qrels, Run
from longrank.evaluation.distribution import BINS, Bin, rank_distribution, split_by_retriever

BM25 = Run("bm25", {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"x": 1.0}})
RM3 = Run("rm3", {"q1": {"b": 3.0, "d": 2.0, "n": 1.0}, "q2": {"y": 2.0, "x": 1.0}})
QRELS = Qrels({"q1": {"a": 1, "b": 2, "d": 1, "n": 0}, "q2": {"x": 1}, "q3": {"z": 1}})


def test_relevant_documents_are_split_by_who_found_them() -> None:
    found = split_by_retriever(BM25, RM3, QRELS)
    assert found.both == {("q1", "b"), ("q2", "x")}
    assert found.only_first == {("q1", "a")}
    assert found.only_second == {("q1", "d")}
    assert found.queries == 2  # q3 is in neither run


def test_depth_and_grade_limit_what_counts_as_found() -> None:
    assert split_by_retriever(BM25, RM3, QRELS, depth=1).both == set()
    assert split_by_retriever(BM25, RM3, QRELS, relevant_from=2).parts == {
        "both": {("q1", "b")},
        "only first": set(),
        "only second": set(),
    }


def test_bins_average_over_queries_and_sum_to_the_documents_found() -> None:
    found = split_by_retriever(BM25, RM3, QRELS)
    bins = [Bin(1, 1), Bin(2, 3)]
    distribution = rank_distribution(RM3, found, bins=bins)
    # b is first for q1 and x second for q2: one each over two queries; d is second; bm25's a is not in this run
    assert distribution.averages == {"both": (0.5, 0.5), "only first": (0.0, 0.0), "only second": (0.0, 0.5)}


def test_the_papers_bins_cover_a_thousand_ranks_without_gaps() -> None:
    assert (BINS[0], BINS[9], BINS[10], BINS[-1]) == ((1, 10), (91, 100), (101, 200), (901, 1000))
    assert all(left.last + 1 == right.first for left, right in pairwise(BINS))
    assert str(BINS[10]) == "101-200"


def test_overlapping_bins_and_foreign_runs_are_refused() -> None:
    found = split_by_retriever(BM25, RM3, QRELS)
    with pytest.raises(SettingsError, match="overlap"):
        rank_distribution(BM25, found, bins=[Bin(1, 10), Bin(10, 20)])
    with pytest.raises(DataError, match="no judged query"):
        split_by_retriever(Run("a", {"p": {"x": 1.0}}), Run("b", {}), QRELS)
