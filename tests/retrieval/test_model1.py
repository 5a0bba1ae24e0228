"""Model 1: EM by hand, planted translations, and the score written out."""

import math
from pathlib import Path

import numpy as np
import pytest

from longrank.core.errors import DataError, TrainingError
from longrank.core.types import Document, Query, Run
from longrank.retrieval import BM25, AnalysisSettings, Analyzer
from longrank.retrieval.model1 import Model1, Model1Settings, TrainingSettings, TranslationTable, train_model1

PLAIN = TrainingSettings(iterations=1, prune_below=0.0, null_word=False)


def test_one_and_two_iterations_are_the_hand_worked_ones() -> None:
    pairs = [("x", "a b"), ("x y", "a")]
    # first: pair 1 splits x over a and b, 1/2 each; pair 2 gives x and y to a
    # counts of a: x 1.5, y 1 -> 0.6, 0.4; of b: x 0.5 -> 1
    table = train_model1(pairs, Analyzer(), PLAIN)
    found = [table.probability(*pair) for pair in (("x", "a"), ("y", "a"), ("x", "b"))]
    assert found == pytest.approx([0.6, 0.4, 1.0])
    # second: pair 1 splits x by 0.6 : 1, so a gets 0.375; counts of a: x 1.375, y 1
    table = train_model1(pairs, Analyzer(), PLAIN.model_copy(update={"iterations": 2}))
    assert table.probability("x", "a") == pytest.approx(1.375 / 2.375)


def test_repeated_passage_words_count_as_often_as_they_occur() -> None:
    # x is explained by a (twice) and b (once): 2/3 and 1/3; y only by b
    table = train_model1([("x", "a a b"), ("y", "b")], Analyzer(), PLAIN)
    assert table.probability("x", "b") == pytest.approx((1 / 3) / (1 / 3 + 1))


def test_planted_translations_are_recovered_and_the_rest_is_pruned() -> None:
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(600):
        chosen = rng.choice(20, size=6, replace=False)
        asked = " ".join(f"q{n}" for n in chosen[:2])
        pairs.append((f"{asked} noise", " ".join(f"d{n}" for n in chosen)))
    table = train_model1(pairs, Analyzer(), TrainingSettings(iterations=10, prune_below=0.05))
    for n in range(20):
        translations = {f"q{m}": table.probability(f"q{m}", f"d{n}") for m in range(20)}
        assert max(translations, key=translations.__getitem__) == f"q{n}"
        assert translations[f"q{n}"] > 0.5
    full = train_model1(pairs, Analyzer(), TrainingSettings(iterations=10, prune_below=0.0))
    assert len(table) < len(full) / 5
    assert (table.probabilities >= 0.05).all()


def test_the_table_sums_to_one_for_each_passage_word() -> None:
    table = train_model1([("x y", "a b"), ("y z", "b c")], Analyzer(), PLAIN)
    for word in "abc":
        assert sum(table.probability(target, word) for target in "xyz") == pytest.approx(1.0)


def test_no_usable_pair_is_an_error() -> None:
    with pytest.raises(TrainingError, match="at least one pair"):
        train_model1([("", "a"), ("the", "of")], Analyzer(AnalysisSettings(stop_words="english")))


def test_a_saved_table_is_the_same(tmp_path: Path) -> None:
    table = train_model1([("x é", "a b"), ("x y", "a")], Analyzer(), PLAIN)
    table.save(tmp_path / "table")
    again = TranslationTable.load(tmp_path / "table")
    assert again.terms == table.terms
    assert again.probability("é", "b") == table.probability("é", "b") > 0
    with pytest.raises(DataError, match="no readable translation table"):
        TranslationTable.load(tmp_path)


def test_the_score_is_the_hand_worked_one(tmp_path: Path) -> None:
    index = BM25.build([Document("d1", "a a b"), Document("d2", "x"), Document("d3", "c")], tmp_path / "index")
    table = train_model1([("x", "a b"), ("x y", "a")], Analyzer(), PLAIN)
    model = Model1(table, index, Model1Settings(self_translation=0.05, background=0.1, min_probability=0.0))
    row = model.rescore([Query("q", "x w")], Run("r", {"q": {"d1": 1.0, "d2": 1.0, "d3": 1.0}})).scores["q"]
    # x: P(x|C) = 1/5. d1: T(x|a) = 0.95 * 0.6 with share 2/3, T(x|b) = 0.95 * 1 with share 1/3
    # d2: only the self-translation, 0.05. w is nowhere: it adds ln(floor) - ln(floor) = 0. Mean over two words.
    d1 = math.log((0.9 * (0.95 * 0.6 * 2 / 3 + 0.95 / 3) + 0.02) / 0.02) / 2
    d2 = math.log((0.9 * 0.05 + 0.02) / 0.02) / 2
    assert row == pytest.approx({"d1": d1, "d2": d2, "d3": 0.0}, rel=1e-5)


def test_small_probabilities_are_not_used(tmp_path: Path) -> None:
    index = BM25.build([Document("d1", "a"), Document("d2", "b")], tmp_path / "index")
    table = train_model1([("x", "a b"), ("x y", "a")], Analyzer(), PLAIN)
    model = Model1(table, index, Model1Settings(min_probability=0.7))
    row = model.rescore([Query("q", "x")], Run("r", {"q": {"d1": 1.0, "d2": 1.0}})).scores["q"]
    assert row["d1"] == 0.0 and row["d2"] > 0


def test_empty_queries_documents_and_rows_score_zero(tmp_path: Path) -> None:
    index = BM25.build([Document("d1", ""), Document("d2", "a")], tmp_path / "index")
    model = Model1(train_model1([("x", "a")], Analyzer(), PLAIN), index)
    candidates = Run("r", {"empty": {"d2": 1.0}, "q": {"d1": 1.0}, "none": {}})
    queries = [Query("empty", ""), Query("q", "x"), Query("none", "x")]
    assert model.rescore(queries, candidates).scores == {"empty": {"d2": 0.0}, "q": {"d1": 0.0}, "none": {}}


def test_queries_do_not_disturb_each_other(tmp_path: Path) -> None:
    index = BM25.build([Document("d1", "a a b"), Document("d2", "x y")], tmp_path / "index")
    model = Model1(train_model1([("x", "a b"), ("x y", "a")], Analyzer(), PLAIN), index)
    candidates = Run("r", {q: {"d1": 1.0, "d2": 1.0} for q in ("one", "two")})
    together = model.rescore([Query("one", "x"), Query("two", "y")], candidates)
    alone = model.rescore([Query("two", "y")], candidates)
    assert together.scores["two"] == alone.scores["two"]
