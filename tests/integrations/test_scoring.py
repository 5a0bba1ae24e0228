import importlib
import sys
import warnings
from collections.abc import Sequence

import pytest

from longrank.core.errors import LongrankError, MissingExtra
from longrank.core.types import Document, Query, Scores
from longrank.integrations.scoring import TextCut, as_ranker, best_first, score_pairs, score_texts
from longrank.rankers.zoo import build_ranker
from longrank.testing import WordOverlapRanker, tiny_spec

ADAPTERS = {
    "haystack": ("haystack", "haystack"),
    "langchain": ("langchain_core", "langchain"),
    "llama_index": ("llama_index.core", "llama-index"),
    "mteb": ("mteb", "mteb"),
    "pyterrier": ("pyterrier", "pyterrier"),
    "rerankers": ("rerankers", "rerankers"),
}


class Counting:
    """Counts its calls; a score is the length of the text."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.calls.append((query.text, len(documents)))
        return Scores([len(document.text) for document in documents])


def test_neighbouring_pairs_with_one_query_are_scored_in_one_call_and_keep_their_order() -> None:
    ranker = Counting()
    pairs = [("a", "x"), ("a", "xxx"), ("b", "xx"), ("a", "")]
    assert score_pairs(ranker, pairs) == [1.0, 3.0, 2.0, 0.0]
    assert ranker.calls == [("a", 2), ("b", 1), ("a", 1)]


def test_text_that_is_cut_is_told_and_text_that_is_not_is_not() -> None:
    with pytest.warns(TextCut, match=r"1 of 2 documents .* \(3 tokens"):
        score_texts(WordOverlapRanker(words=2), "fox", ["a red fox in snow", "a fox"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert score_texts(WordOverlapRanker(), "fox", ["a red fox in snow", "a fox"]) == [1.0, 1.0]
        assert score_texts(WordOverlapRanker(words=2), "fox", []) == []


def test_a_query_that_is_cut_is_told() -> None:
    ranker = build_ranker(tiny_spec("maxp", query_tokens=2))
    with pytest.warns(TextCut, match="1 tokens at the end of the query"):
        score_texts(ranker, "a red fox", ["a fox"])


def test_ties_keep_the_order_given_and_a_depth_is_kept() -> None:
    assert best_first([0.5, 2.0, 0.5, 2.0]) == [1, 3, 0, 2]
    assert best_first([0.5, 2.0, 0.5, 2.0], top=3) == [1, 3, 0]


def test_a_ranker_may_be_given_by_name_and_an_unknown_name_is_refused() -> None:
    assert as_ranker("longrank.testing:WordOverlapRanker")  # a callable of that module: taken as a scoring function
    with pytest.raises(LongrankError, match="no ranker 'nowhere'"):
        as_ranker("nowhere")


@pytest.mark.parametrize("module", ADAPTERS)
def test_a_missing_framework_is_named_with_what_installs_it(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra = ADAPTERS[module]
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"longrank.integrations.{module}", raising=False)
    with pytest.raises(MissingExtra, match=rf"pip install 'longrank\[{extra}\]'"):
        importlib.import_module(f"longrank.integrations.{module}")
