"""Document ids of an index on disk, their tie order, and the fingerprint of documents."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import DataError, DuplicateId, UnknownDocument
from longrank.core.types import Document, Run

IDS, RANKS = "ids.txt", "id_ranks.npy"


@dataclass(frozen=True, eq=False)
class DocumentIds:
    """Ids by row; the texts are read when first asked for."""

    folder: Path
    ranks: NDArray[np.int32]  # [documents], rising with the id: the larger wins a tie

    def __len__(self) -> int:
        return len(self.ranks)

    @cached_property
    def by_row(self) -> NDArray[np.object_]:
        """Ids in the order in which the documents came."""
        text = (self.folder / IDS).read_text(encoding="utf-8")
        return np.array(text.split("\n") if text else [], dtype=object)

    @cached_property
    def by_rank(self) -> NDArray[np.object_]:
        """Ids in rising order."""
        result = np.empty(len(self), dtype=object)
        result[self.ranks] = self.by_row
        return result

    @cached_property
    def row_by_rank(self) -> NDArray[np.int32]:
        """The row of each rank."""
        result = np.empty(len(self), dtype=np.int32)
        result[self.ranks] = np.arange(len(self), dtype=np.int32)
        return result

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each id."""
        return {document_id: row for row, document_id in enumerate(self.by_row.tolist())}

    def rows(self, candidates: Run, query_id: str) -> list[int]:
        """Rows of a run's documents for a query, in the run's own order."""
        wanted = candidates.scores.get(query_id, {})
        try:
            return [self.row_of[document_id] for document_id in wanted]
        except KeyError as error:
            raise UnknownDocument(
                f"run {candidates.name!r} names {error.args[0]!r}, which the index in {self.folder} does not hold"
            ) from None


def write_ids(folder: Path, ids: Sequence[str]) -> None:
    """Write ids and their ranks; an id that occurs twice, or on two lines, is refused."""
    bad = next((document_id for document_id in ids if "\n" in document_id or not _encodable(document_id)), None)
    if bad is not None:
        raise DataError(f"document id {bad!r} cannot be stored: ids are valid Unicode without line breaks")
    order = sorted(range(len(ids)), key=ids.__getitem__)
    for one, other in pairwise(order):
        if ids[one] == ids[other]:
            raise DuplicateId(f"document id {ids[one]!r} occurs twice: every document needs its own id")
    ranks = np.empty(len(ids), dtype=np.int32)
    ranks[order] = np.arange(len(ids), dtype=np.int32)
    np.save(folder / RANKS, ranks)
    with (folder / IDS).open("w", encoding="utf-8", newline="") as stream:
        stream.write("\n".join(ids))


def read_ids(folder: Path) -> DocumentIds:
    """The ids of an index, texts not yet read."""
    return DocumentIds(folder, mapped(folder / RANKS))


def mapped(path: Path) -> NDArray[Any]:
    """A stored array, memory-mapped unless it is empty, as a plain array (subclasses slow small slices down)."""
    try:
        return np.asarray(np.load(path, mmap_mode="r"))
    except ValueError:  # nothing to map in an empty array
        return np.asarray(np.load(path))


class DocumentsHash:
    """A running hash of ids, titles and texts in order."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, document: Document) -> None:
        """Count a document in."""
        for part in (document.id, document.title, document.text):
            data = part.encode("utf-8", "surrogatepass")
            self._digest.update(len(data).to_bytes(8, "little"))
            self._digest.update(data)

    def hexdigest(self) -> str:
        """Thirty-two hex digits of the documents so far."""
        return self._digest.hexdigest()


def documents_fingerprint(documents: Iterable[Document]) -> str:
    """Hash of ids, titles and texts in order."""
    digest = DocumentsHash()
    for document in documents:
        digest.add(document)
    return digest.hexdigest()


def _encodable(text: str) -> bool:
    return text.isascii() or text == text.encode("utf-8", "replace").decode("utf-8")
