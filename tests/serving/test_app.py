"""The two dialects over a real socket: replies, refusals, limits, tokens, logs and metrics."""

import json
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from longrank.core.errors import BudgetSpent, ChatError, ServiceError
from longrank.core.types import Document, Query, Scores
from longrank.rankers.neural import NeuralRanker
from longrank.serving.dialects import sigmoid
from longrank.testing import WordOverlapRanker

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Protocol

    class Running(Protocol):
        url: str
        port: int
        desk: Any

        def stop(self) -> None: ...

        def log(self) -> list[dict[str, Any]]: ...

    class Serving(Protocol):
        def __call__(
            self, ranker: Any, *, token: str | None = None, **changes: Any
        ) -> AbstractContextManager[Running]: ...


TEXTS = ["a red fox", "green grass " * 150, "a red fox in the snow", ""]
SECRET = "sesame-4711"


class Held:
    """A ranker that answers when it is let go."""

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), threading.Event()

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.asked.set()
        self.go.wait(30)
        return Scores([0.0] * len(documents))


class Failing:
    """A ranker that fails, quoting what it was given, unless it is asked for peace."""

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        if query.text != "peace":
            raise RuntimeError(f"cannot read {documents[0].text}")
        return Scores([1.0] * len(documents))


def post(server: "Running", path: str, body: object, **kwargs: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=30, **kwargs)


def raw_scores(tiny: NeuralRanker, query: str, texts: Sequence[str]) -> list[float]:
    return tiny.score(Query("q", query), [Document(str(n), text) for n, text in enumerate(texts)]).values


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_cohere_s_dialect_ranks_with_scores_between_0_and_1_and_counts_tokens(
    server: "Running", tiny: NeuralRanker, path: str
) -> None:
    reply = post(server, path, {"model": "tiny", "query": "red fox", "documents": TEXTS})
    assert reply.status_code == 200
    found = reply.json()
    direct = raw_scores(tiny, "red fox", TEXTS)
    assert {r["index"]: r["relevance_score"] for r in found["results"]} == pytest.approx(
        {n: sigmoid(score) for n, score in enumerate(direct)}, abs=1e-5
    )
    scores = [r["relevance_score"] for r in found["results"]]
    assert scores == sorted(scores, reverse=True)
    # 300 words and the first 200 are read
    assert found["meta"]["cut_documents"] == 1
    assert found["meta"]["cut_tokens"] == 100
    assert "not read to the end: 1 documents, 100 tokens" in found["meta"]["warnings"]
    assert reply.headers["x-cut-tokens"] == "100"
    # rows of [CLS] red fox [SEP] chunk [SEP]: 5 tokens more than the chunk. Chunks of 3, 6 and 0 words; 200 words are
    # ceil((200 - 40) / 30) + 1 = 7 windows at 0, 30, ..., 180: six of 40 and one of 20
    assert found["usage"]["total_tokens"] == (3 + 5) + (6 + 5) + (0 + 5) + (6 * 40 + 20 + 7 * 5)
    assert found["meta"]["tokens"]["input_tokens"] == found["usage"]["total_tokens"]


def test_documents_may_be_objects_and_their_ids_come_back(server: "Running") -> None:
    documents = [{"id": "x7", "text": "a red fox", "year": 1999}, "plain", {"text": "no id"}]
    body = {"query": "red", "documents": documents, "return_documents": True, "top_n": 3, "user": "me"}
    found = post(server, "/v1/rerank", body).json()
    by_index = {r["index"]: r for r in found["results"]}
    assert by_index[0]["id"] == "x7"
    assert by_index[0]["document"] == documents[0]
    assert by_index[1]["document"] == {"text": "plain"}
    assert "id" not in by_index[2]
    assert "ignored: user" in found["meta"]["warnings"]


def test_top_n_and_raw_scores(server: "Running", tiny: NeuralRanker) -> None:
    found = post(server, "/v2/rerank", {"query": "red", "documents": TEXTS, "top_n": 2, "raw_scores": True}).json()
    direct = sorted(raw_scores(tiny, "red", TEXTS), reverse=True)
    assert [r["relevance_score"] for r in found["results"]] == pytest.approx(direct[:2], abs=1e-5)


