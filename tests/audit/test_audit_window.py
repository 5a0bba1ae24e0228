"""Windows are found to the word, whatever is cut."""

from collections.abc import Sequence

import numpy as np
import pytest

from longrank.audit.planted import Noisy, RandomScores, Windowed, WordMatch
from longrank.audit.window import probe_window
from longrank.audit.wrappers import chunk_max, chunk_mean
from longrank.core.errors import BudgetSpent, ModelError, SettingsError
from longrank.core.types import Document, Query, Scores
from longrank.rankers.adapters import FunctionRanker

SCORER = WordMatch.fitted(["plain words here " * 70, "other text " * 100])
CUTS = {"right": "end", "left": "start", "middle": "middle", "longest": "end"}


@pytest.mark.parametrize("side", CUTS)
@pytest.mark.parametrize(("window", "longest"), [(37, 512), (512, 1024)])
def test_windows_are_recovered_under_every_kind_of_cut(window: int, side: str, longest: int) -> None:
    found = probe_window(Windowed(SCORER, window, side), longest=longest, queries=1)
    shared = found.query_words if side == "longest" else 0
    assert found.words == window - shared
    assert found.cut == CUTS[side]
    assert found.gives_way == ("longer of query and document" if side == "longest" else "neither")
    assert found.query_cut == (side == "longest")


@pytest.mark.slow
@pytest.mark.parametrize("side", CUTS)
@pytest.mark.parametrize("window", [37, 512, 4096])
def test_windows_are_recovered_from_long_texts(window: int, side: str) -> None:
    found = probe_window(Windowed(SCORER, window, side))
    assert found.words == window - (found.query_words if side == "longest" else 0)
    assert (found.cut, found.agreeing) == (CUTS[side], 3)


def test_a_window_of_four_thousand_words_takes_few_calls() -> None:
    found = probe_window(Windowed(SCORER, 4096), queries=1)
    assert found.words == 4096
    assert found.suffix_cut
    assert found.documents < 60  # two bisections of 13 steps, the re-runs and the tests of chunks


def test_a_ranker_that_reads_all_is_said_to() -> None:
    found = probe_window(SCORER, longest=512, queries=1)
    assert (found.words, found.cut, found.combines) == (None, "nothing", "whole text")


def test_the_best_chunk_is_told_from_the_mean_of_chunks() -> None:
    best = probe_window(chunk_max(SCORER, size=64, stride=32), longest=512, queries=1)
    mean = probe_window(chunk_mean(SCORER, size=64, stride=64), longest=512, queries=1)
    assert best.combines == "best chunk"
    assert mean.combines == "mean of chunks"
    assert best.words is mean.words is None


def test_which_words_occur_is_not_mistaken_for_the_best_chunk() -> None:
    overlap = FunctionRanker(lambda query, texts: [len(set(query.split()) & set(text.split())) for text in texts])
    assert probe_window(overlap, longest=512, queries=1).combines == "whole text"


def test_a_ranker_that_fails_on_a_long_text_is_named_with_its_length() -> None:
    def short_only(query: str, texts: list[str]) -> list[float]:
        if len(texts[0].split()) > 100:
            raise MemoryError("too long")
        return [1.0]

    with pytest.raises(ModelError, match=r"a text of 256 words \(MemoryError: too long\)"):
        probe_window(FunctionRanker(short_only), longest=256, queries=1)


def test_noise_does_not_move_the_window() -> None:
    noisy = Noisy(Windowed(SCORER, 100), 1e-3, np.random.default_rng(1))
    found = probe_window(noisy, longest=256, queries=3)
    assert found.words == 100
    assert found.noise > 0


def test_characters_and_tokens_belong_to_the_words_read() -> None:
    found = probe_window(Windowed(SCORER, 3), longest=64, queries=1)
    assert (found.words, found.tokens) == (3, 3)
    assert found.characters == len("time people year")


def test_scores_like_a_hash_react_everywhere() -> None:
    assert probe_window(RandomScores(), longest=64, queries=1).cut == "nothing"


class Impatient:
    """Reads 37 words, and fails on queries longer than those of the probe itself."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        if len(query.text.split()) > 3:
            raise self.failure
        return Windowed(SCORER, 37).score(query, documents)


def test_money_that_ends_while_long_queries_are_tried_ends_the_probe() -> None:
    with pytest.raises(BudgetSpent, match="no money"):
        probe_window(Impatient(BudgetSpent("no money")), longest=256, queries=1)


@pytest.mark.parametrize("failure", [ModelError("too long"), ValueError("too long")])
def test_a_ranker_that_refuses_long_queries_still_has_its_window_found(failure: Exception) -> None:
    found = probe_window(Impatient(failure), longest=256, queries=1)
    assert (found.words, found.cut, found.gives_way, found.query_cut) == (37, "end", "neither", False)


def test_texts_too_short_to_probe_with_are_refused() -> None:
    with pytest.raises(SettingsError, match="64 words"):
        probe_window(SCORER, longest=10)
