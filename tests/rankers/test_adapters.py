"""Other people's rankers: functions by name, real servers on this machine, and models in folders the tests write."""

import json
import math
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from longrank.audit.design import make_design
from longrank.audit.planted import WordMatch
from longrank.audit.run import audit
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import toy_source
from longrank.audit.verdict import Outcome
from longrank.chat.messages import Message
from longrank.chat.scripted import ScriptedChat
from longrank.core.contracts import Ranker
from longrank.core.errors import DataError, MissingExtra, ModelError, ServiceError, SettingsError
from longrank.core.types import Document, Query, Scores, Spec
from longrank.rankers.adapters import (
    FunctionRanker,
    HttpRanker,
    as_audited,
    identity,
    innermost,
    load_function,
    ranker_label,
    resolve,
)
from longrank.rankers.cross_encoder import reads_in_windows
from longrank.rankers.foreign import ClassifierRanker, CrossEncoderRanker, OnnxRanker
from longrank.rankers.loading import load
from longrank.rankers.ready import build_ready

QUERY = Query("q", "red")
DOCUMENTS = [Document("a", "red"), Document("b", "red red red"), Document("c", "blue")]


class Service:
    """Counts the query's word in each text; ``failures`` are (status, headers) given before the first answer."""

    def __init__(self) -> None:
        self.failures: list[tuple[int, dict[str, str]]] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.reply: object = None
        self.seen: list[str] = []  # every value of every header
        self.hang_ups = 0

    def answer(self, path: str, body: dict[str, Any]) -> object:
        path = path.partition("?")[0]
        texts = body["documents"] if "documents" in body else body["texts"]
        ranked = sorted(enumerate(text.split().count(body["query"]) for text in texts), key=lambda row: -row[1])
        if path == "/rerank":
            return [{"index": at, "score": float(score)} for at, score in ranked]
        return {"results": [{"index": at, "relevance_score": float(score)} for at, score in ranked]}


@contextmanager
def serving(service: Service) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service.seen += self.headers.values()
            self.send_error(405)

        def do_POST(self) -> None:
            service.seen += self.headers.values()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.bodies.append(body)
            service.keys.append(self.headers.get("Authorization"))
            if service.hang_ups:
                service.hang_ups -= 1
                return
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
        ranker = HttpRanker(address + "/rerank", sleep=waits.append)
        assert ranker.score(QUERY, DOCUMENTS).values == [1.0, 3.0, 0.0]
    assert waits == [7.0, 1.0]  # what it said, then half a second doubled once
    assert dict(ranker.retried) == {"429 Too Many Requests": 1, "503 Service Unavailable": 1}


def test_what_a_service_is_said_to_have_done_is_said_without_its_key() -> None:
    service = Service()
    secret = "?api_key=SECRET"
    with serving(service) as address:
        ranker = HttpRanker(f"{address}/rerank{secret}", sleep=lambda _: None)
        for reply in ("no JSON", [], [{"index": 0}]):
            service.reply = reply
            with pytest.raises(ServiceError, match=re.escape(f"{address}/rerank ")) as caught:
                ranker.score(QUERY, DOCUMENTS)
            assert "SECRET" not in str(caught.value)
        service.failures = [(401, {})]
        with pytest.raises(ServiceError, match="401") as caught:
            ranker.score(QUERY, DOCUMENTS)
    with pytest.raises(ServiceError, match="did not answer") as silent:  # nobody listens there any more
        ranker.score(QUERY, DOCUMENTS)
    assert "SECRET" not in f"{caught.value} {silent.value} {ranker!r} {ranker_label(ranker.url)}"


