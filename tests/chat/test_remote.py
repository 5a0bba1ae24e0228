"""The clients against a real HTTP server on loopback that speaks both dialects."""

import json
import logging
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from longrank.chat.connecting import ChatSettings, connect, rehearse
from longrank.chat.messages import Message
from longrank.chat.patience import Patience, reply_all
from longrank.chat.remote import client_package
from longrank.core.errors import BudgetSpent, ChatBusy, ChatError, MissingExtra, SettingsError

Dialect = Literal["openai", "anthropic"]
SECRET = "sk-very-secret-0123456789"
HURRIED = Patience(attempts=3, first_wait_seconds=0.0, longest_wait_seconds=0.01)
QUESTION = [Message("system", "Be brief."), Message("user", "What colour is the bridge?")]


@dataclass
class Script:
    """What the server does with each request, in order; past the end it answers properly."""

    acts: list[str] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list, repr=False)  # they hold the key
    under_way: int = 0
    most_under_way: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)

    def next_act(self) -> str:
        with self.guard:
            return self.acts.pop(0) if self.acts else "answer"


class _Handler(BaseHTTPRequestHandler):
    script: Script

    def do_POST(self) -> None:
        script = self.script
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        script.seen.append({"path": self.path, **body})
        script.headers.append({name.lower(): value for name, value in self.headers.items()})
        self._act(script.next_act())

    def _act(self, act: str) -> None:
        if act.isdigit():
            sent = self.headers.get("Authorization") or self.headers.get("x-api-key") or ""
            self._send(int(act), json.dumps({"error": {"message": f"no good, none at all: {sent}", "type": "oops"}}))
        elif act == "slow":
            time.sleep(0.6)
            self._send(200, self._answer())
        elif act == "linger":
            self._linger()
            self._send(200, self._answer())
        elif act == "malformed":
            self._send(200, '{"choices": [{"mess')
        elif act == "other-shape":
            self._send(200, '{"result": "green"}')
        elif act == "hang-up":
            self.connection.close()
        else:
            self._send(200, self._answer())

    def _linger(self) -> None:
        """Counted as under way until just before the answer: once it is sent, the client may ask again."""
        script = self.script
        with script.guard:
            script.under_way += 1
            script.most_under_way = max(script.most_under_way, script.under_way)
        time.sleep(0.15)
        with script.guard:
            script.under_way -= 1

    def _answer(self) -> str:
        if self.path.endswith("/messages"):
            content = [{"type": "text", "text": "green"}]
            usage = {"input_tokens": 11, "output_tokens": 2}
            message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": content}
            return json.dumps({**message, "usage": usage, "stop_reason": "end_turn", "stop_sequence": None})
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        choice["message"] = {"role": "assistant", "content": "green"}
        tops = [{"token": "yes", "logprob": -0.1, "bytes": None}, {"token": "no", "logprob": -2.5, "bytes": None}]
        choice["logprobs"] = {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}
        usage = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}
        reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice]}
        return json.dumps({**reply, "usage": usage})

    def _send(self, status: int, text: str) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            if status == 429:
                self.send_header("Retry-After", "0.01")
            self.end_headers()
            self.wfile.write(text.encode())
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client gave up waiting

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@dataclass
class Server:
    """A running server and what it saw."""

    url: str
    script: Script

    def settings(self, dialect: Dialect, **changes: Any) -> ChatSettings:
        base = self.url + ("/v1" if dialect == "openai" else "")
        given = {"provider": dialect, "model": "gpt-4o-mini", "base_url": base, "patience": HURRIED, **changes}
        return ChatSettings.model_validate(given)


@pytest.fixture(params=get_args(Dialect))
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    if find_spec(found) is None:
        pytest.skip(f"the package {found!r} of the extra 'llm' is not installed")
    return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    script = Script()
    handler = type("Handler", (_Handler,), {"script": script})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield Server(f"http://127.0.0.1:{http.server_address[1]}", script)
    http.shutdown()
    http.server_close()
    thread.join(timeout=5)


def test_a_reply_comes_with_its_tokens_and_nothing_is_streamed(server: Server, dialect: Dialect) -> None:
    reply = connect(server.settings(dialect), cache=None).chat.reply(QUESTION, max_tokens=7)
    assert (reply.text, reply.tokens_in, reply.tokens_out) == ("green", 11, 2)
    (seen,) = server.script.seen
    assert not seen.get("stream")
    assert seen["max_tokens"] == 7
    if dialect == "openai":
        assert seen["messages"][0] == {"role": "system", "content": "Be brief."}
        assert seen["temperature"] == 0.0
    else:
        assert seen["system"] == "Be brief."
        assert [turn["role"] for turn in seen["messages"]] == ["user"]


