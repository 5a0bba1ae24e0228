"""Steps of several requests, however they are mixed, give the scores that the ranker gives at once."""

import random
import time
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.chunking.splitters import Sliding, Truncate
from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer
from longrank.core.contracts import Ranker
from longrank.core.errors import BadScore, DataError
from longrank.core.types import Document, Query, Scores
from longrank.encoders.tiny import tiny as tiny_backbone
from longrank.rankers.cross_encoder import TwoSeparators
from longrank.rankers.embedding import EmbeddingRanker
from longrank.rankers.explain import explain
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import RANKERS, build_ranker
from longrank.serving.readers import (
    EmbeddingReader,
    NeuralReader,
    Opened,
    Reader,
    Reading,
    Stretch,
    WholeReader,
    reader_of,
)
from longrank.serving.tokens import PatientTokenizer, patient
from longrank.testing import WordOverlapRanker, tiny_spec

RNG = random.Random(3)
WORDS = [f"word{n}" for n in range(300)]
TEXTS = ["", "one", *(" ".join(RNG.choices(WORDS, k=length)) for length in (5, 39, 40, 41, 130, 199, 200, 201, 700))]
QUERIES = ["word1 word2 word3", "word7", " ".join(WORDS[:60])]


def tiny_ranker(name: str = "maxp", **params: object) -> NeuralRanker:
    return build_ranker(tiny_spec(name, **params)).eval()


def embedding() -> EmbeddingRanker:
    backbone = tiny_backbone(dim=24, vocabulary=997, pooling="mean").eval()
    return EmbeddingRanker(backbone, Sliding(40, 30), query_prefix="ask: ", document_prefix="text: ")


def two_separators() -> NeuralRanker:
    """Windows laid out as cross-encoders of the RoBERTa family want them."""
    ranker = tiny_ranker("maxp", **WINDOWS)
    return NeuralRanker(ranker.splitter, TwoSeparators(33), ranker.backbone, ranker.aggregator).eval()


WINDOWS = {"size": 40, "stride": 30, "max_tokens": 200}
OTHERS: dict[str, Callable[[], Ranker]] = {
    "windows": lambda: tiny_ranker("maxp", **WINDOWS),
    "published": lambda: tiny_ranker("maxp", **WINDOWS, compat="published"),
    "two-separators": two_separators,
    "embedding": embedding,
    "embedding-cut": lambda: EmbeddingRanker(tiny_backbone(dim=24, vocabulary=997, pooling="mean"), Truncate(50)),
    "function": lambda: WordOverlapRanker(words=30),
}


@cache
def ranker_called(name: str) -> Ranker:
    return OTHERS[name]() if name in OTHERS else tiny_ranker(name)


def read(reader: Reader, query: str, texts: Sequence[str], *, parts: bool = False) -> list[Reading]:
    """All texts, their steps in a few uneven stretches."""
    asked = reader.ask(query, parts=parts, each=False)
    opened = [reader.open(asked, text, most_tokens=None) for text in texts]
    with torch.inference_mode():
        for text in opened:
            middle = len(text.costs) // 3
            bounds = [(0, middle), (middle, len(text.costs))] if middle else [(0, len(text.costs))]
            for start, stop in bounds:
                reader.run([Stretch(text, start, stop)])
        return reader.close(opened)


@pytest.mark.parametrize("name", [*OTHERS, *(entry.name for entry in RANKERS if entry.name != "longp")])
def test_steps_give_the_scores_and_the_cut_of_the_ranker_itself(name: str) -> None:
    ranker = ranker_called(name)
    reader = reader_of(ranker, batch_tokens=300)
    for query in QUERIES[1:]:
        direct = ranker.score(Query("q", query), [Document(str(n), text) for n, text in enumerate(TEXTS)])
        found = read(reader, query, TEXTS)
        assert [reading.score for reading in found] == pytest.approx(direct.values, rel=1e-5, abs=2e-5)
        assert sum(reading.cut_documents for reading in found) == direct.cut_documents
        assert sum(reading.cut_tokens for reading in found) == direct.cut_tokens
        assert {reading.cut_query_tokens for reading in found} == {direct.cut_query_tokens}


def test_a_ranker_is_taken_apart_as_finely_as_it_allows() -> None:
    def kind(name: str) -> type:
        return type(reader_of(ranker_called(name), batch_tokens=300))

    assert kind("maxp") is kind("parade-transformer") is kind("select-k") is kind("published") is NeuralReader
    assert kind("two-separators") is NeuralReader
    assert kind("embedding") is EmbeddingReader
    assert kind("cedr-knrm") is kind("function") is WholeReader  # the first keeps token states
    assert isinstance(reader_of(ranker_called("maxp"), batch_tokens=300, listwise=True), WholeReader)