def test_the_most_tokens_of_a_document_are_kept_to_and_the_rest_counted(server: "Running", tiny: NeuralRanker) -> None:
    body = {"query": "red", "documents": ["one two three four"], "max_tokens_per_doc": 2, "raw_scores": True}
    found = post(server, "/v2/rerank", body).json()
    assert found["results"][0]["relevance_score"] == pytest.approx(raw_scores(tiny, "red", ["one two"])[0], abs=1e-5)
    assert found["meta"]["cut_tokens"] == 2


def test_relevant_spans_are_code_points_of_the_best_windows(server: "Running", tiny: NeuralRanker) -> None:
    text = "🦊 日本 " + " ".join(f"word{n}" for n in range(100))
    wanted = {"mode": "enabled", "threshold": 0.0, "max_spans": 2}
    found = post(server, "/v2/rerank", {"query": "word50", "documents": [text], "relevant_spans": wanted}).json()
    spans = found["results"][0]["relevant_spans"]
    best = tiny.explain("word50", text)
    assert (spans[0]["start"], spans[0]["end"]) == (best.best.start, best.best.stop)
    assert spans[0]["score"] == pytest.approx(found["results"][0]["relevance_score"], abs=1e-6)
    assert len(spans) == 2
    assert spans[0]["end"] <= spans[1]["start"] or spans[1]["end"] <= spans[0]["start"]
    assert spans[0]["score"] >= spans[1]["score"]


def test_spans_of_a_ranker_that_knows_no_windows_hold_what_was_asked_for(serving: "Serving") -> None:
    text = "nothing here " * 300 + "the quiet otter sleeps " + "nothing there " * 300
    with serving(WordOverlapRanker()) as server:
        wanted = {"mode": "enabled", "threshold": 0.6, "max_spans": 1}
        body = {"query": "quiet otter", "documents": [text, "no"], "relevant_spans": wanted, "top_n": 1}
        found = post(server, "/v2/rerank", body).json()
    (span,) = found["results"][0]["relevant_spans"]
    assert "quiet otter" in text[span["start"] : span["end"]]
    assert span["end"] - span["start"] < 1000


def test_disabled_spans_are_not_sent(server: "Running") -> None:
    body = {"query": "a", "documents": ["a"], "relevant_spans": {"mode": "disabled"}}
    assert "relevant_spans" not in post(server, "/v2/rerank", body).json()["results"][0]


def test_tei_s_dialect_answers_a_bare_list_and_counts_in_headers(server: "Running", tiny: NeuralRanker) -> None:
    reply = post(server, "/rerank", {"query": "red fox", "texts": TEXTS, "raw_scores": True, "return_text": True})
    direct = raw_scores(tiny, "red fox", TEXTS)
    found = reply.json()
    assert {r["index"]: r["score"] for r in found} == pytest.approx(dict(enumerate(direct)), abs=1e-5)
    assert all(r["text"] == TEXTS[r["index"]] for r in found)
    assert (reply.headers["x-cut-documents"], reply.headers["x-cut-tokens"]) == ("1", "100")
    assert all(0 <= r["score"] <= 1 for r in post(server, "/rerank", {"query": "red", "texts": TEXTS}).json())


@pytest.mark.parametrize("field", [{"truncate": False}, {"truncation_direction": "Left"}])
def test_tei_s_dialect_refuses_to_cut_when_told_not_to(server: "Running", field: dict[str, object]) -> None:
    assert post(server, "/rerank", {"query": "red", "texts": ["short"], **field}).status_code == 200
    reply = post(server, "/rerank", {"query": "red", "texts": TEXTS, **field})
    assert reply.status_code == 422
    assert reply.json()["error_type"] == "Validation"
    assert "100 tokens" in reply.json()["error"]


def test_what_is_cropped_of_a_query_is_told_or_refused(server: "Running") -> None:
    query = "red " * 40  # of which 32 are read
    reply = post(server, "/v2/rerank", {"query": query, "documents": ["short"]})
    assert reply.json()["meta"]["cut_query_tokens"] == 8
    assert reply.json()["meta"]["warnings"] == ["not read of the query: 8 tokens"]
    assert post(server, "/rerank", {"query": query, "texts": ["short"]}).headers["x-cut-query-tokens"] == "8"
    assert post(server, "/explore", {"query": query, "documents": ["short"]}).json()["cut_query_tokens"] == 8
    refused = post(server, "/rerank", {"query": query, "texts": ["short"], "truncate": False})
    assert (refused.status_code, "8 tokens" in refused.json()["error"]) == (422, True)


