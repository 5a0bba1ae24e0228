"""Bi-encoders: how long documents are read, and what position scaling does."""

import copy
from collections.abc import Callable
from statistics import fmean

import pytest
import torch

from longrank.chunking.splitters import Greedy, Truncate
from longrank.chunking.tokenizers import MINILM_PACKAGE, wheel_model_folder
from longrank.core.errors import BadScore, ModelError, TruncatedInput
from longrank.core.types import Document, Query, Run
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Needs, Row
from longrank.encoders.tiny import tiny
from longrank.evaluation.measures import evaluate
from longrank.rankers.embedding import EmbeddingRanker, Reading, e5_4k, embedding_ranker
from longrank.rankers.rerank import rerank
from longrank.rankers.spreading import SpreadBackbone, extended
from longrank.synthetic.toy import ToySettings, make_toy

QUERY = Query("q", "green paint")
READINGS: tuple[Reading, ...] = ("first", "long", "chunk-max", "chunk-mean", "late-max", "late-mean")
DOCUMENTS = [
    Document("long", " ".join(f"word{i} paint" for i in range(60))),
    Document("short", "the bridge was green"),
    Document("one", "paint"),
    Document("empty", ""),
]


@pytest.fixture(scope="module")
def small() -> Backbone:
    backbone = tiny(dim=32, positions=64)
    backbone.pooling = "mean"
    return backbone


def small_ranker(backbone: Backbone, reading: Reading) -> EmbeddingRanker:
    return embedding_ranker(backbone, reading=reading, size=20, stride=15, tokens=None if "-" in reading else 30)


@pytest.mark.parametrize("reading", READINGS)
def test_a_score_does_not_depend_on_its_batch_or_order(small: Backbone, reading: Reading) -> None:
    ranker = small_ranker(small, reading)
    together = ranker.score(QUERY, DOCUMENTS).values
    assert ranker.score(QUERY, DOCUMENTS[::-1]).values[::-1] == pytest.approx(together, abs=1e-5)
    alone = [ranker.score(QUERY, [document]).values[0] for document in DOCUMENTS]
    assert alone == pytest.approx(together, abs=1e-5)
    assert all(-1.00001 <= value <= 1.00001 for value in together)


@pytest.mark.parametrize(("reading", "cut"), [("first", (1, 90)), ("long", (1, 90)), ("chunk-max", (0, 0))])
def test_what_is_not_read_is_counted(small: Backbone, reading: Reading, cut: tuple[int, int]) -> None:
    # 60 pairs of words are 120 tokens, of which the first two readings here take 30
    scores = small_ranker(small, reading).score(QUERY, DOCUMENTS)
    assert (scores.cut_documents, scores.cut_tokens) == cut


