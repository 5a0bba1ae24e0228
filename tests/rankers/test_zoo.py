"""The zoo against the papers: sizes, windows, known equalities, and the published code on request."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from longrank.chunking.splitters import Sliding
from longrank.chunking.tokenizers import SubwordTokenizer, WordTokenizer
from longrank.core.errors import SettingsError
from longrank.core.types import Document, Query, Spec, TokenizedText
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Needs, Specials
from longrank.encoders.tiny import tiny
from longrank.rankers import checkpoint
from longrank.rankers.layouts import best_chunks
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.published import LowerCased, PaddedWindows
from longrank.rankers.zoo import (
    RANKERS,
    avgp,
    build_ranker,
    cedr_knrm,
    firstp,
    longp,
    maxp,
    parade_attn,
    parade_avg,
    parade_lateir,
    parade_transformer,
)

TINY = Spec("tiny", {"layers": 2, "dim": 16, "heads": 2, "positions": 96, "vocabulary": 300})
QUERY = Query("q", "w1 w5 w9 w25")


def document(length: int, name: str = "d") -> Document:
    return Document(name, " ".join(f"w{i * i % 60}" for i in range(length)))


def bert(*, dim: int = 768, layers: int = 12) -> Backbone:
    """BERT's shape with its pooler, and no memory behind it."""
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=dim, num_hidden_layers=layers, intermediate_size=4 * dim)
    with torch.device("meta"):
        model = BertModel(config)
    return Backbone(model, WordTokenizer(), Specials(cls=1, sep=2, pad=0))


def parameters(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def test_firstp_on_bert_has_109_million_parameters() -> None:
    with torch.device("meta"):
        ranker = firstp(bert())
    assert parameters(ranker.backbone) == 109_482_240
    assert parameters(ranker.aggregator) == 768 + 1
    assert parameters(ranker) == 109_483_009


def test_parade_rand_l2_on_bert_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        published: Any = parade_transformer(bert(), layers=2, compat="published").aggregator
        ours: Any = parade_transformer(bert(), layers=2).aggregator
    assert 109_482_240 + parameters(published.reader.model) == 148_085_760
    # without 30,521 of 30,522 unused word vectors and the pooler
    assert parameters(published.reader.model) - parameters(ours.reader.model) == 30_521 * 768 + 768 * 769


def test_parade_pretr_l6_on_bert_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        aggregator: Any = parade_transformer(bert(), init=bert(dim=384, layers=6), compat="published").aggregator
    assert 109_482_240 + parameters(aggregator.reader.model, aggregator.project) == 132_490_752


def test_parade_pretr_l4_on_bert_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        aggregator: Any = parade_transformer(bert(), init=bert(dim=384, layers=4), compat="published").aggregator
    total = 109_482_240 + parameters(aggregator.reader.model, aggregator.project)
    assert round(total / 1e6, 1) == 128.9


def test_lateir_on_bert_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        interaction, init = bert(dim=384, layers=2), bert(dim=384, layers=6)
        ranker: Any = parade_lateir(bert(), interaction=interaction, init=init)
    readers = [ranker.aggregator.reader.model, ranker.aggregator.then.reader.model]
    unused = 2 * (30_521 * 384 + 384 * 385)  # word vectors and poolers, which the published code keeps
    total = 109_482_240 + parameters(*readers, ranker.aggregator.project, ranker.aggregator.then.project) + unused
    assert round(total / 1e6, 1) == 148.1


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # DeBERTa's code in transformers uses it
@pytest.mark.parametrize(
    ("kind", "shape", "millions"),
    [
        ("Bert", {}, 109.5),
        (
            "Electra",
            {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
            109,
        ),
        ("BigBird", {}, 127),
        ("Longformer", {"vocab_size": 50265, "max_position_embeddings": 4098, "type_vocab_size": 1}, 149),
        (
            "DebertaV2",
            {
                **{"vocab_size": 128100, "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12},
                **{"intermediate_size": 3072, "relative_attention": True, "position_buckets": 256},
                **{"pos_att_type": ["p2c", "c2p"], "share_att_key": True, "norm_rel_ebd": "layer_norm"},
                **{"position_biased_input": False, "type_vocab_size": 0},
            },
            184,
        ),
        (
            "Llama",
            {
                **{"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22},
                **{"num_attention_heads": 32, "num_key_value_heads": 4},
            },
            1034,
        ),
    ],
)
def test_backbones_have_the_sizes_of_the_papers(kind: str, shape: dict[str, Any], millions: float) -> None:
    import transformers

    with torch.device("meta"):
        model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**shape))
        ranker = firstp(Backbone(model, WordTokenizer(), Specials(cls=1, sep=2, pad=0)))
    assert parameters(ranker) / 1e6 == pytest.approx(millions, abs=0.6)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("firstp", [32 + 477 + 3]),
        ("longp", [32 + 1431 + 3]),
        *((name, [32 + 477 + 3] * 3) for name in ("avgp", "cedr-knrm", "cedr-pacrr", "cedr-drmm", "neural-model1")),
        *(
            (name, [32 + 150 + 3] * 13 + [32 + 131 + 3])
            for name in ("maxp", "sump", "parade-attn", "parade-transformer")
        ),
        ("parade-lateir", [32 + 3] + [150 + 3] * 13 + [131 + 3]),
    ],
)
def test_a_long_query_and_document_are_read_in_the_papers_lengths(name: str, rows: list[int]) -> None:
    backbone = Spec("tiny", {"layers": 1, "dim": 16, "positions": 2048, "vocabulary": 300})
    ranker = build_ranker(Spec(name, {"backbone": backbone}))
    asked = ranker.backbone.tokenizer.tokenize("w " * 40)
    found = ranker.layout.rows(ranker.backbone, asked, ranker.split([document(2000)]))
    assert [len(row) for row in found] == rows


