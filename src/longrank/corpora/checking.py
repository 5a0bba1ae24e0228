"""A look at a collection's folder before anything long starts: every problem at once, instead of the first one.

An error is something that a later step would refuse, or that makes its figures wrong; a warning is something that
real collections have and their owner should know about.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from longrank.core.errors import BadLine, DataError
from longrank.core.types import CharSpan, Document, GoldSpan, Qrels, Query
from longrank.corpora.catalog.folder import detect
from longrank.corpora.formats import beir, trec
from longrank.corpora.formats.files import find_file
from longrank.corpora.formats.spans import read_spans
from longrank.corpora.splits import FILE as SPLITS
from longrank.corpora.splits import read_splits

Level = Literal["error", "warning"]
T = TypeVar("T")

_SHOWN = 3  # ids named in a finding
_LINES = 10  # bad lines of a file that are told one by one
_UNFIT = re.compile(r"[ \t\n\r\x0b\x0c]")


@dataclass(frozen=True)
class Finding:
    """One problem of one file."""

    level: Level
    file: str
    message: str


@dataclass(frozen=True)
class FolderReport:
    """What is in a folder, and what is wrong with it."""

    name: str
    format: str
    contents: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """Number of errors: with none, the collection can be used."""
        return sum(finding.level == "error" for finding in self.findings)

    def __str__(self) -> str:
        width = max((len(name) for name in self.contents), default=0)
        lines = [f"{self.name} ({self.format})" if self.format else self.name]
        lines += [f"  {name:<{width}}  {text}" for name, text in self.contents.items()]
        for level in ("error", "warning"):
            lines += [f"{level}: {f.file}: {f.message}" for f in self.findings if f.level == level]
        warnings = len(self.findings) - self.errors
        return "\n".join([*lines, f"{_count(self.errors, 'error')}, {_count(warnings, 'warning')}"])


@dataclass
class _Look:
    """What has been seen so far."""

    contents: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)  # characters by document id
    queries: dict[str, str] = field(default_factory=dict)
    judged: dict[str, dict[str, int]] = field(default_factory=dict)

    def error(self, file: str, message: str) -> None:
        self.findings.append(Finding("error", file, message))

    def warn(self, file: str, message: str) -> None:
        self.findings.append(Finding("warning", file, message))

    def ids(self, level: Level, file: str, what: str, ids: Iterable[str]) -> None:
        """A finding about some ids, the first of them named; none, no finding."""
        found = list(ids)
        if found:
            named = ", ".join(map(repr, found[:_SHOWN])) + (", …" if len(found) > _SHOWN else "")
            self.findings.append(Finding(level, file, f"{what}: {len(found):,} ({named})"))

    def read(self, file: str, read: Callable[..., Iterable[T]]) -> Iterator[T]:
        """The items of a file; every line that cannot be used becomes an error, the first of them one by one."""
        bad: list[str] = []

        def refuse(error: DataError) -> None:
            bad.append(str(error) if len(bad) < _LINES else "")  # a kept error would keep its whole traceback

        try:
            yield from read(refuse=refuse)
        except BadLine as error:
            self.error(file, f"{error}; nothing behind it was checked")
        except (DataError, OSError) as error:
            self.error(file, getattr(error, "strerror", None) or str(error))
        for line in bad[:_LINES]:
            self.error(file, line.partition(f"{file}, ")[2] or line)
        if len(bad) > _LINES:
            self.error(file, f"bad lines besides these {_LINES}: {len(bad) - _LINES:,}")

    def read_whole(self, file: str, read: Callable[..., T], otherwise: T) -> T:
        """What a file holds as one thing, its bad lines told as by ``read``."""
        return [otherwise, *self.read(file, lambda refuse: [read(refuse=refuse)])][-1]


def check_folder(folder: Path | str, *, runs: Sequence[Path | str] = ()) -> FolderReport:
    """What a collection's folder holds and every problem found in it, in its candidates and in further run files."""
    folder = Path(folder)
    look = _Look()
    try:
        layout, documents_path = detect(folder)
    except DataError as error:
        return FolderReport(folder.name, "", {}, (Finding("error", folder.name, str(error)),))
    _documents(look, documents_path, layout.read_documents)
    queries_path = find_file(folder, layout.queries)
    if queries_path is None:
        look.warn(layout.queries, "there is no such file, so nothing can be asked")
    else:
        _queries(look, queries_path, layout.read_queries)
    splits = _beir_qrels(look, folder) if layout.name == "beir" else _trec_qrels(look, folder)
    _judgements(look)
    _spans(look, folder)
    _splits(look, splits | _split_file(look, folder))
    for path in [*sorted((folder / "candidates").glob("*.trec*")), *map(Path, runs)]:
        _run(look, path)
    return FolderReport(folder.resolve().name, layout.name, look.contents, tuple(look.findings))


