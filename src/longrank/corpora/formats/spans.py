"""Where the evidence sits: ``spans.jsonl`` {query_id, document_id, start, stop, unit, tokenizer, source}.

The unit is 'characters' (tokenizer null), 'tokens' (of the named tokenizer) or 'chunks' (of the named chunking). A span
of chunks is a TokenSpan whose tokenizer begins with ``CHUNKS``: 'chunks:477' counts chunks of the chunking '477'.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from longrank.core.errors import BadSpan, DataError
from longrank.core.types import CharSpan, GoldSpan, TokenSpan
from longrank.corpora.formats.files import Refuse, stop_at_it
from longrank.corpora.formats.records import Record, parse_records, write_records

CHUNKS = "chunks:"
UNITS = ("characters", "tokens", "chunks")


def read_spans(path: Path | str, *, refuse: Refuse = stop_at_it) -> Iterator[GoldSpan]:
    """The spans of a file in its order."""
    return parse_records(Path(path), _gold_span, refuse)


def write_spans(path: Path | str, spans: Iterable[GoldSpan]) -> None:
    """Write spans, one a line."""
    write_records(Path(path), map(_fields, spans))


def _gold_span(record: Record) -> GoldSpan:
    query_id, document_id = record.id("query_id"), record.id("document_id")
    return GoldSpan(query_id, document_id, _span(record), record.text("source", default=""))


def _span(record: Record) -> CharSpan | TokenSpan:
    start, stop, unit = record.integer("start"), record.integer("stop"), record.text("unit")
    if unit not in UNITS:
        raise record.bad(f"unit {unit!r} is not known; it is one of {', '.join(UNITS)}")
    tokenizer = record.text("tokenizer", default="")
    if not tokenizer and unit != "characters":
        raise record.bad(f"'tokenizer' must name what counts the {unit}; without it the numbers mean nothing")
    if unit == "tokens" and tokenizer.startswith(CHUNKS):
        raise record.bad(f"tokenizer {tokenizer!r} counts chunks: unit 'chunks', tokenizer without {CHUNKS!r}")
    try:
        if unit == "characters":
            return CharSpan(start, stop)
        return TokenSpan(start, stop, CHUNKS + tokenizer if unit == "chunks" else tokenizer)
    except BadSpan as error:
        raise record.bad(str(error)) from None


def _fields(gold: GoldSpan) -> dict[str, object]:
    unit, tokenizer = "characters", None
    if isinstance(gold.span, TokenSpan):
        chunked = gold.span.tokenizer.startswith(CHUNKS)
        unit, tokenizer = ("chunks" if chunked else "tokens"), gold.span.tokenizer.removeprefix(CHUNKS)
        if not tokenizer:
            raise DataError(f"span {gold.span} of document {gold.document_id!r} does not say what counts its {unit}")
    return {
        "query_id": gold.query_id,
        "document_id": gold.document_id,
        "start": int(gold.span.start),
        "stop": int(gold.span.stop),
        "unit": unit,
        "tokenizer": tokenizer,
        "source": gold.source,
    }
