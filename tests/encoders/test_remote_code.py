"""Models with Python code of their own, as JINA's ALiBi encoders and MosaicBERT are published."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import longrank
from longrank.cli.main import app
from longrank.core.errors import ModelError
from longrank.core.types import Document, Query, Spec
from longrank.encoders.backbone import Backbone
from longrank.encoders.pretrained import pretrained
from longrank.encoders.remote_code import code_arguments, code_hash, foreign_class
from longrank.encoders.rows import Needs, Row
from longrank.rankers import checkpoint
from longrank.rankers.zoo import build_ranker

# an encoder of one layer whose attention falls with distance (ALiBi) and which has no positions at all
CODE = '''
import torch
from torch import nn
from transformers import BertConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput


class JinaBertModel(PreTrainedModel):
    config_class = BertConfig
    base_model_prefix = "bert"

    def __init__(self, config, add_pooling_layer=False):
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.mix = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, output_hidden_states=False, return_dict=True):
        states = self.words(input_ids)
        query, key, value = self.mix(states).chunk(3, -1)
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        falling = -0.1 * (places[:, None] - places).abs()
        shut = (1 - attention_mask[:, None, :].to(states.dtype)) * -1e9
        weights = torch.softmax(query @ key.transpose(1, 2) / query.shape[-1] ** 0.5 + falling + shut, -1)
        last = states + weights @ value
        return BaseModelOutput(last_hidden_state=last, hidden_states=(states, last) if output_hidden_states else None)


class BertForMaskedLM(PreTrainedModel):
    """The encoder inside a head, with a plain tuple for an answer: how MosaicBERT comes."""

    config_class = BertConfig
    base_model_prefix = "bert"
    _tied_weights_keys = {}

    def __init__(self, config):
        super().__init__(config)
        self.bert = Bare(config)
        self.head = nn.Linear(config.hidden_size, 1)
        self.post_init()


class Bare(JinaBertModel):
    def forward(self, input_ids, token_type_ids=None, attention_mask=None):
        return super().forward(input_ids, attention_mask).last_hidden_state, None
'''
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *(f"w{i}" for i in range(60))]
QUERY = Query("q", "w3 w14 w15")
DOCUMENTS = [Document(str(n), " ".join(f"w{i * i % 60}" for i in range(n))) for n in (5, 0, 17, 90)]


@pytest.fixture(autouse=True)
def _own_module_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers copies code into a cache of its own: not into the one of whoever runs the tests."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))


def write(folder: Path, entries: dict[str, str], name: str = "JinaBertModel") -> Path:
    """A model folder as a publisher of such a model has it."""
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig

    folder.mkdir()
    (folder / "modeling.py").write_text(CODE, encoding="utf-8")
    config = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, max_position_embeddings=4096)
    table = {**config.to_dict(), "auto_map": entries, "architectures": [name]}
    (folder / "config.json").write_text(json.dumps(table), encoding="utf-8")
    generator = torch.Generator().manual_seed(0)
    shapes = {"words.weight": (64, 16), "mix.weight": (48, 16), "mix.bias": (48,)}
    weights = {key: torch.randn(shape, generator=generator) for key, shape in shapes.items()}
    if name != "JinaBertModel":
        weights = {f"bert.{key}": value for key, value in weights.items()}
        weights |= {"head.weight": torch.zeros(1, 16), "head.bias": torch.zeros(1)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def jina(folder: Path) -> Path:
    return write(folder, {"AutoModel": "modeling.JinaBertModel"})


def alibi_by_hand(backbone: Backbone, ids: Sequence[int]) -> Any:
    """The encoder's first state in numpy."""
    weights = {name: value.numpy() for name, value in backbone.model.state_dict().items()}
    states = weights["words.weight"][list(ids)]
    query, key, value = np.split(states @ weights["mix.weight"].T + weights["mix.bias"], 3, axis=1)
    places = np.arange(len(ids))
    logits = query @ key.T / 4 - 0.1 * abs(places[:, None] - places)
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return (states + shares / shares.sum(1, keepdims=True) @ value)[0]


def test_code_is_refused_with_what_to_say_and_runs_once_that_is_said(tmp_path: Path) -> None:
    folder = jina(tmp_path / "jina-tiny")
    wanted = f"jina-tiny@{code_hash(folder)}"
    with pytest.raises(ModelError, match=rf"JinaBertModel.*read the code.*remote_code='{wanted}'"):
        pretrained(str(folder))
    backbone = pretrained(str(folder), remote_code=wanted)
    assert not backbone.packable  # its config says bert, and it is none
    ids = np.array([1, 7, 9, 30, 2], dtype=np.int32)
    with torch.inference_mode():
        found = backbone.encode([Row(ids, np.zeros_like(ids))], needs=Needs.CHUNKS).pooled[0]
    assert found.numpy() == pytest.approx(alibi_by_hand(backbone, ids.tolist()), abs=1e-5)


def test_changed_code_is_refused_again(tmp_path: Path) -> None:
    folder = jina(tmp_path / "jina-tiny")
    wanted = f"jina-tiny@{code_hash(folder)}"
    (folder / "modeling.py").write_text(CODE + "\nimport os\n", encoding="utf-8")
    with pytest.raises(ModelError, match=rf"allowed is '{wanted}': read the code"):
        pretrained(str(folder), remote_code=wanted)