def _documents(look: _Look, path: Path, read: Callable[..., Iterator[Document]]) -> None:
    ids: Counter[str] = Counter()
    texts: Counter[bytes] = Counter()
    blank: list[str] = []
    for document in look.read(path.name, partial(read, path)):
        ids[document.id] += 1
        look.lengths[document.id] = len(document.text)
        if document.text.strip():
            texts[hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=8).digest()] += 1
        else:
            blank.append(document.id)
    characters = sum(look.lengths.values())
    longest = max(look.lengths.values(), default=0)
    look.contents[path.name] = f"{_count(len(ids), 'document')}, {characters:,} characters, the longest {longest:,}"
    if not ids:
        look.error(path.name, "there is no document in it")
    _check_ids(look, path.name, ids)
    look.ids("warning", path.name, "documents without text", blank)
    repeated = sum(count - 1 for count in texts.values())
    if repeated:
        look.warn(path.name, f"documents with the same text as another one: {repeated:,}")


def _queries(look: _Look, path: Path, read: Callable[..., Iterator[Query]]) -> None:
    ids: Counter[str] = Counter()
    for query in look.read(path.name, partial(read, path)):
        ids[query.id] += 1
        look.queries[query.id] = query.text
    look.contents[path.name] = _count(len(ids), "query", "queries")
    if not ids:
        look.error(path.name, "there is no query in it")
    _check_ids(look, path.name, ids)
    look.ids("error", path.name, "queries without a word", (q for q, text in look.queries.items() if not text.strip()))
    look.ids(
        "error", path.name, "ids that begin with '#', a comment in run files", (q for q in ids if q.startswith("#"))
    )


def _check_ids(look: _Look, file: str, ids: Counter[str]) -> None:
    look.ids("error", file, "ids that occur more than once", (name for name, count in ids.items() if count > 1))
    look.ids("error", file, "ids with white space, which run files cannot hold", filter(_UNFIT.search, ids))


def _trec_qrels(look: _Look, folder: Path) -> dict[str, Set[str]]:
    path = find_file(folder, "qrels.txt")
    if path is not None:
        _add_qrels(look, path.name, partial(trec.read_qrels, path))
    return {}


def _beir_qrels(look: _Look, folder: Path) -> dict[str, Set[str]]:
    splits: dict[str, Set[str]] = {}
    for path in sorted((folder / "qrels").glob("*.tsv*")):
        found = _add_qrels(look, f"qrels/{path.name}", partial(beir.read_qrels, path))
        splits[path.name.partition(".tsv")[0]] = set(found)
    return splits


def _add_qrels(look: _Look, file: str, read: Callable[..., Qrels]) -> Mapping[str, Mapping[str, int]]:
    grades = look.read_whole(file, read, Qrels({})).grades
    for query_id, row in grades.items():
        look.judged.setdefault(query_id, {}).update(row)
    relevant = sum(grade > 0 for row in grades.values() for grade in row.values())
    judgements = _count(sum(map(len, grades.values())), "judgement")
    look.contents[file] = f"{judgements} of {_count(len(grades), 'query', 'queries')}, {relevant:,} relevant"
    look.ids("warning", file, "judged queries that are not in the collection", _unknown(grades, look.queries))
    strangers = {d: None for row in grades.values() for d in row if d not in look.lengths}
    look.ids("warning", file, "judged documents that are not in the collection", strangers)
    return grades


