"""FlexNeuART: ``AnswerFields.jsonl.gz`` and ``QuestionFields.jsonl`` with DOCNO and text_raw; qrels are TREC's."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from longrank.core.types import Document, Query
from longrank.corpora.formats.files import Refuse, stop_at_it
from longrank.corpora.formats.records import Record, parse_records, write_records


def read_documents(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[Document]:
    """The documents of an answer file in its order: ``text_raw`` as it is, other fields but ``title`` left out."""
    return parse_records(Path(path), _document, refuse)


def write_documents(path: Path | str, documents: Iterable[Document]) -> None:
    """Write documents, one a line; an empty title is left out."""
    write_records(Path(path), map(_fields, documents))


def read_queries(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[Query]:
    """The queries of a question file in its order."""
    return parse_records(Path(path), lambda record: Query(record.id("DOCNO"), record.text("text_raw")), refuse)


def write_queries(path: Path | str, queries: Iterable[Query]) -> None:
    """Write queries, one a line."""
    write_records(Path(path), ({"DOCNO": query.id, "text_raw": query.text} for query in queries))


def _document(record: Record) -> Document:
    return Document(record.id("DOCNO"), record.text("text_raw"), record.text("title", default=""))


def _fields(document: Document) -> dict[str, object]:
    fields: dict[str, object] = {"DOCNO": document.id, "text_raw": document.text}
    return fields | {"title": document.title} if document.title else fields
