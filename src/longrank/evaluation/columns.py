"""A TREC run file as arrays: read in columns, joined with judgements by key, checked byte by byte."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import BadLine, DataError, DuplicateId
from longrank.core.types import Qrels, Run
from longrank.corpora.formats.files import decode
from longrank.evaluation.blocks import PADDING, Block, Bytes, Keys, Places, keys_of, read_block
from longrank.evaluation.hits import Hits, make_hits

_OPENERS: dict[str, Callable[[Path], IO[bytes]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}  # type: ignore[dict-item]
_BLOCK_BYTES = 1 << 22
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, eq=False)
class RunColumns:
    """A run as arrays over rows; rows of a query stand together and fall by float32 score, ties in any order."""

    name: str
    query_ids: tuple[str, ...]
    edges: Places  # [queries + 1], rows of query i are edges[i]:edges[i + 1]
    scores: NDArray[np.float32]  # [rows]
    id_starts: Places  # [rows], into text
    id_lengths: NDArray[np.int32]  # [rows]
    id_keys: Keys  # [rows]
    text: Bytes  # the file, uncompressed

    def __len__(self) -> int:
        return len(self.scores)

    def document_id(self, row: int) -> bytes:
        """Bytes of one row's document id."""
        start = int(self.id_starts[row])
        return self.text[start : start + int(self.id_lengths[row])].tobytes()

    def ranking(self, query_id: str) -> list[str]:
        """Document ids best first: float32 score falling, then id falling."""
        at = self.query_ids.index(query_id)
        rows = range(int(self.edges[at]), int(self.edges[at + 1]))
        pairs = sorted(((float(self.scores[row]), self.document_id(row)) for row in rows), reverse=True)
        return [document_id.decode("utf-8") for _, document_id in pairs]

    def to_run(self) -> Run:
        """The same run as a dict of dicts."""
        scores: dict[str, dict[str, float]] = {}
        for at, query_id in enumerate(self.query_ids):
            rows = range(int(self.edges[at]), int(self.edges[at + 1]))
            scores[query_id] = {self.document_id(row).decode("utf-8"): float(self.scores[row]) for row in rows}
        return Run(self.name, scores)


def read_columns(path: Path | str) -> RunColumns:
    """The run in a file (plain, gz, bz2 or xz); its rank column is not used, and its tag becomes the name.

    One tag a file, six columns a line, finite scores, no document twice for a query: anything else is an error.
    """
    path = Path(path)
    text, size = _read_text(path)
    parts: list[_Part] = []
    line, tag = 0, b""
    start = len(_BOM) if text[: len(_BOM)].tobytes() == _BOM else 0
    while start < size:
        stop = _line_end(text, start, min(start + _BLOCK_BYTES, size))
        piece = text[start : stop + PADDING]
        _refuse_other_encodings(piece[: stop - start], path=path, first_line=line)
        block = read_block(piece, stop - start, path=path, first_line=line)
        if len(block.scores):
            tag = _one_tag(piece, block, tag, path=path, first_line=line)
            parts.append(_part(piece, block, start))
        line += int(np.count_nonzero(piece[: stop - start] == 10))
        start = stop
    if not parts:
        raise DataError(f"{path} holds no line of a run")
    return _joined(path, text, parts, tag.decode())


class _Part(NamedTuple):
    queries: list[str]  # of each stretch of rows with one query id
    firsts: list[int]  # first row of each stretch
    id_starts: Places
    id_lengths: NDArray[np.int32]
    id_keys: Keys
    scores: NDArray[np.float32]


