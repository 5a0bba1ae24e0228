"""A chat model on loopback that knows the right order."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class _Oracle(BaseHTTPRequestHandler):
    """Orders the texts of a prompt by the number behind 'grade', the highest first; says yes to grades above 20.

    Texts without grades stay in their order.
    """

    asked: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        self.asked.append(prompt)
        message = {"role": "assistant", "content": _answer(prompt)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
        reply = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice]})
        data = (reply[:-1] + f', "usage": {json.dumps(usage)}}}').encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def _answer(prompt: str) -> str:
    found = [(int(grade), number) for number, grade in re.findall(r"\[(\d+)\] grade (\d+)", prompt)]
    graded, numbered = re.findall(r"grade (\d+)", prompt), dict.fromkeys(re.findall(r"^\[(\d+)\]", prompt, re.M))
    order = [number for _, number in sorted(found, reverse=True)] or ([] if graded else list(numbered))
    if order:
        return " > ".join(f"[{number}]" for number in order)
    return "Yes." if graded and int(graded[0]) > 20 else "No."


@pytest.fixture
def secret() -> str:
    """A key that must not be found anywhere."""
    return "sk-very-secret-0123456789"


@pytest.fixture
def asked() -> list[str]:
    """The prompts that were sent, in their order."""
    return []


@pytest.fixture
def url(asked: list[str], secret: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Oracle,), {"asked": asked}))
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}/v1"
    http.shutdown()
    http.server_close()
