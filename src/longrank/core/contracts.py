"""The protocols by which stages are swapped: one verb each."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from longrank.core.types import Document, Query, Run, Scores, SplitText, TokenizedText


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids with character offsets; ``name`` stands in every span counted with it."""

    @property
    def name(self) -> str: ...

    def tokenize(self, text: str) -> TokenizedText: ...


@runtime_checkable
class Splitter(Protocol):
    """A tokenised text to spans of at most ``longest`` tokens: spans, never strings, so positions survive."""

    @property
    def longest(self) -> int: ...

    def split(self, text: TokenizedText) -> SplitText: ...


@runtime_checkable
class Retriever(Protocol):
    """Queries to candidates: scores fall, ties by id, at most ``depth`` documents a query."""

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run: ...


@runtime_checkable
class Ranker(Protocol):
    """A query and documents to one score a document; a pointwise score never depends on its batch."""

    def score(self, query: Query, documents: Sequence[Document]) -> Scores: ...
