"""Runtimes against fp32, the time estimate, and documents of any length in bounded memory."""

import importlib.util
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.cli.rerank import RuntimeName
from longrank.core.errors import MissingExtra, ModelError, UnknownName
from longrank.core.types import Collection, Document, Qrels, Query, Run, Scores
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import read_run, write_run
from longrank.encoders.rows import Encoded, Needs, Row
from longrank.encoders.tiny import tiny
from longrank.rankers import checkpoint, runtimes, scoring
from longrank.rankers.embedding import e5_4k, embedding_ranker
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.rerank import estimate
from longrank.rankers.runtimes import PlainBert, Runtime, agreement, with_runtime
from longrank.rankers.zoo import RANKERS, build_ranker
from longrank.testing import tiny_spec

QUERY = Query("q", "w1 w5 w9")
DOCUMENTS = [Document(f"d{n}", " ".join(f"w{i * i % (60 + n)}" for i in range(5 + 23 * n))) for n in range(12)]
HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnx"))
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="the extra onnx is not installed")


def ranker(name: str = "maxp", **params: object) -> NeuralRanker:
    return build_ranker(tiny_spec(name, **{"size": 30, **({"stride": 20} if name == "maxp" else {}), **params}))


def run_of(model: NeuralRanker) -> Run:
    values = model.score(QUERY, DOCUMENTS).values
    return Run("r", {"q": dict(zip((d.id for d in DOCUMENTS), values, strict=True))})


# -- runtimes ----------------------------------------------------------------------------------------------------------


def test_fp32_is_the_ranker_itself() -> None:
    model = ranker()
    assert with_runtime(model, "fp32") is model
    assert [r.value for r in RuntimeName] == [r.value for r in Runtime]


def test_int8_is_near_fp32_and_leaves_it_alone() -> None:
    model = ranker()
    exact = run_of(model)
    eight = run_of(with_runtime(model, "int8"))
    assert eight.scores != exact.scores
    found = agreement(eight, exact)
    assert found.largest_difference < 0.05
    assert found.rank_correlation > 0.5
    assert run_of(model).scores == exact.scores


@pytest.mark.parametrize("name", ["cedr-knrm", "mores"])
def test_int8_serves_rankers_that_read_token_states(name: str) -> None:
    model = ranker(name)
    assert agreement(run_of(with_runtime(model, "int8")), run_of(model)).largest_difference < 0.2


def test_an_eight_bit_layer_is_the_layer_with_rounded_weights() -> None:
    exact = torch.nn.Linear(2, 1)
    with torch.no_grad():
        exact.weight.copy_(torch.tensor([[1.27, -0.634]]))  # scale 0.01: 127 and -63.4, which becomes -63
        exact.bias.copy_(torch.tensor([0.5]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eight = runtimes.Int8Linear(exact)
    found = eight(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert found.flatten().tolist() == pytest.approx([1.27 + 0.5, -0.63 + 0.5], abs=1e-3)


def test_bf16_is_refused_with_the_reason_where_the_cpu_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    with pytest.raises(ModelError, match=r"does not compute in bfloat16.*AVX512-BF16"):
        with_runtime(ranker(), "bf16")


def test_bf16_is_near_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})  # slow without, and right
    model = ranker()
    exact, half = run_of(model), run_of(with_runtime(model, "bf16"))
    assert 0 < agreement(half, exact).largest_difference < 0.05
    assert next(model.parameters()).dtype == torch.float32
    assert run_of(model).scores == exact.scores


def test_embeddings_run_otherwise_too_and_spread_positions_do_not() -> None:
    exact = embedding_ranker(tiny(dim=32, pooling="mean"), size=30, stride=20)
    values = exact.score(QUERY, DOCUMENTS).values
    eight = with_runtime(exact, "int8")
    assert eight.score(QUERY, DOCUMENTS).values != values
    assert eight.score(QUERY, DOCUMENTS).values == pytest.approx(values, abs=0.05)
    assert exact.score(QUERY, DOCUMENTS).values == values
    with pytest.raises(ModelError, match="SpreadBackbone spreads its positions"):
        with_runtime(e5_4k(tiny(positions=1500)), "int8")


@needs_onnx
@pytest.mark.parametrize("name", ["maxp", "mores"])
def test_onnx_gives_the_scores_of_fp32(name: str) -> None:
    model = ranker(name)
    found = agreement(run_of(with_runtime(model, "onnx")), run_of(model))
    assert found.largest_difference < 1e-5
    assert found.rank_correlation == 1.0


@torch.inference_mode()
def test_what_is_exported_of_a_model_of_one_token_type_takes_rows_of_two() -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, type_vocab_size=1)
    model = BertModel(config, add_pooling_layer=False).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    found = PlainBert(model)(ids, torch.tensor([[0, 0, 1, 1]]), torch.ones(1, 4))
    torch.testing.assert_close(found, model(ids).last_hidden_state, atol=1e-5, rtol=1e-5)


