"""What each address answers, once its body was read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from longrank.serving.admission import Refusal
from longrank.serving.desk import Desk, Visit
from longrank.serving.dialects import (
    CohereRequest,
    ExploreRequest,
    TeiRequest,
    activation,
    check_model,
    cohere_reply,
    order,
    relevant_spans,
    tei_reply,
)
from longrank.serving.explore import explore, explore_reply
from longrank.serving.worker import Job


class Answer(NamedTuple):
    """What is sent back as JSON, with headers."""

    content: Any
    headers: Mapping[str, str] = {}


Answering = Callable[[Visit, bytes], Awaitable[Answer]]


async def cohere(visit: Visit, body: bytes) -> Answer:
    """The reply of ``/v1/rerank`` and ``/v2/rerank``."""
    settings, reader = visit.desk.settings, visit.desk.worker.reader
    request = await visit.parse(CohereRequest, body, status=400)
    check_model(request.model, settings)
    texts = request.texts
    visit.check(request.query, texts)
    wanted = request.relevant_spans
    with_spans = wanted is not None and wanted.mode == "enabled"
    readings = await visit.read(
        Job(request.query, texts, request.max_tokens_per_doc, parts=with_spans and reader.knows_parts)
    )
    found = visit.count(readings)
    shown = activation(settings, raw=bool(request.raw_scores))
    spans = {}
    if wanted is not None and with_spans:
        best = order(readings, request.top_n)
        if reader.knows_parts:
            parts = [list(readings[index].parts) for index in best]
        else:
            parts = await visit.parts(request.query, [texts[index] for index in best])
        spans = {index: relevant_spans(part, wanted, shown) for index, part in zip(best, parts, strict=True)}
    reply = cohere_reply(request, readings, shown=shown, spans=spans, model=visit.desk.model)
    return Answer(reply, found.headers)


async def tei(visit: Visit, body: bytes) -> Answer:
    """The reply of ``/rerank``: what was cut is said in headers, since the reply is a bare list."""
    request = await visit.parse(TeiRequest, body, status=422)
    visit.check(request.query, request.texts)
    left = request.truncation_direction.lower() == "left"
    readings = await visit.read(Job(request.query, request.texts, strict=request.truncate is False or left))
    found = visit.count(readings)
    if found.cut_query_tokens and (request.truncate is False or left):
        raise Refusal(422, "the query is longer than this ranker reads, and may not be cut")
    if found.cut_documents and (request.truncate is False or left):  # a ranker that says it only afterwards
        raise Refusal(422, f"{found.cut_documents} texts are longer than this ranker reads, and may not be cut")
    shown = activation(visit.desk.settings, raw=bool(request.raw_scores))
    return Answer(tei_reply(request, readings, shown=shown), found.headers)


async def explored(visit: Visit, body: bytes) -> Answer:
    """The reply of ``/explore``, for the page."""
    request = await visit.parse(ExploreRequest, body, status=422)
    visit.check(request.query, request.documents)
    asked = await asyncio.to_thread(explore, request.documents)
    readings = await visit.read(Job(request.query, asked.texts, each=True))
    shown = activation(visit.desk.settings, raw=False)
    reply = explore_reply(asked, readings, shown=shown, model=visit.desk.model)
    visit.facts.update(cut_documents=reply["cut_documents"], cut_tokens=reply["cut_tokens"])
    return Answer(reply)


def info(desk: Desk) -> dict[str, Any]:
    """The reply of ``/info``, in TEI's fields."""
    from longrank import __version__

    settings = desk.settings
    return {
        "model_id": desk.model,
        "model_sha": None,
        "model_dtype": "float32" if settings.runtime in ("fp32", "onnx") else settings.runtime,
        "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}},
        "max_concurrent_requests": settings.max_requests,
        "max_input_length": settings.max_document_characters,
        "max_batch_tokens": settings.batch_tokens,
        "max_client_batch_size": settings.max_documents,
        "auto_truncate": True,
        "tokenization_workers": 2,
        "scores": settings.activation,
        "version": __version__,
    }
