"""Documents, queries, judgements, runs and spans: frozen, and checked once at the door."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import BadScore, BadSpan, DataError, SpanOutsideDocument

IntArray = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id; every span of it is counted in ``text``, into which a catalog has joined the title."""

    id: str
    text: str
    title: str = ""

    def __post_init__(self) -> None:
        _check_id(self.id, "document")


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for."""

    id: str
    text: str

    def __post_init__(self) -> None:
        _check_id(self.id, "query")


@dataclass(frozen=True, slots=True, order=True)
class CharSpan:
    """Half-open range of characters (code points) of ``Document.text``."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        _check_span(self.start, self.stop)


@dataclass(frozen=True, slots=True, order=True)
class TokenSpan:
    """Half-open range of tokens, counted by the named tokenizer."""

    start: int
    stop: int
    tokenizer: str

    def __post_init__(self) -> None:
        _check_span(self.start, self.stop)

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class TokenizedText:
    """Token ids of a text with the characters each token covers."""

    text: str
    tokenizer: str
    ids: IntArray
    char_starts: IntArray
    char_stops: IntArray

    def __len__(self) -> int:
        return len(self.ids)

    def chars(self, span: TokenSpan) -> CharSpan:
        """Characters from the first to the last token of a span; an empty span gives an empty range."""
        if span.tokenizer != self.tokenizer or span.stop > len(self):
            raise SpanOutsideDocument(
                f"span {span.start}-{span.stop} of {span.tokenizer!r} lies outside a text of {len(self)} tokens of "
                f"{self.tokenizer!r}. Was it counted with another tokenizer?"
            )
        if span.start == span.stop:
            at = int(self.char_starts[span.start]) if span.start < len(self) else len(self.text)
            return CharSpan(at, at)
        return CharSpan(int(self.char_starts[span.start]), int(self.char_stops[span.stop - 1]))

    def tokens(self, span: CharSpan) -> TokenSpan:
        """Smallest range of tokens that covers a range of characters."""
        if span.stop > len(self.text):
            raise SpanOutsideDocument(f"characters {span.start}-{span.stop} lie outside a text of {len(self.text)}")
        start = int(np.searchsorted(self.char_stops, span.start, side="right"))
        stop = int(np.searchsorted(self.char_starts, span.stop, side="left"))
        return TokenSpan(start, max(start, stop), self.tokenizer)


@dataclass(frozen=True, eq=False)
class SplitText:
    """A tokenised text and the spans of it that a model will read; an empty text keeps one empty span."""

    source: TokenizedText
    spans: tuple[TokenSpan, ...]

    @property
    def cut_tokens(self) -> int:
        """Tokens of the text that no span covers."""
        covered = np.zeros(len(self.source), dtype=bool)
        for span in self.spans:
            covered[span.start : span.stop] = True
        return int(len(self.source) - covered.sum())


@dataclass(frozen=True)
class Qrels:
    """Relevance grades: query id -> document id -> grade; a grade above zero is relevant."""

    grades: Mapping[str, Mapping[str, int]]

    def __post_init__(self) -> None:
        for query_id, row in self.grades.items():
            _check_id(query_id, "query")
            for document_id, grade in row.items():
                _check_id(document_id, "document")
                if not isinstance(grade, int):
                    raise DataError(f"grade of {document_id!r} for query {query_id!r} is {grade!r}, not an integer")

    def relevant(self, query_id: str, *, at_least: int = 1) -> frozenset[str]:
        """Ids of the documents judged at least this relevant; empty for an unknown query."""
        row = self.grades.get(query_id, {})
        return frozenset(document_id for document_id, grade in row.items() if grade >= at_least)

    def __iter__(self) -> Iterator[str]:
        return iter(self.grades)

    def __len__(self) -> int:
        return len(self.grades)


@dataclass(frozen=True)
class RunNotes:
    """What a run's maker had to cut or leave out."""

    cut_documents: int = 0
    cut_tokens: int = 0
    dropped_queries: tuple[str, ...] = ()
    cut_query_tokens: int = 0

    def __add__(self, other: "RunNotes") -> "RunNotes":
        return RunNotes(
            self.cut_documents + other.cut_documents,
            self.cut_tokens + other.cut_tokens,
            self.dropped_queries + other.dropped_queries,
            self.cut_query_tokens + other.cut_query_tokens,
        )


@dataclass(frozen=True)
class Run:
    """Scored documents of each query."""

    name: str
    scores: Mapping[str, Mapping[str, float]]
    notes: RunNotes = field(default_factory=RunNotes)

    def __post_init__(self) -> None:
        for query_id, row in self.scores.items():
            _check_id(query_id, "query")
            # a finite sum has finite parts, and takes a fraction of the time
            if not math.isfinite(sum(row.values())) and not all(map(math.isfinite, row.values())):
                bad = next(document_id for document_id, score in row.items() if not math.isfinite(score))
                raise BadScore(f"run {self.name!r}: score of {bad!r} for query {query_id!r} is {row[bad]}")
            if "" in row:
                raise DataError(f"run {self.name!r}: query {query_id!r} has a document without an id")

    def ranking(self, query_id: str) -> list[str]:
        """Document ids best first: float32 score falling, then id falling, which is trec_eval's tie rule.

        >>> Run("r", {"q": {"a": 1.0, "b": 1.0, "c": 2.0}}).ranking("q")
        ['c', 'b', 'a']
        """
        row = self.scores.get(query_id, {})
        single = np.fromiter(row.values(), dtype=np.float32, count=len(row)).tolist()
        return [document_id for _, document_id in sorted(zip(single, row, strict=True), reverse=True)]

    def top(self, depth: int) -> "Run":
        """The same run with at most ``depth`` documents a query."""
        kept = {q: {d: row[d] for d in self.ranking(q)[:depth]} for q, row in self.scores.items()}
        return Run(self.name, kept, self.notes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)


class Scores(NamedTuple):
    """One score a document, in the order given, and how much text was not read, of the documents and of the query."""

    values: list[float]
    cut_documents: int = 0
    cut_tokens: int = 0
    cut_query_tokens: int = 0

    @property
    def notes(self) -> RunNotes:
        """The cut counts as notes of a run."""
        return RunNotes(self.cut_documents, self.cut_tokens, cut_query_tokens=self.cut_query_tokens)


class GoldSpan(NamedTuple):
    """Where the evidence for a query sits in a document, and who says so."""

    query_id: str
    document_id: str
    span: CharSpan | TokenSpan
    source: str


@dataclass(frozen=True)
class Collection:
    """Documents, queries and judgements that belong together."""

    name: str
    documents: Mapping[str, Document]
    queries: Mapping[str, Query]
    qrels: Qrels
    spans: Sequence[GoldSpan] = ()


@dataclass(frozen=True)
class Spec:
    """Name and arguments of one registry entry: what a TOML table or a checkpoint holds."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


def _check_id(value: object, kind: str) -> None:
    if not isinstance(value, str) or not value:
        raise DataError(f"a {kind} id must be a string that is not empty, got {value!r}")


def _check_span(start: int, stop: int) -> None:
    if start < 0 or stop < start:
        raise BadSpan(f"span {start}-{stop} is impossible: 0 <= start <= stop is needed")
