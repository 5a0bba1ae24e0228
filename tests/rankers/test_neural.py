import json
import tempfile
from pathlib import Path

import pytest
import torch

from longrank.core.errors import BadScore, CheckpointError, ModelError, TruncatedInput, UnknownDocument
from longrank.core.types import Collection, Document, Qrels, Query, Run, Spec
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.rerank import rerank
from longrank.rankers.zoo import build_ranker
from longrank.testing import WordOverlapRanker, tiny_spec

QUERY = Query("q", "where is it")
LONG = Document("long", "word " * 300)


def test_what_is_not_read_is_counted() -> None:
    ranker = build_ranker(tiny_spec("maxp", size=50, stride=50, max_tokens=120))
    scores = ranker.score(QUERY, [Document("short", "a b c"), LONG])
    assert (scores.cut_documents, scores.cut_tokens) == (1, 180)


def test_strict_reading_refuses_to_cut() -> None:
    ranker = build_ranker(tiny_spec("firstp", tokens=50))
    ranker.strict = True
    with pytest.raises(TruncatedInput, match="1 of 1 documents"):
        ranker.score(QUERY, [LONG])
    assert len(ranker.score(QUERY, [Document("d", "short")]).values) == 1


def test_strict_reading_refuses_to_crop_a_query() -> None:
    ranker = build_ranker(tiny_spec("maxp", query_tokens=4))
    ranker.strict = True
    with pytest.raises(TruncatedInput, match="2 of its tokens would be cut"):
        ranker.score(Query("q", "where is it now my friend"), [Document("d", "short")])
    assert len(ranker.score(QUERY, [Document("d", "short")]).values) == 1


def test_windows_that_were_not_chosen_are_counted_as_cut_and_refused_by_strict_reading() -> None:
    ranker = build_ranker(tiny_spec("select-k", keep=4, size=20, stride=20))
    scores = ranker.score(QUERY, [Document("short", "a b c"), LONG])
    assert (scores.cut_documents, scores.cut_tokens) == (1, 300 - 4 * 20)
    assert ranker.explain(QUERY.text, LONG.text).cut_tokens == 300 - 4 * 20
    ranker.strict = True
    with pytest.raises(TruncatedInput, match="1 of 2 documents"):
        ranker.score(QUERY, [Document("short", "a b c"), LONG])


def test_rerank_sums_what_was_cropped_of_queries() -> None:
    ranker = build_ranker(tiny_spec("maxp", query_tokens=2))
    queries = {"a": Query("a", "one two three four"), "b": Query("b", "one two three"), "c": Query("c", "one")}
    collection = Collection("c", {"d": Document("d", "text")}, queries, Qrels({}))
    run = rerank(ranker, Run("bm25", {q: {"d": 1.0} for q in queries}), collection)
    assert run.notes.cut_query_tokens == 2 + 1


def test_chunks_too_long_for_the_backbone_are_refused_with_the_size_that_fits() -> None:
    spec = Spec("firstp", {"backbone": Spec("tiny", {"positions": 128}), "tokens": 100, "query_tokens": 32})
    with pytest.raises(ModelError, match="chunks of at most 93"):  # 128 - 32 - 3
        build_ranker(spec)


def test_a_query_that_leaves_no_room_for_a_chunk_asks_for_no_chunk_below_zero() -> None:
    spec = Spec("firstp", {"backbone": Spec("tiny", {"positions": 16}), "tokens": 10, "query_tokens": 32})
    with pytest.raises(ModelError, match="16 positions: use fewer query tokens, or"):
        build_ranker(spec)


def test_the_token_budget_does_not_change_scores() -> None:
    ranker = build_ranker(tiny_spec("parade-attn", size=20, stride=15))
    documents = [Document(str(n), "some words to read " * n) for n in (1, 30, 7, 0)]
    whole = ranker.score(QUERY, documents).values
    ranker.token_budget = 40
    assert ranker.score(QUERY, documents).values == pytest.approx(whole, abs=1e-5)


def test_new_weights_depend_on_the_seed_alone() -> None:
    spec = tiny_spec("parade-transformer")
    torch.rand(3)
    first = build_ranker(spec, seed=1).score(QUERY, [LONG]).values
    torch.rand(5)
    assert build_ranker(spec, seed=1).score(QUERY, [LONG]).values == first
    assert build_ranker(spec, seed=2).score(QUERY, [LONG]).values != first


def test_rank_gives_the_best_first_and_keeps_the_order_of_ties() -> None:
    ranker = build_ranker(tiny_spec("maxp"))
    texts = ["one", "two two", "one", "three"]
    hits = ranker.rank("where", texts)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert sorted(hit.index for hit in hits) == [0, 1, 2, 3]
    twins = [hit.index for hit in hits if hit.text == "one"]
    assert twins == [0, 2]
    assert ranker.rank("where", texts, top_k=2) == hits[:2]
    assert ranker.rank("where", []) == []


