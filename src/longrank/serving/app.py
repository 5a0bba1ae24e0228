"""The web application: addresses, tokens, limits and the OpenAPI page."""

import hmac
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from longrank.serving import answers
from longrank.serving.admission import ClientGone, Refusal, discard_body, read_body
from longrank.serving.desk import Desk
from longrank.serving.dialects import CohereRequest, ExploreRequest, TeiRequest, error_reply
from longrank.serving.logs import LOGGER, failure
from longrank.serving.settings import MEGABYTE

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

_OPEN = frozenset({"/", "/health"})  # answered without a token
_KNOWN = frozenset({*_OPEN, "/v1/rerank", "/v2/rerank", "/rerank", "/explore", "/info", "/metrics", "/openapi.json"})
_PAGE_RULES = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
_CLIENT_LEFT = 499  # what nginx and Cohere call it; nobody reads it
_MESSAGES = {
    400: "not JSON, or not the right fields",
    401: "the bearer token is missing or wrong",
    404: "a model that is not served here",
    408: "the body came too slowly",
    413: "too large",
    415: "not application/json",
    422: "cannot be ranked as asked",
    429: "full; see Retry-After",
    500: "the ranker failed",
    502: "the service behind the ranker failed",
    504: "out of time",
}


def make_app(desk: Desk) -> Application:
    """The application that a web server runs; every request is logged and counted, and errors are in its dialect."""
    app = FastAPI(
        title="longrank",
        description="Ranking of long documents.",
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_posts(app, desk)
    _add_gets(app, desk)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        words = {404: "nothing is here: see /openapi.json", 405: "this address does not take that method"}
        message = words.get(error.status_code, str(error.detail))
        return _json(error_reply(request.url.path, error.status_code, message), error.status_code, error.headers)

    return _watched(app, desk)


def _add_posts(app: FastAPI, desk: Desk) -> None:
    posts: list[tuple[str, type[BaseModel], answers.Answering]] = [
        ("/v1/rerank", CohereRequest, answers.cohere),
        ("/v2/rerank", CohereRequest, answers.cohere),
        ("/rerank", TeiRequest, answers.tei),
        ("/explore", ExploreRequest, answers.explored),
    ]
    for path, model, answering in posts:
        app.add_api_route(
            path,
            _endpoint(desk, answering),
            methods=["POST"],
            name=path,
            summary=(model.__doc__ or "").partition("\n")[0],
            responses=_responses(path),
            openapi_extra={"requestBody": _body_schema(model)},
        )


def _endpoint(desk: Desk, answering: answers.Answering) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await _answered(desk, request, answering)
        except Refusal as refusal:
            return refused(request, refusal)
        except ClientGone:
            desk.meters.add("longrank_cancelled_total")
            return Response(status_code=_CLIENT_LEFT)

    def refused(request: Request, refusal: Refusal) -> Response:
        headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
        return _json(error_reply(request.url.path, refusal.status, refusal.message), refusal.status, headers)

    return endpoint


async def _answered(desk: Desk, request: Request, answering: answers.Answering) -> Response:
    settings = desk.settings
    receive: Any = request.receive
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    async with AsyncExitStack() as stack:
        try:
            if kind != "application/json":
                raise Refusal(415, "send JSON, with the header 'Content-Type: application/json'")
            ticket = stack.enter_context(desk.admission.enter())
        except Refusal:  # before anything of the body was read
            await discard_body(receive, request.headers, seconds=settings.body_seconds)
            raise
        visit = desk.open(receive, request.scope["facts"])
        body = await read_body(
            receive,
            request.headers,
            ticket,
            most_bytes=int(settings.max_body_megabytes * MEGABYTE),
            seconds=settings.body_seconds,
        )
        answer = await answering(visit, body)
        return _json(answer.content, 200, answer.headers)


def _add_gets(app: FastAPI, desk: Desk) -> None:
    page = resources.files("longrank.serving").joinpath("page.html").read_bytes()

    @app.get("/", summary="A page to try the ranker on.", response_class=Response)
    async def home() -> Response:
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": _PAGE_RULES})

    @app.get("/health", summary="200 while the server works.", response_class=Response)
    async def health() -> Response:
        return Response(status_code=200)

    @app.get("/info", summary="The model and the limits, in TEI's fields.", responses=_errors("/info", [401]))
    async def about() -> dict[str, Any]:
        return answers.info(desk)

    @app.get(
        "/metrics", summary="Counters for Prometheus.", response_class=Response, responses=_errors("/metrics", [401])
    )
    async def metrics() -> Response:
        gauges = {"longrank_requests_now": desk.admission.requests, "longrank_held_bytes": desk.admission.held}
        return Response(desk.meters.text(gauges), media_type="text/plain; version=0.0.4; charset=utf-8")


def _watched(app: FastAPI, desk: Desk) -> Application:
    """The application behind its door: token, time, one line of log a request, and no traceback to anybody."""

    async def watched(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        facts: dict[str, object] = {}
        scope["facts"] = facts
        identity, began, status = uuid.uuid4().hex, time.perf_counter(), 0
        path = scope["path"] if scope["path"] in _KNOWN else "other"

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                message["headers"] = [*message.get("headers", []), (b"x-request-id", identity.encode())]
            await send(message)

        try:
            if scope["path"] in _OPEN or _allowed(scope, desk.token):
                await app(scope, receive, noted)
            else:
                await _unauthorized(scope, receive, noted, desk)
        except Exception as error:
            facts.update(failure(error))
            if not status:
                reply = _json(error_reply(scope["path"], 500, "the server failed; its log says where"), 500)
                await reply(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - began
            desk.meters.answered(path, status, seconds)
            fields = {"id": identity, "method": scope["method"], "path": path, "status": status, **facts}
            LOGGER.info("request", extra={"fields": {**fields, "milliseconds": round(seconds * 1000, 1)}})

    return watched


async def _unauthorized(scope: Message, receive: Any, send: Any, desk: Desk) -> None:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    try:
        await discard_body(receive, headers, seconds=desk.settings.body_seconds)
    except ClientGone:
        return
    message = f"send the header 'Authorization: Bearer ...': {_MESSAGES[401]}"
    reply = _json(error_reply(scope["path"], 401, message), 401, {"WWW-Authenticate": "Bearer"})
    await reply(scope, receive, send)


def _allowed(scope: Message, token: str | None) -> bool:
    if token is None:
        return True
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    kind, _, word = given.partition(b" ")
    return kind.lower() == b"bearer" and hmac.compare_digest(word.strip(), token.encode())


def _json(content: Any, status: int, headers: Any = None) -> Response:
    return Response(to_json(content), status, dict(headers or {}), "application/json")


def _body_schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    return {"required": True, "content": {"application/json": {"schema": _inlined(schema, definitions)}}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema without references, since it stands in the middle of a larger page."""
    if isinstance(schema, list):
        return [_inlined(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items()}


def _responses(path: str) -> dict[int | str, dict[str, Any]]:
    kind = "array" if path == "/rerank" else "object"
    good = {"description": "The ranking.", "content": {"application/json": {"schema": {"type": kind}}}}
    return {200: good, **_errors(path, list(_MESSAGES))}


def _errors(path: str, statuses: list[int]) -> dict[int | str, dict[str, Any]]:
    fields = list(error_reply(path, 400, ""))
    schema = {"type": "object", "required": fields, "properties": {name: {"type": "string"} for name in fields}}
    return {
        status: {"description": _MESSAGES[status], "content": {"application/json": {"schema": schema}}}
        for status in statuses
    }
