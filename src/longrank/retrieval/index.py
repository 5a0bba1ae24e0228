"""Term counts of documents on disk: built in one pass with bounded memory, opened memory-mapped.

A folder holds the score matrix in the layout of bm25s (``*.csc.index.npy``, ``vocab.index.json``,
``params.index.json``), which bm25s can open, and beside it what re-scoring and feedback need: the counts in the same
order, the documents' own terms, lengths and ids, and ``longrank.json`` with settings and fingerprint.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from longrank.core.disk import atomic_folder
from longrank.core.errors import DataError
from longrank.core.progress import track
from longrank.core.settings import Settings, parse_settings
from longrank.core.types import Document
from longrank.retrieval.analysis import AnalysisSettings, Analyzer
from longrank.retrieval.ids import DocumentIds, DocumentsHash, mapped, read_ids, write_ids

FORMAT = 1
META = "longrank.json"
SPILL_TOKENS = 1 << 22  # tokens held before they are counted and written out: about 100 MB of working memory

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class BM25Settings(Settings):
    """How documents are read and scored; k1 and b may be changed at query time, the rest is fixed by the build."""

    k1: float = 1.2
    b: float = 0.75
    analysis: AnalysisSettings = AnalysisSettings()
    fields: tuple[Literal["title", "text"], ...] = ("text",)


@dataclass(frozen=True, eq=False)
class Postings:
    """An opened index: arrays are memory-mapped, vocabulary and ids are read when first asked for."""

    folder: Path
    settings: BM25Settings
    documents: str  # fingerprint of the documents
    ids: DocumentIds
    scores: Floats  # [postings], term by term, documents rising within a term
    rows: Ints  # [postings], the document of each
    counts: NDArray[Any]  # [postings]
    starts: Longs  # [terms + 1], where each term's postings begin
    lengths: Ints  # [documents], in terms
    forward_starts: Longs  # [documents + 1]
    forward_terms: Ints  # [postings], document by document
    forward_counts: NDArray[Any]

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Number of each term."""
        vocabulary: dict[str, int] = json.loads((self.folder / "vocab.index.json").read_text(encoding="utf-8"))
        return vocabulary

    @cached_property
    def terms(self) -> list[str]:
        """Terms by number."""
        return list(self.vocabulary)

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Lucene's idf of each term: ln(1 + (N - n + 0.5) / (n + 0.5))."""
        return lucene_idf(np.diff(self.starts), len(self.lengths))

    @cached_property
    def mean_length(self) -> float:
        """Mean number of terms a document; 1 when there are none, so that nothing is divided by zero."""
        return _mean_length(self.lengths)


def lucene_idf(frequencies: NDArray[Any], documents: int) -> NDArray[np.float64]:
    """ln(1 + (N - n + 0.5) / (n + 0.5)): always above zero."""
    result: NDArray[np.float64] = np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5))
    return result


def length_norm(lengths: Ints, mean_length: float, *, k1: float, b: float) -> NDArray[np.float64]:
    """k1 (1 - b + b |D| / mean length), what a count is weighed against."""
    result: NDArray[np.float64] = k1 * (1.0 - b + b * (lengths / mean_length))
    return result


def build_postings(documents: Iterable[Document], folder: Path, settings: BM25Settings) -> Postings:
    """The index of the documents, opened; on any failure ``folder`` is as it was before.

    Documents are read once. Counts go to disk every few million tokens, so memory grows only with the vocabulary
    and the ids.
    """
    with atomic_folder(folder, mark=META, what="an index of BM25") as temporary:
        spilled = _count(documents, temporary, settings)
        write_ids(temporary, spilled.ids)
        np.save(temporary / "lengths.npy", spilled.lengths)
        np.save(temporary / "forward_starts.npy", spilled.forward_starts)
        _narrow_counts(temporary, spilled)
        _transpose(temporary, spilled, settings)
        _write_tables(temporary, spilled, settings)
    return open_postings(folder)


def titled(document: Document) -> str:
    """Title and text; a title that stands in front of the text already, as BEIR's readers put it, is not said twice.

    >>> titled(Document("a", "They swim.", title="Otters")), titled(Document("a", "Otters They swim.", title="Otters"))
    ('Otters They swim.', 'Otters They swim.')
    """
    joined = not document.title or document.text.startswith(document.title)
    return document.text if joined else f"{document.title} {document.text}"


def _indexed(document: Document, settings: BM25Settings) -> str:
    if "title" not in settings.fields:
        return document.text
    return titled(document) if "text" in settings.fields else document.title


