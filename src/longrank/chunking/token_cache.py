"""Tokens on disk: a text is tokenised once, however many processes and days read it.

A folder per tokenizer holds segments: files written whole, never changed, and mapped into memory. Each has an index
of content hashes, then ids (16 bits where they fit), then first and last characters of all its texts. New texts wait
in memory until there are enough for a segment. Past the size limit the oldest segments go.
"""

import contextlib
import hashlib
import mmap
import tempfile
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from longrank.chunking.tokenizers import CachedTokenizer, SubwordTokenizer, WordTokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.disk import atomic_file
from longrank.core.errors import SettingsError
from longrank.core.fingerprint import file_hash, fingerprint
from longrank.core.types import TokenizedText

_MAGIC = b"LRTOKEN1"
_HEAD = np.dtype([("magic", "S8"), ("texts", "<u4"), ("id_bytes", "<u4"), ("tokens", "<u8"), ("check", "<u8")])
_ENTRY = np.dtype([("key", "V16"), ("first", "<u8"), ("tokens", "<u8")])
_SUFFIX = ".tokens"


class _Place(NamedTuple):
    """Where the tokens of a text lie in a mapped segment, in bytes."""

    data: mmap.mmap
    ids: int
    wide: bool
    starts: int
    stops: int
    tokens: int


@dataclass(frozen=True)
class CacheSize:
    """Limits of a cache: bytes on disk for one tokenizer, and new tokens held back for one segment."""

    max_bytes: int = 4 * 2**30
    segment_tokens: int = 2_000_000

    def __post_init__(self) -> None:
        if self.max_bytes < 1 or self.segment_tokens < 1:
            raise SettingsError(f"a token cache needs limits of at least 1, got {self}")


