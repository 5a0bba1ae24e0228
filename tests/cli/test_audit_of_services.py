"""``longrank audit`` of a service behind an address, which may be busy."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app

SECRET = "hush-hush"
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


@pytest.mark.parametrize("command", ["audit", "harden", "probe"])
def test_a_key_in_an_address_is_in_no_file_name_or_output(
    command: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--longest", "64"] if command == "probe" else SMALL
    done = CliRunner().invoke(app, [command, f"{address}?api_key={SECRET}", *options])
    assert done.exit_code == 0, done.output
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert bool(files) == (command != "probe")
    assert not [path for path in files if SECRET in str(path) or SECRET.encode() in path.read_bytes()]
    assert SECRET not in done.output


def test_a_hardened_service_says_that_its_key_was_left_out(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["harden", f"{address}?api_key={SECRET}", *SMALL]).exit_code == 0
    first, second = Path("hardened/hardened.toml").read_text().splitlines()[:2]
    assert first.startswith("#") and "LONGRANK_API_KEY" in first
    assert second == f'ranker = "{address}"'


def test_a_key_in_an_address_is_not_in_the_run_it_made(address: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "collection", tmp_path / "out.trec"
    folder.mkdir()
    (folder / "documents.jsonl").write_text('{"id": "d", "text": "green paint"}\n{"id": "e", "text": "ice"}\n')
    (folder / "queries.jsonl").write_text('{"id": "q", "text": "green"}\n')
    (tmp_path / "bm25.trec").write_text("q Q0 d 1 2.0 bm25\nq Q0 e 2 1.0 bm25\n")
    asked = ["rerank", f"{address}?api_key={SECRET}", str(folder), "--candidates", str(tmp_path / "bm25.trec")]
    done = CliRunner().invoke(app, [*asked, "--out", str(out), "--metadata"])
    assert done.exit_code == 0, done.output
    assert "q Q0 d 1" in out.read_text()
    assert SECRET not in out.read_text() + done.output