@pytest.mark.parametrize(
    "address",
    [
        "https://me:SECRET@host/rerank",
        "https://me:SEC/RET@host/rerank",
        "https://host/other?api_key=SECRET",
        "https://host/v2/rerank?model=a&model=b&token=SECRET",
        "https://host/rerank?model=a&token=SECRET",
        "https://[host/rerank?token=SECRET",
        "https://host/a b/rerank?token=SECRET",
        "ftp://me:SECRET@host/rerank",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_key(address: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(address)
    assert "SEC" not in str(caught.value) and "RET" not in str(caught.value)
    assert "host" in str(caught.value)


def test_the_key_goes_to_no_other_host() -> None:
    elsewhere, service = Service(), Service()
    with serving(elsewhere) as other, serving(service) as address:
        service.failures = [(307, {"Location": f"{other}/rerank"}), (302, {"Location": f"{other}/rerank"})]
        for _ in range(2):
            with pytest.raises(ServiceError):
                HttpRanker(f"{address}/rerank", api_key="secret").score(QUERY, DOCUMENTS)
    assert service.keys == ["Bearer secret"] * 2
    assert "Bearer secret" not in elsewhere.seen


def test_a_connection_that_breaks_is_tried_again() -> None:
    service = Service()
    service.hang_ups = 2
    with serving(service) as address:
        ranker = HttpRanker(f"{address}/rerank", sleep=lambda _: None)
        assert ranker.score(QUERY, DOCUMENTS).values == [1.0, 3.0, 0.0]
        assert dict(ranker.retried) == {"no answer": 2}
        service.hang_ups = 9
        with pytest.raises(ServiceError, match="did not answer"):
            ranker.score(QUERY, DOCUMENTS)


def test_a_wait_that_is_no_number_is_no_wait() -> None:
    service, waits = Service(), list[float]()
    service.failures = [(429, {"Retry-After": "nan"})]
    with serving(service) as address:
        assert HttpRanker(f"{address}/rerank", sleep=waits.append).score(QUERY, DOCUMENTS).values == [1.0, 3.0, 0.0]
    assert waits == [0.0]


def test_a_service_that_asks_for_an_hour_is_not_waited_for() -> None:
    service, waits = Service(), list[float]()
    service.failures = [(429, {"Retry-After": "3600"})]
    with serving(service) as address, pytest.raises(ServiceError, match="left alone for 3600 s"):
        HttpRanker(address + "/rerank", sleep=waits.append).score(QUERY, DOCUMENTS)
    assert waits == []


def test_the_model_of_a_service_is_named_in_its_address() -> None:
    service = Service()
    with serving(service) as address:
        assert resolve(f"{address}/v2/rerank?model=rerank-v3.5").score(QUERY, DOCUMENTS).values == [1.0, 3.0, 0.0]
        with pytest.raises(SettingsError, match="leave"):
            resolve(f"{address}/rerank?model=a")
    assert service.bodies[0]["model"] == "rerank-v3.5"


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


def test_a_file_in_place_of_a_module_and_a_module_that_breaks_are_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_broken_ranker.py").write_text("weights = open_the_weights()\n")
    with pytest.raises(SettingsError, match="name the module, not its file: some_ranker:count"):
        load_function("some_ranker.py:count")
    with pytest.raises(
        SettingsError, match=r"'my_broken_ranker' .* fails with NameError: name 'open_the_weights'"
    ) as told:
        load_function("my_broken_ranker:count")
    assert isinstance(told.value.__cause__, NameError)


def test_the_identity_follows_the_code_and_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = Path("changing_ranker.py")
    module.write_text("def score(query, texts):\n    return [0.0] * len(texts)\n")
    before = identity("changing_ranker:score"), identity(str(tmp_path))
    module.write_text("def score(query, texts):\n    return [1.0] * len(texts)\n# longer\n")
    assert identity("changing_ranker:score") != before[0]
    assert identity(str(tmp_path)) != before[1]


def test_no_two_names_have_one_identity_and_a_key_is_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rankers may be given the same --name: the answers of one must not be taken for the other's."""
    monkeypatch.chdir(tmp_path)
    Path("two_rankers.py").write_text("def one(query, texts): ...\n\n\ndef two(query, texts): ...\n")
    names = ["minilm", "http://host/rerank", "http://other/rerank", "two_rankers:one", "two_rankers:two"]
    names += ["cross-encoder:some/model", "cross-encoder:other/model"]
    names += [f"http://host/rerank?deployment=cross-encoder-{size}-v1" for size in ("large", "small")]
    assert len({identity(name) for name in names}) == len(names)
    assert identity("http://host/rerank?api_key=old") == identity("http://host/rerank?api_key=new")


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
        tokenizer_object=fast,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
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
        max_position_embeddings=64,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_classifier_in_a_folder_scores_alone_as_in_a_batch_and_counts_what_it_cuts(classifier: Path) -> None:
    ranker = resolve(str(classifier))
    assert isinstance(ranker, ClassifierRanker)
    long = Document("long", "blue " * 68)
    together = ranker.score(QUERY, [*DOCUMENTS, long])
    alone = [ranker.score(QUERY, [document]).values[0] for document in [*DOCUMENTS, long]]
    assert together.values == pytest.approx(alone, abs=1e-5)
    # [CLS] red [SEP] + 68 words + [SEP] = 72 tokens, 64 fit
    assert (together.cut_documents, together.cut_tokens) == (1, 8)


def test_who_uses_a_cross_encoder_reads_to_the_end_and_who_audits_it_sees_it_cut(
    classifier: Path, tmp_path: Path
) -> None:
    from longrank.integrations.scoring import as_ranker
    from longrank.serving.launch import load_ranker
    from longrank.serving.settings import ServeSettings

    long = [Document("long", "blue " * 300)]
    expected = load(classifier).score(QUERY, long)
    for used in (as_ranker(classifier), load_ranker(ServeSettings(ranker=str(classifier)))):
        found = used.score(QUERY, long)
        assert (found.values, found.cut_tokens) == (expected.values, 0)
    assert isinstance(load_ranker(ServeSettings(ranker=as_audited(str(classifier)))), ClassifierRanker)
    hardened = tmp_path / "hardened.toml"
    hardened.write_text(f'ranker = "{classifier}"\nwrapper = "chunk-max"\n', encoding="utf-8")
    wrapped: Any = resolve(str(hardened), whole=True)
    for audited in (resolve(str(classifier)), wrapped.ranker):
        assert isinstance(audited, ClassifierRanker)


def test_a_served_cross_encoder_has_a_runtime_alone_and_in_a_wrapper_as_the_refusal_says(classifier: Path) -> None:
    from longrank.serving.launch import load_ranker
    from longrank.serving.settings import ServeSettings

    def served(ranker: str, wrapper: str | None = None) -> float:
        settings = ServeSettings(ranker=ranker, wrapper=wrapper, runtime="int8")
        return load_ranker(settings).score(QUERY, DOCUMENTS[:1]).values[0]

    exact = load(classifier).score(QUERY, DOCUMENTS[:1]).values[0]
    with pytest.raises(SettingsError, match="a cross-encoder is one as 'firstp:FOLDER' or 'maxp:FOLDER'"):
        served(str(classifier), "chunk-max")
    for value in (served(str(classifier)), served(f"firstp:{classifier}", "chunk-max")):
        assert value == pytest.approx(exact, abs=0.02)


def test_a_classifier_of_several_labels_is_not_taken_for_a_ranker_of_windows(classifier: Path, tmp_path: Path) -> None:
    folder = tmp_path / "three"
    shutil.copytree(classifier, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["id2label"] = {str(n): f"L{n}" for n in range(3)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert reads_in_windows(classifier)
    assert not reads_in_windows(folder)
    assert not reads_in_windows(tmp_path)


def test_a_folder_without_a_classification_head_is_refused(classifier: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    AutoModel.from_pretrained(classifier).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(classifier).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="classification head"):
        resolve(str(tmp_path))


@pytest.mark.parametrize("kind", ["classifier:", "cross-encoder:"])
def test_weights_in_a_pickle_are_refused(kind: str, classifier: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    if kind == "cross-encoder:":
        pytest.importorskip("sentence_transformers", reason="the extra 'adapters' is not installed")
    folder = tmp_path / "pickled"
    shutil.copytree(classifier, folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="pickle"):
        resolve(f"{kind}{folder}")


@pytest.mark.parametrize("kind", ["classifier:", "cross-encoder:"])
def test_a_folder_without_a_model_is_refused_in_words(kind: str, tmp_path: Path) -> None:
    if kind == "cross-encoder:":
        pytest.importorskip("sentence_transformers", reason="the extra 'adapters' is not installed")
    with pytest.raises(ModelError, match=re.escape(str(tmp_path))):
        resolve(f"{kind}{tmp_path}")


def test_kinds_and_folders_name_the_same_model(classifier: Path) -> None:
    plain = resolve(str(classifier)).score(QUERY, DOCUMENTS).values
    assert resolve(f"classifier:{classifier}").score(QUERY, DOCUMENTS).values == plain
    # our own engine reads the same model: all of these documents fit its window
    assert resolve(f"firstp:{classifier}").score(QUERY, DOCUMENTS).values == pytest.approx(plain, abs=1e-5)
    assert identity(f"classifier:{classifier}") != identity(f"firstp:{classifier}")


def test_kinds_that_read_in_windows_read_to_the_end(classifier: Path) -> None:
    """Windows of 150 tokens do not fit 64 positions, so they shrink."""
    long = Document("long", "blue " * 68 + "red")
    found = resolve(f"embedding:{classifier}").score(QUERY, [*DOCUMENTS, long])
    assert all(-1.00001 <= value <= 1.00001 for value in found.values)
    assert found.cut_documents == 0
    assert resolve(f"maxp:{classifier}").score(QUERY, [long]).cut_documents == 0


def test_what_goes_around_a_hardened_ranker_goes_inside_its_wrapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inner_ranker.py").write_text("def count(query, texts):\n    return [t.count(query) for t in texts]\n")
    Path("hardened.toml").write_text(
        'ranker = "inner_ranker:count"\nwrapper = "chunk-max"\nparams = { size = 2, stride = 2 }\n'
    )
    seen: list[str] = []

    class Watching:
        def __init__(self, inner: Ranker) -> None:
            self.inner = inner

        def score(self, query: Query, documents: Sequence[Document]) -> Scores:
            seen.extend(document.text for document in documents)
            return self.inner.score(query, documents)

    ranker = resolve("hardened.toml", around=Watching)
    assert ranker.score(QUERY, [Document("a", "red red blue red")]).values == [2]
    assert seen == ["red red", "blue red"]
    assert innermost("hardened.toml") == innermost("inner_ranker:count")


def test_the_identity_of_a_file_follows_the_file_and_the_models_it_names(tmp_path: Path) -> None:
    model, file = tmp_path / "model", tmp_path / "ranker.toml"
    model.mkdir()
    for text in (f'ranker = "{model}"\n', f'name = "embedding"\nparams = {{ backbone = "{model}" }}\n'):
        (model / "weights").write_text("one")
        file.write_text(text)
        before = identity(str(file))
        (model / "weights").write_text("other")
        assert identity(str(file)) != before
    before = identity(str(file))
    file.write_text(text + "# changed\n")
    assert identity(str(file)) != before


def test_a_chat_model_that_is_shown_the_beginning_is_biased_and_one_that_sees_all_is_not() -> None:
    source = toy_source(16)
    design = make_design(source, AuditSettings(queries=16, slots=3, lengths=(192,), distractors=6, draws=199))
    bag = WordMatch.fitted(filler.text for filler in source.filler)

    def script(messages: Sequence[Message]) -> str:
        """Order the numbered texts of a prompt by the words they share with the query."""
        query = messages[-1].text.splitlines()[1]
        texts = re.findall(r"^\[\d+\] (.+)$", messages[-1].text, re.M)
        scores = bag.score(Query("q", query), [Document("d", text) for text in texts]).values
        return " > ".join(f"[{n + 1}]" for n in sorted(range(len(texts)), key=lambda n: -scores[n]))

    outcomes = {}
    for tokens in (40, 0):  # 0 shows whole documents
        spec = Spec("rankgpt", {"chat": ScriptedChat(script), "document_tokens": tokens, "tokenizer": "words"})
        found = audit(build_ready(spec), design, name="gpt", listwise=True).findings
        outcomes[tokens] = found.outcome
    assert outcomes == {40: Outcome.biased, 0: Outcome.robust}


@pytest.mark.slow
def test_a_cross_encoder_of_sentence_transformers_gives_what_transformers_gives(classifier: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="the extra 'adapters' is not installed")
    ranker = resolve(f"cross-encoder:{classifier}")
    assert isinstance(ranker, CrossEncoderRanker)
    long = Document("long", "blue " * 68)
    found = ranker.score(QUERY, [*DOCUMENTS, long])
    logits = resolve(str(classifier)).score(QUERY, [*DOCUMENTS, long]).values
    # with one label a CrossEncoder passes its logit through a sigmoid
    assert found.values == pytest.approx([1 / (1 + math.exp(-logit)) for logit in logits], abs=1e-5)
    assert (found.cut_documents, found.cut_tokens) == (1, 8)
    assert ranker.score(QUERY, []).values == []


def exported(classifier: Path, folder: Path) -> Path:
    """The classifier as an ONNX file with its tokenizer and config."""
    import shutil
    import warnings

    import torch
    from transformers import AutoModelForSequenceClassification

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            loaded = AutoModelForSequenceClassification.from_pretrained(classifier, attn_implementation="eager")
            self.model = loaded.eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits
            return logits

    shutil.copytree(classifier, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tuple(torch.ones(2, 7, dtype=torch.long) for _ in names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Logits(),
            example,
            str(folder / "model.onnx"),
            dynamo=False,
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "rows", 1: "tokens"} for name in names},
            opset_version=17,
        )
    return folder


@pytest.mark.slow
def test_an_onnx_cross_encoder_gives_what_transformers_gives(classifier: Path, tmp_path: Path) -> None:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="the extra 'onnx' is not installed")
    folder = exported(classifier, tmp_path / "onnx")
    ranker = resolve(str(folder))
    assert isinstance(ranker, OnnxRanker)
    long = Document("long", "blue " * 68)
    expected = resolve(str(classifier)).score(QUERY, [*DOCUMENTS, long])
    found = ranker.score(QUERY, [*DOCUMENTS, long])
    assert found.values == pytest.approx(expected.values, abs=1e-5)
    assert (found.cut_documents, found.cut_tokens) == (1, 8)
    assert resolve(f"onnx:{folder}").score(QUERY, DOCUMENTS).values == pytest.approx(expected.values[:3], abs=1e-5)
    (folder / "model.onnx").rename(folder / "first.onnx")
    (folder / "second.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match=r"first\.onnx, second\.onnx"):
        OnnxRanker.load(folder)


def test_an_onnx_model_without_its_runtime_names_the_extra(classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longrank.rankers.foreign.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"longrank\[onnx\]"):
        resolve(f"onnx:{classifier}")