def test_the_key_goes_to_the_server_and_a_given_temperature_too(server: Server, dialect: Dialect) -> None:
    connect(server.settings(dialect, temperature=0.3), cache=None).chat.reply(QUESTION, max_tokens=7)
    assert any(SECRET in value for value in server.script.headers[0].values())
    assert server.script.seen[0]["temperature"] == 0.3


def test_a_temperature_can_be_left_out(server: Server, dialect: Dialect) -> None:
    connect(server.settings(dialect, temperature="unsent"), cache=None).chat.reply(QUESTION, max_tokens=7)
    assert "temperature" not in server.script.seen[0]


def test_log_probabilities_of_the_first_token_come_where_they_are_offered(server: Server) -> None:
    pytest.importorskip("openai", reason="the package 'openai' of the extra 'llm' is not installed")
    reply = connect(server.settings("openai", top_logprobs=2), cache=None).chat.reply(QUESTION, max_tokens=1)
    assert reply.logprobs == {"yes": -0.1, "no": -2.5}
    assert server.script.seen[0]["top_logprobs"] == 2


@pytest.mark.parametrize("trouble", ["429", "500", "503", "529", "malformed", "other-shape", "hang-up", "slow"])
def test_passing_trouble_is_waited_out(server: Server, dialect: Dialect, trouble: str) -> None:
    server.script.acts += [trouble]
    settings = server.settings(dialect, timeout_seconds=0.25)
    assert connect(settings, cache=None).chat.reply(QUESTION, max_tokens=7).text == "green"
    assert len(server.script.seen) == 2


@pytest.mark.parametrize("trouble", ["429", "malformed", "slow"])
def test_lasting_trouble_becomes_one_chat_error_after_the_last_attempt(
    server: Server, dialect: Dialect, trouble: str
) -> None:
    server.script.acts += [trouble] * 5
    with pytest.raises(ChatError, match="asked 3 times"):
        connect(server.settings(dialect, timeout_seconds=0.25), cache=None).chat.reply(QUESTION, max_tokens=7)
    assert len(server.script.seen) == 3


@pytest.mark.parametrize("status", ["400", "401", "403", "404"])
def test_a_request_that_can_never_work_is_sent_once(server: Server, dialect: Dialect, status: str) -> None:
    server.script.acts += [status]
    with pytest.raises(ChatError, match=f"status {status}") as caught:
        connect(server.settings(dialect), cache=None).chat.reply(QUESTION, max_tokens=7)
    assert not isinstance(caught.value, ChatBusy)
    assert len(server.script.seen) == 1


def test_a_server_that_is_not_there_is_a_chat_error(server: Server, dialect: Dialect) -> None:
    settings = server.settings(dialect, base_url="http://127.0.0.1:9")
    with pytest.raises(ChatError, match="did not answer"):
        connect(settings, cache=None).chat.reply(QUESTION, max_tokens=7)


def test_never_more_calls_under_way_than_allowed(server: Server, dialect: Dialect) -> None:
    server.script.acts += ["linger"] * 8
    patience = HURRIED.model_copy(update={"max_concurrent": 2})
    chat = connect(server.settings(dialect, patience=patience), cache=None).chat
    asked = [[Message("user", f"question {i}")] for i in range(8)]
    assert len(reply_all(chat, asked, max_tokens=5, workers=8)) == 8
    assert server.script.most_under_way == 2


def test_the_second_run_asks_nothing_and_the_account_shows_it(server: Server, dialect: Dialect, tmp_path: Path) -> None:
    settings = server.settings(dialect)
    first = connect(settings, cache=tmp_path)
    first.chat.reply(QUESTION, max_tokens=7)
    assert (first.meter.account.calls, first.meter.account.tokens_in) == (1, 11)
    # gpt-4o-mini: 11 tokens in at $0.15 and 2 out at $0.60 per million = 1.65e-6 + 1.2e-6
    assert first.meter.account.dollars == pytest.approx(2.85e-6)
    second = connect(settings, cache=tmp_path)
    assert second.chat.reply(QUESTION, max_tokens=7).cached
    assert second.meter.account.calls == 0
    assert len(server.script.seen) == 1


def test_other_parameters_are_other_questions(server: Server, dialect: Dialect, tmp_path: Path) -> None:
    for temperature in (0.1, 0.2):
        connect(server.settings(dialect, temperature=temperature), cache=tmp_path).chat.reply(QUESTION, max_tokens=7)
    assert len(server.script.seen) == 2