@pytest.mark.parametrize("backbone", ["tiny", {"name": "tiny", "params": {"dim": 64}}])
def test_a_backbone_by_name_or_table_is_the_one_of_the_spec_and_survives_saving(
    backbone: object, tmp_path: Path
) -> None:
    by_spec = build_ranker(Spec("maxp", {"backbone": Spec("tiny", {"dim": 64})}))
    given = build_ranker(Spec("maxp", {"backbone": backbone}))
    query, documents = Query("q", "red fox"), [Document("d", "a red fox in the snow")]
    assert given.score(query, documents) == by_spec.score(query, documents)
    checkpoint.save(given, tmp_path / "saved")
    assert checkpoint.load(tmp_path / "saved").score(query, documents) == by_spec.score(query, documents)


def test_a_query_projection_of_its_own_costs_one_more_matrix() -> None:
    sizes = []
    for query in (None, "shared", "own"):
        params = {"backbone": TINY, "init": Spec("tiny", {"layers": 1, "dim": 8}), "query": query, "size": 24}
        sizes.append(parameters(build_ranker(Spec("parade-transformer", {**params, "stride": 16})).aggregator))
    assert sizes[0] == sizes[1] == sizes[2] - (16 * 8 + 8)


@pytest.mark.parametrize("heads", [None, 4, 12])
def test_heads_of_the_random_aggregator_are_the_backbones_unless_set(heads: int | None) -> None:
    with torch.device("meta"):
        aggregator: Any = parade_transformer(bert(), heads=heads).aggregator
    assert aggregator.reader.model.config.num_attention_heads == (heads or 12)


def counted(length: int) -> TokenizedText:
    places = np.arange(length, dtype=np.int32)
    return TokenizedText("x" * length, "letters", places, places, places + 1)


@pytest.mark.parametrize(
    ("length", "size", "stride", "windows"),
    [
        (1431, 150, 100, 14),
        (1431, 150, 75, 19),
        (1431, 150, 50, 27),
        (1431, 300, 200, 7),
        (1431, 75, 50, 29),
        (1431, 35, 25, 57),
        (8109, 150, 100, 81),
        (32768, 150, 100, 328),
    ],
)
def test_window_counts_are_the_papers(length: int, size: int, stride: int, windows: int) -> None:
    assert len(Sliding(size, stride).split(counted(length)).spans) == windows
    assert PaddedWindows(size, stride, length).count == windows
    assert len(PaddedWindows(size, stride, length).split(counted(3)).spans) == windows


def shared(one: NeuralRanker, other: NeuralRanker) -> None:
    """Give the second ranker the weights of the first."""
    other.aggregator.load_state_dict(one.aggregator.state_dict())


