import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from longrank.chunking.tokenizers import bert_tokenizer
from longrank.cli.main import app
from longrank.core.errors import DataError, ModelError
from longrank.core.types import Document, Query, Spec
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Specials
from longrank.rankers import checkpoint
from longrank.rankers.cross_encoder import cross_encoder
from longrank.rankers.exporting import ONNX_FILE, export_classifier
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker, firstp, maxp
from longrank.testing import tiny_spec

PAIRS = [
    ("where is the bridge", "The bridge stands over the river since long ago, as everybody knows."),
    ("bridge", "Nothing of the kind."),
    ("how deep is it", ""),
]
SPEC = Spec("maxp", {"backbone": Spec("tiny", {"dim": 32, "vocabulary": "bert"}), "size": 60, "stride": 40})


def sharpened(ranker: NeuralRanker) -> NeuralRanker:
    """The ranker with scores as far apart as a trained one's."""
    head: Any = ranker.aggregator.head
    with torch.no_grad():
        for weights in ranker.backbone.model.encoder.parameters():
            if weights.dim() == 2:
                weights.mul_(6.0)
        head.linear.weight.mul_(8.0)
        head.linear.bias.fill_(-1.5)
    return ranker


def electra() -> NeuralRanker:
    from transformers import ElectraConfig, ElectraModel

    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "embedding_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = ElectraModel(ElectraConfig(vocab_size=30522, intermediate_size=64, **sizes)).eval()
    specials = Specials(cls=bert_tokenizer().id_of("[CLS]"), sep=bert_tokenizer().id_of("[SEP]"), pad=0)
    return firstp(Backbone(model, bert_tokenizer(), specials), tokens=100).eval()


def in_transformers(folder: Path) -> list[float]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    model = AutoModelForSequenceClassification.from_pretrained(str(folder)).eval()
    asked, texts = map(list, zip(*PAIRS, strict=True))
    with torch.inference_mode():
        logits = model(**tokenizer(asked, texts, padding=True, truncation=True, return_tensors="pt")).logits
    assert logits.shape == (len(PAIRS), 1)
    return [float(value) for value in logits[:, 0]]


@pytest.mark.parametrize("kind", ["bert-maxp", "electra-firstp"])
def test_the_exported_model_gives_the_ranker_s_scores_in_transformers(kind: str, tmp_path: Path) -> None:
    ranker = sharpened(build_ranker(SPEC) if kind == "bert-maxp" else electra())
    made = export_classifier(ranker, tmp_path / "out")
    assert made.largest_difference <= 1e-5
    expected = ranker.predict(PAIRS)
    assert max(expected) - min(expected) > 0.5  # scores that differ, or agreement would say nothing
    assert in_transformers(tmp_path / "out") == pytest.approx(expected, abs=1e-5)


@pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed")
def test_the_exported_model_gives_the_ranker_s_scores_in_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    ranker = sharpened(build_ranker(SPEC))
    export_classifier(ranker, tmp_path / "out")
    model = CrossEncoder(str(tmp_path / "out"), device="cpu")
    assert model.predict(PAIRS, show_progress_bar=False).tolist() == pytest.approx(ranker.predict(PAIRS), abs=1e-5)
    assert model.max_seq_length == 32 + 60 + 3


@pytest.mark.skipif(find_spec("onnx") is None or find_spec("onnxruntime") is None, reason="extra onnx is missing")
def test_the_onnx_file_gives_the_ranker_s_scores(tmp_path: Path) -> None:
    import onnxruntime
    from transformers import AutoTokenizer

    ranker = sharpened(build_ranker(SPEC))
    assert export_classifier(ranker, tmp_path / "out", onnx=True).largest_difference <= 1e-5
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / ONNX_FILE), providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    asked, texts = map(list, zip(*PAIRS, strict=True))
    rows = tokenizer(asked, texts, padding=True, return_tensors="np")
    logits = session.run(["logits"], {name: np.asarray(value, np.int64) for name, value in rows.items()})[0]
    assert logits[:, 0].tolist() == pytest.approx(ranker.predict(PAIRS), abs=1e-5)


