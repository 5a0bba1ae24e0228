"""A document with its evidence marked, whole or as excerpts around it."""

from collections.abc import Callable, Sequence

from longrank.core.errors import SpanOutsideDocument
from longrank.core.types import CharSpan

ELLIPSIS = " [...] "


def mark_evidence(
    text: str, spans: Sequence[CharSpan], *, mark: Callable[[str], str] | None = None, context: int | None = None
) -> str:
    """The text with each span marked, ``**so**`` by default; with ``context``, only that many characters around spans.

    >>> mark_evidence("the quick brown fox", [CharSpan(4, 9)])
    'the **quick** brown fox'
    >>> mark_evidence("the quick brown fox jumps", [CharSpan(10, 15)], context=4)
    ' [...] ick **brown** fox [...] '
    """
    mark = mark or (lambda evidence: f"**{evidence}**")
    pieces: list[str] = []
    at = 0
    for span in joined(spans):
        if span.stop > len(text):
            raise SpanOutsideDocument(f"span {span.start}-{span.stop} lies outside a text of {len(text)} characters")
        pieces += [_between(text, at, span.start, context, first=at == 0), mark(text[span.start : span.stop])]
        at = span.stop
    tail = text[at:]
    if context is not None and len(tail) > context:
        tail = tail[:context].rstrip() + ELLIPSIS
    return "".join([*pieces, tail])


def joined(spans: Sequence[CharSpan]) -> list[CharSpan]:
    """The spans in order, overlapping and touching ones made one."""
    result: list[CharSpan] = []
    for span in sorted(spans):
        if result and span.start <= result[-1].stop:
            result[-1] = CharSpan(result[-1].start, max(result[-1].stop, span.stop))
        else:
            result.append(span)
    return result


def _between(text: str, start: int, stop: int, context: int | None, *, first: bool) -> str:
    """The text between two marks, its middle left out if it is longer than the context asks for."""
    piece = text[start:stop]
    if context is None or len(piece) <= (context if first else 2 * context):
        return piece
    before = "" if first else piece[:context].rstrip()
    return before + ELLIPSIS + (piece[-context:].lstrip() if context else "")