def test_maxp_with_one_window_is_firstp_and_with_more_the_best_of_them() -> None:
    backbone = tiny(dim=16)
    first, best = firstp(backbone, tokens=50).eval(), maxp(backbone, size=50, stride=20).eval()
    shared(first, best)
    texts = [document(50), document(7), document(0)]
    assert best.score(QUERY, texts).values == pytest.approx(first.score(QUERY, texts).values, abs=1e-6)
    words = document(80).text.split()
    windows = [Document(str(a), " ".join(words[a:b])) for a, b in ((0, 50), (20, 70), (40, 80))]
    expected = max(first.score(QUERY, windows).values)
    assert best.score(QUERY, [document(80)]).values == [pytest.approx(expected, abs=1e-6)]


def test_longp_on_a_short_document_is_firstp() -> None:
    backbone = tiny(dim=16)
    first, long = firstp(backbone, tokens=50).eval(), longp(backbone, tokens=300).eval()
    shared(first, long)
    short, longer = document(50), document(51)
    assert long.score(QUERY, [short]).values == first.score(QUERY, [short]).values
    assert long.score(QUERY, [longer]).values != first.score(QUERY, [longer]).values


def test_avgp_and_parade_avg_on_one_chunk_are_firstp() -> None:
    backbone = tiny(dim=16)
    first = firstp(backbone, tokens=50).eval()
    for ranker in (avgp(backbone, size=50).eval(), parade_avg(backbone, size=50, stride=30).eval()):
        shared(first, ranker)
        texts = [document(50), document(3)]
        assert ranker.score(QUERY, texts).values == pytest.approx(first.score(QUERY, texts).values, abs=1e-6)


def test_avgp_reads_500_tokens_as_477_and_23() -> None:
    (split,) = avgp(tiny(dim=16)).split([document(500)])
    assert [len(span) for span in split.spans] == [477, 23]


def test_late_interaction_lets_no_query_into_the_backbone() -> None:
    ranker = build_ranker(Spec("parade-lateir", {"backbone": TINY, "size": 24, "stride": 16}))
    asked = [ranker.backbone.tokenizer.tokenize(text) for text in ("w1 w2", "w7")]
    split = ranker.split([document(30)])
    rows = [ranker.layout.rows(ranker.backbone, query, split) for query in asked]
    assert [row.ids.tolist() for row in rows[0][1:]] == [row.ids.tolist() for row in rows[1][1:]]
    query_row = rows[0][0]
    assert query_row.ids.tolist() == [1, 2, *asked[0].ids.tolist(), 2]  # [CLS] [SEP] query [SEP]
    assert query_row.types.tolist() == [0] * 5


def test_the_context_free_model_runs_no_encoder_over_the_document() -> None:
    ranker = build_ranker(Spec("neural-model1-context-free", {"backbone": TINY, "size": 24}))
    asked = ranker.backbone.tokenizer.tokenize(QUERY.text)
    (row,) = ranker.layout.rows(ranker.backbone, asked, ranker.split([document(60)]))
    assert len(row) == 3


def test_selection_prefers_windows_with_rare_query_words_and_keeps_their_order() -> None:
    words = ["filler"] * 100
    words[15], words[95], words[33] = "alpha", "alpha", "beta"
    tokenizer = WordTokenizer()
    split = Sliding(10, 10).split(tokenizer.tokenize(" ".join(words)))
    query = tokenizer.tokenize("beta alpha").ids
    assert best_chunks(query, split, keep=1) == [3]  # beta is in one window, alpha in two
    assert best_chunks(query, split, keep=3) == [1, 3, 9]
    assert best_chunks(query, split, keep=4) == [0, 1, 3, 9]  # then the earliest


# -- aggregators that start from pretrained weights ------------------------------------------------------------------


def test_a_pretrained_aggregator_starts_from_the_folder_and_a_checkpoint_does_not_need_it(tmp_path: Path) -> None:
    source = tiny(dim=8, layers=2, seed=5)
    source.save(tmp_path / "start")
    spec = Spec("parade-transformer", {"backbone": TINY, "init": str(tmp_path / "start"), "size": 24, "stride": 16})
    ranker = build_ranker(spec)
    aggregator: Any = ranker.aggregator
    expected = source.model.encoder.layer[1].output.dense.weight
    torch.testing.assert_close(aggregator.reader.model.encoder.layer[1].output.dense.weight, expected)
    scores = ranker.score(QUERY, [document(60), document(5)]).values
    checkpoint.save(ranker, tmp_path / "ranker")
    shutil.rmtree(tmp_path / "start")
    assert checkpoint.load(tmp_path / "ranker").score(QUERY, [document(60), document(5)]).values == scores


