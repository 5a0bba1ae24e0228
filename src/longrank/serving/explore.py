"""What the page shows: every window of every document asked about alone, beside the document as a whole."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from longrank.chunking.splitters import Sliding
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import CharSpan
from longrank.serving.dialects import usage
from longrank.serving.readers import Part, Reading

WINDOW_WORDS = 100
MOST_WINDOWS = 150  # of a document; the windows of a longer one are larger


class Explored(NamedTuple):
    """The texts to ask about, and the windows of each document among them."""

    texts: list[str]
    windows: list[list[CharSpan]]


def windows(text: str, *, words: int = WINDOW_WORDS, most: int = MOST_WINDOWS) -> list[CharSpan]:
    """Windows that overlap by half, from the first word to the last; at least one.

    >>> windows("a b c d e f", words=4)
    [CharSpan(start=0, stop=7), CharSpan(start=4, stop=11)]
    """
    found = WordTokenizer().tokenize(text)
    size = max(words, -(-2 * len(found) // most))
    return [found.chars(span) for span in Sliding(size, max(1, size // 2)).split(found).spans]


def explore(documents: Sequence[str]) -> Explored:
    """Each document, followed by its windows."""
    spans = [windows(text) for text in documents]
    texts = [t for text, found in zip(documents, spans, strict=True) for t in (text, *_cut_out(text, found))]
    return Explored(texts, spans)


def parts(spans: Sequence[CharSpan], readings: Sequence[Reading]) -> list[Part]:
    """Windows with the scores they got alone."""
    return [Part(span, reading.score) for span, reading in zip(spans, readings, strict=True)]


def explore_reply(
    explored: Explored, readings: Sequence[Reading], *, shown: Callable[[float], float], model: str
) -> dict[str, Any]:
    """For each document the score of the ranker, of its first window and of its best, the windows, and what was cut."""
    rest = iter(readings)
    documents: list[dict[str, Any]] = []
    wholes: list[Reading] = []
    for found in explored.windows:
        whole = next(rest)
        scores = [next(rest).score for _ in found]
        wholes.append(whole)
        documents.append(
            {
                "served": shown(whole.score),
                "firstp": shown(scores[0]),
                "maxp": shown(max(scores)),
                "tokens": whole.tokens,
                "cut_tokens": whole.cut_tokens,
                "read_to": whole.read_to,
                "windows": [[span.start, span.stop, shown(score)] for span, score in zip(found, scores, strict=True)],
            }
        )
    counts = usage(wholes)
    return {
        "model": model,
        "documents": documents,
        "cut_documents": counts.cut_documents,
        "cut_tokens": counts.cut_tokens,
        "cut_query_tokens": counts.cut_query_tokens,
    }


def _cut_out(text: str, spans: Sequence[CharSpan]) -> list[str]:
    return [text[span.start : span.stop] for span in spans]
