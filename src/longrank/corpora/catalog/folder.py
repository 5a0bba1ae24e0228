"""Collections in folders: the format is told from the files, checked at the door, and written back the same."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar, get_args

from longrank.core.disk import atomic_folder, write_atomic
from longrank.core.errors import DataError, DuplicateId, SettingsError, SpanOutsideDocument, UnknownDocument
from longrank.core.fingerprint import fingerprint
from longrank.core.types import CharSpan, Collection, Document, Qrels, Query, Run
from longrank.corpora.formats import beir, flexneuart, jsonl, trec, tsv
from longrank.corpora.formats.files import find_file, numbered_lines
from longrank.corpora.formats.spans import read_spans, write_spans
from longrank.corpora.store import VERSION, DocumentStore

Format = Literal["jsonl", "beir", "flexneuart"]
T = TypeVar("T", Document, Query)

LARGE_BYTES = 256 * 2**20  # texts take about three times a file's size in memory, compressed ones far more
_CACHE, _LABEL = ".longrank", "collection.json"


@dataclass(frozen=True)
class Layout:
    """File names of one format and what reads them."""

    name: str
    documents: tuple[str, ...]
    queries: str
    read_documents: Callable[..., Iterator[Document]]
    read_queries: Callable[..., Iterator[Query]]


_LAYOUTS = (
    Layout("beir", ("corpus.jsonl",), "queries.jsonl", beir.read_corpus, beir.read_queries),
    Layout("jsonl", ("documents.jsonl",), "queries.jsonl", jsonl.read_documents, jsonl.read_queries),
    Layout(
        "flexneuart",
        ("AnswerFields.jsonl",),
        "QuestionFields.jsonl",
        flexneuart.read_documents,
        flexneuart.read_queries,
    ),
    Layout("tsv", ("documents.tsv", "collection.tsv"), "queries.tsv", tsv.read_documents, tsv.read_queries),
)


def load_folder(
    path: Path | str,
    *,
    split: str | Sequence[str] = "test",
    include_title: bool = True,
    strict: bool = False,
    large_bytes: int = LARGE_BYTES,
) -> Collection:
    """The collection in a folder of BEIR, jsonl, FlexNeuART or TSV files, plain or compressed.

    ``split`` and ``include_title`` concern BEIR alone: which judgements are read, one split's or several (queries
    judged only in other splits are left out; two grades for one pair are refused), and whether titles are joined into
    the texts, which spans count on.
    ``strict`` refuses judgements of documents or queries that are not there. A documents file above ``large_bytes`` is
    read through a store on disk, kept in a folder '.longrank' beside it.
    """
    folder = Path(path)
    layout, documents_path = detect(folder)
    read = layout.read_documents
    if layout.name == "beir" and not include_title:
        read = _without_titles
    documents = _documents(documents_path, read, include_title=include_title, large_bytes=large_bytes)
    queries_path = find_file(folder, layout.queries)
    queries = _by_id(queries_path, layout.read_queries(queries_path)) if queries_path else {}
    if layout.name == "beir":
        qrels, queries = _beir_split(folder, [split] if isinstance(split, str) else split, queries)
    else:
        qrels_path = find_file(folder, "qrels.txt")
        qrels = trec.read_qrels(qrels_path) if qrels_path else Qrels({})
    spans_path = find_file(folder, "spans.jsonl")
    spans = tuple(read_spans(spans_path)) if spans_path else ()
    collection = Collection(_name(folder), documents, queries, qrels, spans)
    if strict:
        _check_known(qrels.grades, collection, where=f"the judgements of {folder}")
    if spans and layout.name == "beir" and not include_title:
        raise SettingsError(f"{spans_path} counts in texts with titles: load with include_title=True, or remove it")
    _check_spans(collection, where=str(spans_path))
    return collection


def save_collection(
    collection: Collection,
    path: Path | str,
    *,
    format: Format = "jsonl",  # noqa: A002
    split: str = "test",
) -> None:
    """Write a collection into a folder that appears whole or not at all; ``load_folder`` gives it back the same.

    Only an empty folder or an earlier saved collection is replaced. 'jsonl' takes every collection; the other formats
    refuse what they cannot hold. A query with an empty row of judgements loses the row, not the query.
    """
    folder = Path(path)
    if format not in get_args(Format):
        raise SettingsError(f"no format {format!r} to save in; known: {', '.join(get_args(Format))}")
    documents, queries = collection.documents.values(), collection.queries.values()
    with atomic_folder(folder, mark=_LABEL, what="a saved collection") as temporary:
        if format == "beir":
            beir.write_corpus(temporary / "corpus.jsonl", documents)
            beir.write_queries(temporary / "queries.jsonl", queries)
            beir.write_qrels(temporary / "qrels" / f"{split}.tsv", collection.qrels)
        elif format == "flexneuart":
            flexneuart.write_documents(temporary / "AnswerFields.jsonl.gz", documents)
            flexneuart.write_queries(temporary / "QuestionFields.jsonl", queries)
            trec.write_qrels(temporary / "qrels.txt", collection.qrels)
        else:
            jsonl.write_documents(temporary / "documents.jsonl", documents)
            jsonl.write_queries(temporary / "queries.jsonl", queries)
            trec.write_qrels(temporary / "qrels.txt", collection.qrels)
        if collection.spans:
            write_spans(temporary / "spans.jsonl", collection.spans)
        write_atomic(temporary / _LABEL, json.dumps({"name": collection.name, "format": format}) + "\n")


def check_run(run: Run, collection: Collection) -> None:
    """Raise UnknownDocument if a run names a query or a document that the collection does not have."""
    _check_known(run.scores, collection, where=f"run {run.name!r}")


def detect(folder: Path) -> tuple[Layout, Path]:
    """The format of a folder and its documents file; exactly one must be there."""
    found = [(layout, path) for layout in _LAYOUTS for name in layout.documents if (path := find_file(folder, name))]
    if not folder.is_dir():
        raise DataError(f"no folder {folder}")
    if len(found) != 1:
        names = ", ".join(path.name for _, path in found) or "no documents file"
        known = ", ".join(f"{layout.documents[0]} ({layout.name})" for layout in _LAYOUTS)
        raise DataError(f"{folder} holds {names}; exactly one is needed of: {known}, each also as .gz or .bz2")
    return found[0]


def _documents(
    path: Path, read: Callable[[Path], Iterator[Document]], *, include_title: bool, large_bytes: int
) -> Mapping[str, Document]:
    facts = path.stat()
    if facts.st_size <= large_bytes:
        return _by_id(path, read(path))
    name = fingerprint(VERSION, path.name, facts.st_size, facts.st_mtime_ns, include_title)
    place = path.parent / _CACHE / f"store-{name}"
    if place.exists():
        return DocumentStore.open(place)
    try:
        return DocumentStore.build(place, read(path))
    except DuplicateId as error:
        raise DuplicateId(f"{path}: {error}") from None


def _without_titles(path: Path) -> Iterator[Document]:
    return beir.read_corpus(path, include_title=False)


def _by_id(path: Path, items: Iterable[T]) -> dict[str, T]:
    found: dict[str, T] = {}
    for place, item in enumerate(items):
        if item.id in found:
            filled = (number for number, line in numbered_lines(path) if line.strip())
            number = next(islice(filled, place, None))
            raise DuplicateId(f"{path}, line {number}: id {item.id!r} occurs a second time; keep one or rename it")
        found[item.id] = item
    return found


def _beir_split(folder: Path, wanted: Sequence[str], queries: dict[str, Query]) -> tuple[Qrels, dict[str, Query]]:
    """The judgements of some splits, and the queries without those that only other splits judge."""
    splits = beir.split_files(folder)
    if not splits:
        return Qrels({}), queries
    grades: dict[str, dict[str, int]] = {}
    for split in wanted:
        if split not in splits:
            raise DataError(f"{folder / 'qrels'} has no split {split!r}; it has {', '.join(splits)}")
        _add_judgements(grades, beir.read_qrels(splits.pop(split)), where=f"{folder}, splits {', '.join(wanted)}")
    others = {query_id for path in splits.values() for query_id in beir.read_qrels(path)} - set(grades)
    return Qrels(grades), {name: query for name, query in queries.items() if name not in others}


def _add_judgements(grades: dict[str, dict[str, int]], more: Qrels, *, where: str) -> None:
    for query_id, row in more.grades.items():
        known = grades.setdefault(query_id, {})
        for document_id, grade in row.items():
            if known.setdefault(document_id, grade) != grade:
                raise DataError(
                    f"{where}: {document_id!r} has grade {known[document_id]} for query {query_id!r} in one split and "
                    f"{grade} in another; correct one of them, or read the splits one by one"
                )


def _check_known(rows: Mapping[str, Mapping[str, object]], collection: Collection, *, where: str) -> None:
    for query_id, row in rows.items():
        if query_id not in collection.queries:
            raise UnknownDocument(f"{where}: query {query_id!r} is not in collection {collection.name!r}")
        missing = [document_id for document_id in row if document_id not in collection.documents]
        if missing:
            raise UnknownDocument(
                f"{where}: query {query_id!r} names {len(missing)} of {len(row)} documents that collection "
                f"{collection.name!r} does not have, first {missing[0]!r}. Does it belong to another collection?"
            )


def _check_spans(collection: Collection, *, where: str) -> None:
    for gold in collection.spans:
        document = collection.documents.get(gold.document_id)
        if document is None:
            raise UnknownDocument(f"{where}: document {gold.document_id!r} is not in collection {collection.name!r}")
        if isinstance(gold.span, CharSpan) and gold.span.stop > len(document.text):
            raise SpanOutsideDocument(
                f"{where}: characters {gold.span.start}-{gold.span.stop} lie outside {gold.document_id!r}, which has "
                f"{len(document.text)}. Were they counted in another text, or in bytes?"
            )


def _name(folder: Path) -> str:
    try:
        return str(json.loads((folder / _LABEL).read_text(encoding="utf-8"))["name"])
    except FileNotFoundError:
        return folder.resolve().name
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{folder / _LABEL} is damaged; remove it, and the folder's name is used") from None
