import json
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import DataError, DuplicateId
from longrank.core.types import Document
from longrank.corpora.formats.jsonl import read_documents
from longrank.corpora.store import DocumentStore

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


def many(count: int) -> Iterator[Document]:
    return (Document(f"D{number}", f"text {number}\n" * (number % 7), "odd" * (number % 2)) for number in range(count))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@given(items=st.lists(st.builds(Document, TEXT.filter(bool), TEXT, TEXT), unique_by=lambda d: d.id, max_size=8))
def test_a_store_is_the_mapping_it_was_built_from_in_the_same_order(folder: Path, items: list[Document]) -> None:
    store = DocumentStore.build(folder / "any", items)
    expected = {item.id: item for item in items}
    assert list(store.items()) == list(expected.items())
    assert store == expected
    assert len(store) == len(items)
    assert list(read_documents(folder / "any" / "documents.jsonl")) == items


def test_what_is_not_there_is_a_key_error_and_not_contained(tmp_path: Path) -> None:
    store = DocumentStore.build(tmp_path / "s", many(100))
    assert "D99" in store
    for absent in ("D100", "", "d1", "\ud800"):
        assert absent not in store
        assert store.get(absent) is None
        with pytest.raises(KeyError):
            store[absent]
    number: object = 7
    assert number not in store


def test_an_id_given_twice_is_refused_with_both_places_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(DuplicateId, match="'D5' occurs twice, as documents number 6 and 51"):
        DocumentStore.build(tmp_path / "s", [*many(50), Document("D5", "again")])
    assert list(tmp_path.iterdir()) == []


def test_a_failed_build_leaves_the_earlier_store(tmp_path: Path) -> None:
    DocumentStore.build(tmp_path / "s", many(3))
    with pytest.raises(DataError, match="surrogate"):
        DocumentStore.build(tmp_path / "s", [Document("a", "\ud800")])
    assert list(DocumentStore.open(tmp_path / "s")) == ["D0", "D1", "D2"]


def test_a_store_that_is_open_outlives_its_replacement(tmp_path: Path) -> None:
    old = DocumentStore.build(tmp_path / "s", many(3))
    new = DocumentStore.build(tmp_path / "s", [Document("x", "new")])
    assert old["D1"].text == "text 1\n"
    assert list(new) == ["x"]


def test_a_folder_that_is_not_a_store_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(DataError, match="not a document store"):
        DocumentStore.build(tmp_path, many(1))
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_damage_is_noticed_on_opening(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no document store"):
        DocumentStore.open(tmp_path)
    DocumentStore.build(tmp_path / "s", many(10))
    with (tmp_path / "s" / "documents.jsonl").open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(DataError, match=r"documents\.jsonl has \d+ bytes, not \d+; build the store again"):
        DocumentStore.open(tmp_path / "s")
    (tmp_path / "s" / "store.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        DocumentStore.open(tmp_path / "s")
    (tmp_path / "s" / "store.json").write_text('{"version": 99, "count": 1, "sizes": {}}')
    with pytest.raises(DataError, match="version 99"):
        DocumentStore.open(tmp_path / "s")


def test_a_pickled_store_is_small_and_opens_again_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(DocumentStore.build("relative", many(1000)))
    monkeypatch.chdir("/")
    assert len(data) < 1000
    assert pickle.loads(data)["D999"] == list(many(1000))[-1]


def length_of(store: DocumentStore, document_id: str) -> int:
    return len(store[document_id].text)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_the_store_they_are_given(tmp_path: Path, method: str) -> None:
    store = DocumentStore.build(tmp_path / "s", many(200))
    names = list(store)
    if method == "spawn":
        with multiprocessing.get_context(method).Pool(1) as pool:
            lengths = pool.map(store.get, names[:20])
        assert lengths == [store[name] for name in names[:20]]
        return
    with multiprocessing.get_context(method).Pool(2) as pool:
        counts = pool.starmap(length_of, [(store, name) for name in names])
    assert counts == [length_of(store, name) for name in names]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is measured through Linux's /proc")
def test_the_benchmark_prints_and_saves_its_ratios(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "document_store.py"
    options = ["--passages", "3000", "--documents", "30", "--save", str(tmp_path / "out.json")]
    done = subprocess.run([sys.executable, str(script), *options], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == json.loads((tmp_path / "out.json").read_text())
    ratios = json.loads(done.stdout)["ratios"]
    assert ratios["open_faster_than_dict (bar: at least 3)"] > 3
    assert ratios["resident_mb_long_documents (bar: under 300)"] < 300
