"""``longrank audit`` of a service behind an address, which may be busy."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app

SMALL = ["--queries", "8", "--slots", "3", "--lengths", "192"]


class _Busy(BaseHTTPRequestHandler):
    """Speaks TEI's dialect and counts the query's words that each text has; the first request is told to come again."""

    asked: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body["query"])
        busy, words = len(self.asked) == 1, set(body["query"].strip("?").split())
        scores = [float(len(words & set(text.split()))) for text in body["texts"]]
        reply = json.dumps([{"index": at, "score": score} for at, score in enumerate(scores)]).encode()
        self.send_response(429 if busy else 200)
        if busy:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Busy,), {"asked": []}))
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}/rerank"
    http.shutdown()
    http.server_close()


def test_a_request_that_was_sent_again_is_said_and_kept_with_the_timings(address: str, tmp_path: Path) -> None:
    for runs in (1, 2):  # a second run adds nothing
        done = CliRunner().invoke(app, ["audit", address, *SMALL, "--out", str(tmp_path)])
        assert done.exit_code == 0, done.output
        assert ("answered '429 Too Many Requests' 1 times" in done.output) == (runs == 1)
        assert json.loads((tmp_path / "timings.json").read_text())["retried"] == {"429 Too Many Requests": 1}