def test_health_info_and_metrics(server: "Running") -> None:
    before = post(server, "/rerank", {"query": "red", "texts": TEXTS}).status_code
    assert before == 200
    assert httpx.get(server.url + "/health").status_code == 200
    info = httpx.get(server.url + "/info").json()
    assert (info["model_id"], info["max_client_batch_size"]) == ("tiny", 10_000)
    reply = httpx.get(server.url + "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in reply.text.splitlines() if not line.startswith("#"))
    assert float(values['longrank_requests_total{path="/rerank",status="200"}']) >= 1
    assert float(values["longrank_cut_tokens_total"]) >= 100
    assert float(values["longrank_requests_now"]) == 0
    assert float(values['longrank_request_seconds_bucket{path="/rerank",le="+Inf"}']) >= 1


BAD = [
    (b"{", 400, "not JSON"),
    (b"", 400, "not JSON"),
    (b'{"query": "\xff", "documents": ["a"], "texts": ["a"]}', 400, "UTF-8"),
    (b'{"query": "\\ud800", "documents": ["a"], "texts": ["a"]}', 400, "not JSON"),
    (b"[" * 5000, 400, "not JSON"),
    (b"[]", None, "should be an object"),
    (b"null", None, "body"),
    (b'{"query": "", "documents": ["a"], "texts": ["a"]}', None, "query: must not be empty"),
    (b'{"query": "  ", "documents": ["a"], "texts": ["a"]}', None, "query: must not be blank"),
    (b'{"query": 7, "documents": ["a"], "texts": ["a"]}', None, "query: "),
    (b'{"query": "a", "documents": [], "texts": []}', 400, "must not be empty"),
    (b'{"query": "a", "documents": null, "texts": null}', None, "valid array"),
    (b'{"query": "a", "documents": [null], "texts": [null]}', None, ".0: "),
    (b'{"query": "a", "documents": [["b"]], "texts": [["b"]]}', None, ".0: "),
    (b'{"query": "a"}', None, "Field required"),
]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
@pytest.mark.parametrize(("body", "status", "words"), BAD, ids=[str(n) for n in range(len(BAD))])
def test_bad_input_is_refused_in_the_dialect_s_own_shape(
    server: "Running", path: str, body: bytes, status: int | None, words: str
) -> None:
    reply = httpx.post(server.url + path, content=body, headers={"Content-Type": "application/json"})
    expected = status or (422 if path == "/rerank" else 400)
    assert reply.status_code == expected, reply.text
    found = reply.json()
    if path == "/rerank":
        assert set(found) == {"error", "error_type"}
        assert words in found["error"]
    else:
        assert set(found) == {"message"}
        assert words in found["message"]
    assert httpx.get(server.url + "/health").status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [("top_n", 0), ("top_n", "3"), ("top_n", 1.5), ("max_tokens_per_doc", -1), ("relevant_spans", {"mode": "on"})],
)
def test_wrong_options_are_named(server: "Running", field: str, value: object) -> None:
    reply = post(server, "/v2/rerank", {"query": "a", "documents": ["b"], field: value})
    assert reply.status_code == 400
    assert field in reply.json()["message"]


def test_an_unknown_model_an_unknown_address_and_a_wrong_method(server: "Running") -> None:
    reply = post(server, "/v2/rerank", {"model": "gpt", "query": "a", "documents": ["b"]})
    assert (reply.status_code, reply.json()["message"]) == (404, "model not found: this server has 'tiny'")
    assert httpx.get(server.url + "/nothing").json() == {"message": "nothing is here: see /openapi.json"}
    wrong = httpx.get(server.url + "/rerank")
    assert (wrong.status_code, wrong.json()["error_type"]) == (405, "Validation")
    other = httpx.post(server.url + "/v1/rerank", content=b"query=a")
    assert other.status_code == 415
    assert "application/json" in other.json()["message"]


