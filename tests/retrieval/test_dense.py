"""Dense retrieval against plain loops, with embeddings that a reader can follow."""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from longrank.core.contracts import Retriever
from longrank.core.errors import DataError, MissingExtra, ModelError, SettingsError, StaleIndex
from longrank.core.types import Document, Query, Run
from longrank.retrieval import dense
from longrank.retrieval.ann import Approximate
from longrank.retrieval.dense import Dense, DenseSettings

Pooling = Literal["max", "mean", "first"]
AXES = ("fox", "hen", "pond")


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """One axis a known word: the vector counts them."""
    return np.array([[text.split().count(word) for word in AXES] for text in texts], dtype=np.float32)


def by_bar(text: str) -> list[str]:
    return text.split("|")


DOCUMENTS = [
    Document("a", "hen|fox"),
    Document("b", "fox fox|pond|pond"),
    Document("c", "fox hen"),
    Document("d", ""),
]


def build(folder: Path, pooling: Pooling = "max", dtype: Literal["float32", "float16"] = "float32") -> Dense:
    chosen = DenseSettings(model="counts", pooling=pooling, dtype=dtype, batch_texts=2)
    return Dense.build(iter(DOCUMENTS), folder / "dense", embed, chunk=by_bar, settings=chosen)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        # cosines of 'fox' with the chunks: a: 0, 1; b: 1, 0, 0; c: 1 / sqrt 2; d: nothing
        ("max", {"a": 1.0, "b": 1.0, "c": 0.5**0.5, "d": 0.0}),
        ("mean", {"a": 1 / 2, "b": 1 / 3, "c": 0.5**0.5, "d": 0.0}),
        ("first", {"a": 0.0, "b": 1.0, "c": 0.5**0.5, "d": 0.0}),
    ],
)
def test_chunks_are_pooled_as_worked_by_hand(tmp_path: Path, pooling: Pooling, expected: dict[str, float]) -> None:
    index = build(tmp_path, pooling)
    assert isinstance(index, Retriever)
    run = index.retrieve([Query("q", "fox")], depth=10)
    assert run.scores["q"] == pytest.approx(expected, abs=1e-6)
    assert index.rescore([Query("q", "fox")], run).scores["q"] == pytest.approx(expected, abs=1e-6)