def test_predict_scores_pairs() -> None:
    ranker = build_ranker(tiny_spec("maxp"))
    pairs = [("a", "one"), ("b", "two")]
    expected = [ranker.rank(query, [text])[0].score for query, text in pairs]
    assert ranker.predict(pairs) == pytest.approx(expected, abs=1e-6)


def test_damaged_weights_are_noticed() -> None:
    ranker = build_ranker(tiny_spec("maxp"))
    with torch.no_grad():
        next(ranker.aggregator.parameters()).fill_(float("nan"))
    with pytest.raises(BadScore, match="weights are damaged"):
        ranker.score(QUERY, [LONG])


def test_scoring_leaves_training_mode_as_it_was() -> None:
    ranker = build_ranker(tiny_spec("maxp")).train()
    first = ranker.score(QUERY, [LONG]).values
    assert ranker.training
    assert ranker.score(QUERY, [LONG]).values == first  # no dropout while scoring


def test_a_loaded_ranker_drops_attention_as_the_saved_one_did(tmp_path: Path) -> None:
    backbone = Spec("minilm", {"layers": 1, "attention_dropout": 0.2})
    ranker = build_ranker(Spec("parade-transformer", {"backbone": backbone, "layers": 1}))
    checkpoint.save(ranker, tmp_path / "saved")

    def rates(ranker: NeuralRanker) -> dict[str, float]:
        return {name: part.p for name, part in ranker.named_modules() if isinstance(part, torch.nn.Dropout)}

    kept = rates(checkpoint.load(tmp_path / "saved"))
    assert kept == rates(ranker)
    of_attention = {rate for name, rate in kept.items() if "attention.self" in name}
    assert of_attention == {0.2}  # of the aggregator too, which has the backbone's settings


@pytest.fixture
def saved() -> Path:
    folder = Path(tempfile.mkdtemp()) / "ranker"
    checkpoint.save(build_ranker(tiny_spec("maxp")), folder)
    return folder


def test_a_tampered_checkpoint_is_refused(saved: Path) -> None:
    weights = saved / "aggregator.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(CheckpointError, match="was changed"):
        checkpoint.load(saved)


def test_a_checkpoint_of_another_format_is_refused(saved: Path) -> None:
    path = saved / "ranker.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(CheckpointError, match="99"):
        checkpoint.load(saved)


def test_a_checkpoint_that_names_its_writer_says_which_version_would_read_it(saved: Path) -> None:
    facts = json.loads((saved / "ranker.json").read_text())
    (saved / "ranker.json").write_text(json.dumps({**facts, "format": 2, "version": "9.1"}))
    with pytest.raises(CheckpointError, match=r"format 2 \(written by longrank 9\.1\), and this version reads 1"):
        checkpoint.load(saved)


@pytest.mark.parametrize("name", ["backbone/config.json", "backbone/encoder.json", "backbone/model.safetensors"])
def test_a_changed_file_of_any_kind_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=f"{name} is missing or was changed"):
        checkpoint.load(saved)


@pytest.mark.parametrize("hashes", [{}, None])
def test_hashes_cannot_be_left_out(saved: Path, hashes: object) -> None:
    facts = json.loads((saved / "ranker.json").read_text())
    (saved / "ranker.json").write_text(json.dumps({**facts, "sha256": hashes}))
    with pytest.raises(CheckpointError, match="changed after it was saved"):
        checkpoint.load(saved)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(CheckpointError, match="never loaded"):
        checkpoint.load(tmp_path)


def test_a_ranker_composed_by_hand_says_how_it_can_be_saved(tmp_path: Path) -> None:
    ranker = build_ranker(tiny_spec("maxp"))
    ranker.spec = None
    with pytest.raises(CheckpointError, match="build_ranker"):
        checkpoint.save(ranker, tmp_path / "x")


def test_rerank_scores_the_top_candidates_and_sums_what_was_cut() -> None:
    documents = {d: Document(d, text) for d, text in {"a": "far far red", "b": "red fox", "c": "hen"}.items()}
    collection = Collection("c", documents, {"q": Query("q", "red fox")}, Qrels({}))
    candidates = Run("bm25", {"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    run = rerank(WordOverlapRanker(words=2), candidates, collection, depth=2)
    assert run.scores == {"q": {"a": 0.0, "b": 1.0}}
    assert (run.notes.cut_documents, run.notes.cut_tokens) == (1, 1)


def test_a_run_that_names_strangers_is_refused() -> None:
    collection = Collection("c", {"a": Document("a", "x")}, {"q": Query("q", "x")}, Qrels({}))
    with pytest.raises(UnknownDocument, match="document 'z'"):
        rerank(WordOverlapRanker(), Run("r", {"q": {"z": 1.0}}), collection)
    with pytest.raises(UnknownDocument, match="query 'p'"):
        rerank(WordOverlapRanker(), Run("r", {"p": {"a": 1.0}}), collection)
