"""Backbones as embedders."""

from pathlib import Path

import numpy as np
import pytest

from longrank.chunking.splitters import Greedy
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import Document, Query
from longrank.encoders.tiny import tiny
from longrank.retrieval.dense import Dense
from longrank.retrieval.embedding import backbone_embedder, chunker


def test_a_vector_does_not_depend_on_its_batch() -> None:
    embed = backbone_embedder(tiny().eval(), token_budget=64, max_tokens=16)
    texts = ["a red fox", "", "hen", "many words " * 30]
    together = embed(texts)
    assert together.shape[0] == 4 and np.isfinite(together).all()
    for text, vector in zip(texts, together, strict=True):
        assert embed([text])[0] == pytest.approx(vector, abs=1e-5)


def test_the_end_of_a_long_text_changes_its_vector() -> None:
    embed = backbone_embedder(tiny().eval(), max_tokens=16)
    start = "many words " * 30
    one, other = embed([start + "fox", start + "pond"])
    assert not np.allclose(one, other, atol=1e-6)


def test_chunks_are_the_texts_of_the_spans() -> None:
    chunk = chunker(WordTokenizer(), Greedy(2, max_chunks=9))
    assert list(chunk("one two, three")) == ["one two", ", three"]
    assert list(chunk("")) == [""]


def test_a_document_is_found_by_its_own_words(tmp_path: Path) -> None:
    backbone = tiny().eval()
    chunk = chunker(WordTokenizer(), Greedy(6, max_chunks=9))
    documents = [Document("far", "x y z u v w the quiet pond at night yes"), Document("no", "a b c d e f")]
    index = Dense.build(documents, tmp_path / "dense", backbone_embedder(backbone), chunk=chunk)
    assert index.retrieve([Query("q", "the quiet pond at night yes")], depth=2).scores["q"]["far"] > 0.999