def test_a_spent_budget_stops_before_the_next_call_and_a_larger_one_goes_on(
    server: Server, dialect: Dialect, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.json"
    # 11 in and 2 out cost $13 a call; a reply may take 7 tokens, a prompt of 12 to 13 bytes is bounded by 5 + 8 tokens
    prices.write_text('{"models": {"gpt-4o-mini": {"per_million_in": 1e6, "per_million_out": 1e6}}}')
    asked = [[Message("user", f"question {i}")] for i in range(3)]
    settings, cache = server.settings(dialect), tmp_path / "replies"
    tight = connect(settings, cache=cache, budget=30.0, prices=prices)
    with pytest.raises(BudgetSpent, match="larger budget"):
        # bounds: $19 <= 30 and $13 + 19 > 30: one call is made
        reply_all(tight.chat, asked, max_tokens=7, workers=1)
    assert tight.meter.account.dollars == 13.0
    wide = connect(settings, cache=cache, budget=100.0, prices=prices)
    assert len(reply_all(wide.chat, asked, max_tokens=7, workers=1)) == 3
    assert len(server.script.seen) == 3


def test_a_rehearsal_bounds_the_account_and_knows_what_is_on_disk(
    server: Server, dialect: Dialect, tmp_path: Path
) -> None:
    settings = server.settings(dialect)
    rehearsal = rehearse(settings, cache=tmp_path)
    rehearsal.reply(QUESTION, max_tokens=7)
    assert not server.script.seen
    connection = connect(settings, cache=tmp_path)
    connection.chat.reply(QUESTION, max_tokens=7)
    real, bound = connection.meter.account, rehearsal.account
    assert bound.calls == real.calls == 1
    assert bound.tokens_in >= real.tokens_in and bound.tokens_out >= real.tokens_out
    again = rehearse(settings, cache=tmp_path)
    assert again.reply(QUESTION, max_tokens=7).text == "green"
    assert again.account.calls == 0


@pytest.mark.parametrize("trouble", ["401", "500", "malformed", "hang-up", "slow"])
def test_the_key_is_in_no_log_no_cache_and_no_traceback(
    server: Server, dialect: Dialect, trouble: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script.acts += ["answer", *[trouble] * 3]  # the server repeats the key in its error messages
    settings = server.settings(dialect, timeout_seconds=0.25)
    connection = connect(settings, cache=tmp_path)
    connection.chat.reply(QUESTION, max_tokens=7)
    with pytest.raises(ChatError) as caught:
        connection.chat.reply([Message("user", "again")], max_tokens=7)
    # what a crash reporter would print, the local variables of every frame included
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "self" in shown  # locals are there
    assert SECRET not in shown
    assert caught.value.__context__ is None or SECRET not in str(caught.value.__context__)
    assert SECRET not in caplog.text
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert kept and all(SECRET not in text for text in kept)
    assert SECRET not in f"{settings!r} {connection!r} {vars(connection.meter)!r}"


def test_a_password_in_a_servers_address_is_not_in_what_is_said_of_it(server: Server, dialect: Dialect) -> None:
    server.script.acts += ["401"]
    host = server.url.removeprefix("http://")
    with pytest.raises(ChatError, match=host) as caught:
        connect(server.settings(dialect, base_url=f"http://me:hush@{host}/v1"), cache=None).chat.reply(
            QUESTION, max_tokens=7
        )
    assert "hush" not in str(caught.value)


def test_without_a_key_the_variable_is_named(server: Server, dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = f"{dialect.upper()}_API_KEY"
    monkeypatch.delenv(variable)
    with pytest.raises(ChatError, match=variable):
        connect(server.settings(dialect, base_url=None), cache=None)


def test_a_server_of_ones_own_may_need_no_key(
    server: Server, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{dialect.upper()}_API_KEY")
    assert connect(server.settings(dialect), cache=None).chat.reply(QUESTION, max_tokens=7).text == "green"


def test_the_words_of_a_server_that_needs_no_key_are_not_blotted_out(
    server: Server, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{dialect.upper()}_API_KEY")
    server.script.acts += ["404"]
    with pytest.raises(ChatError, match="no good, none at all"):
        connect(server.settings(dialect), cache=None).chat.reply(QUESTION, max_tokens=7)


def test_a_missing_package_is_named_with_its_install_line() -> None:
    with pytest.raises(MissingExtra, match=r"longrank\[llm\]"):
        client_package("no_such_client_package")


def test_a_budget_for_a_model_without_a_price_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(SettingsError, match="per_million_in"):
        connect(ChatSettings(provider="openai", model="own-model"), cache=None, budget=1.0)
