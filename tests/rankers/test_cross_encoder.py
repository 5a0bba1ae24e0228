from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from longrank.chunking.tokenizers import bert_tokenizer, minilm_folder
from longrank.cli.main import app
from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import Document, Query
from longrank.rankers import checkpoint
from longrank.rankers.cross_encoder import cross_encoder
from longrank.rankers.loading import load
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.testing import tiny_spec

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def write(folder: Path, kind: str, *, labels: int = 1) -> Any:
    """A small classifier of the real class with the BERT vocabulary, as a publisher would save it."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(vocab_size=30522, num_labels=labels, **SIZES)
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config).eval()
    model.save_pretrained(folder)
    bert_tokenizer().save(folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_bytes((minilm_folder() / "tokenizer_config.json").read_bytes())
    return model


@pytest.mark.parametrize("kind", ["Bert", "Electra"])
@torch.inference_mode()
def test_firstp_and_one_window_give_the_logit_of_transformers(kind: str, tmp_path: Path) -> None:
    model = write(tmp_path, kind)
    query, text = "where is the bridge", "the bridge stands over the river since long ago"
    asked, said = (bert_tokenizer().tokenize(part).ids.tolist() for part in (query, text))
    ids = torch.tensor([[101, *asked, 102, *said, 102]])
    types = torch.tensor([[0] * (len(asked) + 2) + [1] * (len(said) + 1)])
    expected = model(input_ids=ids, token_type_ids=types).logits.item()
    for read in ("firstp", "maxp"):
        ranker = cross_encoder(tmp_path, read=read)
        assert ranker.predict([(query, text)]) == pytest.approx([expected], abs=1e-5)


PAIRS: dict[str, dict[str, Any]] = {
    "Roberta": {"max_position_embeddings": 514, "pad_token_id": 1, "type_vocab_size": 1},
    "XLMRoberta": {"max_position_embeddings": 514, "pad_token_id": 1, "type_vocab_size": 1},
    "DebertaV2": {
        "max_position_embeddings": 512,
        "type_vocab_size": 0,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 16,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
        "pooler_hidden_size": 32,
    },
    "ModernBert": {
        "pad_token_id": 1,
        "cls_token_id": 0,
        "sep_token_id": 2,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "classifier_pooling": "mean",
    },
}


def write_words(folder: Path, kind: str) -> tuple[Any, Any]:
    """A small classifier of another family with a vocabulary of its own, and the tokenizer that transformers uses."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    double = kind.endswith("oberta")
    start, end = ("<s>", "</s>") if double else ("[CLS]", "[SEP]")
    pad = "<pad>" if double else "[PAD]"
    order = [pad, start, end] if kind == "DebertaV2" else [start, pad, end]
    vocabulary = {word: number for number, word in enumerate([*order, "<unk>", *(f"w{i}" for i in range(60))])}
    fast = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    fast.pre_tokenizer = pre_tokenizers.Whitespace()
    between = f"{end} {end}" if double else end
    fast.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {between} $B {end}",
        special_tokens=[(start, vocabulary[start]), (end, vocabulary[end])],
    )
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=fast, pad_token=pad)
    tokenizer.save_pretrained(folder)
    config = getattr(transformers, f"{kind}Config")(vocab_size=64, num_labels=1, **SIZES, **PAIRS[kind])
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config).eval()
    model.save_pretrained(folder)
    return model, tokenizer


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", PAIRS)
@torch.inference_mode()
def test_other_families_give_the_logit_of_transformers_too(kind: str, tmp_path: Path) -> None:
    model, tokenizer = write_words(tmp_path, kind)
    query, text = "w1 w2 w3", " ".join(f"w{i * i % 60}" for i in range(40))
    inputs = tokenizer(query, text, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    expected = model(**inputs).logits.item()
    first, best = (cross_encoder(tmp_path, read=read) for read in ("firstp", "maxp"))
    assert first.predict([(query, text)]) == pytest.approx([expected], abs=1e-5)
    assert best.predict([(query, text)]) == pytest.approx([expected], abs=1e-5)
    long = Document("d", text + " w7" * 600)
    found = best.score(Query("q", query), [long, Document("e", text)])
    assert found.cut_tokens == 0
    assert found.values[1] == pytest.approx(expected, abs=1e-5)
    assert best.score(Query("q", "w1 " * 35), [long]).cut_query_tokens == 35 - 32
    if kind != "ModernBert":  # which reads 8,192
        # 512 positions, less 32 of the query and 3 or 4 special tokens
        assert first.score(Query("q", query), [long]).cut_tokens == 640 - (512 - 32 - (4 if "oberta" in kind else 3))


def test_a_family_without_a_known_head_is_refused_with_those_that_have_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "funnel", "architectures": ["FunnelForSequenceClassification"]}'
    )
    with pytest.raises(ModelError, match="'funnel' model; cross-encoders of these types are read: bert, electra"):
        cross_encoder(tmp_path)


def test_maxp_reads_what_firstp_cuts(tmp_path: Path) -> None:
    write(tmp_path, "Bert")
    document = Document("d", "nothing much here " * 400)
    first, best = (cross_encoder(tmp_path, read=read) for read in ("firstp", "maxp"))
    assert first.score(Query("q", "bridge"), [document]).cut_tokens == 1200 - 477
    assert best.score(Query("q", "bridge"), [document]).cut_tokens == 0
    assert isinstance(load(tmp_path), NeuralRanker)


def test_a_ranker_is_loaded_to_read_longer_queries(tmp_path: Path) -> None:
    write(tmp_path / "published", "Bert")
    query, document = Query("q", "bridge " * 40), [Document("d", "nothing much here")]
    trained = build_ranker(tiny_spec("maxp"))
    trained.trained = True
    checkpoint.save(trained, tmp_path / "checkpoint")
    for folder in (tmp_path / "published", tmp_path / "checkpoint"):
        assert load(folder).score(query, document).cut_query_tokens == 40 - 32
        further = load(folder, query_tokens=64).score(query, document)
        assert further.cut_query_tokens == 0
        assert further.values != load(folder).score(query, document).values
    with pytest.raises(SettingsError, match="at least 1, got 0"):
        load(tmp_path / "published", query_tokens=0)


def test_several_logits_and_untrained_heads_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "three", "Bert", labels=3)
    with pytest.raises(ModelError, match="3 numbers"):
        cross_encoder(tmp_path / "three")
    model = write(tmp_path / "headless", "Bert")
    model.bert.save_pretrained(tmp_path / "headless")
    with pytest.raises(ModelError, match="no trained head"):
        cross_encoder(tmp_path / "headless")


def test_explain_shows_chunks_and_the_best_passage(tmp_path: Path) -> None:
    write(tmp_path, "Bert")
    text = tmp_path / "text.txt"
    text.write_text("some words to read here " * 60)
    out = CliRunner().invoke(app, ["explain", str(tmp_path), str(text), "--query", "words"]).output
    assert "best: characters" in out
    assert len([line for line in out.splitlines() if "some words" in line or "words to" in line]) >= 2