def test_a_backbone_given_as_start_is_left_as_it_was() -> None:
    start = tiny(dim=16)
    before = start.model.get_input_embeddings().weight
    parade_transformer(tiny(dim=16), init=start)
    assert start.model.get_input_embeddings().weight is before


def test_special_vectors_of_the_random_aggregator_are_the_backbones() -> None:
    backbone = tiny(dim=16)
    aggregator: Any = parade_transformer(backbone).aggregator
    words = backbone.model.get_input_embeddings().weight
    torch.testing.assert_close(aggregator.reader.specials, words[[1, 2]])  # [CLS], [SEP]


def test_special_vectors_of_a_pretrained_aggregator_are_drawn_unless_they_are_to_be_its_words() -> None:
    start = tiny(dim=64, seed=3)
    words = start.model.get_input_embeddings().weight[[1, 2]]  # [CLS], [SEP]
    copied: Any = parade_transformer(tiny(dim=16), init=start, specials="copied").aggregator
    torch.testing.assert_close(copied.reader.specials, words)
    torch.manual_seed(0)
    drawn: Any = parade_transformer(tiny(dim=16), init=start).aggregator
    assert not torch.allclose(drawn.reader.specials, words)
    assert drawn.reader.specials.std().item() == pytest.approx(64**-0.5, rel=0.25)  # N(0, 1) / sqrt(width), 128 values


@pytest.mark.parametrize(
    "params", [{"separators": False}, {"positions": False}, {"separators": False, "positions": False}]
)
def test_a_reader_of_any_input_comes_back_from_its_checkpoint(tmp_path: Path, params: dict[str, Any]) -> None:
    ranker = build_ranker(Spec("parade-transformer", {"backbone": TINY, "size": 24, "stride": 16, **params}))
    checkpoint.save(ranker, tmp_path / "ranker")
    documents = [document(60), document(5)]
    expected = ranker.score(QUERY, documents).values
    assert checkpoint.load(tmp_path / "ranker").score(QUERY, documents).values == expected


def test_a_pretrained_aggregator_without_its_positions_is_refused() -> None:
    with pytest.raises(SettingsError, match="starts at random: leave it or init out"):
        parade_transformer(tiny(dim=16), init=tiny(dim=8), positions=False)


# -- compat="published" ------------------------------------------------------------------------------------------------


def published_states(ranker: NeuralRanker, text: Document) -> Any:
    asked = ranker.backbone.tokenizer.tokenize(QUERY.text)
    split = ranker.split([text])
    rows = ranker.layout.rows(ranker.backbone, asked, split)
    with torch.inference_mode():
        encoded = ranker.backbone.encode(rows, needs=Needs.CHUNKS | Needs.LAYERS)
    return ranker.layout.states(encoded, ranker.backbone.specials, asked, split)


def by_hand(backbone: Backbone, text: Document, *, query_tokens: int, start: int, size: int) -> torch.Tensor:
    """All layers of [CLS] query padding [SEP] window padding [SEP] through transformers itself."""
    asked = backbone.tokenizer.tokenize(QUERY.text).ids.tolist()
    window = backbone.tokenizer.tokenize(text.text).ids.tolist()[start : start + size]
    gap, tail = query_tokens - len(asked), size - len(window)
    ids = [1, *asked, *[1] * gap, 2, *window, *[1] * tail, 2]
    mask = [1] * (1 + len(asked)) + [0] * gap + [1] * (1 + len(window)) + [0] * tail + [1]
    types = [0] * (query_tokens + 2) + [1] * (size + 1)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    with torch.inference_mode():
        out = backbone.model(**{name: torch.tensor([row]) for name, row in inputs.items()}, output_hidden_states=True)
    return torch.stack(out.hidden_states)[:, 0]


