"""Clients that others wrote: Cohere's own, and schemathesis reading the OpenAPI page."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from longrank.core.errors import ServiceError
from longrank.core.types import Document, Query
from longrank.rankers.adapters import HttpRanker
from longrank.rankers.neural import NeuralRanker
from longrank.serving.dialects import sigmoid


@pytest.fixture
def web() -> Iterator[httpx.Client]:
    """A connection that is closed afterwards; a client of its own would leave it open."""
    with httpx.Client(timeout=60) as found:
        yield found


TEXTS = ["a red fox", "green grass " * 150, "a red fox in the snow"]


def test_the_cohere_client_ranks_with_spans(server: Any, web: httpx.Client, tiny: NeuralRanker) -> None:
    cohere = pytest.importorskip("cohere", reason="the cohere client is not installed")
    client = cohere.ClientV2(api_key="any", base_url=server.url, httpx_client=web)
    spans = cohere.RerankRelevantSpans(mode="enabled", threshold=0.0, max_spans=1)
    found = client.rerank(model="tiny", query="red fox", documents=TEXTS, top_n=2, relevant_spans=spans)
    direct = tiny.score(Query("q", "red fox"), [Document(str(n), text) for n, text in enumerate(TEXTS)]).values
    best = sorted(range(3), key=lambda n: -direct[n])[:2]
    assert [result.index for result in found.results] == best
    assert found.results[0].relevance_score == pytest.approx(sigmoid(direct[best[0]]), abs=1e-5)
    assert found.results[0].relevant_spans[0].start == 0
    assert found.meta.tokens.input_tokens > 0
    assert found.meta.warnings == ["not read to the end: 1 documents, 100 tokens"]


def test_the_older_cohere_client_gets_documents_back(server: Any, web: httpx.Client) -> None:
    cohere = pytest.importorskip("cohere", reason="the cohere client is not installed")
    client = cohere.Client(api_key="any", base_url=server.url, httpx_client=web)
    found = client.rerank(query="red", documents=[{"text": "a red fox"}, "grass"], return_documents=True)
    assert {result.document.text for result in found.results} == {"a red fox", "grass"}


def test_the_cohere_client_understands_refusals(server: Any, web: httpx.Client) -> None:
    cohere = pytest.importorskip("cohere", reason="the cohere client is not installed")
    client = cohere.ClientV2(api_key="any", base_url=server.url, httpx_client=web)
    with pytest.raises(cohere.NotFoundError, match="model not found"):
        client.rerank(model="other", query="red", documents=["a"])
    with pytest.raises(cohere.BadRequestError, match="must not be empty"):
        client.rerank(model="tiny", query="red", documents=[])


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_our_own_http_ranker_orders_as_the_served_ranker_does(server: Any, tiny: NeuralRanker, path: str) -> None:
    documents = [Document(str(n), f"text{n} red " * (n + 1)) for n in range(40)]
    served = HttpRanker(server.url + path).score(Query("q", "red text7"), documents).values
    direct = tiny.score(Query("q", "red text7"), documents).values
    expected = direct if path == "/rerank" else [sigmoid(value) for value in direct]
    assert served == pytest.approx(expected, abs=1e-5)


def test_our_own_http_ranker_sees_a_wrong_token(serving: Any, tiny: NeuralRanker) -> None:
    with serving(tiny, token="right") as server, pytest.raises(ServiceError, match="401"):
        HttpRanker(server.url + "/rerank", api_key="wrong").score(Query("q", "a"), [Document("d", "b")])


@pytest.mark.slow
def test_schemathesis_finds_nothing_that_the_openapi_page_does_not_say(server: Any, tmp_path: Path) -> None:
    beside = Path(sys.executable).parent / "schemathesis"
    program = str(beside) if beside.exists() else shutil.which("schemathesis")
    if program is None:
        pytest.skip("schemathesis is not installed (a virtual environment of its own on the PATH will do)")
    done = subprocess.run(
        [program, "run", f"{server.url}/openapi.json", "--max-examples", "60", "--no-color", "--seed", "7"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
