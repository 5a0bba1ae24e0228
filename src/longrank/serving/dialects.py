"""What clients send and get: Cohere's dialect (also Jina's, vLLM's and LiteLLM's), TEI's, and the page's own."""

import math
import re
import uuid
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, ValidationInfo

from longrank.core.types import CharSpan
from longrank.serving.admission import Refusal
from longrank.serving.readers import Part, Reading
from longrank.serving.settings import ServeSettings

_QUERY = Annotated[str, Field(min_length=1, pattern=r"\S", description="What is looked for.")]


def _whole(value: Any) -> Any:
    """3.0 as 3: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _not_too_many(documents: Any, info: ValidationInfo) -> Any:
    """The documents as they were sent, before anything is made of them; ``info.context`` is their greatest number."""
    most: Any = info.context
    if isinstance(documents, list) and len(documents) > most:
        raise Refusal(413, f"{len(documents)} documents were sent and {most} is the most: send them in parts")
    return documents


_COUNT = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
_Item = TypeVar("_Item")
_LIST = Annotated[list[_Item], Field(min_length=1, fail_fast=True), BeforeValidator(_not_too_many)]
_VALUES_A_DOCUMENT, _OTHER_VALUES = 32, 1_000  # strings, numbers, lists and objects that a request may hold
_SHOWN = 3  # problems of a request that a refusal names
_TEI_TYPES = {400: "Empty", 429: "Overloaded", 500: "Backend", 502: "Backend", 503: "Unhealthy", 504: "Backend"}
_THRESHOLD = 0.1  # Cohere's default


class TextObject(BaseModel):
    """A document with its text and, if the client wants it back, an id; other fields are sent back too."""

    model_config = ConfigDict(strict=True, extra="allow")
    text: str
    id: JsonValue = None


class RelevantSpans(BaseModel):
    """Whether, above which score and how many spans of each document are wanted."""

    model_config = ConfigDict(strict=True, extra="allow")
    mode: Literal["enabled", "disabled"] = "enabled"
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    max_spans: _COUNT | None = None


class CohereRequest(BaseModel):
    """``POST /v1/rerank`` and ``/v2/rerank``; a field that is not known is ignored, and the reply says so."""

    model_config = ConfigDict(strict=True, extra="allow")
    query: _QUERY
    documents: _LIST[str | TextObject]
    model: str | None = None
    top_n: _COUNT | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: _COUNT | None = None
    relevant_spans: RelevantSpans | None = None
    raw_scores: bool | None = None

    @property
    def texts(self) -> list[str]:
        """The documents' texts."""
        return [document if isinstance(document, str) else document.text for document in self.documents]


class TeiRequest(BaseModel):
    """``POST /rerank``: ``truncate`` false refuses to cut; left out, long texts are cut and counted in the headers."""

    model_config = ConfigDict(strict=True, extra="allow")
    query: _QUERY
    texts: _LIST[str]
    raw_scores: bool | None = None
    return_text: bool | None = None
    truncate: bool | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] = "Right"


class ExploreRequest(BaseModel):
    """``POST /explore``: what the page asks."""

    model_config = ConfigDict(strict=True, extra="ignore")
    query: _QUERY
    documents: Annotated[_LIST[str], Field(max_length=100)]


R = TypeVar("R", bound=BaseModel)


def parse(model: type[R], body: bytes, settings: ServeSettings, *, status: int) -> R:
    """The request in a body; what is wrong with it is named without its texts."""
    _check_values(body, _VALUES_A_DOCUMENT * settings.max_documents + _OTHER_VALUES)
    try:
        return model.model_validate_json(body, context=settings.max_documents)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        raise Refusal(400, f"the body is not JSON in UTF-8: {_place(problems[0]['msg'])}")
    named = dict.fromkeys(f"{_where(problem['loc'])}: {_what(problem)}" for problem in problems)
    empty = any(problem["type"] == "too_short" for problem in problems)
    raise Refusal(400 if empty else status, "invalid request: " + "; ".join(list(named)[:_SHOWN]))


def _check_values(body: bytes, most: int) -> None:
    """Refuse a body of very many values before it is parsed: a value of two bytes takes a hundred in memory."""
    if _separators(body) <= most:  # those in texts included, which is quick and nearly always enough
        return
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")  # a quote that is left begins or ends a string
    if _separators(b"".join(bare.split(b'"', 4 * most)[::2])) > most:
        raise Refusal(413, f"the body holds more than {most} values: send fewer documents, or fewer fields with each")


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def check_limits(query: str, texts: Sequence[str], settings: ServeSettings) -> None:
    """Refuse a request with too long texts."""
    if len(query) > settings.max_query_characters:
        raise Refusal(413, f"the query has {len(query)} characters and {settings.max_query_characters} is the most")
    longest = max(range(len(texts)), key=lambda i: len(texts[i]))
    if len(texts[longest]) > settings.max_document_characters:
        raise Refusal(
            413,
            f"document {longest} has {len(texts[longest])} characters and {settings.max_document_characters} is the "
            f"most: send it in parts",
        )


def check_model(name: str | None, settings: ServeSettings) -> None:
    """Refuse a model that is not served here."""
    if name is not None and name not in settings.shown_names:
        raise Refusal(404, f"model not found: this server has {' and '.join(map(repr, settings.shown_names))}")


# -- replies -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """Tokens that were read, and what was not."""

    tokens: int
    cut_documents: int
    cut_tokens: int
    cut_query_tokens: int

    @property
    def headers(self) -> dict[str, str]:
        """The counts for replies that have no room for them."""
        return {
            "x-compute-tokens": str(self.tokens),
            "x-cut-documents": str(self.cut_documents),
            "x-cut-tokens": str(self.cut_tokens),
            "x-cut-query-tokens": str(self.cut_query_tokens),
        }


