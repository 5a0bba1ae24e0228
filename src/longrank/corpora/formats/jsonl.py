"""Our own form: ``documents.jsonl`` {id, text, title?} and ``queries.jsonl`` {id, text}, texts kept as they are."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from longrank.core.types import Document, Query
from longrank.corpora.formats.files import Refuse, stop_at_it
from longrank.corpora.formats.records import Record, parse_records, write_records


def read_documents(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[Document]:
    """The documents of a file in its order; a title is kept beside the text, never joined into it."""
    return parse_records(Path(path), to_document, refuse)


def write_documents(path: Path | str, documents: Iterable[Document]) -> None:
    """Write documents, one a line; an empty title is left out."""
    write_records(Path(path), map(from_document, documents))


def read_queries(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[Query]:
    """The queries of a file in its order."""
    return parse_records(Path(path), lambda record: Query(record.id("id"), record.text("text")), refuse)


def write_queries(path: Path | str, queries: Iterable[Query]) -> None:
    """Write queries, one a line."""
    write_records(Path(path), ({"id": query.id, "text": query.text} for query in queries))


def to_document(record: Record) -> Document:
    """The document of one line."""
    return Document(record.id("id"), record.text("text"), record.text("title", default=""))


def from_document(document: Document) -> dict[str, object]:
    """The fields of one line."""
    fields: dict[str, object] = {"id": document.id, "text": document.text}
    return fields | {"title": document.title} if document.title else fields
