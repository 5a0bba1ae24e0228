"""Passages by number with their lengths in tokens: what documents are put together from.

Tokenised once; in memory, or on disk as a folder of ``texts.bin`` (UTF-8, one after another), ``starts.npy`` (where
each begins), ``tokens.npy`` (its length) and ``passages.json``, of which only the pages that are read take memory.
"""

import json
import mmap
from array import array
from collections.abc import Collection as Many
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from longrank.chunking.tokenizers import token_lengths
from longrank.core.contracts import Tokenizer
from longrank.core.disk import atomic_folder, write_atomic
from longrank.core.errors import DataError, UnknownDocument
from longrank.core.progress import track
from longrank.core.types import Document, IntArray

_META = "passages.json"
_BATCH = 1024  # passages tokenised together


@dataclass(frozen=True, eq=False)
class Passages:
    """Texts and token counts by number; ``rows`` gives the number of an id, for the ids that were asked for."""

    texts: Sequence[str]
    tokens: IntArray
    rows: Mapping[str, int]
    tokenizer: str

    def __len__(self) -> int:
        return len(self.tokens)

    def row(self, passage_id: str) -> int:
        """Number of a passage."""
        if passage_id not in self.rows:
            raise UnknownDocument(f"passage {passage_id!r} is judged, but not among the {len(self)} passages")
        return self.rows[passage_id]


class MappedTexts(Sequence[str]):
    """Texts of one file, decoded when asked for; a pickled one is its path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._starts: NDArray[np.int64] = np.load(folder / "starts.npy", mmap_mode="r", allow_pickle=False)
        self._file = (folder / "texts.bin").open("rb")
        size = (folder / "texts.bin").stat().st_size
        self._map = mmap.mmap(self._file.fileno(), size, prot=mmap.PROT_READ) if size else b""

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return self._map[self._starts[row] : self._starts[row + 1]].decode()

    def __reduce__(self) -> tuple[type["MappedTexts"], tuple[Path]]:
        return MappedTexts, (self.folder,)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


def count_passages(documents: Iterable[Document], tokenizer: Tokenizer) -> Passages:
    """Passages in memory.

    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> counted = count_passages([Document("a", "One two."), Document("b", "three")], WordTokenizer())
    >>> counted.tokens.tolist(), counted.row("b")
    ([3, 1], 1)
    """
    texts, lengths, rows = list[str](), list[int](), dict[str, int]()
    for document, length in _counted(documents, tokenizer):
        rows[document.id] = len(texts)
        texts.append(document.text)
        lengths.append(length)
    return Passages(texts, np.asarray(lengths, dtype=np.int32), rows, tokenizer.name)


def store_passages(folder: Path, documents: Iterable[Document], tokenizer: Tokenizer, *, ids: Many[str]) -> Passages:
    """Passages on disk, read a thousand at a time; the numbers of ``ids`` alone are kept, for they are few."""
    with atomic_folder(folder, mark=_META, what="a folder of passages") as temporary:
        rows: dict[str, int] = {}
        starts, lengths, at = array("q", [0]), array("i"), 0
        with (temporary / "texts.bin").open("wb") as stream:
            counted = _counted(track(documents, "tokenising passages"), tokenizer)
            for number, (document, length) in enumerate(counted):
                if document.id in ids:
                    rows[document.id] = number
                at += stream.write(document.text.encode("utf-8", "replace"))
                starts.append(at)
                lengths.append(length)
        np.save(temporary / "starts.npy", np.frombuffer(starts, dtype=np.int64))
        np.save(temporary / "tokens.npy", np.array(lengths, dtype=np.int32))
        write_atomic(temporary / _META, json.dumps({"tokenizer": tokenizer.name, "rows": rows}))
    return open_passages(folder)


def _counted(documents: Iterable[Document], tokenizer: Tokenizer) -> Iterator[tuple[Document, int]]:
    stream = iter(documents)
    while batch := list(islice(stream, _BATCH)):
        yield from zip(batch, token_lengths(tokenizer, [document.text for document in batch]), strict=True)


def open_passages(folder: Path) -> Passages:
    """Passages that ``store_passages`` wrote."""
    try:
        facts = json.loads((folder / _META).read_text(encoding="utf-8"))
        tokens = np.load(folder / "tokens.npy", allow_pickle=False)
        return Passages(MappedTexts(folder), tokens, facts["rows"], facts["tokenizer"])
    except FileNotFoundError:
        raise DataError(f"no passages at {folder}; write them with store_passages") from None


def in_blocks(count: int, size: int) -> Iterator[range]:
    """Ranges of at most ``size`` that cover 0 to ``count``: the unit of work, whoever does it."""
    return (range(at, min(at + size, count)) for at in range(0, count, size))
