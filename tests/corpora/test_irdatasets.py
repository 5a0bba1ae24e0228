import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from longrank.core.errors import DataError, DuplicateId, MissingExtra, UnknownName
from longrank.core.types import Document, Qrels, Query
from longrank.corpora.catalog.irdatasets import load_irdataset

ir_datasets = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")


class Page(NamedTuple):
    doc_id: str
    title: str
    body: str

    def default_text(self) -> str:
        return f"{self.title} {self.body}"


def register(name: str, *parts: object) -> None:
    ir_datasets.registry.register(name, ir_datasets.Dataset(*parts))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("irds")
    (folder / "docs.tsv").write_text("d1\tOtters\tThey swim.\nd2\t\tNo title.\n")
    (folder / "queries.tsv").write_text("q1\twho swims?\nq2\twho flies?\n")
    (folder / "qrels").write_text("q1 0 d1 2\nq1 0 d2 -1\nq1 0 d1 2\n")
    formats, source = ir_datasets.formats, ir_datasets.util.LocalDownload
    docs = formats.TsvDocs(source(folder / "docs.tsv"), Page, namespace="longrank-small", lang="en")
    queries = formats.TsvQueries(source(folder / "queries.tsv"), namespace="longrank-small", lang="en")
    qrels = formats.TrecQrels(source(folder / "qrels"), {2: "good", 0: "bad", -1: "junk"})
    register("longrank-small/dev", docs, queries, qrels)
    register("longrank-small", docs)
    register("longrank-small/queries", queries)
    (folder / "contradiction").write_text("q1 0 d1 2\nq1 0 d1 1\n")
    register("longrank-small/odd", docs, queries, formats.TrecQrels(source(folder / "contradiction"), {}))
    yield "longrank-small/dev"


def test_documents_queries_and_judgements_come_with_their_default_texts(small: str) -> None:
    collection = load_irdataset(small)
    assert collection.name == "longrank-small/dev"
    assert collection.queries == {"q1": Query("q1", "who swims?"), "q2": Query("q2", "who flies?")}
    assert collection.qrels == Qrels({"q1": {"d1": 2, "d2": -1}})
    assert list(collection.documents.items()) == [
        ("d1", Document("d1", "Otters They swim.", "Otters")),
        ("d2", Document("d2", " No title.")),
    ]
    assert len(collection.documents) == 2


def test_titles_can_be_left_out_of_the_texts(small: str) -> None:
    collection = load_irdataset(small, include_title=False)
    assert collection.documents["d1"] == Document("d1", "They swim.", "Otters")


def test_an_absent_document_is_a_key_error(small: str) -> None:
    documents = load_irdataset(small).documents
    assert "d3" not in documents
    with pytest.raises(KeyError):
        documents["d3"]


def test_documents_travel_to_another_process_by_their_name(small: str) -> None:
    documents = pickle.loads(pickle.dumps(load_irdataset(small, include_title=False).documents))
    assert documents["d1"].text == "They swim."


def test_a_part_without_queries_is_a_collection_without_queries(small: str) -> None:
    collection = load_irdataset("longrank-small")
    assert (dict(collection.queries), len(collection.qrels)) == ({}, 0)
    with pytest.raises(DataError, match="has no documents"):
        load_irdataset("longrank-small/queries")


def test_a_contradicting_judgement_is_refused(small: str) -> None:
    with pytest.raises(DuplicateId, match="'d1' for query 'q1' is judged twice"):
        load_irdataset("longrank-small/odd")


def test_a_file_that_must_be_fetched_by_hand_says_how(tmp_path: Path) -> None:
    formats, util = ir_datasets.formats, ir_datasets.util
    missing = util.LocalDownload(tmp_path / "corpus.tsv", "File an agreement\nwith the owners, then copy it here.")
    docs = formats.TsvDocs(missing, Page, namespace="longrank-bound", lang="en")
    register(f"longrank-bound-{tmp_path.name}", docs)
    documents = load_irdataset(f"longrank-bound-{tmp_path.name}").documents
    with pytest.raises(DataError, match=r"corpus\.tsv\)\. File an agreement with the owners, then copy it here\."):
        documents["d1"]
    with pytest.raises(DataError, match="File an agreement"):
        list(documents)


def test_an_unknown_id_suggests_near_ones(small: str) -> None:
    with pytest.raises(UnknownName, match=r"no 'longrank-smal/dev'.* Did you mean 'longrank-small/dev'"):
        load_irdataset("longrank-smal/dev")


def test_without_the_extra_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(
        MissingExtra, match=r"'beir/nq' needs the package 'ir-datasets': pip install 'longrank\[data\]'"
    ):
        load_irdataset("beir/nq")