def open_postings(folder: Path) -> Postings:
    """The index in a folder, memory-mapped."""
    try:
        meta = json.loads((folder / META).read_text(encoding="utf-8"))
        ids = read_ids(folder)
        arrays = {name: mapped(folder / file) for name, file in _FILES.items()}
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} holds no readable index ({error}): build it with `longrank retrieve`") from None
    if meta.get("format") != FORMAT:
        raise DataError(f"the index in {folder} has format {meta.get('format')}, this version reads {FORMAT}: rebuild")
    settings = parse_settings(BM25Settings, meta["settings"], source=str(folder / META))
    return Postings(folder=folder, settings=settings, documents=meta["documents"], ids=ids, **arrays)


_FILES = {
    "scores": "data.csc.index.npy",
    "rows": "indices.csc.index.npy",
    "starts": "indptr.csc.index.npy",
    "counts": "counts.npy",
    "lengths": "lengths.npy",
    "forward_starts": "forward_starts.npy",
    "forward_terms": "forward_terms.npy",
    "forward_counts": "forward_counts.npy",
}


@dataclass(frozen=True, eq=False)
class _Spilled:
    """What the pass over the documents leaves in memory; the counts themselves are in two raw files."""

    ids: list[str]
    documents: str
    vocabulary: dict[str, int]
    lengths: Ints
    forward_starts: Longs
    largest_count: int


def _count(documents: Iterable[Document], folder: Path, settings: BM25Settings) -> _Spilled:
    digest, ids = DocumentsHash(), list[str]()
    with (folder / "terms.raw").open("wb") as terms, (folder / "counts.raw").open("wb") as counts:
        reading = _Reading(Analyzer(settings.analysis), terms, counts)
        for document in track(documents, "indexing documents"):
            digest.add(document)
            ids.append(document.id)
            reading.add(_indexed(document, settings))
        reading.spill()
    starts = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum(np.concatenate([np.zeros(0, np.int64), *reading.widths]), out=starts[1:])
    lengths = np.concatenate([np.zeros(0, np.int32), *reading.lengths]).astype(np.int32)
    return _Spilled(ids, digest.hexdigest(), reading.vocabulary, lengths, starts, reading.largest_count)


class _Reading:
    """Documents being read: words are numbered as they come; terms are found once a word, when tokens are spilled."""

    def __init__(self, analyzer: Analyzer, terms: BinaryIO, counts: BinaryIO) -> None:
        self.vocabulary: dict[str, int] = {}
        self.lengths: list[Ints] = []  # of documents, one array a spill
        self.widths: list[Longs] = []  # distinct terms of documents, likewise
        self.largest_count = 0
        self._analyzer, self._files = analyzer, (terms, counts)
        self._words: defaultdict[str, int] = defaultdict(count().__next__)
        self._term_of: array[int] = array("i")  # term of each word, -1 for a stop word
        self._tokens: array[int] = array("i")  # word numbers of the documents not yet spilled
        self._stops: array[int] = array("q")  # where each of them ends

    def add(self, text: str) -> None:
        """Take in one document."""
        self._tokens.extend(map(self._words.__getitem__, self._analyzer.words(text)))
        self._stops.append(len(self._tokens))
        if len(self._tokens) >= SPILL_TOKENS:
            self.spill()

    def spill(self) -> None:
        """Count the tokens held document by document and write terms and counts to the files."""
        from scipy import sparse

        for word in islice(self._words, len(self._term_of), None):
            term = self._analyzer.term(word)
            self._term_of.append(-1 if term is None else self.vocabulary.setdefault(term, len(self.vocabulary)))
        numbers = np.array(self._term_of, dtype=np.int32)[np.array(self._tokens, dtype=np.int32)]
        kept = numbers >= 0
        starts = np.zeros(len(self._stops) + 1, dtype=np.int64)
        starts[1:] = np.concatenate([[0], np.cumsum(kept)])[np.array(self._stops, dtype=np.int64)]
        ones = np.ones(int(starts[-1]), dtype=np.int32)
        shape = (len(self._stops), max(len(self.vocabulary), 1))
        matrix = sparse.csr_matrix((ones, numbers[kept], starts), shape=shape)
        matrix.sum_duplicates()
        for stream, values in zip(self._files, (matrix.indices, matrix.data), strict=True):
            values.astype(np.int32).tofile(stream)
        self.lengths.append(np.diff(starts).astype(np.int32))
        self.widths.append(np.diff(matrix.indptr).astype(np.int64))
        self.largest_count = max(self.largest_count, int(matrix.data.max(initial=0)))
        del self._tokens[:], self._stops[:]