def _read_text(path: Path) -> tuple[Bytes, int]:
    """The file's bytes with a line end and padding behind them, and their number."""
    try:
        if path.suffix in _OPENERS:
            with _OPENERS[path.suffix](path) as stream:
                data = stream.read()
            text = np.empty(len(data) + 1 + PADDING, dtype=np.uint8)
            text[: len(data)] = np.frombuffer(data, dtype=np.uint8)
            size = len(data)
        else:
            with path.open("rb") as stream:
                text = np.empty(path.stat().st_size + 1 + PADDING, dtype=np.uint8)
                size = stream.readinto(text.data[: -1 - PADDING])
    except (OSError, EOFError, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read the run file {path}: {reason}") from None
    text[size:] = 0
    if size and text[size - 1] != 10:
        text[size] = 10
        size += 1
    return text, size


def _line_end(text: Bytes, start: int, stop: int) -> int:
    """End of the last whole line before ``stop``, or of the first one if none ends there."""
    for reach in (4096, stop - start):
        ends = np.flatnonzero(text[max(start, stop - reach) : stop] == 10)
        if len(ends):
            return max(start, stop - reach) + int(ends[-1]) + 1
    return stop + int(np.flatnonzero(text[stop:] == 10)[0]) + 1


def _refuse_other_encodings(lines: Bytes, *, path: Path, first_line: int) -> None:
    try:
        str(lines.data, "utf-8")
    except UnicodeDecodeError:
        for number, line in enumerate(lines.tobytes().split(b"\n"), start=first_line + 1):
            if not line.startswith(b"#"):  # a comment may say anything
                decode(line, path, number)


def _one_tag(text: Bytes, block: Block, tag: bytes, *, path: Path, first_line: int) -> bytes:
    keys = keys_of(text, block.tag_starts, block.tag_stops)
    for row in (0, int(np.argmax(keys != keys[0]))):
        found = text[block.tag_starts[row] : block.tag_stops[row]].tobytes()
        if tag and found != tag:
            reason = (
                f"tag {found.decode()!r} after {tag.decode()!r}: a run file holds one run; split it by its last column"
            )
            raise BadLine(path, first_line + int(block.lines[row]) + 1, reason)
        tag = found
    return tag


def _part(text: Bytes, block: Block, offset: int) -> _Part:
    keys = keys_of(text, block.query_starts, block.query_stops)
    firsts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()]
    queries = [text[block.query_starts[row] : block.query_stops[row]].tobytes().decode() for row in firsts]
    lengths = (block.document_stops - block.document_starts).astype(np.int32)
    id_keys = keys_of(text, block.document_starts, block.document_stops)
    return _Part(queries, firsts, block.document_starts + offset, lengths, id_keys, block.scores)


def _joined(path: Path, text: Bytes, parts: list[_Part], name: str) -> RunColumns:
    numbers: dict[str, int] = {}
    stretches = [numbers.setdefault(query_id, len(numbers)) for part in parts for query_id in part.queries]
    sizes = [size for part in parts for size in np.diff([*part.firsts, len(part.scores)]).tolist()]
    arrays = [
        np.concatenate([getattr(part, field) for part in parts])
        for field in ("scores", "id_starts", "id_lengths", "id_keys")
    ]
    if any(later < earlier for earlier, later in pairwise(stretches)):
        order = np.argsort(np.repeat(np.array(stretches, dtype=np.int32), sizes), kind="stable")
        arrays = [array[order] for array in arrays]
    edges = np.cumsum([0, *np.bincount(stretches, weights=sizes)]).astype(np.int64)
    _sort_by_score(arrays, edges)
    scores, starts, lengths, keys = arrays
    columns = RunColumns(name, tuple(numbers), edges, scores, starts, lengths, keys, text)
    _refuse_duplicates(columns, path)
    return columns


def _sort_by_score(arrays: list[NDArray[Any]], edges: Places) -> None:
    """Order, in place, the rows of each query whose scores rise anywhere."""
    scores = arrays[0]
    rising = np.flatnonzero(scores[1:] > scores[:-1]) + 1
    for query in np.unique(np.searchsorted(edges, np.setdiff1d(rising, edges), side="right") - 1).tolist():
        mine = slice(int(edges[query]), int(edges[query + 1]))
        order = np.argsort(-scores[mine], kind="stable")
        for array in arrays:
            array[mine] = array[mine][order]