class DiskTokenizer:
    """A tokenizer whose results are kept in a folder; ``flush`` writes what is new, as does the end of the program."""

    def __init__(self, inner: WordTokenizer | SubwordTokenizer, folder: Path, *, size: CacheSize | None = None) -> None:
        self.inner = inner
        self.folder = folder / identity(inner)
        self.size = size or CacheSize()
        self._places: dict[bytes, _Place] = {}
        self._fresh: dict[bytes, TokenizedText] = {}
        self._held = 0
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            self._places.update(_read_segment(path))
        self._finish = weakref.finalize(self, _write_segment, self.folder, self._fresh, self.size.max_bytes)

    @property
    def name(self) -> str:
        """The inner tokenizer's name."""
        return self.inner.name

    def tokenize(self, text: str) -> TokenizedText:
        """What the inner tokenizer gives, from disk where it is known."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        place = self._places.get(key)
        if place is not None:
            return _text_at(place, text, self.inner.name)
        fresh = self._fresh.get(key)
        if fresh is None:
            fresh = self._fresh[key] = self.inner.tokenize(text)
            self._held += len(fresh)
            if self._held >= self.size.segment_tokens:
                self.flush()
        return fresh

    def flush(self) -> None:
        """Write the new texts as a segment, and delete the oldest segments past the limit."""
        path = _write_segment(self.folder, self._fresh, self.size.max_bytes)
        if path is not None:
            self._places.update(_read_segment(path))
        self._fresh.clear()
        self._held = 0


def cache_on_disk(tokenizer: Tokenizer, folder: Path, *, size: CacheSize | None = None) -> DiskTokenizer:
    """Put a disk cache under a backbone's tokenizer, beneath its memory; the tokens stay the same.

    >>> backbone_tokenizer = CachedTokenizer(WordTokenizer())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     disk = cache_on_disk(backbone_tokenizer, Path(folder))
    ...     len(backbone_tokenizer.tokenize("long ago")), disk is backbone_tokenizer.inner
    (2, True)
    """
    above: Any = tokenizer
    if not isinstance(above, CachedTokenizer):
        raise SettingsError(f"a disk cache goes under a CachedTokenizer, not under a {type(above).__name__}")
    while hasattr(above.inner, "inner"):
        above = above.inner
    inner = above.inner
    if isinstance(above, DiskTokenizer):
        raise SettingsError(f"the tokenizer is cached on disk already, in {above.folder}")
    if not isinstance(inner, (WordTokenizer, SubwordTokenizer)):
        raise SettingsError(f"tokens of a {type(inner).__name__} cannot be cached on disk: its vocabulary has no hash")
    disk = DiskTokenizer(inner, folder, size=size)
    object.__setattr__(above, "inner", disk)  # a wrapper may be frozen; what it gives does not change
    return disk


def identity(tokenizer: WordTokenizer | SubwordTokenizer) -> str:
    """Sixteen hex digits that change with the vocabulary and rules: names are shared by different files."""
    if isinstance(tokenizer, WordTokenizer):
        return fingerprint(tokenizer.name, tokenizer.vocabulary_size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        tokenizer.save(path)
        return fingerprint(tokenizer.name, file_hash(path))


def _text_at(place: _Place, text: str, tokenizer: str) -> TokenizedText:
    data, count = place.data, place.tokens
    if place.wide:
        ids = np.frombuffer(data, np.int32, count, place.ids)
    else:
        ids = np.frombuffer(data, np.uint16, count, place.ids).astype(np.int32)
    starts = np.frombuffer(data, np.int32, count, place.starts)
    return TokenizedText(text, tokenizer, ids, starts, np.frombuffer(data, np.int32, count, place.stops))


def _write_segment(folder: Path, texts: Mapping[bytes, TokenizedText], max_bytes: int) -> Path | None:
    """The new segment; None if there was nothing to write, or more than the cache may hold."""
    if not texts:
        return None
    counts = np.array([len(text) for text in texts.values()], dtype=np.uint64)
    ids = np.concatenate([text.ids for text in texts.values()])
    index = np.zeros(len(texts), _ENTRY)
    index["key"] = np.frombuffer(b"".join(texts), "V16")
    index["tokens"], index["first"] = counts, np.concatenate([[0], np.cumsum(counts)[:-1]])
    narrow = ids.size == 0 or (int(ids.min()) >= 0 and int(ids.max()) < 2**16)
    head = np.zeros(1, _HEAD)
    head[0] = (_MAGIC, len(texts), 2 if narrow else 4, ids.size, zlib.crc32(index.tobytes()))
    starts = np.concatenate([text.char_starts for text in texts.values()]).astype("<i4")
    stops = np.concatenate([text.char_stops for text in texts.values()]).astype("<i4")
    # four-byte columns first: they stay aligned whatever the number of ids
    parts = [p.tobytes() for p in (head, index, starts, stops, ids.astype("<u2" if narrow else "<i4"))]
    if sum(map(len, parts)) > max_bytes:
        return None
    path = folder / f"{uuid4().hex}{_SUFFIX}"
    with atomic_file(path) as temporary, temporary.open("wb") as stream:
        stream.writelines(parts)
    _delete_oldest(folder, max_bytes)
    return path


def _delete_oldest(folder: Path, max_bytes: int) -> None:
    """Unlink segments from the oldest on; those that are mapped stay readable to whoever mapped them."""
    known = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # another process cleans up as well
            known.append((path.stat().st_mtime_ns, path.stat().st_size, path))
    total = sum(size for _, size, _ in known)
    for _, size, path in sorted(known):
        if total <= max_bytes:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size


def _read_segment(path: Path) -> dict[bytes, _Place]:
    """Places of a segment's texts; none if the file is damaged, so that its texts are tokenised anew."""
    try:
        with path.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # gone meanwhile, or empty
        return {}
    if len(data) < _HEAD.itemsize:
        return {}
    head = np.frombuffer(data, _HEAD, 1)[0]
    texts, width, tokens = int(head["texts"]), int(head["id_bytes"]), int(head["tokens"])
    starts = _HEAD.itemsize + texts * _ENTRY.itemsize
    if head["magic"] != _MAGIC or len(data) != starts + tokens * (8 + width):
        return {}
    index = np.frombuffer(data, _ENTRY, texts, _HEAD.itemsize)
    if zlib.crc32(index.tobytes()) != int(head["check"]):
        return {}
    stops, ids = starts + 4 * tokens, starts + 8 * tokens
    rows = zip((key.tobytes() for key in index["key"]), index["first"].tolist(), index["tokens"].tolist(), strict=True)
    return {
        key: _Place(data, ids + width * first, width == 4, starts + 4 * first, stops + 4 * first, count)
        for key, first, count in rows
    }