def test_limits_of_documents_characters_and_bytes(serving: "Serving", tiny: NeuralRanker) -> None:
    limits: dict[str, Any] = {
        "max_documents": 3,
        "max_document_characters": 50,
        "max_query_characters": 20,
        "max_body_megabytes": 0.01,
    }
    with serving(tiny, **limits) as server:
        for body, words in [
            ({"query": "a", "documents": ["b"] * 4}, "4 documents were sent and 3 is the most"),
            ({"query": "a", "documents": ["b", "c" * 51]}, "document 1 has 51 characters"),
            ({"query": "a" * 21, "documents": ["b"]}, "the query has 21 characters"),
            ({"query": "a", "documents": ["b" * 20_000]}, "larger than 0.01 MB"),
        ]:
            reply = post(server, "/v2/rerank", body)
            assert reply.status_code == 413
            assert words in reply.json()["message"]
        # the same without a length in the header
        pieces = (b'{"query": "a", "documents": ["' + b"b" * 9_000, b"b" * 9_000, b'"]}')
        headers = {"Content-Type": "application/json"}
        for content in (pieces, (b"".join(pieces),)):
            reply = httpx.post(server.url + "/v2/rerank", content=iter(content), headers=headers, timeout=20)
            assert reply.status_code == 413
        assert post(server, "/v2/rerank", {"query": "a", "documents": ["b"]}).status_code == 200


def test_a_body_of_100_megabytes_is_refused_and_not_held(server: "Running") -> None:
    most = 0
    piece = b"x" * 1_000_000

    def pieces() -> Any:
        nonlocal most
        for _ in range(100):
            most = max(most, server.desk.admission.held)
            yield piece

    reply = httpx.post(
        server.url + "/v1/rerank", content=pieces(), headers={"Content-Type": "application/json"}, timeout=60
    )
    assert reply.status_code == 413
    assert most <= 32_000_000
    assert server.desk.admission.held == 0
    assert post(server, "/v1/rerank", {"query": "a", "documents": ["b"]}).status_code == 200


def test_a_server_that_holds_as_much_text_as_it_may_says_429(serving: "Serving", tiny: NeuralRanker) -> None:
    with serving(tiny, max_held_megabytes=0.005) as server:
        reply = post(server, "/v2/rerank", {"query": "a", "documents": ["b" * 6000]})
        assert reply.status_code == 429
        assert "as much text" in reply.json()["message"]
        assert post(server, "/v2/rerank", {"query": "a", "documents": ["b" * 600]}).status_code == 200


def test_a_full_server_says_429_and_when_to_come_back(serving: "Serving") -> None:
    held = Held()
    with serving(held, max_requests=1) as server:
        replies: list[httpx.Response] = []
        body = {"query": "a", "documents": ["b"], "texts": ["b"]}
        first = threading.Thread(target=lambda: replies.append(post(server, "/v2/rerank", body)))
        first.start()
        assert held.asked.wait(10)
        refused = post(server, "/v2/rerank", body)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 120
        assert "try again" in refused.json()["message"]
        assert post(server, "/rerank", body).json()["error_type"] == "Overloaded"
        assert httpx.get(server.url + "/health").status_code == 200
        held.go.set()
        first.join(10)
        assert replies[0].status_code == 200
        assert post(server, "/v2/rerank", body).status_code == 200


def test_a_request_that_takes_too_long_is_answered_504(serving: "Serving") -> None:
    held = Held()
    with serving(held, seconds=0.2) as server:
        reply = post(server, "/v2/rerank", {"query": "a", "documents": ["b"]})
        assert reply.status_code == 504
        assert "0.2 s" in reply.json()["message"]
        held.go.set()
        assert post(server, "/v2/rerank", {"query": "a", "documents": ["b"]}).status_code == 200


def test_a_body_that_comes_too_slowly_is_answered_408(serving: "Serving", tiny: NeuralRanker) -> None:
    with serving(tiny, body_seconds=0.2) as server, socket.create_connection(("127.0.0.1", server.port), 10) as client:
        client.sendall(
            b"POST /rerank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"
        )
        assert b" 408 " in client.recv(4096)


