"""Models with Python code of their own, as JINA's ALiBi encoders and MosaicBERT are published."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import longrank
from longrank.cli.main import app
from longrank.core.errors import ModelError
from longrank.core.types import Collection, Document, Qrels, Query, Run, Spec
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import read_run, write_run
from longrank.encoders.backbone import Backbone
from longrank.encoders.pretrained import pretrained
from longrank.encoders.remote_code import code_arguments, code_hash, foreign_class
from longrank.encoders.rows import Needs, Row
from longrank.experiments.execute import Store, run_steps
from longrank.experiments.plan import make_plan
from longrank.experiments.settings import load_experiment
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.training.examples import PassageSampler
from longrank.training.settings import TrainSettings
from longrank.training.trainer import fit

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

EXPERIMENT = """
title = "Code of its own"
size = "laptop"
rankers = ["firstp"]
measures = ["RR"]
warmup = { on = "toy", training = { batch_size = 2, backbone_rate = 1e-2 } }
training = { batch_size = 2, backbone_rate = 1e-12 }
negatives = { hard_depth = 4 }
scoring = { depth = 2 }
reading = { query_tokens = 8, chunk_tokens = 20, window_tokens = 20, window_stride = 20, max_tokens = 40 }
stages = [
    { name = "first", train_on = "toy", score_on = [] },
    { name = "second", start_from = "first", train_on = "toy", score_on = ["toy"] },
]