def _judgements(look: _Look) -> None:
    if not look.judged:
        look.warn("qrels", "there are no judgements: nothing can be trained or evaluated")
        return
    known = {query_id: row for query_id, row in look.judged.items() if query_id in look.queries}
    if not known:
        look.error("qrels", "no judged query is in the collection: do the files belong together?")
    without = (q for q, row in known.items() if not any(grade > 0 for grade in row.values()))
    look.ids("warning", "qrels", "judged queries without a relevant document", without)
    lost = (
        q
        for q, row in known.items()
        if any(grade > 0 for grade in row.values()) and not any(g > 0 and d in look.lengths for d, g in row.items())
    )
    look.ids("error", "qrels", "queries whose relevant documents are all missing from the collection", lost)
    look.ids("warning", "qrels", "queries without a judgement", (q for q in look.queries if q not in look.judged))


def _spans(look: _Look, folder: Path) -> None:
    path = find_file(folder, "spans.jsonl")
    if path is None:
        return
    spans = list(look.read(path.name, partial(read_spans, path)))
    look.contents[path.name] = f"{_count(len(spans), 'span')} in {_count(len({s[:2] for s in spans}), 'pair')}"
    look.ids(
        "error",
        path.name,
        "spans of a document that is not in the collection",
        _of(spans, lambda s: s[1] not in look.lengths),
    )
    look.ids(
        "error",
        path.name,
        "spans of a query that is not in the collection",
        _of(spans, lambda s: s[0] not in look.queries),
    )
    # a token has at least one character, so tokens and chunks past the text's characters lie outside for sure
    outside = _of(spans, lambda s: s.span.stop > look.lengths.get(s.document_id, s.span.stop))
    look.ids("error", path.name, "spans that end behind their text (counted in bytes, or in another text?)", outside)
    empty = _of(spans, lambda s: isinstance(s.span, CharSpan) and s.span.start == s.span.stop)
    look.ids("warning", path.name, "empty spans", empty)
    unjudged = _of(spans, lambda s: look.judged.get(s.query_id, {}).get(s.document_id, 0) <= 0)
    look.ids("warning", path.name, "spans in documents not judged relevant to their query", unjudged)


def _of(spans: Iterable[GoldSpan], wrong: Callable[[GoldSpan], bool]) -> list[str]:
    return [f"{s.query_id} in {s.document_id} {s.span.start}-{s.span.stop}" for s in spans if wrong(s)]


def _split_file(look: _Look, folder: Path) -> dict[str, Set[str]]:
    path = folder / SPLITS
    if not path.is_file():
        return {}
    try:
        table = read_splits(path)
    except DataError as error:
        look.error(SPLITS, str(error))
        return {}
    look.contents[SPLITS] = ", ".join(f"{name} {len(ids):,}" for name, ids in table.items())
    for name, ids in table.items():
        look.ids(
            "error", SPLITS, f"ids of split {name!r} that are no query of the collection", _unknown(ids, look.queries)
        )
        if not ids:
            look.warn(SPLITS, f"split {name!r} is empty")
    return {name: set(ids) for name, ids in table.items()}


def _splits(look: _Look, splits: Mapping[str, Set[str]]) -> None:
    names = list(splits)
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            both = splits[first] & splits[second]
            look.ids("error", "splits", f"queries in {first!r} and in {second!r}", sorted(both))
            said = {_said(look, q): q for q in splits[first] - both}
            same = sorted(q for q in splits[second] - both if _said(look, q) and _said(look, q) in said)
            look.ids("warning", "splits", f"queries of {second!r} that read like one of {first!r}", same)


def _said(look: _Look, query_id: str) -> str:
    return " ".join(look.queries.get(query_id, "").lower().split())


def _run(look: _Look, path: Path) -> None:
    run = look.read_whole(path.name, partial(trec.read_run, path), None)
    if run is None:
        return
    look.contents[path.name] = f"run {run.name!r}: {_count(len(run), 'query', 'queries')}"
    look.ids("error", path.name, "queries that are not in the collection", _unknown(run.scores, look.queries))
    strangers = {d: None for row in run.scores.values() for d in row if d not in look.lengths}
    look.ids("error", path.name, "documents that are not in the collection", strangers)
    missing = [q for q in look.judged if q in look.queries and q not in run.scores]
    look.ids("warning", path.name, "judged queries without a document in it", missing)


def _unknown(ids: Iterable[str], known: Mapping[str, object]) -> Iterator[str]:
    return (name for name in ids if name not in known)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
