"""BEIR: ``corpus.jsonl`` {_id, title, text}, ``queries.jsonl`` {_id, text}, ``qrels/<split>.tsv`` with a header."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from longrank.core.errors import BadLine, DataError
from longrank.core.types import Document, Qrels, Query
from longrank.corpora.formats.files import BOM, Refuse, decode_line, numbered_bytes, stop_at_it, writing
from longrank.corpora.formats.records import Record, parse_records, write_records
from longrank.corpora.formats.trec import add_grade

_HEADER = "query-id\tcorpus-id\tscore"


def join_title(title: str, body: str) -> str:
    """Title, a space and body, which is BEIR's own reading; the body alone if there is no title.

    >>> join_title("Otters", "They swim."), join_title("", "They swim.")
    ('Otters They swim.', 'They swim.')
    """
    return f"{title} {body}" if title else body


def read_corpus(path: Path | str, *, include_title: bool = True, refuse: Refuse = stop_at_it) -> Iterator[Document]:
    """The documents of a file in its order, each title joined into its text unless told otherwise."""

    def to_document(record: Record) -> Document:
        title, body = record.text("title", default=""), record.text("text")
        return Document(record.id("_id"), join_title(title, body) if include_title else body, title)

    return parse_records(Path(path), to_document, refuse)


def write_corpus(path: Path | str, documents: Iterable[Document]) -> None:
    """Write documents with the title taken out of the text again; a text that does not begin with it is refused."""
    fields = ({"_id": document.id, "title": document.title, "text": _body(document)} for document in documents)
    write_records(Path(path), fields)


def read_queries(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[Query]:
    """The queries of a file in its order, of every split."""
    return parse_records(Path(path), lambda record: Query(record.id("_id"), record.text("text")), refuse)


def write_queries(path: Path | str, queries: Iterable[Query]) -> None:
    """Write queries, one a line."""
    write_records(Path(path), ({"_id": query.id, "text": query.text} for query in queries))


def split_files(folder: Path) -> dict[str, Path]:
    """The file of judgements of every split of a BEIR folder; empty for any other folder."""
    return {path.name.partition(".tsv")[0]: path for path in sorted((folder / "qrels").glob("*.tsv*"))}


def read_qrels(path: Path | str, *, refuse: Refuse = stop_at_it) -> Qrels:
    """The judgements of a file; a first line whose third column reads 'score' is the header."""
    path = Path(path)
    grades: dict[str, dict[str, int]] = {}
    for number, line in numbered_bytes(path):
        try:
            _add_line(grades, decode_line(line, path, number), path=path, number=number)
        except DataError as error:
            refuse(error)
    return Qrels(grades)


def write_qrels(path: Path | str, qrels: Qrels) -> None:
    """Write judgements under BEIR's header in their own order; a query without any leaves no line."""
    with writing(Path(path)) as stream:
        stream.write(_HEADER + "\n")
        for query_id, row in qrels.grades.items():
            lead = _cell(query_id)
            stream.writelines(f"{lead}\t{_cell(document_id)}\t{grade:d}\n" for document_id, grade in row.items())


def _add_line(grades: dict[str, dict[str, int]], line: str, *, path: Path, number: int) -> None:
    fields = line.split("\t")
    if not line or (number == 1 and fields[-1].strip() == "score"):
        return
    if len(fields) != 3 or not all(fields):
        raise BadLine(path, number, f"{_HEADER!r} needs three columns that are not empty, got {fields!r}")
    add_grade(grades, fields[0], fields[1], fields[2].strip(), path=path, number=number)


def _cell(value: str) -> str:
    if any(character in value for character in "\t\n\r") or value.startswith(BOM):
        raise DataError(f"id {value!r} cannot stand in a TSV file: it holds a tab or a line end; rename it")
    return value


def _body(document: Document) -> str:
    lead = join_title(document.title, "")
    if not document.text.startswith(lead):
        raise DataError(
            f"document {document.id!r}: its text does not begin with its title {document.title!r} and a space, so "
            "BEIR's reader would change it; save as jsonl, which keeps texts as they are, or join the title first"
        )
    return document.text.removeprefix(lead)
