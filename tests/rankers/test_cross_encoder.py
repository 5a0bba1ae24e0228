from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from longrank.chunking.tokenizers import bert_tokenizer, minilm_folder
from longrank.cli.main import app
from longrank.core.errors import ModelError
from longrank.core.types import Document, Query
from longrank.rankers.cross_encoder import cross_encoder
from longrank.rankers.loading import load
from longrank.rankers.neural import NeuralRanker

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


def test_maxp_reads_what_firstp_cuts(tmp_path: Path) -> None:
    write(tmp_path, "Bert")
    document = Document("d", "nothing much here " * 400)
    first, best = (cross_encoder(tmp_path, read=read) for read in ("firstp", "maxp"))
    assert first.score(Query("q", "bridge"), [document]).cut_tokens == 1200 - 477
    assert best.score(Query("q", "bridge"), [document]).cut_tokens == 0
    assert isinstance(load(tmp_path), NeuralRanker)


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