def test_work_for_a_client_that_left_is_given_up(serving: "Serving") -> None:
    held = Held()
    with serving(held) as server:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.url + "/rerank", json={"query": "a", "texts": ["b"]}, timeout=0.5)
        until = time.monotonic() + 10
        while "longrank_cancelled_total 1" not in httpx.get(server.url + "/metrics").text:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert server.desk.admission.requests == 0
        held.go.set()
        assert post(server, "/rerank", {"query": "a", "texts": ["b"]}).status_code == 200


def test_a_server_that_is_told_to_stop_finishes_what_it_accepted(serving: "Serving") -> None:
    held = Held()
    with serving(held) as server:
        replies: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: replies.append(post(server, "/v2/rerank", {"query": "a", "documents": ["b"]}))
        )
        asking.start()
        assert held.asked.wait(10)
        threading.Timer(0.3, held.go.set).start()
        server.stop()
        asking.join(10)
        assert replies[0].status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/health")


def test_with_a_token_only_who_knows_it_is_answered(serving: "Serving", tiny: NeuralRanker) -> None:
    with serving(tiny, token=SECRET) as server:
        body = {"query": "a", "documents": ["b"]}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": SECRET}):
            reply = post(server, "/v2/rerank", body, headers=headers)
            assert reply.status_code == 401
            assert "token" in reply.json()["message"]
        assert httpx.get(server.url + "/metrics").json()["error_type"] == "Validation"
        assert httpx.get(server.url + "/health").status_code == 200
        assert httpx.get(server.url + "/").status_code == 200
        good = post(server, "/v2/rerank", body, headers={"Authorization": f"Bearer {SECRET}"})
        assert good.status_code == 200
    assert SECRET not in json.dumps(server.log())


@pytest.mark.parametrize("failure", [ServiceError("is down"), ChatError("is busy"), BudgetSpent("no money")])
def test_what_fails_behind_the_ranker_is_not_the_client_s_fault(serving: "Serving", failure: Exception) -> None:
    class Behind:
        def score(self, query: Query, documents: Sequence[Document]) -> Scores:
            raise failure

    with serving(Behind()) as server:
        reply = post(server, "/v2/rerank", {"query": "red", "documents": ["fox"]})
    assert (reply.status_code, reply.json()) == (502, {"message": str(failure)})


def test_the_log_is_json_lines_without_texts(serving: "Serving") -> None:
    with serving(Failing()) as server:
        post(server, "/v2/rerank?key=hidden-key", {"query": "peace", "documents": ["private words"]})
        failed = post(server, "/v2/rerank", {"query": "war", "documents": ["private words"]})
        post(server, "/private-path", {})
    log = server.log()  # a line is written after its reply was sent: all are there once the server has stopped
    assert failed.status_code == 500
    assert failed.json() == {"message": "the ranker failed (RuntimeError); the server's log says where"}
    requests = [line for line in log if line["event"] == "request"]
    assert [line["status"] for line in requests] == [200, 500, 404]
    assert requests[0]["path"] == "/v2/rerank"
    assert requests[0]["documents"] == 1
    assert requests[0]["milliseconds"] > 0
    assert any(line.get("error") == "RuntimeError" for line in log)
    whole = json.dumps(log)
    assert not any(word in whole for word in ("private", "peace", "war", "hidden-key"))


def test_the_page_s_own_address_gives_windows_and_what_was_cut(server: "Running", tiny: NeuralRanker) -> None:
    text = " ".join(f"word{n}" for n in range(260))
    found = post(server, "/explore", {"query": "word3", "documents": [text, "short"]}).json()
    long, short = found["documents"]
    # windows of 100 words every 50: ceil((260 - 100) / 50) + 1 = 5
    assert len(long["windows"]) == 5
    assert long["windows"][0][0] == 0
    assert long["windows"][-1][1] == len(text)
    assert long["maxp"] == max(score for _, _, score in long["windows"])
    assert long["firstp"] == long["windows"][0][2]
    assert long["cut_tokens"] == 60
    assert text[: long["read_to"]].endswith("word199")
    assert short["served"] == pytest.approx(short["firstp"], abs=1e-6)
    assert short["cut_tokens"] == 0
    assert found["cut_documents"] == 1
