"""Runs (``qid Q0 docid rank score tag``) and judgements (``qid 0 docid grade``) as TREC tools exchange them."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

import numpy as np

from longrank.core.errors import BadLine, BadScore, DataError, DuplicateId
from longrank.core.types import Qrels, Run, RunNotes
from longrank.corpora.formats.files import BOM, Refuse, decode, numbered_bytes, parse_lines, stop_at_it, writing

# only ASCII whitespace parts the columns, as in trec_eval: an id may hold a no-break space
_UNFIT_WORD = re.compile(r"[ \t\n\r\x0b\x0c]")
_LARGEST = 3.4028235e38  # rounds to the largest float32; in nine digits that is above its own double
_LOWEST = float(np.finfo(np.float32).min)
_NOTES = "# longrank.notes: "


def read_run(path: Path | str, *, refuse: Refuse = stop_at_it) -> Run:
    """The run in a file, named by its tag (by the file if there are no lines); the rank column is not used.

    Lines that begin with '#' are passed over, but for the notes that ``write_run`` may have left there.
    """
    path = Path(path)
    scores: dict[str, dict[str, float]] = {}
    row: dict[str, float] = {}
    tag = last = b""
    for number, (query, _, document, _, score, line_tag) in _rows(path, "qid Q0 docid rank score tag", refuse):
        try:
            if line_tag != tag:
                tag = _one_tag(line_tag, tag, path, number)
            if query != last:
                row, last = scores.setdefault(query.decode(), {}), query
            document_id = document.decode()
            if document_id in row:
                raise _duplicate(path, number, query.decode(), document_id)
            row[document_id] = _score(score, path, number)
        except DataError as error:
            refuse(error)
    name = tag.decode() if tag else path.name.partition(".")[0]
    return Run(name, scores, _read_notes(path, refuse))


def write_run(path: Path | str, run: Run, *, metadata: Mapping[str, object] | None = None) -> None:
    """Write a run, best first, so that every tool sees the order of ``run.ranking``.

    Scores are float32 in nine significant digits, each tie lowered to the next float32; a query without documents
    leaves no line. ``metadata`` (nested mappings of JSON values) becomes an ir_metadata comment block, followed by the
    run's notes; it is off by default because some tools refuse comments.
    """
    path = Path(path)
    tag = _word(run.name, "run name")
    with writing(path) as stream:
        if metadata is not None:
            _write_metadata(stream, metadata, run.notes)
        for query_id in run:
            lead = f"{_query_word(query_id)} Q0 "
            for rank, (document_id, score) in enumerate(_falling(run, query_id), start=1):
                stream.write(f"{lead}{_word(document_id, 'document id')} {rank} {score:.9g} {tag}\n")


def read_qrels(path: Path | str, *, refuse: Refuse = stop_at_it) -> Qrels:
    """The judgements in a file; the second column is not used."""
    path = Path(path)
    grades: dict[str, dict[str, int]] = {}
    for number, (query, _, document, grade) in _rows(path, "qid 0 docid grade", refuse):
        try:
            add_grade(grades, query.decode(), document.decode(), grade.decode(), path=path, number=number)
        except DataError as error:
            refuse(error)
    return Qrels(grades)


def write_qrels(path: Path | str, qrels: Qrels) -> None:
    """Write judgements in their own order; a query without any leaves no line."""
    with writing(Path(path)) as stream:
        for query_id, row in qrels.grades.items():
            lead = f"{_query_word(query_id)} 0 "
            stream.writelines(f"{lead}{_word(d, 'document id')} {grade:d}\n" for d, grade in row.items())


def add_grade(
    grades: dict[str, dict[str, int]], query_id: str, document_id: str, grade: str, *, path: Path, number: int
) -> None:
    """Put one judgement of a file's line into the grades; a second one of the same pair is refused."""
    if document_id in grades.get(query_id, ()):
        raise _duplicate(path, number, query_id, document_id)
    if not re.fullmatch(r"[+-]?[0-9]+", grade):
        raise BadLine(path, number, f"grade {grade!r} is not a whole number; round or map the grades first")
    grades.setdefault(query_id, {})[document_id] = int(grade)


