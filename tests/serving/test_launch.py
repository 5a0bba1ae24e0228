"""From the command line to a listening server, and down again."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from longrank.core.errors import ModelError, SettingsError
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.serving.admission import Refusal
from longrank.serving.dialects import check_model
from longrank.serving.launch import listen, load_ranker, serve, token_from_environment
from longrank.serving.settings import ServeSettings, serve_settings
from longrank.testing import WordOverlapRanker

RANKER = """\
import time

def letters(query, texts):
    time.sleep(0.3)
    return [len(text) for text in texts]
"""


def test_a_config_is_a_toml_file_or_the_name_of_a_ranker(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('ranker = "models/mine"\nport = 9000\nnames = ["rerank-v3.5"]\n')
    found = serve_settings(str(path), ["max_documents=5"])
    assert (found.ranker, found.port, found.max_documents, found.host) == ("models/mine", 9000, 5, "127.0.0.1")
    assert found.shown_names == ("rerank-v3.5",)
    assert serve_settings("minilm").shown_names == ("minilm",)
    with pytest.raises(SettingsError, match="max_document"):
        serve_settings("minilm", ["max_document=5"])
    with pytest.raises(SettingsError, match="no settings file"):
        serve_settings(str(tmp_path / "absent.toml"))


def test_a_server_shows_no_key_of_the_service_behind_it() -> None:
    settings = serve_settings("https://me:SECRET@host/v2/rerank?model=m&api_key=SECRET")
    assert settings.shown_names == ("rerank?model=m", "https://host/v2/rerank?model=m")
    with pytest.raises(SettingsError) as refused:
        serve_settings("https://host/rerank?api_key=SECRET", ["no_such_setting=1"])
    with pytest.raises(SettingsError, match="runtime") as unfit:
        load_ranker(serve_settings("https://host/rerank?api_key=SECRET", ["runtime=int8"]))
    with pytest.raises(Refusal, match="host/v2") as not_here:
        check_model("another", settings)
    assert "SECRET" not in f"{refused.value} {unfit.value} {not_here.value}"


def test_the_file_that_harden_writes_is_a_config(tmp_path: Path) -> None:
    path = tmp_path / "hardened.toml"
    path.write_text('ranker = "minilm"\nwrapper = "chunk-max"\n\n[params]\nsize = 20\nstride = 10\n')
    ranker: Any = load_ranker(serve_settings(str(path)))
    assert (ranker.splitter.size, ranker.splitter.stride) == (20, 10)


def test_an_untrained_ranker_is_served_only_when_asked_for(tiny: NeuralRanker, tmp_path: Path) -> None:
    folder = tmp_path / "untrained"
    checkpoint.save(tiny, folder)
    with pytest.raises(ModelError, match="never trained"):
        load_ranker(ServeSettings(ranker=str(folder)))
    assert isinstance(load_ranker(ServeSettings(ranker=str(folder), untrained=True)), NeuralRanker)


@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_an_empty_token_does_not_open_the_server(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGRANK_SERVE_TOKEN", empty)
    with pytest.raises(SettingsError, match="set and empty"):
        serve(ServeSettings(ranker="minilm", port=0))


def test_a_token_is_taken_without_the_end_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGRANK_SERVE_TOKEN", "sesame\n")
    assert token_from_environment() == "sesame"
    monkeypatch.delenv("LONGRANK_SERVE_TOKEN")
    assert token_from_environment() is None


def test_a_port_that_is_taken_is_said_so() -> None:
    with listen(ServeSettings(ranker="x", port=0)) as first:
        first.listen()
        with pytest.raises(SettingsError, match="cannot listen"):
            listen(ServeSettings(ranker="x", port=first.getsockname()[1]))


def test_replies_are_sent_without_delay_since_the_socket_names_its_protocol() -> None:
    with listen(ServeSettings(ranker="x", port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # else a reply in two parts waits 40 ms for the client's nod


def test_the_command_serves_and_a_signal_ends_it_after_what_it_accepted(tmp_path: Path) -> None:
    (tmp_path / "slow_letters.py").write_text(RANKER)
    program = [sys.executable, "-c", "from longrank.cli.main import run; run()"]
    process = subprocess.Popen(
        [*program, "serve", "slow_letters:letters", "--port", "0", "--set", "activation=none"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LONGRANK_SERVE_TOKEN": "sesame"},
    )
    assert process.stderr is not None
    try:
        line = json.loads(process.stderr.readline())
        assert line["event"] == "listening"
        url = line["url"]
        replies: list[httpx.Response] = []
        body = {"query": "q", "documents": ["a", "ccc", "bb"]}
        headers = {"Authorization": "Bearer sesame"}

        def ask() -> None:
            replies.append(httpx.post(url + "v2/rerank", json=body, headers=headers, timeout=30))

        ask()
        assert [(r["index"], r["relevance_score"]) for r in replies[0].json()["results"]] == [(1, 3), (2, 2), (0, 1)]
        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.15)
        process.send_signal(signal.SIGTERM)
        asking.join(30)
        assert replies[1].status_code == 200
        rest = process.stderr.read()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.stderr.close()
    assert json.loads(rest.splitlines()[-1])["event"] == "stopped"
    assert "sesame" not in rest


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system cannot drop clients that stop reading")
def test_a_client_that_stops_reading_is_dropped_and_others_are_served(serving: Any) -> None:
    documents = ["word " * 20_000] * 50  # 5 MB that come back
    body = json.dumps({"query": "word", "documents": documents, "return_documents": True}).encode()
    head = (
        f"POST /v1/rerank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with serving(WordOverlapRanker(), send_seconds=1) as server:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(head.encode() + body)
            assert httpx.post(server.url + "/rerank", json={"query": "a", "texts": ["b"]}).status_code == 200
            time.sleep(15)
            client.settimeout(10)
            received = 0
            try:
                while piece := client.recv(1_000_000):
                    received += len(piece)
            except ConnectionError:
                pass
        assert received < len(body)  # the rest was never sent: the connection was cut
        assert httpx.get(server.url + "/health").status_code == 200
