"""One text a line, ``id<TAB>text``: the form of passage collections and query files."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from longrank.core.errors import BadLine, DataError
from longrank.core.types import Document, Query
from longrank.corpora.formats.files import BOM, Refuse, decode_line, parse_lines, stop_at_it, writing


def read_documents(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[Document]:
    """The documents of a file in its order."""
    return (Document(name, text) for name, text in _read(Path(path), refuse))


def write_documents(path: Path | str, documents: Iterable[Document]) -> None:
    """Write documents, one a line; tabs, line ends and titles have no place here and are refused."""
    _write(Path(path), ((document.id, _untitled(document)) for document in documents))


def read_queries(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[Query]:
    """The queries of a file in its order."""
    return (Query(name, text) for name, text in _read(Path(path), refuse))


def write_queries(path: Path | str, queries: Iterable[Query]) -> None:
    """Write queries, one a line; tabs and line ends are refused."""
    _write(Path(path), ((query.id, query.text) for query in queries))


def _read(path: Path, refuse: Refuse) -> Iterator[tuple[str, str]]:
    def parse(number: int, data: bytes) -> tuple[str, str] | None:
        line = decode_line(data, path, number)
        if not line:
            return None
        name, *texts = line.split("\t")
        if len(texts) != 1:
            raise BadLine(path, number, f"{len(texts) + 1} columns where two are needed: id, tab, text")
        if not name:
            raise BadLine(path, number, "the id before the tab is empty; every id needs at least one character")
        return name, texts[0]

    return parse_lines(path, parse, refuse)


def _write(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    with writing(path) as stream:
        for name, text in pairs:
            line = f"{name}\t{text}"
            if line.count("\t") != 1 or "\n" in line or "\r" in line or name.startswith(BOM):
                raise DataError(
                    f"{name!r} cannot stand on one line of {path}: a tab or line end is in it. Save as jsonl, "
                    'or collapse the whitespace first: " ".join(text.split())'
                )
            stream.write(line + "\n")


def _untitled(document: Document) -> str:
    if document.title:
        raise DataError(f"document {document.id!r} has a title, for which TSV has no column; save as jsonl")
    return document.text
