"""Documents by id from disk, memory-mapped: a collection larger than memory works.

A store is a folder: ``documents.jsonl`` (one document a line, in the order given), ``ids.bin`` (the ids one after
another), ``starts.bin`` (where the line and the id of each document begin), ``hashes.npy`` (hashes of the ids, sorted),
``rows.bin`` (the document of each hash) and ``store.json`` (the version, and the sizes by which damage is noticed).
Only the hashes are mapped into memory; all else is read at the place where it stands.
"""

import json
import os
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longrank.core.disk import atomic_folder, write_atomic
from longrank.core.errors import DataError, DuplicateId
from longrank.core.types import Document
from longrank.corpora.formats.jsonl import from_document
from longrank.corpora.formats.records import to_line

VERSION = 1
_FILES = ("documents.jsonl", "ids.bin", "starts.bin", "rows.bin", "hashes.npy")
_BLOCK = 4096  # ids read at once when iterating


class DocumentStore(Mapping[str, Document]):
    """A mapping from id to document that reads each document when it is asked for; made by ``build`` or ``open``.

    Iteration gives the ids in the order in which the documents were added. A pickled store is its path, opened again
    on arrival; reads never move a shared file position, so forked workers and threads may share one.
    """

    def __init__(self, path: Path, *, count: int) -> None:
        self.path, self._count = path, count
        self._files = {name: (path / name).open("rb") for name in _FILES[:4]}
        mapped = np.load(path / "hashes.npy", mmap_mode="r" if count else None, allow_pickle=False)
        self._hashes: NDArray[np.uint64] = np.asarray(mapped)  # a plain array: numpy's memmap class is slow to slice

    @staticmethod
    def build(path: Path | str, documents: Iterable[Document]) -> "DocumentStore":
        """A new store of these documents, taken one at a time; a store that was at the path is replaced at the end.

        Memory grows by some 40 bytes a document, whatever its length. A second document with the same id is refused.
        """
        path = Path(path)
        with atomic_folder(path, mark="store.json", what="a document store") as folder:
            hashes = _write_documents(folder, documents)
            order = np.argsort(hashes, kind="stable")
            np.save(folder / "hashes.npy", hashes[order])
            order.astype("<i8").tofile(folder / "rows.bin")
            sizes = {name: (folder / name).stat().st_size for name in _FILES}
            write_atomic(folder / "store.json", json.dumps({"version": VERSION, "count": len(hashes), "sizes": sizes}))
            _refuse_duplicates(DocumentStore(folder, count=len(hashes)), hashes, order)
        return DocumentStore.open(path)

    @staticmethod
    def open(path: Path | str) -> "DocumentStore":
        """The store at a path; nothing is read but its sizes, which must be what they were when it was made."""
        path = Path(path).resolve()
        try:
            header = json.loads((path / "store.json").read_text(encoding="utf-8"))
            version, count, sizes = header["version"], int(header["count"]), dict(header["sizes"])
        except FileNotFoundError:
            raise DataError(f"no document store at {path}: build one with DocumentStore.build") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path / 'store.json'} is damaged; build the store again") from None
        if version != VERSION:
            raise DataError(f"{path} is a store of version {version}, this is version {VERSION}; build it again")
        for name in _FILES:
            found = (path / name).stat().st_size if (path / name).is_file() else 0
            if found != sizes.get(name):
                raise DataError(f"{path / name} has {found} bytes, not {sizes.get(name)}; build the store again")
        return DocumentStore(path, count=count)

    def __getitem__(self, document_id: str) -> Document:
        row = self._row(document_id)
        if row is None:
            raise KeyError(document_id)
        return self._read(row)

    def __contains__(self, document_id: object) -> bool:
        return isinstance(document_id, str) and self._row(document_id) is not None

    def __iter__(self) -> Iterator[str]:
        for first in range(0, self._count, _BLOCK):
            yield from self.ids(first, min(first + _BLOCK, self._count))

    def __len__(self) -> int:
        return self._count

    def ids(self, start: int, stop: int) -> list[str]:
        """Ids of the documents from number ``start`` up to ``stop``, counted from 0 in the order of iteration."""
        bounds = self._integers("starts.bin", 2 * start, 2 * (stop - start) + 2)[1::2]
        data = self._bytes("ids.bin", bounds[0], bounds[-1])
        return [data[a - bounds[0] : b - bounds[0]].decode() for a, b in pairwise(bounds)]

    def __reduce__(self) -> tuple[Any, ...]:
        return DocumentStore.open, (self.path,)

    def __repr__(self) -> str:
        return f"DocumentStore({str(self.path)!r}, {len(self)} documents)"

    def __del__(self) -> None:
        for file in getattr(self, "_files", {}).values():
            file.close()

    def _row(self, document_id: str) -> int | None:
        wanted = _hash(document_id.encode("utf-8", "surrogatepass"))
        for place in range(int(self._hashes.searchsorted(wanted)), self._count):
            if self._hashes[place] != wanted:
                return None
            (row,) = self._integers("rows.bin", place, 1)
            if self.ids(row, row + 1) == [document_id]:
                return row
        return None

    def _read(self, row: int) -> Document:
        start, _, stop, _ = self._integers("starts.bin", 2 * row, 4)
        fields = json.loads(self._bytes("documents.jsonl", start, stop))
        return Document(fields["id"], fields["text"], fields.get("title", ""))

    def _integers(self, name: str, at: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}q", self._bytes(name, 8 * at, 8 * (at + count)))

    def _bytes(self, name: str, start: int, stop: int) -> bytes:
        return os.pread(self._files[name].fileno(), stop - start, start)


def _write_documents(folder: Path, documents: Iterable[Document]) -> NDArray[np.uint64]:
    hashes = array("Q")
    line_at = id_at = 0
    with ExitStack() as stack:
        lines, ids, starts = (stack.enter_context((folder / name).open("wb")) for name in _FILES[:3])
        starts.write(struct.pack("<2q", 0, 0))
        for document in documents:
            try:
                line, name = to_line(from_document(document)).encode(), document.id.encode()
            except UnicodeEncodeError:
                raise DataError(f"document {document.id!r} holds half of a surrogate pair; repair its text") from None
            line_at, id_at = line_at + lines.write(line), id_at + ids.write(name)
            starts.write(struct.pack("<2q", line_at, id_at))
            hashes.append(int(_hash(name)))
    return np.frombuffer(hashes, dtype=np.uint64)


def _refuse_duplicates(store: DocumentStore, hashes: NDArray[np.uint64], order: NDArray[np.int64]) -> None:
    seen: dict[str, int] = {}
    for place in np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]]).tolist():
        for row in map(int, order[place : place + 2]):
            (name,) = store.ids(row, row + 1)
            if seen.setdefault(name, row) != row:
                raise DuplicateId(
                    f"document id {name!r} occurs twice, as documents number {seen[name] + 1} and {row + 1}; "
                    "keep one of them or rename it"
                )


def _hash(name: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(name, digest_size=8).digest(), "little"))
