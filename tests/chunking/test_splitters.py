from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.chunking.batching import token_budget_batches
from longrank.chunking.splitters import EvenWindows, Greedy, Sampled, Sentences, Sliding, Truncate
from longrank.chunking.tokenizers import CachedTokenizer, SubwordTokenizer, WordTokenizer, bert_tokenizer
from longrank.core.contracts import Splitter, Tokenizer
from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import TokenizedText

TOKENIZER = WordTokenizer()
SPLITTERS: list[Splitter] = [
    Truncate(7),
    Greedy(5),
    Greedy(5, 2),
    Sliding(6, 4),
    Sliding(6, 4, 13),
    EvenWindows(6, 4),
    EvenWindows(6, 4, 13),
    Sentences(8),
]


def words(count: int) -> TokenizedText:
    return TOKENIZER.tokenize(" ".join(f"w{i}" for i in range(count)))


def bounds(splitter: Splitter, count: int) -> list[tuple[int, int]]:
    return [(span.start, span.stop) for span in splitter.split(words(count)).spans]


def test_greedy_keeps_the_last_short_chunk() -> None:
    assert bounds(Greedy(477), 500) == [(0, 477), (477, 500)]


@pytest.mark.parametrize(
    ("size", "stride", "count"),
    [(150, 100, 14), (150, 75, 19), (150, 50, 27), (300, 200, 7), (75, 50, 29), (35, 25, 57)],
)
def test_sliding_gives_the_papers_window_counts_for_1431_tokens(size: int, stride: int, count: int) -> None:
    assert len(bounds(Sliding(size, stride), 1431)) == count


@pytest.mark.parametrize(("tokens", "count"), [(8109, 81), (32768, 328)])
def test_sliding_counts_for_long_documents(tokens: int, count: int) -> None:
    assert len(bounds(Sliding(150, 100), tokens)) == count


def test_even_windows_end_with_a_whole_one_where_sliding_leaves_a_rest() -> None:
    assert bounds(Sliding(200, 150), 360) == [(0, 200), (150, 350), (300, 360)]
    assert bounds(EvenWindows(200, 150), 360) == [(0, 200), (80, 280), (160, 360)]


@given(count=st.integers(1, 300), size=st.integers(1, 40), data=st.data())
def test_even_windows_are_as_many_as_sliding_ones_all_of_one_size_and_evenly_apart(
    count: int, size: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, size))
    even = bounds(EvenWindows(size, stride), count)
    assert len(even) == len(bounds(Sliding(size, stride), count))
    assert {stop - start for start, stop in even} == {min(size, count)}
    steps = [later - start for (start, _), (later, _) in pairwise(even)]
    assert not steps or max(steps) <= stride
    assert not steps or max(steps) - min(steps) <= 1


def test_the_end_of_a_text_can_have_a_window_of_its_own() -> None:
    windows = EvenWindows(200, 150, end_alone=True)
    assert bounds(windows, 360) == [(0, 200), (80, 280), (160, 360), (210, 360)]
    assert bounds(windows, 200) == [(0, 200)], "one window is enough"
    assert bounds(EvenWindows(200, 200, end_alone=True), 360) == bounds(EvenWindows(200, 200), 360)


@pytest.mark.parametrize("splitter", [*SPLITTERS, Sampled(Greedy(3), 4)])
def test_an_empty_text_keeps_one_empty_span(splitter: Splitter) -> None:
    assert bounds(splitter, 0) == [(0, 0)]


@pytest.mark.parametrize("splitter", SPLITTERS)
@given(count=st.integers(1, 60))
def test_spans_are_in_order_without_gap_and_cover_what_is_kept(splitter: Splitter, count: int) -> None:
    spans = bounds(splitter, count)
    assert spans[0][0] == 0
    for (start, stop), (next_start, next_stop) in pairwise(spans):
        assert start < next_start <= stop < next_stop
    assert all(0 < stop - start <= splitter.longest for start, stop in spans)
    assert spans[-1][1] <= count
    assert splitter.split(words(count)).cut_tokens == count - spans[-1][1]


@given(count=st.integers(1, 80), keep=st.integers(2, 6), seed=st.integers(0, 3))
def test_sampled_keeps_first_and_last_and_draws_the_middle_from_the_text(count: int, keep: int, seed: int) -> None:
    inner = Greedy(4)
    every, kept = bounds(inner, count), bounds(Sampled(inner, keep, seed), count)
    assert kept[0] == every[0]
    assert kept[-1] == every[-1]
    assert len(kept) == min(keep, len(every))
    assert kept == sorted(set(kept) & set(every))
    assert kept == bounds(Sampled(inner, keep, seed), count)


def test_sampled_draws_differ_between_seeds() -> None:
    draws = {tuple(bounds(Sampled(Greedy(2), 5, seed), 80)) for seed in range(6)}
    assert len(draws) > 1


def test_sentences_end_chunks_where_they_can() -> None:
    text = TOKENIZER.tokenize("One two three. Four five. Six seven eight nine ten eleven. Twelve.")
    spans = [text.text[slice(*_chars(text, s.start, s.stop))] for s in Sentences(8).split(text).spans]
    assert spans == ["One two three. Four five.", "Six seven eight nine ten eleven.", "Twelve."]


def _chars(text: TokenizedText, start: int, stop: int) -> tuple[int, int]:
    return int(text.char_starts[start]), int(text.char_stops[stop - 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Truncate(0),
        lambda: Greedy(0),
        lambda: Greedy(3, 0),
        lambda: Sliding(4, 0),
        lambda: Sliding(4, 5),
        lambda: Sampled(Greedy(3), 1),
    ],
)
def test_impossible_sizes_are_refused(make: object) -> None:
    with pytest.raises(SettingsError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("tokenizer", [TOKENIZER, CachedTokenizer(TOKENIZER), bert_tokenizer()])
@given(text=st.text(max_size=60))
def test_offsets_point_into_the_text_in_order(tokenizer: Tokenizer, text: str) -> None:
    found = tokenizer.tokenize(text)
    assert (found.char_starts >= 0).all()
    assert (found.char_stops <= len(text)).all()
    assert (found.char_starts <= found.char_stops).all()
    assert (np.diff(found.char_starts) >= 0).all()


def test_the_bert_vocabulary_neither_cuts_nor_frames() -> None:
    text = bert_tokenizer().tokenize("walk " * 1000)
    assert len(text) == 1000  # the published file would cut at 128 and add [CLS] and [SEP]


def test_a_cache_forgets_the_oldest_texts_first() -> None:
    class Counting:
        name = "counting"
        calls = 0

        def tokenize(self, text: str) -> TokenizedText:
            Counting.calls += 1
            return TOKENIZER.tokenize(text)

    cached = CachedTokenizer(Counting(), max_tokens=4)
    for text in ("a b", "c d", "a b", "e f", "a b", "c d"):  # 'c d' is dropped when 'e f' comes
        cached.tokenize(text)
    assert Counting.calls == 4


def test_a_missing_tokenizer_file_is_named() -> None:
    from pathlib import Path

    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        SubwordTokenizer(Path("nowhere/tokenizer.json"), name="x")


@given(st.lists(st.integers(0, 30), max_size=25), st.integers(1, 40))
def test_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = token_budget_batches(lengths, budget=budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[row] for row in batch) <= budget