def _narrow_counts(folder: Path, spilled: _Spilled) -> None:
    """Turn the raw files into arrays, counts in the smallest type that holds the largest."""
    total = int(spilled.forward_starts[-1])
    targets = {"terms": np.dtype(np.int32), "counts": np.min_scalar_type(spilled.largest_count)}
    for name, dtype in targets.items():
        target = _new(folder / f"forward_{name}.npy", total, dtype)
        raw = folder / f"{name}.raw"
        with raw.open("rb") as stream:
            for start in range(0, total, SPILL_TOKENS):
                stop = min(start + SPILL_TOKENS, total)
                target[start:stop] = np.fromfile(stream, dtype=np.int32, count=stop - start)
        raw.unlink()


def _transpose(folder: Path, spilled: _Spilled, settings: BM25Settings) -> None:
    """Turn documents -> terms into terms -> documents, a block of documents at a time, and score each posting."""
    from scipy import sparse

    forward_terms, forward_counts = mapped(folder / "forward_terms.npy"), mapped(folder / "forward_counts.npy")
    total, terms = len(forward_terms), len(spilled.vocabulary)
    frequencies = np.zeros(terms, dtype=np.int64)
    for start in range(0, total, SPILL_TOKENS):
        frequencies += np.bincount(forward_terms[start : start + SPILL_TOKENS], minlength=terms)
    starts = np.zeros(terms + 1, dtype=np.int64)
    np.cumsum(frequencies, out=starts[1:])
    np.save(folder / _FILES["starts"], starts)

    idf = lucene_idf(frequencies, len(spilled.lengths))
    norm = length_norm(spilled.lengths, _mean_length(spilled.lengths), k1=settings.k1, b=settings.b)
    scores = _new(folder / _FILES["scores"], total, np.dtype(np.float32))
    rows = _new(folder / _FILES["rows"], total, np.dtype(np.int32))
    counts = _new(folder / _FILES["counts"], total, forward_counts.dtype)
    heads = starts[:-1].copy()
    for first, last in _blocks(spilled.forward_starts):
        begin, end = spilled.forward_starts[first], spilled.forward_starts[last]
        inner = (spilled.forward_starts[first : last + 1] - begin).astype(np.int64)
        block = sparse.csr_matrix((forward_counts[begin:end], forward_terms[begin:end], inner), (last - first, terms))
        turned = block.tocsc()
        widths = np.diff(turned.indptr)
        places = np.arange(end - begin) + np.repeat(heads - turned.indptr[:-1], widths)
        documents = turned.indices + first
        frequency = turned.data.astype(np.float64)
        scores[places] = np.repeat(idf, widths) * frequency / (frequency + norm[documents])
        rows[places], counts[places] = documents, turned.data
        heads += widths


def _blocks(starts: Longs) -> Iterator[tuple[int, int]]:
    """Ranges of documents of about SPILL_TOKENS postings, at least one document each."""
    first, documents = 0, len(starts) - 1
    while first < documents:
        last = int(np.searchsorted(starts, starts[first] + SPILL_TOKENS, side="right")) - 1
        last = min(max(last, first + 1), documents)
        yield first, last
        first = last


def _write_tables(folder: Path, spilled: _Spilled, settings: BM25Settings) -> None:
    text = json.dumps(spilled.vocabulary, ensure_ascii=False)
    (folder / "vocab.index.json").write_text(text, encoding="utf-8")
    foreign = {
        "k1": settings.k1,
        "b": settings.b,
        "delta": 0.5,
        "method": "lucene",
        "idf_method": "lucene",
        "dtype": "float32",
        "int_dtype": "int32",
        "num_docs": len(spilled.ids),
        "version": version("bm25s"),
        "backend": "numpy",
    }
    (folder / "params.index.json").write_text(json.dumps(foreign, indent=2), encoding="utf-8")
    meta = {"format": FORMAT, "settings": settings.model_dump(), "documents": spilled.documents}
    (folder / META).write_text(json.dumps(meta, indent=2), encoding="utf-8")


def _mean_length(lengths: Ints) -> float:
    return float(lengths.mean(dtype=np.float64)) if lengths.any() else 1.0


def _new(path: Path, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if size == 0:  # an empty file cannot be mapped
        np.save(path, np.zeros(0, dtype=dtype))
        return np.zeros(0, dtype=dtype)
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(size,))