def test_servers_find_the_fields_and_files_they_ask_for(tmp_path: Path) -> None:
    export_classifier(build_ranker(SPEC), tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    # TEI: architecture ending in Classification, one label in both tables, positions, padding, tokenizer.json
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert (config["id2label"], config["label2id"]) == ({"0": "relevance"}, {"relevance": 0})
    assert (config["max_position_embeddings"], config["pad_token_id"]) == (512, 0)
    assert {"hidden_act", "type_vocab_size", "layer_norm_eps", "initializer_range", "vocab_size"} <= set(config)
    # vLLM: number of labels, absolute positions, and the activation that sentence-transformers names
    assert (config["num_labels"], config["position_embedding_type"]) == (1, "absolute")
    assert config["sentence_transformers"]["activation_fn"] == "torch.nn.modules.linear.Identity"
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"} <= set(
        weights
    )
    assert {value.dtype for value in weights.values()} == {torch.float32}
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert (settings["tokenizer_class"], settings["model_max_length"]) == ("PreTrainedTokenizerFast", 95)
    assert config["longrank"]["splitter"] == {"name": "Sliding", "size": 60, "stride": 40, "max_tokens": 1431}


def test_half_precision_keeps_the_order_and_most_of_the_score(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    ranker = sharpened(build_ranker(SPEC))
    export_classifier(ranker, tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "out"))
    asked, texts = map(list, zip(*PAIRS, strict=True))
    rows = tokenizer(asked, texts, padding=True, return_tensors="pt")
    for dtype in (torch.bfloat16, torch.float16):
        model = AutoModelForSequenceClassification.from_pretrained(str(tmp_path / "out"), dtype=dtype).eval()
        with torch.inference_mode():
            found = model(**rows).logits[:, 0].float().tolist()
        expected = ranker.predict(PAIRS)
        assert np.argsort(found).tolist() == np.argsort(expected).tolist()
        assert found == pytest.approx(expected, abs=0.02 * (max(expected) - min(expected)))


def test_an_export_comes_back_into_longrank_and_reads_long_documents_as_before(tmp_path: Path) -> None:
    ranker = sharpened(build_ranker(Spec("maxp", {**SPEC.params, "max_tokens": 5000})))
    export_classifier(ranker, tmp_path / "out")
    again = cross_encoder(tmp_path / "out", read="maxp", size=60, stride=40)
    documents = [Document("a", "the bridge over the river is old " * 60), Document("b", "short")]
    found, expected = (one.score(Query("q", "bridge"), documents).values for one in (again, ranker))
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_published_cross_encoder_can_be_exported_again(tmp_path: Path) -> None:
    ranker = sharpened(build_ranker(SPEC))
    export_classifier(ranker, tmp_path / "first")
    export_classifier(cross_encoder(tmp_path / "first", size=60, stride=40), tmp_path / "second")
    assert in_transformers(tmp_path / "second") == in_transformers(tmp_path / "first")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (Spec("parade-attn", SPEC.params), "only 'firstp', 'longp' and 'maxp'"),
        (tiny_spec("maxp"), "no file that others can load"),
        (Spec("maxp", {"backbone": Spec("tiny", {"vocabulary": "bert", "pooling": "mean"})}), r"read at \[CLS\]"),
    ],
)
def test_what_a_plain_classifier_cannot_say_is_refused(spec: Spec, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=reason):
        export_classifier(build_ranker(spec), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_difference_in_scores_is_caught_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = maxp(sharpened(build_ranker(SPEC)).backbone).eval()
    real = type(ranker).score

    def shifted(self: NeuralRanker, *given: Any) -> Any:
        found = real(self, *given)
        return found._replace(values=[value + 0.01 for value in found.values])

    monkeypatch.setattr(NeuralRanker, "score", shifted)
    with pytest.raises(ModelError, match=r"differ by 0\.01"):
        export_classifier(ranker, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_export_replaces_an_earlier_one_and_no_other_model(tmp_path: Path) -> None:
    ranker = sharpened(build_ranker(SPEC))
    for _ in range(2):
        export_classifier(ranker, tmp_path / "out")
    ranker.backbone.save(tmp_path)  # a model of transformers, with a config.json of its own
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(DataError, match="is not an exported classifier"):
        export_classifier(ranker, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == before


def test_the_command_exports_a_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(sharpened(build_ranker(SPEC)), tmp_path / "run")
    asked = ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--form", "classifier"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "sequence classifier, scores within" in result.output
    assert (tmp_path / "out" / "model.safetensors").is_file()