def test_ties_go_by_id_falling_and_depth_is_kept(tmp_path: Path) -> None:
    assert list(build(tmp_path).retrieve([Query("q", "fox")], depth=2).scores["q"]) == ["b", "a"]


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = {f"t{i}": rng.normal(size=8).astype(np.float32) for i in range(400)}

    def lookup(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([table[text] for text in texts])

    documents = [Document(f"d{i}", f"t{2 * i}|t{2 * i + 1}") for i in range(150)]
    index = Dense.build(documents, tmp_path / "dense", lookup, chunk=by_bar)
    queries = [Query(f"q{i}", f"t{300 + i}") for i in range(20)]
    whole = index.retrieve(queries, depth=15)
    monkeypatch.setattr(dense, "BLOCK_ROWS", 7)
    monkeypatch.setattr(dense, "QUERY_BATCH", 3)
    pieces = index.retrieve(queries, depth=15)
    for query in queries:
        one = table[query.text] / np.linalg.norm(table[query.text])
        plain = {d.id: max(float(table[t] @ one / np.linalg.norm(table[t])) for t in by_bar(d.text)) for d in documents}
        best = sorted(plain, key=plain.__getitem__, reverse=True)[:15]
        assert list(whole.scores[query.id]) == list(pieces.scores[query.id]) == best
        assert whole.scores[query.id] == pytest.approx({d: plain[d] for d in best}, rel=1e-5)


def test_half_precision_takes_half_the_room_and_keeps_the_order(tmp_path: Path) -> None:
    full, half = build(tmp_path / "full"), build(tmp_path / "half", dtype="float16")
    sizes = [(index.folder / "vectors.raw").stat().st_size for index in (full, half)]
    assert sizes[0] == 2 * sizes[1]
    query = Query("q", "fox hen")
    assert half.retrieve([query], depth=9).ranking("q") == full.retrieve([query], depth=9).ranking("q")


def test_a_reopened_index_is_the_same_and_a_foreign_one_is_refused(tmp_path: Path) -> None:
    index = build(tmp_path)
    again = Dense.open(index.folder, embed, model="counts", documents=DOCUMENTS)
    query = Query("q", "hen pond")
    assert again.retrieve([query], depth=4) == index.retrieve([query], depth=4)
    with pytest.raises(StaleIndex, match="other documents"):
        Dense.open(index.folder, embed, documents=DOCUMENTS[1:])
    with pytest.raises(StaleIndex, match="made by 'counts'"):
        Dense.open(index.folder, embed, model="another")
    with pytest.raises(ModelError, match="gives 5 numbers a text"):
        Dense.open(index.folder, lambda texts: np.ones((len(texts), 5), np.float32)).retrieve([query], depth=1)


def test_a_damaged_or_missing_index_says_so(tmp_path: Path) -> None:
    index = build(tmp_path)
    with (index.folder / "vectors.raw").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(DataError, match="damaged"):
        Dense.open(index.folder, embed)
    with pytest.raises(DataError, match="no readable dense index"):
        Dense.open(tmp_path / "nothing", embed)


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def breaking() -> Iterator[Document]:
        yield DOCUMENTS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Dense.build(breaking(), tmp_path / "dense", embed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("vectors", "reason"), [(np.full((1, 3), np.nan), "not finite"), (np.ones(3), "shape"), (np.ones((2, 3)), "shape")]
)
def test_a_broken_embedder_is_named(tmp_path: Path, vectors: NDArray[np.float32], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        Dense.build([Document("a", "fox")], tmp_path / "dense", lambda texts: vectors)


def test_no_documents_and_no_queries_give_empty_runs(tmp_path: Path) -> None:
    empty = Dense.build([], tmp_path / "dense", embed)
    assert empty.retrieve([Query("q", "fox")], depth=3).scores == {"q": {}}
    assert build(tmp_path / "x").retrieve([], depth=3) == Run("dense", {})
    with pytest.raises(SettingsError, match="depth"):
        empty.retrieve([], depth=0)


def test_without_faiss_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"longrank\[ann\]"):
        Approximate.build(build(tmp_path))


def test_the_graph_finds_nearly_all_that_exact_search_finds(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="needs the extra 'ann'")
    rng = np.random.default_rng(0)
    table = rng.normal(size=(2000, 16)).astype(np.float32)

    def lookup(texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([table[int(text)] for text in texts])

    documents = [Document(f"d{i}", f"{2 * i}|{2 * i + 1}") for i in range(900)]
    exact = Dense.build(documents, tmp_path / "dense", lookup, chunk=by_bar)
    near = Approximate.build(exact)
    queries = [Query(f"q{i}", str(1800 + i)) for i in range(50)]
    assert isinstance(near, Retriever)
    assert near.recall(queries, depth=10) > 0.95
    single = Dense.build(documents, tmp_path / "single", lookup, chunk=lambda text: text.split("|")[:1])
    assert Approximate.build(single).recall(queries, depth=10) > 0.95
    assert len(Approximate.open(single).retrieve(queries[:1], depth=5000).scores["q0"]) == 900
    again = Approximate.open(exact)
    run = again.retrieve(queries, depth=10)
    assert run.scores == near.retrieve(queries, depth=10).scores
    truth = exact.retrieve(queries, depth=900)
    for query_id, row in run.scores.items():
        assert len(row) == 10
        assert row == pytest.approx({d: truth.scores[query_id][d] for d in row}, abs=1e-5)


@given(
    documents=st.integers(1, 400), depth=st.integers(1, 40), block=st.integers(3, 500), seed=st.integers(0, 2**32 - 1)
)
@settings(max_examples=60, deadline=None)
def test_exact_search_is_a_full_sort_whatever_the_blocks_and_ties(
    documents: int, depth: int, block: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(AXES, rng.integers(0, 4))) for _ in range(documents)]  # few vectors: many ties
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "BLOCK_ROWS", block)
        made = [Document(f"d{i}", text) for i, text in enumerate(texts)]
        index = Dense.build(made, Path(name) / "dense", embed)
        run = index.retrieve([Query("q", "fox fox hen")], depth=depth)
        everything = index.rescore([Query("q", "fox fox hen")], Run("all", {"q": dict.fromkeys(index.ids.by_row, 0.0)}))
    # the two products may differ in their last bit, and so may the order of documents equal but for it
    wanted = [everything.scores["q"][d] for d in everything.ranking("q")[:depth]]
    assert [run.scores["q"][d] for d in run.ranking("q")] == pytest.approx(wanted, abs=1e-6)
    by_text = {d: texts[int(d[1:])] for d in run.scores["q"]}
    for one, other in pairwise(run.ranking("q")):
        if by_text[one] == by_text[other]:
            assert one > other
