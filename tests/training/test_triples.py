"""Training data in and out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import BadLine, DataError, DuplicateId, TrainingError
from longrank.core.types import Collection, Document, Query, Run
from longrank.training.examples import CandidateSampler, TrainExample
from longrank.training.triples import TripleSampler, read_cedr, read_triples, write_cedr, write_triples

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


def texts(example: TrainExample) -> tuple[str, ...]:
    return example.query.text, example.positive.text, *(document.text for document in example.negatives)


@given(st.lists(st.lists(TEXTS, min_size=3, max_size=14), min_size=1, max_size=4))
def test_triples_are_read_as_they_were_written(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    path = tmp_path_factory.mktemp("triples") / "train.jsonl"
    examples = [
        TrainExample(Query("q", query), Document("p", positive), tuple(Document("n", text) for text in negatives))
        for query, positive, *negatives in rows
    ]
    write_triples(path, examples)
    assert [texts(e) for e in read_triples(path)] == [tuple(row) for row in rows]
    assert sorted(texts(e) for e in TripleSampler(path).epoch(0)) == sorted(tuple(row) for row in rows)


def test_one_negative_has_the_plain_name(tmp_path: Path, sampler: CandidateSampler) -> None:
    one = replace(sampler, negatives=1)
    write_triples(tmp_path / "t.jsonl", one.epoch(0))
    first = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[0])
    assert list(first) == ["anchor", "positive", "negative"]


def test_a_file_of_triples_is_shuffled_anew_every_epoch(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"anchor": f"a{n}", "positive": "p", "negative": "n"} for n in range(20)]
    path.write_text("\ufeff" + "\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    sampler = TripleSampler(path)
    first, again, second = ([e.query.text for e in sampler.epoch(number)] for number in (0, 0, 1))
    assert first == again != second
    assert sorted(first) == sorted(second) == sorted(f"a{n}" for n in range(20))
    assert len(sampler) == 20


@pytest.mark.parametrize(
    ("line", "reason"),
    [('{"anchor": "a", "positive": "p"}', "no negative"), ("[1]", "object"), ("{", "not JSON")],
)
def test_a_bad_triple_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(line)
    with pytest.raises(BadLine, match=f"line 1: .*{reason}"):
        list(TripleSampler(path).epoch(0))
    with pytest.raises(BadLine, match=f"line 1: .*{reason}"):
        list(read_triples(path))


def test_files_without_examples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        TripleSampler(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="compressed"):
        TripleSampler(tmp_path / "t.jsonl.gz")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(TrainingError, match="no example"):
        TripleSampler(tmp_path / "empty.jsonl")


def test_cedr_files_hold_positives_and_top_candidates(tmp_path: Path, collection: Collection, candidates: Run) -> None:
    write_cedr(tmp_path, collection, candidates, depth=3)
    data = read_cedr(tmp_path)
    assert data.collection.queries == collection.queries
    assert data.collection.qrels == collection.qrels
    assert data.candidates.ranking("q0") == ["good0", "bad0", "bad1"]
    assert data.collection.documents["bad0"] == collection.documents["bad0"]
    assert len(CandidateSampler(data.collection, data.candidates, tuple(collection.queries))) == 6


def test_a_third_column_is_a_score(tmp_path: Path, collection: Collection, candidates: Run) -> None:
    write_cedr(tmp_path, collection, candidates)
    (tmp_path / "train_pairs.tsv").write_text("q0\tbad0\t0.5\nq0\tgood0\t2.5\n")
    assert read_cedr(tmp_path).candidates.scores == {"q0": {"bad0": 0.5, "good0": 2.5}}


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("train_pairs.tsv", "q0\n", "document id"),
        ("train_pairs.tsv", "q0\td\thigh\n", "'high'"),
        ("data_docs.tsv", "doc\td\n", "three columns"),
        ("data_docs.tsv", "page\td\ttext\n", "'query' or 'doc'"),
    ],
)
def test_a_bad_cedr_line_is_named(
    tmp_path: Path, collection: Collection, candidates: Run, *, name: str, text: str, error: str
) -> None:
    write_cedr(tmp_path, collection, candidates)
    (tmp_path / name).write_text(text)
    with pytest.raises(BadLine, match=f"{name}, line 1: .*{error}"):
        read_cedr(tmp_path)


def test_a_pair_that_occurs_twice_is_refused(tmp_path: Path, collection: Collection, candidates: Run) -> None:
    write_cedr(tmp_path, collection, candidates)
    (tmp_path / "train_pairs.tsv").write_text("q0\td\nq0\td\n")
    with pytest.raises(DuplicateId, match="line 2"):
        read_cedr(tmp_path)