def _refuse_duplicates(columns: RunColumns, path: Path) -> None:
    for query_id, start, stop in zip(columns.query_ids, columns.edges[:-1], columns.edges[1:], strict=True):
        keys = np.sort(columns.id_keys[start:stop])
        if (keys[1:] == keys[:-1]).any():
            seen: set[bytes] = set()
            for document_id in map(columns.document_id, range(start, stop)):
                if document_id in seen:
                    shown = document_id.decode()
                    raise DuplicateId(
                        f"{path}: document {shown!r} occurs twice for query {query_id!r}; keep one of the lines"
                    )
                seen.add(document_id)


def hits_of_columns(columns: RunColumns, qrels: Qrels, query_ids: tuple[str, ...]) -> Hits:
    """Hits of these queries of the run, ranked by float32 score, then document id, both falling."""
    number = {query_id: at for at, query_id in enumerate(query_ids)}
    place = np.array([number.get(query_id, -1) for query_id in columns.query_ids])  # of each query of the run, or -1
    grades = [{d.encode("utf-8", "surrogateescape"): g for d, g in qrels.grades[q].items()} for q in query_ids]
    candidates = _candidates(columns, [document_id for row in grades for document_id in row])
    owners = np.searchsorted(columns.edges, candidates, side="right") - 1
    found = [
        (row, owner, grades[at][document_id])
        for row, owner, at in zip(candidates.tolist(), owners.tolist(), place[owners].tolist(), strict=True)
        if at >= 0 and (document_id := columns.document_id(row)) in grades[at]
    ]
    rows, owners, grade = np.array(found, dtype=np.int64).reshape(-1, 3).T
    retrieved = np.zeros(len(query_ids), dtype=np.int64)
    retrieved[place[place >= 0]] = np.diff(columns.edges)[place >= 0]
    return make_hits(query_ids, place[owners], _ranks(columns, rows, owners), grade, retrieved=retrieved, qrels=qrels)


def _candidates(columns: RunColumns, judged_ids: list[bytes]) -> Places:
    """Rows that may hold one of these ids: all that do, and about one in fifty of the others at most."""
    stops = np.cumsum([0, *map(len, judged_ids)])
    text = np.frombuffer(b"".join(judged_ids) + bytes(PADDING), dtype=np.uint8)
    bits = np.uint64(min(max((64 * len(judged_ids)).bit_length(), 16), 26))
    present = np.zeros(1 << int(bits), dtype=bool)
    present[keys_of(text, stops[:-1], stops[1:]) >> (np.uint64(64) - bits)] = True
    return np.flatnonzero(present[columns.id_keys >> (np.uint64(64) - bits)])


def _ranks(columns: RunColumns, rows: Places, owners: Places) -> Places:
    starts, stops = columns.edges[owners], columns.edges[owners + 1]
    ranks = rows - starts + 1
    before, after = np.maximum(rows - 1, starts), np.minimum(rows + 1, stops - 1)
    mine = columns.scores[rows]
    tied = ((before < rows) & (columns.scores[before] == mine)) | ((after > rows) & (columns.scores[after] == mine))
    for hit in np.flatnonzero(tied).tolist():
        start, stop = int(starts[hit]), int(stops[hit])
        rising = -columns.scores[start:stop]
        above, below = (
            np.searchsorted(rising, -mine[hit], side="left"),
            np.searchsorted(rising, -mine[hit], side="right"),
        )
        greater = _ids_above(columns, start + int(above), start + int(below), columns.document_id(int(rows[hit])))
        ranks[hit] = int(above) + 1 + greater
    return ranks


def _ids_above(columns: RunColumns, start: int, stop: int, mine: bytes) -> int:
    """Number of ids of these rows that are greater than mine."""
    lengths = columns.id_lengths[start:stop]
    longest = int(lengths.max())
    if longest > PADDING or stop - start < 16:
        return sum(columns.document_id(row) > mine for row in range(start, stop))
    places = columns.id_starts[start:stop, None] + np.arange(longest)
    letters = np.where(np.arange(longest) < lengths[:, None], columns.text[places], 0).astype(np.uint8)
    return int(np.count_nonzero(letters.view(f"S{longest}")[:, 0] > mine))