def test_a_ranker_with_such_a_backbone_scores_saves_and_loads_by_permission(tmp_path: Path) -> None:
    folder = jina(tmp_path / "jina-tiny")
    backbone = Spec("pretrained", {"model": str(folder), "remote_code": f"jina-tiny@{code_hash(folder)}"})
    for name, sizes in (("longp", {"tokens": 200}), ("maxp", {"size": 20, "stride": 15}), ("cedr-knrm", {"size": 20})):
        ranker = build_ranker(Spec(name, {"backbone": backbone, **sizes}))
        together = ranker.score(QUERY, DOCUMENTS).values
        alone = [ranker.score(QUERY, [document]).values[0] for document in DOCUMENTS]
        assert alone == pytest.approx(together, abs=1e-4)
        checkpoint.save(ranker, tmp_path / name)
        with pytest.raises(ModelError, match="remote_code='backbone@") as refused:
            longrank.load(tmp_path / name)
        allowed = str(refused.value).partition("remote_code='")[2].partition("'")[0]
        again = longrank.load(tmp_path / name, remote_code=allowed)
        assert again.score(QUERY, DOCUMENTS).values == together


def test_a_mosaic_type_model_is_read_without_its_head_and_its_layers_are_not_offered(tmp_path: Path) -> None:
    folder = write(tmp_path / "mosaic-tiny", {"AutoModelForMaskedLM": "modeling.BertForMaskedLM"}, "BertForMaskedLM")
    allowed = f"mosaic-tiny@{code_hash(folder)}"
    plain = pretrained(str(jina(tmp_path / "jina-tiny")), remote_code=f"jina-tiny@{code_hash(folder)}")
    backbone = Spec("pretrained", {"model": str(folder), "remote_code": allowed})
    ranker = build_ranker(Spec("maxp", {"backbone": backbone, "size": 20, "stride": 15})).eval()
    rows = ranker.layout.rows(plain, plain.tokenizer.tokenize(QUERY.text), ranker.split(DOCUMENTS))
    with torch.inference_mode():
        states = [b.encode(rows, needs=Needs.CHUNKS).pooled for b in (ranker.backbone, plain)]
    assert states[0].numpy() == pytest.approx(states[1].numpy(), abs=1e-5)
    with pytest.raises(ModelError, match="last layer only"):
        build_ranker(Spec("cedr-knrm", {"backbone": backbone, "size": 20})).score(QUERY, DOCUMENTS)


HUB = {"model_type": "bert", "auto_map": {"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"}}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_code_on_the_hub_is_named_by_its_own_repository_and_a_commit() -> None:
    name = "jinaai/jina-bert-implementation"
    arguments = code_arguments("jinaai/jina-embeddings-v2-base-en", HUB, f"{name}@{COMMIT}")
    assert arguments == {"trust_remote_code": True, "code_revision": COMMIT}
    for allowed in (None, name, f"{name}@main", f"someone/else@{COMMIT}", f"jinaai/jina-embeddings-v2@{COMMIT}"):
        with pytest.raises(ModelError, match=rf"remote_code='{name}@COMMIT'"):
            code_arguments("jinaai/jina-embeddings-v2-base-en", HUB, allowed)


@pytest.mark.parametrize(
    ("kind", "entries", "foreign"),
    [
        ("nomic_bert", {"AutoModel": "nomic-ai/nomic-bert-2048--modeling.NomicBertModel"}, False),  # in transformers
        ("bert", {"AutoModel": "modeling.JinaBertModel"}, True),
        ("bert", {"AutoModelForMaskedLM": "bert_layers.BertForMaskedLM"}, True),
        ("xlm-roberta", {"AutoModel": "x--modeling_lora.XLMRobertaLoRA"}, True),
        ("new", {"AutoModel": "x--modeling.NewModel"}, True),
        ("bert", {}, False),
    ],
)
def test_a_class_that_transformers_has_itself_needs_no_permission(
    kind: str, entries: dict[str, str], foreign: bool
) -> None:
    assert (foreign_class({"model_type": kind, "auto_map": entries}) is not None) is foreign


def test_permission_for_a_model_without_code_is_a_mistake(tmp_path: Path) -> None:
    from longrank.encoders.tiny import tiny

    tiny(dim=16, layers=1).save(tmp_path)
    with pytest.raises(ModelError, match="leave remote_code out"):
        pretrained(str(tmp_path), remote_code=f"x/y@{COMMIT}")


def test_explain_takes_the_permission_too(tmp_path: Path) -> None:
    folder = jina(tmp_path / "jina-tiny")
    backbone = Spec("pretrained", {"model": str(folder), "remote_code": f"jina-tiny@{code_hash(folder)}"})
    checkpoint.save(build_ranker(Spec("maxp", {"backbone": backbone, "size": 20, "stride": 15})), tmp_path / "maxp")
    text = tmp_path / "text.txt"
    text.write_text(DOCUMENTS[-1].text, encoding="utf-8")
    asked = ["explain", str(tmp_path / "maxp"), str(text), "--query", QUERY.text]
    refused = CliRunner().invoke(app, asked).exception
    assert isinstance(refused, ModelError)
    allowed = str(refused).partition("remote_code='")[2].partition("'")[0]
    assert "best: characters" in CliRunner().invoke(app, [*asked, "--remote-code", allowed]).output
