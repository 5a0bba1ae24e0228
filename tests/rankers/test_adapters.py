"""Other people's rankers: functions by name, real servers on this machine, and models in folders the tests write."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from longrank.core.errors import DataError, ModelError, ServiceError, SettingsError
from longrank.core.types import Document, Query
from longrank.rankers.adapters import ClassifierRanker, FunctionRanker, HttpRanker, identity, load_function, resolve

QUERY = Query("q", "red")
DOCUMENTS = [Document("a", "red"), Document("b", "red red red"), Document("c", "blue")]


class Service:
    """Counts the query's word in each text; ``failures`` are (status, headers) given before the first answer."""

    def __init__(self) -> None:
        self.failures: list[tuple[int, dict[str, str]]] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.reply: object = None

    def answer(self, path: str, body: dict[str, Any]) -> object:
        texts = body["documents"] if "documents" in body else body["texts"]
        ranked = sorted(enumerate(text.split().count(body["query"]) for text in texts), key=lambda row: -row[1])
        if path == "/rerank":
            return [{"index": at, "score": float(score)} for at, score in ranked]
        return {"results": [{"index": at, "relevance_score": float(score)} for at, score in ranked]}


@contextmanager
def serving(service: Service) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.bodies.append(body)
            service.keys.append(self.headers.get("Authorization"))
            status, headers = service.failures.pop(0) if service.failures else (200, {})
            reply = service.answer(self.path, body) if service.reply is None else service.reply
            text = reply if isinstance(reply, str) else json.dumps(reply)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_scores_come_back_in_the_order_of_the_documents(path: str) -> None:
    with serving(Service()) as address:
        assert HttpRanker(address + path).score(QUERY, DOCUMENTS).values == [1.0, 3.0, 0.0]


def test_long_lists_are_sent_in_batches_and_the_key_as_a_bearer() -> None:
    service = Service()
    with serving(service) as address:
        ranker = HttpRanker(address + "/rerank", api_key="secret")
        assert ranker.score(QUERY, DOCUMENTS * 11).values == [1.0, 3.0, 0.0] * 11
    assert [len(body["texts"]) for body in service.bodies] == [32, 1]
    assert service.keys == ["Bearer secret"] * 2
    assert "secret" not in repr(ranker)


def test_a_busy_service_is_asked_again_after_as_long_as_it_says() -> None:
    service, waits = Service(), list[float]()
    service.failures = [(429, {"Retry-After": "7"}), (503, {})]
    with serving(service) as address:
        assert HttpRanker(address + "/rerank", sleep=waits.append).score(QUERY, DOCUMENTS).values == [1.0, 3.0, 0.0]
    assert waits == [7.0, 1.0]  # what it said, then half a second doubled once


def test_a_service_that_stays_busy_or_refuses_is_an_error() -> None:
    service, waits = Service(), list[float]()
    with serving(service) as address:
        service.failures = [(429, {"Retry-After": "1"})] * 3
        with pytest.raises(ServiceError, match="429"):
            HttpRanker(address + "/rerank", retries=2, sleep=waits.append).score(QUERY, DOCUMENTS)
        service.failures = [(401, {})]
        with pytest.raises(ServiceError, match="401"):
            HttpRanker(address + "/rerank", sleep=waits.append).score(QUERY, DOCUMENTS)
    assert waits == [1.0, 1.0]  # a refusal is not tried again


@pytest.mark.parametrize("reply", ["no json", {"results": []}, [{"index": 0, "score": 1}], [{"index": 0}] * 3])
def test_replies_that_lack_a_document_are_errors(reply: object) -> None:
    service = Service()
    service.reply = reply
    with serving(service) as address, pytest.raises(ServiceError, match="answer"):
        HttpRanker(address + "/rerank").score(QUERY, DOCUMENTS)


def test_an_address_without_a_server_says_that_nobody_answered() -> None:
    with serving(Service()) as address:
        closed = address
    with pytest.raises(ServiceError, match="did not answer"):
        HttpRanker(closed + "/rerank", retries=1, sleep=lambda seconds: None).score(QUERY, DOCUMENTS)


@pytest.mark.parametrize("url", ["ftp://host/rerank", "http:///rerank", "http://host/score"])
def test_addresses_of_no_known_dialect_are_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        HttpRanker(url)


def test_a_function_is_found_beside_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("counting_ranker.py").write_text("def count(query, texts):\n    return [t.count(query) for t in texts]\n")
    assert resolve("counting_ranker:count").score(QUERY, DOCUMENTS).values == [1, 3, 0]
    with pytest.raises(SettingsError, match="no function 'missing'"):
        load_function("counting_ranker:missing")
    with pytest.raises(SettingsError, match="cannot import"):
        load_function("no_such_module_here:count")


def test_the_identity_follows_the_code_and_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = Path("changing_ranker.py")
    module.write_text("def score(query, texts):\n    return [0.0] * len(texts)\n")
    before = identity("changing_ranker:score"), identity(str(tmp_path))
    module.write_text("def score(query, texts):\n    return [1.0] * len(texts)\n# longer\n")
    assert identity("changing_ranker:score") != before[0]
    assert identity(str(tmp_path)) != before[1]
    assert identity("minilm") == identity("http://host/rerank") == ""


def test_a_function_that_returns_no_list_is_refused() -> None:
    with pytest.raises(DataError, match="must return a list"):
        FunctionRanker(lambda query, texts: 1.0).score(QUERY, DOCUMENTS)


def test_an_unknown_name_says_what_would_do() -> None:
    with pytest.raises(ModelError, match="minilm"):
        resolve("no-such-ranker")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier with random weights, as transformers saves it."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("classifier")
    vocabulary = {token: n for n, token in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "red", "blue"])}
    fast = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=6,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        num_labels=1,
        max_position_embeddings=16,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_classifier_in_a_folder_scores_alone_as_in_a_batch_and_counts_what_it_cuts(classifier: Path) -> None:
    ranker = resolve(str(classifier))
    assert isinstance(ranker, ClassifierRanker)
    long = Document("long", "blue " * 20)
    together = ranker.score(QUERY, [*DOCUMENTS, long])
    alone = [ranker.score(QUERY, [document]).values[0] for document in [*DOCUMENTS, long]]
    assert together.values == pytest.approx(alone, abs=1e-5)
    # [CLS] red [SEP] + 20 words + [SEP] = 24 tokens, 16 fit
    assert (together.cut_documents, together.cut_tokens) == (1, 8)


def test_a_folder_without_a_classification_head_is_refused(classifier: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    AutoModel.from_pretrained(classifier).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(classifier).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="classification head"):
        resolve(str(tmp_path))
