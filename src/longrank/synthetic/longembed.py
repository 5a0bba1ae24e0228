"""Tasks laid out as LongEmbed's: documents of eight lengths, and queries that are answered within one length.

A folder holds ``corpus.jsonl`` {doc_id, text, context_length}, ``queries.jsonl`` {qid, text} and ``qrels.jsonl``
{qid, doc_id}, as published; ``spans.jsonl`` is ours and may be absent. Candidates are the documents of one length.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from pydantic import Field, model_validator

from longrank.core.errors import DataError, UnknownDocument
from longrank.core.settings import Settings
from longrank.core.types import Collection, Document, Qrels, Query, Run
from longrank.corpora.formats.files import find_file
from longrank.corpora.formats.records import read_records, write_records
from longrank.corpora.formats.spans import read_spans, write_spans

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


class TaskSettings(Settings):
    """Sizes of a task; the defaults are LongEmbed's. Documents beyond the queries only distract."""

    seed: int = 0
    lengths: tuple[int, ...] = LENGTHS
    queries: int = Field(default=50, ge=1)
    documents: int = Field(default=100, ge=1)

    @model_validator(mode="after")
    def _enough(self) -> "TaskSettings":
        if self.queries > self.documents or not self.lengths or min(self.lengths) < LENGTHS[0]:
            raise ValueError(f"a query needs a document of its own, and lengths of {LENGTHS[0]} tokens or more")
        return self


@dataclass(frozen=True)
class Task:
    """A collection, and the context length of each of its documents."""

    collection: Collection
    lengths: Mapping[str, int]

    def length_of(self, query_id: str) -> int:
        """Context length of a query's relevant document."""
        (document_id, *_) = sorted(self.collection.qrels.relevant(query_id)) or [""]
        if document_id not in self.lengths:
            raise UnknownDocument(f"query {query_id!r} of {self.collection.name!r} has no relevant document")
        return self.lengths[document_id]

    def same_length(self) -> Run:
        """Candidates as LongEmbed has them: for each query all documents of its length, unranked."""
        by_length: dict[int, dict[str, float]] = {}
        for document_id, length in self.lengths.items():
            by_length.setdefault(length, {})[document_id] = 0.0
        return Run("same-length", {q: by_length[self.length_of(q)] for q in self.collection.queries})

    def pooled(self) -> Run:
        """Candidates of all lengths together: the harder variant."""
        everything = dict.fromkeys(self.lengths, 0.0)
        return Run("pooled", dict.fromkeys(self.collection.queries, everything))


class ByLength(NamedTuple):
    """Means of a measure for each length, shortest first, and their own mean."""

    means: dict[int, float]
    macro: float


def by_length(task: Task, values: Mapping[str, float]) -> ByLength:
    """A measure's per-query values (RR, in LongEmbed) by context length; a query without a value counts as 0."""
    rows: dict[int, list[float]] = {}
    for query_id in task.collection.queries:
        rows.setdefault(task.length_of(query_id), []).append(values.get(query_id, 0.0))
    means = {length: fmean(rows[length]) for length in sorted(rows)}
    return ByLength(means, fmean(means.values()))


def read_longembed(folder: Path | str) -> Task:
    """A task of LongEmbed, ours or a published one (``needle`` or ``passkey`` as JSON lines, plain or compressed)."""
    folder = Path(folder)
    lengths, documents = dict[str, int](), dict[str, Document]()
    for record in read_records(_file(folder, "corpus.jsonl")):
        document = Document(record.id("doc_id"), record.text("text"))
        documents[document.id], lengths[document.id] = document, record.integer("context_length")
    queries = {}
    for record in read_records(_file(folder, "queries.jsonl")):
        queries[record.id("qid")] = Query(record.id("qid"), record.text("text"))
    grades: dict[str, dict[str, int]] = {}
    for record in read_records(_file(folder, "qrels.jsonl")):
        grades.setdefault(record.id("qid"), {})[record.id("doc_id")] = 1
    known = find_file(folder, "spans.jsonl")
    spans = tuple(read_spans(known)) if known else ()
    return Task(Collection(folder.resolve().name, documents, queries, Qrels(grades), spans), lengths)


def write_longembed(task: Task, folder: Path) -> None:
    """Write a task in LongEmbed's layout, with the spans of its needles."""
    collection = task.collection
    write_records(
        folder / "corpus.jsonl",
        ({"doc_id": d.id, "text": d.text, "context_length": task.lengths[d.id]} for d in collection.documents.values()),
    )
    write_records(folder / "queries.jsonl", ({"qid": q.id, "text": q.text} for q in collection.queries.values()))
    pairs = ((q, d) for q, row in collection.qrels.grades.items() for d in row)
    write_records(folder / "qrels.jsonl", ({"qid": q, "doc_id": d} for q, d in pairs))
    write_spans(folder / "spans.jsonl", collection.spans)


def _file(folder: Path, name: str) -> Path:
    path = find_file(folder, name)
    if path is None:
        raise DataError(f"{folder} has no {name}: a LongEmbed task has corpus.jsonl, queries.jsonl and qrels.jsonl")
    return path