@needs_onnx
def test_onnx_refuses_a_ranker_that_reads_all_layers() -> None:
    with pytest.raises(ModelError, match="all layers"):
        with_runtime(ranker("cedr-knrm"), "onnx").score(QUERY, DOCUMENTS)


@pytest.mark.skipif(HAS_ONNX, reason="the extra onnx is installed")
def test_onnx_without_its_extra_says_how_to_get_it() -> None:
    with pytest.raises(MissingExtra, match=r"longrank\[onnx\]"):
        with_runtime(ranker(), "onnx")


def test_what_cannot_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no runtime 'fp8': choose one of fp32"):
        with_runtime(ranker(), "fp8")
    with pytest.raises(ModelError, match="runs on the CPU, and the ranker is on meta"):
        with_runtime(ranker().to("meta"), "int8")
    with pytest.raises(ModelError, match="cannot be saved"):
        checkpoint.save(with_runtime(ranker(), "int8"), tmp_path / "saved")


def test_agreement_by_hand() -> None:
    exact = Run("a", {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}, "p": {"x": 1.0}})
    other = Run("b", {"q": {"a": 3.0, "b": 4.0, "c": 2.0, "d": 1.5}, "p": {"x": 1.0}})
    found = agreement(other, exact, top=1)
    # q: a and b swap, 1 - 6 * (1 + 1) / (4 * 15) = 0.8, and the tops differ; p: one document, 1 and 1
    assert (found.queries, found.top_overlap) == (2, 0.5)
    assert found.rank_correlation == pytest.approx(0.9)
    assert found.largest_difference == 1.0


# -- long documents ----------------------------------------------------------------------------------------------------

MEASURE = """
import json, resource, sys
from longrank.core.types import Document, Query, Spec
from longrank.rankers.zoo import build_ranker

tiny = Spec("tiny", {"layers": 1, "dim": 16, "vocabulary": 997})
ranker = build_ranker(Spec("maxp", {"backbone": tiny, "size": 200, "stride": 200, "max_tokens": 2_000_000}))
query = Query("q", "w1 w5 w9")
ranker.score(query, [Document("d", "some words " * 2000)])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
text = " ".join(f"w{i % 5000}" for i in range(1_000_000))
ranker.backbone.tokenizer.inner.tokenize(text)  # the tokenizer's own need, apart from the engine's
before = peak()
scores = ranker.score(query, [Document("d", text)])
print(json.dumps({"grown": peak() - before, "scores": scores.values, "cut": scores.cut_tokens}))
"""


@pytest.mark.slow
def test_a_document_of_a_million_words_is_scored_in_bounded_memory() -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found["scores"]) == 1
    assert found["cut"] == 0
    # one state of every token is 64 MB at 16 dimensions, and the layer holds ten of them at once: 640 MB in one batch
    assert found["grown"] < 250


def test_a_million_words_reach_the_encoder_in_small_batches_without_a_spike(monkeypatch: pytest.MonkeyPatch) -> None:
    status = Path("/proc/self/statm")
    if not status.is_file():
        pytest.skip("the memory of a process is read from /proc")
    model = build_ranker(tiny_spec("maxp", size=200, stride=150, max_tokens=None))
    text = " ".join(f"w{number % 9973}" for number in range(1_000_000))  # no window twice: 9973 is a prime
    model.backbone.tokenizer.tokenize(text)  # kept by the cache: the tokenizer's own need, apart from the engine's
    largest: list[int] = []
    resident: list[int] = []

    def encode(rows: Sequence[Row], *, needs: Needs) -> Encoded:
        """In place of the model: a state for each row, and a note of what is held."""
        largest.append(sum(len(row) for row in rows))
        resident.append(int(status.read_text().split()[1]) * resource.getpagesize())
        return Encoded(torch.zeros(len(rows), model.backbone.dim), None, tuple(len(row) for row in rows))

    monkeypatch.setattr(model.backbone, "encode", encode)
    before = int(status.read_text().split()[1]) * resource.getpagesize()
    found = model.score(QUERY, [Document("d", text)])
    assert (len(found.values), found.cut_tokens) == (1, 0)
    assert sum(largest) > 1_300_000  # every window of 200 every 150, framed by the query
    assert max(largest) <= scoring.DEFAULT_BUDGET
    # the ids of all rows are 2 x 4 bytes a token, 11 MB; their states at once would be 350 MB at 64 dimensions
    assert max(resident) - before < 60e6