def _rows(path: Path, columns: str, refuse: Refuse) -> Iterator[tuple[int, list[bytes]]]:
    count = len(columns.split())

    def parse(number: int, line: bytes) -> tuple[int, list[bytes]] | None:
        fields = line.split()
        if not fields or line.startswith(b"#"):
            return None
        decode(line, path, number)
        if len(fields) != count:
            raise BadLine(path, number, f"{len(fields)} columns where {count} are needed: {columns}")
        return number, fields

    return parse_lines(path, parse, refuse)


def _one_tag(found: bytes, tag: bytes, path: Path, number: int) -> bytes:
    if tag:
        tags = f"{found.decode()!r} after {tag.decode()!r}"
        raise BadLine(path, number, f"tag {tags}: a run file holds one run; split it by its last column")
    return found


def _score(data: bytes, path: Path, number: int) -> float:
    try:
        score = float(data)
    except ValueError:
        score = math.nan
    if not abs(score) <= _LARGEST or b"_" in data:  # NaN fails every comparison
        raise BadLine(
            path, number, f"score {data.decode()!r} is not a finite number that fits float32; mend or drop the line"
        )
    return score


def _duplicate(path: Path, number: int, query_id: str, document_id: str) -> DuplicateId:
    return DuplicateId(
        f"{path}, line {number}: document {document_id!r} occurs twice for query {query_id!r}; keep one of the lines"
    )


def _word(value: str, kind: str) -> str:
    if not value or _UNFIT_WORD.search(value) or value.startswith(BOM):
        raise DataError(f"{kind} {value!r} cannot stand in a TREC file: it must be one word without spaces; rename it")
    return value


def _query_word(query_id: str) -> str:
    if query_id.startswith("#"):
        raise DataError(f"query id {query_id!r} cannot stand in a TREC file: '#' begins a comment; rename it")
    return _word(query_id, "query id")


def _falling(run: Run, query_id: str) -> Iterator[tuple[str, float]]:
    """The ranking with strictly falling float32 scores: a tie becomes the next lower number."""
    row = run.scores[query_id]
    if max(map(abs, row.values()), default=0.0) > _LARGEST:
        raise BadScore(f"run {run.name!r}: a score for query {query_id!r} does not fit float32; rescale the scores")
    ranking, last = run.ranking(query_id), math.inf
    scores = np.fromiter((row[document_id] for document_id in ranking), dtype=np.float32, count=len(ranking))
    for document_id, score in zip(ranking, scores.tolist(), strict=True):
        if score >= last == _LOWEST:
            raise BadScore(f"run {run.name!r}: query {query_id!r} has ties at the lowest float32; rescale the scores")
        last = score if score < last else float(np.nextafter(np.float32(last), np.float32(-np.inf)))
        yield document_id, last


def _write_metadata(stream: TextIO, metadata: Mapping[str, object], notes: RunNotes) -> None:
    stream.write("# ir_metadata.start\n")
    stream.writelines(f"# {line}\n" for line in _yaml(metadata))
    stream.write("# ir_metadata.end\n")
    facts = asdict(notes)
    if not notes.cut_query_tokens:
        del facts["cut_query_tokens"]  # files of before the count stay the same
    stream.write(f"{_NOTES}{json.dumps(facts)}\n")


def _yaml(table: Mapping[str, object]) -> Iterator[str]:
    """Lines of block YAML; every scalar and list is JSON, which YAML contains."""
    for key, value in table.items():
        name = key if re.fullmatch(r"[A-Za-z][\w-]*", key) else json.dumps(key)
        if isinstance(value, Mapping) and value:
            yield f"{name}:"
            yield from (f"  {line}" for line in _yaml(value))
        else:
            yield f"{name}: {json.dumps(value)}"


def _read_notes(path: Path, refuse: Refuse) -> RunNotes:
    for number, line in numbered_bytes(path):
        if not line.startswith(b"#"):
            break
        try:
            text = decode(line, path, number)
            if text.startswith(_NOTES):
                return _notes(text.removeprefix(_NOTES), path, number)
        except BadLine as error:
            refuse(error)
    return RunNotes()


def _notes(text: str, path: Path, number: int) -> RunNotes:
    try:
        notes = json.loads(text)
        dropped = tuple(notes["dropped_queries"])
        return RunNotes(notes["cut_documents"], notes["cut_tokens"], dropped, notes.get("cut_query_tokens", 0))
    except (ValueError, KeyError, TypeError):
        raise BadLine(path, number, "the run's notes cannot be read; remove the line") from None
