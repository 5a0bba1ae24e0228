"""Needle and passkey: one answer each, at its length, and published files read alike."""

import gzip
import json
from pathlib import Path

import pytest

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import DataError
from longrank.synthetic.longembed import Task, TaskSettings, by_length, read_longembed, write_longembed
from longrank.synthetic.needle import make_needle
from longrank.synthetic.passkey import make_passkey

WORDS = WordTokenizer()
SMALL = TaskSettings(lengths=(256, 512, 2048), queries=5, documents=12)
MAKERS = [make_needle, make_passkey]


def tasks() -> list[Task]:
    return [make(SMALL, WORDS) for make in MAKERS]


def test_documents_are_of_their_length_and_as_many_as_asked_for() -> None:
    for task in tasks():
        assert len(task.collection.documents) == 36
        assert len(task.collection.queries) == 15
        for name, document in task.collection.documents.items():
            length = task.lengths[name]
            assert length - 70 < len(WORDS.tokenize(document.text)) <= length


def test_the_name_of_a_query_stands_in_its_document_within_the_span_and_in_no_other() -> None:
    for task in tasks():
        for gold in task.collection.spans:
            document = task.collection.documents[gold.document_id]
            needle = document.text[gold.span.start : gold.span.stop]
            query = task.collection.queries[gold.query_id].text
            first, second = [word.strip("?") for word in query.split() if word[0].isupper()][-2:]
            name = f"{first} {second}"
            assert name in needle
            holders = [other.id for other in task.collection.documents.values() if name in other.text]
            assert holders == [gold.document_id]


def test_needles_stand_in_all_parts_of_the_documents() -> None:
    wanted = TaskSettings(lengths=(2048,), queries=200, documents=200)
    for make in MAKERS:
        task = make(wanted, WORDS)
        texts = task.collection.documents
        depths = [gold.span.start / len(texts[gold.document_id].text) for gold in task.collection.spans]
        thirds = [sum(low <= depth < low + 1 / 3 for depth in depths) for low in (0, 1 / 3, 2 / 3)]
        assert min(thirds) > 200 / 3 - 4 * (200 * 2 / 9) ** 0.5


def test_candidates_are_the_documents_of_the_same_length_or_all_of_them() -> None:
    task = tasks()[0]
    same, pooled = task.same_length(), task.pooled()
    assert set(same.scores["512_3"]) == {f"512_{i}" for i in range(12)}
    assert len(pooled.scores["512_3"]) == 36


def test_values_are_averaged_within_lengths_then_over_them() -> None:
    task = make_passkey(TaskSettings(lengths=(256, 512), queries=2, documents=2), WORDS)
    # 256: (1 + 0.5) / 2 = 0.75; 512: (0.25 + 0, for the query without a value) / 2 = 0.125; macro 0.4375
    found = by_length(task, {"256_0": 1.0, "256_1": 0.5, "512_0": 0.25})
    assert found.means == {256: 0.75, 512: 0.125}
    assert found.macro == 0.4375


@pytest.mark.parametrize("make", MAKERS)
def test_a_written_task_is_read_back_the_same(make: object, tmp_path: Path) -> None:
    task = tasks()[MAKERS.index(make)]  # type: ignore[arg-type]
    folder = tmp_path / task.collection.name
    write_longembed(task, folder)
    assert read_longembed(folder) == task


def test_published_files_are_read_compressed_and_with_fields_we_do_not_use(tmp_path: Path) -> None:
    rows = {
        "corpus.jsonl.gz": [{"doc_id": f"d{i}", "text": f"text {i}", "context_length": 256} for i in range(3)],
        "queries.jsonl.gz": [{"qid": "q", "text": "which", "context_length": 256}],
        "qrels.jsonl.gz": [{"qid": "q", "doc_id": "d1", "context_length": 256}],
    }
    for name, records in rows.items():
        with gzip.open(tmp_path / name, "wt") as stream:
            stream.writelines(json.dumps(record) + "\n" for record in records)
    task = read_longembed(tmp_path)
    assert task.collection.qrels.relevant("q") == {"d1"}
    assert task.length_of("q") == 256
    assert task.collection.spans == ()


def test_a_folder_without_a_corpus_is_refused_with_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"corpus\.jsonl"):
        read_longembed(tmp_path)


def test_the_same_seed_gives_the_same_task_and_another_seed_another() -> None:
    for make in MAKERS:
        one, same, other = (
            make(TaskSettings(seed=s, lengths=(256,), queries=2, documents=3), WORDS) for s in (1, 1, 2)
        )
        assert one == same
        assert all(one.collection.documents[d] != other.collection.documents[d] for d in one.lengths)