def test_rankers_that_keep_token_states_refuse_what_they_cannot_hold() -> None:
    text = "word " * 1_000_000
    model = ranker("cedr-knrm", max_chunks=None)
    with pytest.raises(ModelError, match=r"1,000,000 tokens needs 3,000,000 token states .* 524,288.*max_chunks"):
        model.score(QUERY, [Document("d", text)])
    few = ranker("cedr-knrm", max_chunks=3)  # reads the beginning only, and says so
    assert few.score(QUERY, [Document("d", text)]).cut_tokens == 1_000_000 - 3 * 30


def test_the_number_of_documents_held_at_once_does_not_change_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ranker()
    whole = model.score(QUERY, DOCUMENTS).values
    monkeypatch.setattr(scoring, "_ROWS_BUDGET", 100)
    assert model.score(QUERY, DOCUMENTS).values == pytest.approx(whole, abs=1e-5)
    assert model.score(QUERY, []).values == []


# -- the time estimate -------------------------------------------------------------------------------------------------


class Sleeper:
    """Takes five milliseconds a document."""

    def __init__(self) -> None:
        self.calls = 0

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.calls += 1
        time.sleep(0.005 * len(documents))
        return Scores([0.0] * len(documents))


def world(queries: int, documents: int) -> tuple[Run, Collection]:
    texts = {f"d{i}": Document(f"d{i}", f"some words {i}") for i in range(documents)}
    asked = {f"q{i}": Query(f"q{i}", f"words {i}") for i in range(queries)}
    run = Run("bm25", {q: {d: float(i) for i, d in enumerate(texts)} for q in asked})
    return run, Collection("c", texts, asked, Qrels({}))


def test_the_estimate_scales_a_timed_sample_to_all_candidates() -> None:
    run, collection = world(20, 30)
    sleeper = Sleeper()
    found = estimate(sleeper, run, collection, depth=10, sample=8)
    assert (found.queries, found.documents) == (20, 200)
    assert 1.0 <= found.seconds < 40.0  # 200 times 5 ms, on a busy machine much more
    assert sleeper.calls == 9  # one to warm up
    assert estimate(sleeper, Run("none", {}), collection).seconds == 0.0


@pytest.mark.parametrize(("seconds", "shown"), [(7.4, "7 s"), (61.0, "1 min 1 s"), (7260.0, "2 h 1 min")])
def test_the_estimate_is_said_in_two_units(seconds: float, shown: str) -> None:
    from longrank.rankers.rerank import Estimate

    assert str(Estimate(1, 2, seconds)).endswith(f"about {shown}")


# -- the commands ------------------------------------------------------------------------------------------------------


def test_rerank_compares_int8_with_fp32_and_keeps_tokens(tmp_path: Path) -> None:
    run, collection = world(10, 25)
    save_collection(collection, tmp_path / "c")
    write_run(tmp_path / "bm25.trec", run)
    checkpoint.save(ranker(), tmp_path / "maxp")
    plain = ["rerank", str(tmp_path / "maxp"), str(tmp_path / "c"), "--candidates", str(tmp_path / "bm25.trec")]
    plain += ["--untrained", "--token-cache", str(tmp_path / "tokens"), "--out"]

    exact = CliRunner().invoke(app, [*plain, str(tmp_path / "exact.trec")])
    assert exact.exit_code == 0, exact.output
    assert "10 queries, 250 documents: about" in exact.output
    assert "fp32" not in exact.output
    assert list((tmp_path / "tokens").rglob("*.tokens"))

    eight = CliRunner().invoke(app, [*plain, str(tmp_path / "eight.trec"), "--runtime", "int8"])
    assert eight.exit_code == 0, eight.output
    assert "warning: runtime int8: a score depends on the documents scored beside it" in eight.output
    assert "int8 against fp32: rank correlation" in eight.output
    assert "(5 queries)" in eight.output
    assert set(read_run(tmp_path / "eight.trec").scores) == set(read_run(tmp_path / "exact.trec").scores)


def test_list_shows_the_parts_and_sizes_of_every_ranker_over_a_backbone() -> None:
    shown = CliRunner().invoke(app, ["list", "rankers", "--backbone", "tiny"], env={"COLUMNS": "250"}).output
    assert not [entry.name for entry in RANKERS if entry.name not in shown]
    (line,) = [line for line in shown.splitlines() if line.startswith("maxp ")]
    # 8,192 + 512 + 2 vectors of 64 and a norm, two layers of 12 * 64 * 64 + 13 * 64, and a head of 65
    weights = (8192 + 512 + 2 + 2) * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 65
    assert f"{weights:,}" in line
    assert "Sliding(size=150, stride=100, max_tokens=1431)" in line
    assert "MaxScore" in line
    assert "chunks of at most 477" in " ".join(shown.split())  # longp does not fit 512 positions, and says why


def test_list_with_an_unknown_backbone_suggests_one() -> None:
    found = CliRunner().invoke(app, ["list", "rankers", "--backbone", "tinny"])
    assert isinstance(found.exception, UnknownName)
    assert "Did you mean 'tiny'?" in str(found.exception)