def test_published_windows_of_padding_are_encoded_and_join_the_mean() -> None:  # D3
    ranker = parade_avg(tiny(dim=16), size=24, stride=16, max_tokens=100, query_tokens=8, compat="published").eval()
    text = document(30)
    states = published_states(ranker, text)
    assert states.chunks.shape[1] == 6  # ceil((100 - 24) / 16) + 1, of which the text fills two
    assert bool(states.chunk_mask.all())
    vectors = [by_hand(ranker.backbone, text, query_tokens=8, start=16 * i, size=24)[-1, 0] for i in range(6)]
    torch.testing.assert_close(states.chunks[0], torch.stack(vectors), atol=1e-5, rtol=1e-5)
    head: Any = ranker.aggregator.head
    expected = head(torch.stack(vectors).mean(0)).item()
    assert ranker.score(QUERY, [text]).values == [pytest.approx(expected, abs=1e-5)]


def test_published_avgp_divides_all_vectors_by_the_chunks_with_text() -> None:  # D4
    ranker = avgp(tiny(dim=16), size=24, max_chunks=3, query_tokens=8, compat="published").eval()
    text = document(20)
    vectors = [by_hand(ranker.backbone, text, query_tokens=8, start=24 * i, size=24)[-1, 0] for i in range(3)]
    head: Any = ranker.aggregator.head
    expected = head(torch.stack(vectors).sum(0) / 1).item()  # three vectors, one chunk with text
    assert ranker.score(QUERY, [text]).values == [pytest.approx(expected, abs=1e-5)]


def test_published_cedr_takes_padding_for_text() -> None:  # D2
    ranker = cedr_knrm(tiny(dim=16), size=24, max_chunks=3, query_tokens=8, compat="published").eval()
    text = document(30)
    states = published_states(ranker, text)
    layers = [by_hand(ranker.backbone, text, query_tokens=8, start=24 * i, size=24) for i in range(3)]
    assert states.query.mask.shape == (1, 8) and bool(states.query.mask.all())
    assert states.tokens.mask.shape == (1, 3, 24) and bool(states.tokens.mask.all())
    for number in range(3):
        torch.testing.assert_close(states.query.layer(number)[0], layers[0][number, 1:9], atol=1e-5, rtol=1e-5)
        found = torch.stack([layer[number, 10:34] for layer in layers])
        torch.testing.assert_close(states.tokens.layer(number)[0], found, atol=1e-5, rtol=1e-5)


def test_published_attention_has_a_weight_for_every_dimension() -> None:  # D5
    ours: Any = parade_attn(tiny(dim=16)).aggregator
    theirs: Any = parade_attn(tiny(dim=16), compat="published").aggregator
    assert (ours.weigh.weight.shape, ours.weigh.bias) == ((1, 16), None)
    assert (theirs.weigh.weight.shape, theirs.weigh.bias.shape) == ((16, 16), (16,))


@pytest.fixture
def cased(tmp_path: Path) -> Backbone:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "berlin", "Berlin", "wall", "Wall"]
    fast = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    fast.save(str(tmp_path / "tokenizer.json"))
    tokenizer = SubwordTokenizer(tmp_path / "tokenizer.json", name="cased")
    return Backbone(tiny(dim=16).model, tokenizer, Specials(cls=1, sep=2, pad=0))


def test_published_text_is_lower_cased_whatever_the_backbone(cased: Backbone) -> None:  # D13
    texts = [Document("a", "Berlin Wall"), Document("b", "berlin wall")]
    ours, theirs = firstp(cased, tokens=20).eval(), firstp(cased, tokens=20, compat="published").eval()
    upper, lower = theirs.score(QUERY, texts).values
    assert upper == lower
    upper, lower = ours.score(QUERY, texts).values
    assert upper != lower
    assert cased.tokenizer.name == "cased"  # the backbone that was handed in reads as before


def test_lower_casing_keeps_the_offsets_of_the_text_as_written() -> None:
    found = LowerCased(WordTokenizer()).tokenize("İSTANBUL Wall")  # the first letter is two in lower case
    assert [found.text[a:b] for a, b in zip(found.char_starts, found.char_stops, strict=True)] == ["İSTANBUL", "Wall"]
    assert found.tokenizer == "words-v1-lower"


def test_published_reading_needs_a_length_to_pad_to() -> None:
    params = {"backbone": TINY, "size": 24, "max_chunks": None, "query_tokens": 8, "compat": "published"}
    with pytest.raises(SettingsError, match="so it needs max_tokens"):
        build_ranker(Spec("avgp", params))