[collections.toy]
kind = "toy"
train = 4
dev = 1
test = 2
"""


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


def mosaic(folder: Path) -> Path:
    return write(folder, {"AutoModelForMaskedLM": "modeling.BertForMaskedLM"}, "BertForMaskedLM")


def allowed(folder: Path) -> Spec:
    return Spec("pretrained", {"model": str(folder), "remote_code": f"{folder.name}@{code_hash(folder)}"})


def permission(folder: Path) -> str:
    """What the refusal of a checkpoint says to allow."""
    with pytest.raises(ModelError, match="remote_code='backbone@") as refused:
        checkpoint.load(folder)
    return str(refused.value).partition("remote_code='")[2].partition("'")[0]


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
    backbone = allowed(jina(tmp_path / "jina-tiny"))
    for name, sizes in (("longp", {"tokens": 200}), ("maxp", {"size": 20, "stride": 15}), ("cedr-knrm", {"size": 20})):
        ranker = build_ranker(Spec(name, {"backbone": backbone, **sizes}))
        together = ranker.score(QUERY, DOCUMENTS).values
        alone = [ranker.score(QUERY, [document]).values[0] for document in DOCUMENTS]
        assert alone == pytest.approx(together, abs=1e-4)
        checkpoint.save(ranker, tmp_path / name)
        again = longrank.load(tmp_path / name, remote_code=permission(tmp_path / name))
        assert again.score(QUERY, DOCUMENTS).values == together


def test_a_mosaic_type_model_is_read_without_its_head_and_its_layers_are_not_offered(tmp_path: Path) -> None:
    folder = mosaic(tmp_path / "mosaic-tiny")
    plain = pretrained(str(jina(tmp_path / "jina-tiny")), remote_code=f"jina-tiny@{code_hash(folder)}")
    backbone = allowed(folder)
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
    backbone = allowed(jina(tmp_path / "jina-tiny"))
    checkpoint.save(build_ranker(Spec("maxp", {"backbone": backbone, "size": 20, "stride": 15})), tmp_path / "maxp")
    text = tmp_path / "text.txt"
    text.write_text(DOCUMENTS[-1].text, encoding="utf-8")
    asked = ["explain", str(tmp_path / "maxp"), str(text), "--query", QUERY.text]
    assert isinstance(CliRunner().invoke(app, asked).exception, ModelError)
    asked += ["--remote-code", permission(tmp_path / "maxp")]
    assert "best: characters" in CliRunner().invoke(app, asked).output


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [jina, mosaic])
def test_a_training_ends_with_its_best_weights_and_checkpoints_that_load_by_permission(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    ranker = build_ranker(Spec("firstp", {"backbone": allowed(make(tmp_path / "model")), "tokens": 20}))
    values, seen = iter([0.9, 0.1]), []

    def validate(ranker: NeuralRanker) -> float:
        seen.append(ranker.score(QUERY, DOCUMENTS).values)
        return next(values)

    sampler = PassageSampler({"q": QUERY}, {"q": "w3 w14"}, {"q": ["w20 w21"]}, ("q",))
    settings = TrainSettings(epochs=2, backbone_rate=1e-2, aggregator_rate=1e-2)
    fit(ranker, sampler, settings=settings, folder=tmp_path / "out", validate=validate)
    assert ranker.score(QUERY, DOCUMENTS).values == seen[0] != seen[1]
    for name, scores in (("best", seen[0]), ("last", seen[1])):
        place = tmp_path / "out" / name
        assert checkpoint.load(place, remote_code=permission(place)).score(QUERY, DOCUMENTS).values == scores


def test_folds_fine_tuning_and_teachers_run_what_the_training_file_allows(tmp_path: Path) -> None:
    documents = {d.id: d for d in (Document("good", "w3 w14 w15"), Document("bad", "w20 w21 w22"))}
    queries = {q: Query(q, f"w{n} w3") for n, q in enumerate(("q0", "q1"))}
    save_collection(Collection("c", documents, queries, Qrels({q: {"good": 1} for q in queries})), tmp_path / "c")
    write_run(tmp_path / "c.trec", Run("near", {q: {"good": 1.0, "bad": 0.0} for q in queries}))
    (tmp_path / "folds.json").write_text('[["q0"], ["q1"]]', encoding="utf-8")
    model = allowed(jina(tmp_path / "jina-tiny")).params
    files = f'collection = "{tmp_path}/c"\ncandidates = "{tmp_path}/c.trec"\nfolds = "{tmp_path}/folds.json"\n'
    backbone = (
        f'{{ name = "pretrained", params = {{ model = "{model["model"]}", remote_code = "{model["remote_code"]}" }} }}'
    )
    ranker = f'[ranker]\nname = "firstp"\nparams = {{ tokens = 20, backbone = {backbone} }}\n'

    def train(name: str, text: str) -> Path:
        config, out = tmp_path / f"{name}.toml", tmp_path / name
        config.write_text(f'{files}out = "{out}"\n{text}', encoding="utf-8")
        result = CliRunner().invoke(app, ["train", str(config)])
        if isinstance(result.exception, ModelError):
            raise result.exception
        assert result.exit_code == 0, result.output
        assert len(read_run(out / "seed0/pooled.trec").scores) == 2
        return out / "seed0/fold-1/main/best"

    first = train("first", ranker)
    with pytest.raises(ModelError, match="would run Python code of its own"):
        train("refused", f'init = "{first}"')
    train("tuned", f'init = "{first}"\ninit_remote_code = "{permission(first)}"')
    taught = f'teacher = "{first}"\nteacher_remote_code = "{permission(first)}"\ntrain.loss = "margin-mse"\n{ranker}'
    train("student", taught)


def test_an_experiment_runs_what_its_backbone_allows_from_warm_up_to_scoring(tmp_path: Path) -> None:
    model = allowed(jina(tmp_path / "jina-tiny")).params
    path = tmp_path / "experiment.toml"
    path.write_text(
        f"{EXPERIMENT}\n[backbones.jina]\nname = 'pretrained'\nparams = {json.dumps(model).replace(':', ' =')}"
    )
    plan, store = make_plan(load_experiment(path)), Store(tmp_path / "store")
    run_steps(plan.steps, store, say=lambda line: None)
    weights = {}
    for step in plan.steps:
        if step.kind in {"warm-up", "train"}:
            place = store.folder(step) / "best"
            weights[step.kind] = checkpoint.load(place, remote_code=permission(place)).backbone.model.state_dict()
    assert any(step.kind == "score" for step in plan.steps)
    # training at a rate of 1e-12 leaves the backbone as it was warmed up
    assert all(torch.allclose(value, weights["warm-up"][name], atol=1e-6) for name, value in weights["train"].items())
    start = load_file(tmp_path / "jina-tiny" / "model.safetensors")
    assert not torch.allclose(start["mix.weight"], weights["warm-up"]["mix.weight"], atol=1e-4)
