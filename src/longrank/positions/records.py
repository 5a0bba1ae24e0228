"""One query and one relevant document, with every place of the evidence: the unit of all profiles and ceilings."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from longrank.core.errors import DataError
from longrank.core.types import TokenizedText, TokenSpan
from longrank.positions.estimators import Located


@dataclass(frozen=True, slots=True)
class PairRecord:
    """Where the evidence for a query sits in a document of ``length`` tokens.

    ``spans`` rise by start and are empty if nothing was located; ``reason`` then says why. Where the document was
    judged in pieces, ``slots`` counts them and ``relevant_slots`` are the relevant ones, from 0.
    """

    query_id: str
    document_id: str
    length: int
    spans: tuple[TokenSpan, ...]
    method: str
    ratio: float = 1.0
    ambiguous: bool = False
    slots: int = 0
    relevant_slots: tuple[int, ...] = ()
    reason: str = ""

    @property
    def located(self) -> bool:
        """Whether any evidence was found."""
        return bool(self.spans)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, spans as [start, stop] beside one tokenizer name."""
        fields = asdict(self)
        fields["spans"] = [[span.start, span.stop] for span in self.spans]
        fields["tokenizer"] = self.spans[0].tokenizer if self.spans else ""
        fields["relevant_slots"] = list(self.relevant_slots)
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "PairRecord":
        """The record that ``to_json`` wrote."""
        try:
            known = dict(fields)
            tokenizer = known.pop("tokenizer")
            known["spans"] = tuple(TokenSpan(start, stop, tokenizer) for start, stop in known["spans"])
            known["relevant_slots"] = tuple(known["relevant_slots"])
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not a position record ({error}); was the file written by another version?") from None


def pair_record(query_id: str, document_id: str, text: TokenizedText, located: Located) -> PairRecord:
    """What an estimator found in a tokenised document, in its tokens; spans that cover no token are dropped."""
    spans = tuple(sorted(span for span in located.tokens(text) if len(span)))
    return PairRecord(
        query_id,
        document_id,
        len(text),
        spans,
        located.method,
        located.ratio,
        located.ambiguous,
        located.slots,
        located.relevant_slots if spans else (),
        located.reason if spans or not located else "the spans cover no token",
    )
