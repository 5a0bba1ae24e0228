"""The papers' tables about collections: sizes, lengths, judgements, and relevant passages a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from longrank.core.contracts import Tokenizer
from longrank.core.progress import track
from longrank.core.types import Collection, TokenSpan

# the PARADE paper, section 5.5: grade from which a passage alone answers the question
PASSAGE_LABELS: Final = MappingProxyType(
    {"gov2": 3, "fira": 3, "trec-dl": 3, "genomics": 1, "msmarco": 1, "default": 1}
)
PASSAGE_TOKENS: Final = 130


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Numbers of the papers' document and query tables; means are 0 where there is nothing to average."""

    name: str
    tokenizer: str
    documents: int
    document_tokens: float
    longest_document: int
    queries: int
    query_tokens: float
    relevant_per_query: float
    judged_queries: int


def collection_statistics(collection: Collection, tokenizer: Tokenizer, *, at_least: int = 1) -> CollectionStatistics:
    """Counts and mean lengths of a collection in one tokenizer's tokens; judgements of queries that are there."""
    lengths = [
        len(tokenizer.tokenize(collection.documents[document_id].text))
        for document_id in track(collection.documents, "counting", total=len(collection.documents))
    ]
    queries = [len(tokenizer.tokenize(query.text)) for query in collection.queries.values()]
    judged = [query_id for query_id in collection.qrels if query_id in collection.queries]
    relevant = [len(collection.qrels.relevant(query_id, at_least=at_least)) for query_id in judged]
    return CollectionStatistics(
        collection.name,
        tokenizer.name,
        len(lengths),
        _mean(lengths),
        max(lengths, default=0),
        len(queries),
        _mean(queries),
        _mean(relevant),
        len(judged),
    )


def collapse(sentences: Sequence[TokenSpan], *, max_tokens: int = PASSAGE_TOKENS) -> list[TokenSpan]:
    """Relevant sentences as passages: each begins at one and takes in those that end within ``max_tokens`` of it.

    >>> [len(span) for span in collapse([TokenSpan(0, 60, "w"), TokenSpan(70, 130, "w"), TokenSpan(131, 150, "w")])]
    [130, 19]
    """
    passages: list[TokenSpan] = []
    for sentence in sorted(sentences):
        if passages and sentence.stop - passages[-1].start <= max_tokens:
            last = passages[-1]
            passages[-1] = TokenSpan(last.start, max(last.stop, sentence.stop), last.tokenizer)
        else:
            passages.append(sentence)
    return passages


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0