@pytest.mark.parametrize(
    ("ranker", "params", "message"),
    [
        ("maxp", {"compat": "publised"}, r"compat is 'published', or left out, not 'publised'\. Did you mean"),
        ("parade-attn", {"attention": "Scalar"}, "attention is 'scalar' or 'per-dimension', or left out"),
        ("parade-transformer", {"query": "none"}, "query is 'shared' or 'own', or left out, not 'none'"),
        ("cedr-knrm", {"summary": "avg"}, "summary is 'mean' or 'max' or 'none', not 'avg'"),
        ("firstp", {"backbone": Spec("tiny", {"pooling": "avg"})}, "backbone 'tiny': pooling is 'cls' or 'mean' or"),
        ("firstp", {"query_tokens": -1}, "query_tokens must be at least 1, got -1"),
        ("parade-lateir", {"query_tokens": 0}, "query_tokens must be at least 1, got 0"),
        ("cedr-pacrr", {"query_tokens": -100}, "query_tokens must be at least 1, got -100"),
        ("maxp", {"query_tokens": 0, "compat": "published"}, "query_tokens must be at least 1, got 0"),
        ("k-max", {"k": 0}, "k must be at least 1, got 0"),
        ("select-k", {"keep": 0}, "keep must be at least 1, got 0"),
    ],
)
def test_a_choice_that_does_not_exist_or_a_length_below_one_is_refused(
    ranker: str, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        build_ranker(Spec(ranker, {"backbone": Spec("tiny", {"dim": 16}), **params}))


def test_every_ranker_of_the_papers_is_registered() -> None:
    assert {entry.name for entry in RANKERS} >= {
        *("firstp", "longp", "maxp", "sump", "avgp-score", "k-max", "avgp"),
        *("parade-avg", "parade-sum", "parade-max", "parade-attn", "parade-cnn", "parade-transformer", "parade-lateir"),
        *("cedr-knrm", "cedr-pacrr", "cedr-drmm", "neural-model1", "neural-model1-context-free", "mores", "select-k"),
    }
    assert all(entry.summary for entry in RANKERS)


@pytest.mark.parametrize(
    "name", [e.name for e in RANKERS if "stride" in e.make.__annotations__ and e.name != "select-k"]
)
def test_at_most_so_many_windows_are_kept_the_first_and_the_last_among_them(name: str) -> None:
    backbone = Spec("tiny", {"layers": 1, "dim": 16, "positions": 32, "vocabulary": 256})
    params = {"backbone": backbone, "size": 4, "stride": 4, "max_tokens": 1000, "query_tokens": 4}
    ranker = build_ranker(Spec(name, {**params, "keep": 3}), seed=0)
    text = " ".join(f"w{n}" for n in range(40))
    (split,) = ranker.split([Document("d", text)])
    starts = [span.start for span in split.spans]
    assert (len(starts), starts[0], split.spans[-1].stop) == (3, 0, 40)
    scores = ranker.score(Query("q", "w1"), [Document("d", text)])
    assert scores.cut_tokens == 40 - 3 * 4  # what is drawn out is counted as not read


def test_knrm_can_read_the_first_chunk_the_last_and_a_draw_from_between() -> None:
    params = {"backbone": Spec("tiny", {"layers": 1, "dim": 16, "positions": 32}), "size": 4, "query_tokens": 4}
    text = Document("d", " ".join(f"w{n}" for n in range(42)))
    start = build_ranker(Spec("cedr-knrm", {**params, "max_chunks": 3}))
    assert [span.start for span in start.split([text])[0].spans] == [0, 4, 8]
    drawn = build_ranker(Spec("cedr-knrm", {**params, "max_chunks": 100, "keep": 3}))
    first, middle, last = drawn.split([text])[0].spans
    assert (first.start, last.start, last.stop) == (0, 40, 42)
    assert middle.start % 4 == 0 and 0 < middle.start < 40
    assert drawn.score(QUERY, [text]).cut_tokens == 42 - 4 - 4 - 2


@pytest.mark.parametrize("name", ["parade-attn", "cedr-knrm"])
def test_windows_are_not_drawn_where_the_published_code_reads_every_one(name: str) -> None:
    params = {"backbone": Spec("tiny"), "keep": 3, "compat": "published"}
    with pytest.raises(SettingsError, match="leave keep or compat out"):
        build_ranker(Spec(name, params), seed=0)