@pytest.mark.parametrize("name", ["windows", "embedding"])
def test_steps_of_several_queries_share_a_batch_and_keep_apart(name: str) -> None:
    reader = reader_of(ranker_called(name), batch_tokens=500)
    alone = {query: read(reader, query, TEXTS) for query in QUERIES}
    opened: dict[str, list[Opened]] = {}
    for query in QUERIES:
        asked = reader.ask(query, parts=False, each=False)
        opened[query] = [reader.open(asked, text, most_tokens=None) for text in TEXTS]
    mixed = [Stretch(text, n, n + 1) for texts in opened.values() for text in texts for n in range(len(text.costs))]
    mixed.sort(key=lambda stretch: stretch.start)
    with torch.inference_mode():
        reader.run(mixed)
        for query in QUERIES:
            found = [reading.score for reading in reader.close(opened[query])]
            assert found == pytest.approx([reading.score for reading in alone[query]], abs=2e-5)


def test_parts_are_the_windows_and_the_best_of_them_makes_the_score() -> None:
    ranker = tiny_ranker("maxp", **WINDOWS)
    text = TEXTS[-1]
    (found,) = read(reader_of(ranker, batch_tokens=300), QUERIES[0], [text], parts=True)
    expected = explain(ranker, Query("q", QUERIES[0]), Document("d", text))
    assert [part.chars for part in found.parts] == [chunk.chars for chunk in expected.chunks]
    assert [part.value for part in found.parts] == pytest.approx([chunk.value for chunk in expected.chunks], abs=1e-5)
    assert max(part.value for part in found.parts) == pytest.approx(found.score, abs=1e-6)
    # the first 200 of 700 words are read: reading ends with word 200
    assert found.read_to == WordTokenizer().tokenize(text).char_stops[199]
    assert found.cut_tokens == 500


def test_a_part_of_another_aggregator_scores_as_a_document_that_is_only_this_part() -> None:
    ranker = tiny_ranker("parade-attn", **WINDOWS)
    text = " ".join(WORDS[:100])
    (found,) = read(reader_of(ranker, batch_tokens=300), "word5", [text], parts=True)
    pieces = [Document(str(n), text[part.chars.start : part.chars.stop]) for n, part in enumerate(found.parts)]
    alone = ranker.score(Query("q", "word5"), pieces).values
    assert [part.value for part in found.parts] == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("name", ["windows", "embedding", "function"])
def test_the_most_tokens_of_a_document_cut_it_and_count_what_they_cut(name: str) -> None:
    ranker = ranker_called(name)
    reader = reader_of(ranker, batch_tokens=300)
    asked = reader.ask("word1", parts=False, each=False)
    opened = reader.open(asked, TEXTS[6], most_tokens=20)  # of 130 words
    with torch.inference_mode():
        reader.run([Stretch(opened, 0, len(opened.costs))])
        (found,) = reader.close([opened])
    (direct,) = ranker.score(Query("q", "word1"), [Document("d", " ".join(TEXTS[6].split()[:20]))]).values
    assert found.score == pytest.approx(direct, abs=1e-5)
    assert (found.cut_documents, found.cut_tokens) == (1, 110)


class Broken:
    def __init__(self, values: list[float]) -> None:
        self.values = values

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        return Scores(self.values)


def test_a_ranker_that_gives_no_number_or_too_few_is_found_out() -> None:
    with pytest.raises(BadScore, match="not finite"):
        read(reader_of(Broken([float("nan")]), batch_tokens=10), "q", ["a"])
    with pytest.raises(DataError, match="2 scores for 1"):
        read(reader_of(Broken([1.0, 2.0]), batch_tokens=10), "q", ["a"])


@settings(max_examples=60)
@given(st.text(alphabet="ab é\n\t .,'-ｘ東", max_size=200), st.integers(1, 30))
def test_tokens_made_in_pieces_are_those_of_the_whole_text(text: str, piece: int) -> None:
    for inner in (WordTokenizer(), bert_tokenizer()):
        whole, pieces = inner.tokenize(text), PatientTokenizer(inner, piece).tokenize(text)
        assert np.array_equal(whole.ids, pieces.ids)
        assert np.array_equal(whole.char_starts, pieces.char_starts)
        assert np.array_equal(whole.char_stops, pieces.char_stops)


def test_a_text_that_ends_in_much_white_space_is_read_at_once() -> None:
    text = "word " * 4_000 + " " * 100_000
    before = time.perf_counter()
    assert len(PatientTokenizer(WordTokenizer()).tokenize(text)) == 4_000
    assert time.perf_counter() - before < 5  # a search that looks ahead from every space takes a minute


class FirstWordTokenizer:
    """A tokenizer that treats the first word of a text in a way of its own."""

    name = "first"

    def tokenize(self, text: str):  # type: ignore[no-untyped-def]
        found = WordTokenizer().tokenize(text)
        found.ids[:1] += 1
        return found


def test_a_tokenizer_that_pieces_would_change_gets_whole_texts() -> None:
    odd = FirstWordTokenizer()
    assert patient(odd) is odd
    assert isinstance(patient(WordTokenizer()), PatientTokenizer)