def usage(readings: Sequence[Reading]) -> Usage:
    """The counts of all texts together."""
    return Usage(
        sum(reading.tokens for reading in readings),
        sum(reading.cut_documents for reading in readings),
        sum(reading.cut_tokens for reading in readings),
        max((reading.cut_query_tokens for reading in readings), default=0),  # all are of one query
    )


def order(readings: Sequence[Reading], top: int | None = None) -> list[int]:
    """Numbers of the texts best first; ties keep the order given."""
    return sorted(range(len(readings)), key=lambda i: -readings[i].score)[:top]


def sigmoid(score: float) -> float:
    """A score between 0 and 1.

    >>> sigmoid(0.0), sigmoid(-800.0), sigmoid(800.0)
    (0.5, 0.0, 1.0)
    """
    if score >= 0:
        return 1 / (1 + math.exp(-score))
    grown = math.exp(max(score, -745.2))
    return grown / (1 + grown)


def activation(settings: ServeSettings, *, raw: bool) -> Callable[[float], float]:
    """What turns a ranker's score into a reply's."""
    return float if raw or settings.activation == "none" else sigmoid


def cohere_reply(
    request: CohereRequest,
    readings: Sequence[Reading],
    *,
    shown: Callable[[float], float],
    spans: Mapping[int, Sequence[dict[str, Any]]],
    model: str,
) -> dict[str, Any]:
    """The reply, with the counts of tokens under the names of each of the services that share this dialect."""
    found, results = usage(readings), []
    for index in order(readings, request.top_n):
        document = request.documents[index]
        result: dict[str, Any] = {"index": index, "relevance_score": shown(readings[index].score)}
        if isinstance(document, TextObject) and document.id is not None:
            result["id"] = document.id
        if request.return_documents:
            whole = {"text": document} if isinstance(document, str) else document.model_dump(exclude_none=True)
            result["document"] = whole
        if spans.get(index):
            result["relevant_spans"] = spans[index]
        results.append(result)
    meta = {
        "api_version": {"version": "2"},
        "billed_units": {"search_units": 1},
        "tokens": {"input_tokens": found.tokens, "output_tokens": 0},
        "cut_documents": found.cut_documents,
        "cut_tokens": found.cut_tokens,
        "cut_query_tokens": found.cut_query_tokens,
        "warnings": _warnings(request, found),
    }
    counts = {"total_tokens": found.tokens, "prompt_tokens": found.tokens}
    return {"id": str(uuid.uuid4()), "model": model, "results": results, "meta": meta, "usage": counts}


def tei_reply(
    request: TeiRequest, readings: Sequence[Reading], *, shown: Callable[[float], float]
) -> list[dict[str, Any]]:
    """The bare list that TEI answers with, best first."""
    results = [{"index": index, "score": shown(readings[index].score)} for index in order(readings)]
    if request.return_text:
        return [{**result, "text": request.texts[int(result["index"])]} for result in results]
    return results


def relevant_spans(
    parts: Sequence[Part], wanted: RelevantSpans, shown: Callable[[float], float]
) -> list[dict[str, Any]]:
    """Parts above the threshold that do not overlap, best first, as Cohere writes them: code points, end excluded."""
    threshold = _THRESHOLD if wanted.threshold is None else wanted.threshold
    chosen: list[Part] = []
    taken: list[CharSpan] = []
    for part in sorted(parts, key=lambda part: -part.value):
        if len(chosen) == wanted.max_spans or shown(part.value) <= threshold:
            break
        place = bisect(taken, part.chars)  # spans that do not overlap stand in one order by start and by stop
        before = taken[place - 1].stop if place else 0
        after = taken[place].start if place < len(taken) else part.chars.stop
        if before <= part.chars.start < part.chars.stop <= after:
            taken.insert(place, part.chars)
            chosen.append(part)
    return [{"start": p.chars.start, "end": p.chars.stop, "score": shown(p.value)} for p in chosen]


def error_reply(path: str, status: int, message: str) -> dict[str, str]:
    """An error as the dialect of an address writes it.

    >>> error_reply("/rerank", 429, "full"), error_reply("/v2/rerank", 429, "full")
    ({'error': 'full', 'error_type': 'Overloaded'}, {'message': 'full'})
    """
    if path in ("/rerank", "/health", "/info", "/metrics"):
        return {"error": message, "error_type": _TEI_TYPES.get(status, "Validation")}
    return {"message": message}


def _warnings(request: CohereRequest, found: Usage) -> list[str]:
    warnings = []
    if found.cut_documents:
        warnings.append(f"not read to the end: {found.cut_documents} documents, {found.cut_tokens} tokens")
    if found.cut_query_tokens:
        warnings.append(f"not read of the query: {found.cut_query_tokens} tokens")
    ignored = sorted(name for name in request.model_extra or {} if re.fullmatch(r"[a-z_]{1,40}", name))
    if ignored:
        warnings.append(f"ignored: {', '.join(ignored[:10])}")
    return warnings


def _where(place: Sequence[int | str]) -> str:
    """A path in the request without the names of the alternatives that were tried."""
    return ".".join(str(part) for part in place if part not in ("str", "TextObject")) or "body"


def _what(problem: Any) -> str:
    known = {
        "string_pattern_mismatch": "must not be blank",
        "string_too_short": "must not be empty",
        "too_short": "must not be empty",
    }
    return known.get(problem["type"], str(problem["msg"]))


def _place(message: str) -> str:
    """The parser's words without what it quotes."""
    return message.removeprefix("Invalid JSON: ")
