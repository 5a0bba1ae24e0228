"""Real model classes, tiny and randomly initialised, written to a folder and loaded as a user would."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import Document, Query, Spec
from longrank.encoders.backbone import Backbone, Pooling
from longrank.encoders.pretrained import is_causal, pretrained
from longrank.encoders.registry import BACKBONES
from longrank.encoders.rows import Needs, Row, Specials
from longrank.rankers.zoo import RANKERS, build_ranker, firstp, longp

# importing DeBERTa compiles a few functions in a way that torch has deprecated
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

WORDS = [f"w{i}" for i in range(200)]
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
SIZES = {"vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


@dataclass(frozen=True)
class Kind:
    """A class of transformers and the settings of a small one."""

    model: str
    config: str
    settings: dict[str, Any]
    poolings: tuple[Pooling, ...] = ("cls", "mean")
    special: tuple[str, ...] = SPECIAL
    frame: tuple[str, str] | None = None


def _encoder(name: str, **settings: Any) -> Kind:
    return Kind(f"{name}Model", f"{name}Config", {**SIZES, "intermediate_size": 64, **settings})


def _decoder(name: str, **settings: Any) -> Kind:
    sizes = {**SIZES, "intermediate_size": 64, "max_position_embeddings": 1100, "num_key_value_heads": 2}
    return Kind(f"{name}Model", f"{name}Config", {**sizes, **settings}, ("mean", "last"))


KINDS = {
    "bert": _encoder("Bert", max_position_embeddings=1100),
    "electra": _encoder("Electra", embedding_size=16, max_position_embeddings=1100),
    "deberta-v2": _encoder(
        "DebertaV2",
        max_position_embeddings=1100,
        relative_attention=True,
        position_buckets=16,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        type_vocab_size=0,
    ),
    "longformer": _encoder(
        "Longformer", attention_window=8, max_position_embeddings=1102, pad_token_id=0, type_vocab_size=1
    ),
    "big-bird": _encoder("BigBird", block_size=4, num_random_blocks=1, max_position_embeddings=1100),
    "modernbert": _encoder(
        "ModernBert", pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2, local_attention=16
    ),
    "roformer": _encoder("RoFormer", max_position_embeddings=1100),
    "xlm-roberta": _encoder("XLMRoberta", max_position_embeddings=1102, pad_token_id=0, type_vocab_size=1),
    "mpnet": Kind(
        "MPNetModel",
        "MPNetConfig",
        {**SIZES, "intermediate_size": 64, "max_position_embeddings": 1102, "pad_token_id": 1},
        special=("<s>", "<pad>", "</s>", "<unk>", "[PAD]", "[UNK]", "[CLS]", "[SEP]"),  # BERT's are left over
        frame=("<s>", "</s>"),
    ),
    "nomic-bert": _encoder("NomicBert", max_position_embeddings=1100),
    "jina-embeddings-v3": _encoder(
        "JinaEmbeddingsV3", max_position_embeddings=1100, pad_token_id=0, bos_token_id=1, eos_token_id=2
    ),
    "gte": _encoder("Gte", max_position_embeddings=1100, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "eurobert": _encoder(
        "EuroBert",
        max_position_embeddings=1100,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        num_key_value_heads=2,
        mask_token_id=3,
    ),
    "llama": _decoder("Llama"),
    "mixtral": _decoder("Mixtral", num_local_experts=2),
    "phi3": _decoder("Phi3", pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "t5": Kind(
        "T5EncoderModel",
        "T5Config",
        {"vocab_size": 256, "d_model": 32, "num_layers": 2, "num_heads": 2, "d_ff": 64, "d_kv": 16},
        ("mean",),
        ("<pad>", "</s>", "<unk>"),
    ),
    "longt5": Kind(
        "LongT5EncoderModel",
        "LongT5Config",
        {"vocab_size": 256, "d_model": 32, "num_layers": 2, "num_heads": 2, "d_ff": 64, "d_kv": 16, "local_radius": 7},
        ("mean",),
        ("<pad>", "</s>", "<unk>"),
    ),
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = _write(KINDS[name], tmp_path_factory.mktemp(name))
        return made[name]

    return folder


def _write(kind: Kind, folder: Path) -> Path:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([*kind.special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if kind.frame is not None:
        cls, sep = ((token, vocabulary[token]) for token in kind.frame)
        tokenizer.post_processor = processors.RobertaProcessing(sep, cls)
    tokenizer.save(str(folder / "tokenizer.json"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        # wide weights, so that what a model reads moves its score well above rounding
        config = getattr(transformers, kind.config)(**kind.settings, initializer_range=0.2)
        model = getattr(transformers, kind.model)(config)
    model.save_pretrained(folder)
    return folder


def _text(words: int, *, seed: int) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(WORDS[i] for i in rng.integers(len(WORDS), size=words))


QUERY = Query("q", "w3 w14 w15 w92")
DOCUMENTS = [Document(str(n), _text(n, seed=n)) for n in (5, 0, 17, 1, 60, 41, 90)]
CASES = [(name, pooling) for name, kind in KINDS.items() for pooling in kind.poolings]


@pytest.mark.parametrize(("name", "pooling"), CASES)
def test_a_score_does_not_depend_on_its_batch(name: str, pooling: Pooling, folder_of: Callable[[str], Path]) -> None:
    backbone = Spec("pretrained", {"model": str(folder_of(name)), "pooling": pooling})
    ranker = build_ranker(Spec("longp", {"backbone": backbone, "tokens": 90}))
    together = ranker.score(QUERY, DOCUMENTS).values
    for document, value in zip(DOCUMENTS, together, strict=True):
        assert ranker.score(QUERY, [document]).values[0] == pytest.approx(value, abs=1e-5 * max(1, abs(value)))
    assert len({round(value, 4) for value in together}) > 4  # and it does depend on the document


@pytest.mark.parametrize("name", KINDS)
def test_the_last_token_of_a_long_input_is_read(name: str, folder_of: Callable[[str], Path]) -> None:
    backbone = pretrained(str(folder_of(name)))
    ids = np.arange(10, 100, dtype=np.int32)
    other = np.append(ids[:-1], np.int32(150))
    rows = [Row(tokens, np.zeros_like(tokens), global_tokens=1) for tokens in (ids, other)]
    with torch.inference_mode():
        one, two = backbone.encode(rows, needs=Needs.CHUNKS).pooled
    assert float((one - two).abs().max()) > 1e-4  # rounding is near 1e-6


@pytest.mark.parametrize("name", KINDS)
def test_every_aggregator_family_takes_every_backbone(name: str, folder_of: Callable[[str], Path]) -> None:
    backbone = Spec("pretrained", {"model": str(folder_of(name))})
    for ranker_name in ("maxp", "parade-transformer", "cedr-knrm", "cedr-drmm", "neural-model1", "parade-lateir"):
        sizes = {"stride": 20} if ranker_name in ("maxp", "parade-transformer", "parade-lateir") else {}
        ranker = build_ranker(Spec(ranker_name, {"backbone": backbone, "size": 30, "query_tokens": 8, **sizes}))
        together = ranker.score(QUERY, DOCUMENTS).values
        alone = ranker.score(QUERY, DOCUMENTS[4:5]).values[0]
        assert alone == pytest.approx(together[4], abs=1e-5 * max(1, abs(alone))), ranker_name


def test_the_parts_of_a_ranker_are_known_by_name() -> None:
    assert {"maxp", "parade-transformer", "cedr-knrm", "neural-model1", "parade-lateir"} <= {e.name for e in RANKERS}


@pytest.mark.parametrize("name", KINDS)
def test_states_agree_with_the_model_alone(name: str, folder_of: Callable[[str], Path]) -> None:
    import transformers

    backbone = pretrained(str(folder_of(name)))
    model = getattr(transformers, KINDS[name].model).from_pretrained(folder_of(name)).eval()
    ids = np.arange(10, 40, dtype=np.int32)
    row = Row(ids, np.zeros_like(ids))
    inputs = {"input_ids": torch.from_numpy(ids[None].astype(np.int64))}
    with torch.inference_mode():
        expected = model(**inputs, output_hidden_states=True)
        found = backbone.encode([row], needs=Needs.CHUNKS | Needs.LAYERS)
    assert found.tokens is not None
    assert found.tokens.shape == (3, 30, 32)  # the embeddings and two layers
    torch.testing.assert_close(found.tokens[-1], expected.last_hidden_state[0], atol=1e-5, rtol=1e-5)


def test_tokens_that_the_tokenizer_frames_with_go_before_those_left_over_from_bert(
    folder_of: Callable[[str], Path],
) -> None:
    assert pretrained(str(folder_of("mpnet"))).specials == Specials(cls=0, sep=2, pad=1)


@pytest.mark.parametrize(
    ("config", "settings", "causal"),
    [
        ("BertConfig", {}, False),
        ("BertConfig", {"is_decoder": True}, True),
        ("RobertaConfig", {}, False),
        ("XLNetConfig", {}, False),
        ("BertGenerationConfig", {}, False),
        ("GPT2Config", {}, True),
        ("Gemma3TextConfig", {}, True),
        ("Gemma3TextConfig", {"use_bidirectional_attention": True}, False),
    ],
)
def test_a_model_is_causal_where_no_token_sees_a_later_one(config: str, settings: dict[str, Any], causal: bool) -> None:
    import transformers

    assert is_causal(getattr(transformers, config)(**settings)) == causal


class _Recorder:
    """Keeps what a model is called with."""

    def __init__(self, backbone: Backbone) -> None:
        self.calls: list[dict[str, Any]] = []
        backbone.model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, _: object, __: object, inputs: dict[str, Any]) -> None:
        self.calls.append(inputs)


def test_longformer_attends_globally_from_cls_query_and_first_sep(folder_of: Callable[[str], Path]) -> None:
    backbone = pretrained(str(folder_of("longformer")))
    seen = _Recorder(backbone)
    longp(backbone, tokens=60).eval().score(QUERY, [DOCUMENTS[2]])
    # [CLS], 4 query tokens, [SEP] | 17 document tokens, [SEP]
    assert seen.calls[0]["global_attention_mask"].tolist() == [[1] * 6 + [0] * 18]
    assert "token_type_ids" not in seen.calls[0]


def _attention_types(backbone: Backbone, lengths: Sequence[int]) -> list[str]:
    found: list[str] = []
    hook = backbone.model.encoder.register_forward_pre_hook(lambda module, _: found.append(str(module.attention_type)))
    longp(backbone, tokens=90).eval().score(QUERY, [Document(str(n), _text(n, seed=n)) for n in lengths])
    hook.remove()
    return found


def test_big_bird_stays_sparse_after_a_short_document(folder_of: Callable[[str], Path]) -> None:
    backbone = pretrained(str(folder_of("big-bird")))
    # sparse attention needs more than (5 + 2) blocks of 4: 28 tokens
    assert _attention_types(backbone, [5]) == ["original_full"]
    assert _attention_types(backbone, [80]) == ["block_sparse"]
    assert sorted(_attention_types(backbone, [80, 5])) == ["block_sparse", "original_full"]


def test_big_bird_pinned_to_full_attention_never_turns_sparse(folder_of: Callable[[str], Path]) -> None:
    backbone = pretrained(str(folder_of("big-bird")))
    backbone.model.config.attention_type = "original_full"
    assert _attention_types(backbone, [80]) == ["original_full"]


def test_big_bird_in_training_leaves_the_global_generator_alone(folder_of: Callable[[str], Path]) -> None:
    ranker = longp(pretrained(str(folder_of("big-bird"))), tokens=90).train()
    np.random.seed(7)
    expected = np.random.random()
    np.random.seed(7)
    ranker(QUERY, [DOCUMENTS[6]]).sum().backward()
    assert np.random.random() == expected


def test_mean_pooling_is_over_all_real_tokens(folder_of: Callable[[str], Path]) -> None:
    backbone = pretrained(str(folder_of("llama")), pooling="mean")
    rows = [Row(np.arange(5, 5 + n, dtype=np.int32), np.zeros(n, dtype=np.int32)) for n in (3, 9)]
    with torch.inference_mode():
        found = backbone.encode(rows, needs=Needs.CHUNKS | Needs.TOKENS)
    assert found.tokens is not None
    torch.testing.assert_close(found.pooled[0], found.tokens[-1, :3].mean(0))
    torch.testing.assert_close(found.pooled[1], found.tokens[-1, 3:].mean(0))


def test_last_pooling_reads_the_last_token_and_not_the_padding(folder_of: Callable[[str], Path]) -> None:
    backbone = pretrained(str(folder_of("llama")), pooling="last")
    rows = [Row(np.arange(5, 5 + n, dtype=np.int32), np.zeros(n, dtype=np.int32)) for n in (3, 9)]
    with torch.inference_mode():
        found = backbone.encode(rows, needs=Needs.CHUNKS | Needs.TOKENS)
    assert found.tokens is not None
    torch.testing.assert_close(found.pooled, found.tokens[-1, [2, 11]])


@pytest.mark.parametrize("name", ["llama", "mixtral", "phi3", "t5"])
def test_cls_pooling_is_refused_where_there_is_no_such_token(name: str, folder_of: Callable[[str], Path]) -> None:
    with pytest.raises(ModelError, match=r"no \[CLS\] token to read: use pooling='mean'"):
        pretrained(str(folder_of(name)), pooling="cls")


def dropout_rates(model: torch.nn.Module) -> set[float]:
    parts = [
        part.p if isinstance(part, torch.nn.Dropout) else getattr(part, "dropout", None) for part in model.modules()
    ]
    return {rate for rate in parts if isinstance(rate, float)}  # attention has its rate as a number


@pytest.mark.parametrize("name", ["t5", "longt5"])
def test_t5_takes_its_first_layers_and_one_rate_for_all_its_parts(
    name: str, folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    asked = pretrained(str(folder_of(name)), layers=1, hidden_dropout=0.3)
    assert (asked.layers, len(asked.model.encoder.block)) == (1, 1)
    assert dropout_rates(asked.model) == {0.3}
    asked.save(tmp_path)
    assert dropout_rates(pretrained(str(tmp_path)).model) == {0.3}


@pytest.mark.parametrize(
    ("name", "option", "remedy"),
    [
        ("t5", "attention_dropout", "leave it out; hidden_dropout is the one rate of all its parts"),
        ("llama", "hidden_dropout", "leave it out"),
        ("modernbert", "hidden_dropout", "leave it out"),
    ],
)
def test_a_dropout_that_a_model_does_not_have_is_refused(
    name: str, option: str, remedy: str, folder_of: Callable[[str], Path]
) -> None:
    with pytest.raises(SettingsError, match=f"of type '{name}' takes no {option}: {remedy}"):
        BACKBONES.build(Spec("pretrained", {"model": str(folder_of(name)), option: 0.2}))


def test_more_tokens_than_positions_are_refused(folder_of: Callable[[str], Path]) -> None:
    with pytest.raises(ModelError, match="do not fit a backbone of 1100 positions"):
        longp(pretrained(str(folder_of("roformer"))), tokens=1100)


@pytest.mark.parametrize("name", ["bert", "longformer", "mpnet", "xlm-roberta"])
def test_a_row_as_long_as_the_positions_fits(name: str, folder_of: Callable[[str], Path]) -> None:
    backbone = pretrained(str(folder_of(name)))
    assert backbone.max_tokens == 1100
    ids = np.resize(np.arange(4, 200, dtype=np.int32), backbone.max_tokens)
    with torch.inference_mode():
        assert backbone.encode([Row(ids, np.zeros_like(ids))], needs=Needs.CHUNKS).pooled.isfinite().all()


@pytest.mark.parametrize("name", ["llama", "mixtral", "phi3"])
def test_a_decoder_cannot_read_chunk_vectors(name: str, folder_of: Callable[[str], Path]) -> None:
    spec = {"backbone": Spec("tiny", {"dim": 32}), "init": str(folder_of(name))}
    with pytest.raises(ModelError, match="cannot read chunk vectors"):
        build_ranker(Spec("parade-transformer", spec))


def test_an_encoder_decoder_that_cannot_be_parted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bart"}', encoding="utf-8")
    with pytest.raises(ModelError, match="'bart' has an encoder and a decoder"):
        pretrained(str(tmp_path))


def test_a_vocabulary_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    small = Kind("BertModel", "BertConfig", {**SIZES, "vocab_size": 50, "intermediate_size": 64})
    with pytest.raises(ModelError, match="the tokenizer has 204 ids, the model 50"):
        pretrained(str(_write(small, tmp_path)))


def test_an_empty_query_and_an_empty_document_have_a_score_without_framing_tokens(
    folder_of: Callable[[str], Path],
) -> None:
    ranker = firstp(pretrained(str(folder_of("llama"))), tokens=90).eval()
    assert np.isfinite(ranker.score(Query("q", ""), [Document("d", "")]).values[0])
