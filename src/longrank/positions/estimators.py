"""What every way of finding evidence in a document gives back."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from longrank.core.types import CharSpan, Document, Query, TokenizedText, TokenSpan


@dataclass(frozen=True, slots=True)
class Located:
    """Where the evidence for a query sits in a document, and how that is known.

    ``ratio`` is the share of the passage that was found (1 for gold spans). ``ambiguous`` means a second place is
    nearly as good. Where a document was judged piece by piece, ``slots`` is the number of judged pieces and
    ``relevant_slots`` their numbers from 0: chance is then computed over pieces instead of tokens. ``reason`` says
    why nothing was located, or what was left out.
    """

    spans: tuple[CharSpan, ...]
    method: str
    ratio: float = 1.0
    ambiguous: bool = False
    slots: int = 0
    relevant_slots: tuple[int, ...] = ()
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.spans)

    def tokens(self, text: TokenizedText) -> tuple[TokenSpan, ...]:
        """The same spans counted in the tokens of a tokenised document."""
        return tuple(text.tokens(span) for span in self.spans)


@runtime_checkable
class PositionEstimator(Protocol):
    """A query and a document relevant to it to the places that make it relevant."""

    def locate(self, query: Query, document: Document) -> Located:
        """Spans of the evidence; none, with a reason, if it was not found."""
        ...


def not_located(method: str, reason: str, *, ratio: float = 0.0) -> Located:
    """The answer of an estimator that found nothing, and why."""
    return Located((), method, ratio, reason=reason)
