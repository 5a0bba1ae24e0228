"""Whatever is sent is answered, never with a 500, and the server goes on."""

import json
import random
import socket
import string
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

PATHS = ["/v1/rerank", "/v2/rerank", "/rerank", "/explore", "/info", "/", "/health", "/metrics", "/openapi.json", "/x"]
FIELDS = ["query", "documents", "texts", "model", "top_n", "return_documents", "max_tokens_per_doc", "relevant_spans"]
FIELDS += ["raw_scores", "return_text", "truncate", "truncation_direction", "user", "é", ""]
STRANGE = ["", " ", "\x00", "\u200b", "🦊" * 50, "a" * 3000, "\u202e", "ﬀ", "e\u0301", "null", "-1", "\ufeff", "[CLS]"]


def value(rng: random.Random, depth: int = 0) -> Any:
    makers: list[Callable[[], Any]] = [
        lambda: rng.choice(STRANGE),
        lambda: "".join(rng.choices(string.printable, k=rng.randrange(40))),
        lambda: rng.choice([None, True, False, 0, 1, -1, 2**70, 1e308, 0.5, -0.0]),
    ]
    if depth < 3:
        makers += [
            lambda: [value(rng, depth + 1) for _ in range(rng.randrange(5))],
            lambda: {rng.choice(FIELDS): value(rng, depth + 1) for _ in range(rng.randrange(4))},
            lambda: {"text": value(rng, depth + 1), "id": value(rng, depth + 1)},
        ]
    return rng.choice(makers)()


def request_body(rng: random.Random) -> bytes:
    """A good request with some of it replaced, or bytes with some of them changed."""
    good: dict[str, Any] = {"query": "red fox", "documents": ["a red fox", "grass"], "texts": ["a red fox", "grass"]}
    for _ in range(rng.randrange(4)):
        good[rng.choice(FIELDS)] = value(rng)
    body = bytearray(json.dumps(good if rng.random() < 0.9 else value(rng)).encode())
    if rng.random() < 0.3:
        for _ in range(rng.randrange(1, 4)):
            if body:
                body[rng.randrange(len(body))] = rng.randrange(256)
    if rng.random() < 0.1:
        del body[rng.randrange(len(body) + 1) :]
    return bytes(body)


def requests(count: int, *, seed: int) -> Iterator[tuple[str, str, bytes, dict[str, str]]]:
    rng = random.Random(seed)
    for _ in range(count):
        path = rng.choice(PATHS[:4] if rng.random() < 0.9 else PATHS)
        method = "POST" if rng.random() < 0.95 else rng.choice(["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
        kind = (
            "application/json" if rng.random() < 0.95 else rng.choice(["text/plain", "", "application/json; charset=x"])
        )
        yield method, path, request_body(rng), {"Content-Type": kind}


def all_are_answered(server: Any, count: int, *, seed: int) -> dict[int, int]:
    statuses: dict[int, int] = {}
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for method, path, body, headers in requests(count, seed=seed):
            reply = client.request(method, path, content=body, headers=headers)
            assert reply.status_code < 500, (method, path, body, reply.text)
            if reply.status_code >= 400 and method != "HEAD":
                assert set(reply.json()) in ({"message"}, {"error", "error_type"})
            statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
        assert client.post("/rerank", json={"query": "a", "texts": ["b"]}).status_code == 200
    assert sum(statuses.values()) == count
    assert server.desk.admission.requests == server.desk.admission.held == 0
    return statuses


def test_fuzzed_requests_are_all_answered(server: Any) -> None:
    statuses = all_are_answered(server, 120, seed=1)
    assert statuses[200] > 10  # some of them are good
    assert statuses[400] > 10
    assert statuses[422] > 3


@pytest.mark.slow
def test_two_thousand_fuzzed_requests_are_all_answered(server: Any) -> None:
    all_are_answered(server, 2000, seed=2)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the start of TLS
        b"GARBAGE\r\n\r\n",
        b"POST /rerank HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /rerank HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=["tls", "garbage", "negative-length", "bad-chunk", "long-address"],
)
def test_what_is_not_http_is_answered_400_or_cut_off(server: Any, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 10) as client:
        client.settimeout(10)
        try:
            client.sendall(sent)
            answer = client.recv(4096)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert httpx.get(server.url + "/health").status_code == 200


def test_clients_that_leave_in_the_middle_leave_nothing_behind(server: Any) -> None:
    head = b"POST /v1/rerank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port), 10) as client:
            client.sendall(head + b'{"query": "a", "docu')
    for _ in range(500):
        if server.desk.admission.requests == 0:
            break
        httpx.get(server.url + "/health")
    assert server.desk.admission.requests == server.desk.admission.held == 0