def test_windows_are_of_one_length_and_shared_ones_are_encoded_once(
    small: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    encode = small.encode

    def counting(rows: list[Row], *, needs: Needs) -> object:
        lengths.extend(len(row) for row in rows)
        return encode(rows, needs=needs)

    monkeypatch.setattr(small, "encode", counting)
    shared = " ".join(f"word{i}" for i in range(35))
    documents = [Document("a", shared + " green paint"), Document("b", shared + " red paint"), Document("c", shared)]
    small_ranker(small, "chunk-max").score(QUERY, documents)
    # 37 tokens are three windows of 20 that start at 0, 9 and 17, of which a and b share two; 35 are two, at 0 and 15
    assert sorted(lengths) == [4] + [22] * (2 + 1 + 1 + 1)  # the query, then shared ones, and the last of each


def test_long_reading_goes_as_far_as_the_backbone_does(small: Backbone) -> None:
    # 64 positions less [CLS] and [SEP] leave 62 of 120 tokens
    scores = embedding_ranker(small, reading="long").score(QUERY, DOCUMENTS)
    assert scores.cut_tokens == 120 - 62


def test_strict_refuses_to_cut(small: Backbone) -> None:
    with pytest.raises(TruncatedInput, match="90 tokens"):
        embedding_ranker(small, reading="first", tokens=30, strict=True).score(QUERY, DOCUMENTS)


def test_a_query_is_read_as_far_as_asked_or_as_the_backbone_reads_and_the_rest_is_counted(small: Backbone) -> None:
    query = Query("q", "paint " * 70)
    assert embedding_ranker(small, query_tokens=50, size=20).score(query, DOCUMENTS).cut_query_tokens == 70 - 50
    # 64 positions less [CLS] and [SEP]
    assert embedding_ranker(small, query_tokens=90, size=20).score(query, DOCUMENTS).cut_query_tokens == 70 - 62
    with pytest.raises(TruncatedInput, match="8 of its tokens"):
        embedding_ranker(small, size=20, strict=True).score(query, DOCUMENTS)


def test_damaged_weights_are_noticed(small: Backbone) -> None:
    ranker = embedding_ranker(copy.deepcopy(small), size=20, stride=10)
    with torch.no_grad():
        next(ranker.backbone.parameters())[5:] = float("nan")
    with pytest.raises(BadScore, match="weights are damaged"):
        ranker.score(QUERY, DOCUMENTS)


def test_no_documents_no_scores(small: Backbone) -> None:
    assert small_ranker(small, "late-max").score(QUERY, []).values == []


def by_hand(backbone: Backbone, text: str) -> torch.Tensor:
    """Unit mean of the states of [CLS] text [SEP]."""
    ids = torch.tensor([[1, *backbone.tokenizer.tokenize(text).ids.tolist(), 2]])
    states: torch.Tensor = backbone.model(input_ids=ids).last_hidden_state[0]
    mean = states.mean(0)
    return torch.nn.functional.normalize(mean, dim=0)


@torch.no_grad()
def test_chunks_meet_the_query_in_cosines(small: Backbone) -> None:
    document = Document("d", "one two three four five")
    query = by_hand(small, QUERY.text)
    similar = [float(by_hand(small, part) @ query) for part in ("one two", "three four", "five")]
    best = EmbeddingRanker(small, Greedy(2)).score(QUERY, [document]).values
    mean = EmbeddingRanker(small, Greedy(2), chunks="mean").score(QUERY, [document]).values
    assert best == pytest.approx([max(similar)], abs=1e-5)
    assert mean == pytest.approx([fmean(similar)], abs=1e-5)


@torch.no_grad()
def test_late_chunks_are_means_of_states_that_saw_the_whole(small: Backbone) -> None:
    document = Document("d", "one two three four five")
    ids = torch.tensor([[1, *small.tokenizer.tokenize(document.text).ids.tolist(), 2]])
    states = small.model(input_ids=ids).last_hidden_state[0]
    query = by_hand(small, QUERY.text)
    chunks = [states[1:3].mean(0), states[3:5].mean(0), states[5:6].mean(0)]  # behind [CLS]
    similar = [float(chunk / chunk.norm() @ query) for chunk in chunks]
    found = EmbeddingRanker(small, Greedy(2), late=True).score(QUERY, [document]).values
    assert found == pytest.approx([max(similar)], abs=1e-5)


@torch.no_grad()
def test_a_document_longer_than_the_backbone_is_chunked_late_in_several_rows(small: Backbone) -> None:
    # 62 tokens fit a row, so three chunks of 20 share the first; the fourth is the first of the next row
    words = [f"word{i}" for i in range(80)]
    whole = EmbeddingRanker(small, Greedy(20), late=True).score(QUERY, [Document("d", " ".join(words))]).values
    parts = [Document("a", " ".join(words[:60])), Document("b", " ".join(words[60:]))]
    apart = EmbeddingRanker(small, Greedy(20), late=True).score(QUERY, parts).values
    assert whole == pytest.approx([max(apart)], abs=1e-5)


@torch.no_grad()
def test_prefixes_stand_before_query_and_chunks(small: Backbone) -> None:
    ranker = EmbeddingRanker(small, Greedy(2), query_prefix="query: ", document_prefix="passage: ")
    similar = by_hand(small, "passage: one two") @ by_hand(small, "query: green paint")
    assert ranker.score(QUERY, [Document("d", "one two")]).values == pytest.approx([float(similar)], abs=1e-5)


def test_chunks_that_do_not_fit_are_refused_with_the_size_that_would(small: Backbone) -> None:
    with pytest.raises(ModelError, match="at most 60"):  # 64 positions, [CLS], [SEP], and the prefix of two tokens
        EmbeddingRanker(small, Truncate(62), document_prefix="passage: ")


# -- position scaling ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stretched(small: Backbone) -> Backbone:
    return extended(small, positions=512)


def test_positions_of_short_rows_are_spread_and_those_of_long_rows_are_not(stretched: Backbone) -> None:
    spread = SpreadBackbone(stretched, short_tokens=64)
    short, long = spread.positions([3, 65])
    assert short == [0, 8, 16]  # 512 / 64 = 8
    assert long == list(range(65))


def test_in_the_published_form_the_longest_row_decides(stretched: Backbone) -> None:
    spread = SpreadBackbone(stretched, short_tokens=64, compat="published")
    assert spread.positions([3, 65])[0] == [0, 1, 2]
    assert spread.positions([3, 64])[0] == [0, 8, 16]


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_short_texts_are_read_by_the_extended_model_as_by_the_original(
    small: Backbone, stretched: Backbone, pooling: str
) -> None:
    rows = [Row(ids, ids * 0) for ids in (torch.randint(4, 8000, (n,)).int().numpy() for n in (5, 64, 33))]
    for backbone in (small, stretched):
        backbone.pooling = pooling  # type: ignore[assignment]
    found = SpreadBackbone(stretched, short_tokens=64).encode(rows, needs=Needs.TOKENS)
    wanted = small.encode(rows, needs=Needs.TOKENS)
    small.pooling = stretched.pooling = "mean"
    assert found.tokens is not None and wanted.tokens is not None
    torch.testing.assert_close(found.pooled, wanted.pooled, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.tokens, wanted.tokens, atol=1e-5, rtol=1e-4)


def test_extension_interpolates_between_neighbours(small: Backbone, stretched: Backbone) -> None:
    old = small.model.embeddings.position_embeddings.weight
    new = stretched.model.embeddings.position_embeddings.weight
    assert new.shape == (512, 32) and stretched.max_tokens == 512
    torch.testing.assert_close(new[::8], old)
    torch.testing.assert_close(new[8 * 5 + 2], 0.75 * old[5] + 0.25 * old[6])
    torch.testing.assert_close(new[511], old[63])
    assert small.max_tokens == 64  # the original is left alone


def test_an_extended_model_reads_what_the_original_refuses(small: Backbone, stretched: Backbone) -> None:
    with pytest.raises(ModelError, match="at most 62"):
        EmbeddingRanker(small, Truncate(100))
    for backbone in (stretched, SpreadBackbone(stretched, short_tokens=64)):
        ranker = EmbeddingRanker(backbone, Truncate(300))
        assert ranker.score(QUERY, DOCUMENTS).cut_tokens == 0


@pytest.mark.parametrize("spread", [True, False])
def test_e5_scores_do_not_depend_on_the_batch_unless_published(stretched: Backbone, spread: bool) -> None:
    ranker = e5_4k(stretched, tokens=200, short_tokens=64, compat=None if spread else "published")
    alone = ranker.score(QUERY, [DOCUMENTS[1]]).values[0]
    beside_a_long_one = ranker.score(QUERY, DOCUMENTS[:2]).values[1]
    assert (abs(alone - beside_a_long_one) < 1e-5) == spread


def test_e5_lengths_include_special_tokens_and_prefixes(stretched: Backbone) -> None:
    # 100 tokens less [CLS], [SEP], "passage" and ":" leave 96 of 120; as published there is no prefix, and 98 are left
    assert e5_4k(stretched, tokens=100, short_tokens=64).score(QUERY, DOCUMENTS).cut_tokens == 24
    assert e5_4k(stretched, tokens=100, short_tokens=64, compat="published").score(QUERY, DOCUMENTS).cut_tokens == 22


def test_a_model_cannot_be_made_shorter_or_spread_past_its_positions(small: Backbone) -> None:
    with pytest.raises(ModelError, match="already"):
        extended(small, positions=32)
    with pytest.raises(ModelError, match="64 positions"):
        SpreadBackbone(small, short_tokens=65)


# -- real weights ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(wheel_model_folder(MINILM_PACKAGE) is None, reason="the extra 'minilm' is not installed")
def test_on_far_relevant_documents_the_best_chunk_beats_truncation(
    record_property: Callable[[str, object], None],
) -> None:
    from longrank.encoders.pretrained import minilm

    world = make_toy(ToySettings(train=0, dev=0, test=10, passages=2_000))
    lengths = ToySettings().lengths
    backbone = minilm(pooling="mean").eval()
    everything = Run("all", {q: dict.fromkeys(world.far.documents, 0.0) for q in world.far.queries})
    rankers = {
        "truncation": EmbeddingRanker(backbone, Truncate(lengths.chunk_tokens)),
        "chunk-max": EmbeddingRanker(backbone, Greedy(48)),
    }
    found = {}
    for name, ranker in rankers.items():
        run = rerank(ranker, everything, world.far)
        found[name] = fmean(evaluate(run, world.far.qrels, ["RR"])["RR"].values())
    margin = found["chunk-max"] - found["truncation"]
    record_property("margin", margin)
    print(f"toy-far, 10 queries, RR: {found}, margin {margin:.3f}")  # noqa: T201
    # evidence starts at token 128, truncation ends at 109: chance is (1 + 1/2 + … + 1/10) / 10 = .293
    assert found["truncation"] < 0.45
    assert margin > 0.3
