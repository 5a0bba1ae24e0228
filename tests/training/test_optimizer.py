"""Which parameters learn, and at which rate."""

from collections.abc import Callable

import pytest
import torch

from longrank.core.errors import SettingsError
from longrank.core.types import Document, Query
from longrank.encoders.backbone import Backbone
from longrank.encoders.tiny import tiny
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import firstp
from longrank.training.optimizer import freeze, learning_as, make_optimizer, set_dropout
from longrank.training.settings import TrainSettings

MakeRanker = Callable[..., NeuralRanker]


def ranker_over(kind: str) -> NeuralRanker:
    import transformers

    sizes: dict[str, float] = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "attention_dropout": 0.5} if kind == "Llama" else {"d_ff": 32, "d_kv": 8}
    config = getattr(transformers, f"{kind.removesuffix('Encoder')}Config")(**sizes)
    words = tiny(vocabulary=64)
    model = getattr(transformers, f"{kind}Model")(config)
    return firstp(Backbone(model, words.tokenizer, words.specials, pooling="mean"), tokens=12)


def rates(ranker: NeuralRanker, settings: TrainSettings) -> dict[str, float]:
    names = {id(p): name for name, p in ranker.named_parameters()}
    groups = make_optimizer(ranker, settings).param_groups
    return {names[id(p)]: group["base_rate"] for group in groups for p in group["params"]}


def test_backbone_aggregator_and_head_have_rates_of_their_own(make_ranker: MakeRanker) -> None:
    ranker = make_ranker("parade-attn")
    found = rates(ranker, TrainSettings(backbone_rate=1e-5, aggregator_rate=1e-4, head_rate=1e-3))
    assert set(found) == {name for name, _ in ranker.named_parameters()}
    for name, rate in found.items():
        head = name.startswith("aggregator.head.")
        assert rate == (1e-5 if name.startswith("backbone.") else 1e-3 if head else 1e-4), name
    assert {1e-5, 1e-4, 1e-3} == set(found.values())


def test_layers_further_down_learn_more_slowly(make_ranker: MakeRanker) -> None:
    found = rates(make_ranker("maxp", layers=2), TrainSettings(backbone_rate=1e-3, layer_decay=0.5))
    for name, rate in found.items():
        if "encoder.layer.1." in name:
            assert rate == pytest.approx(1e-3)
        elif "encoder.layer.0." in name:
            assert rate == pytest.approx(5e-4)
        elif "embeddings" in name:
            assert rate == pytest.approx(2.5e-4)


def test_frozen_layers_and_all_below_do_not_learn(make_ranker: MakeRanker) -> None:
    ranker = make_ranker("maxp", layers=2)
    settings = TrainSettings(freeze_layers=1)
    freeze(ranker, settings)
    learning = set(rates(ranker, settings))
    assert not any("embeddings" in name or "layer.0." in name for name in learning)
    assert any("layer.1." in name for name in learning)
    with pytest.raises(SettingsError, match="the backbone has 2 layers"):
        freeze(ranker, TrainSettings(freeze_layers=3))


@pytest.mark.parametrize("kind", ["Llama", "T5Encoder"])
def test_embeddings_and_layers_are_found_by_whatever_name_a_model_has_for_them(kind: str) -> None:
    ranker = ranker_over(kind)
    settings = TrainSettings(freeze_layers=1)
    freeze(ranker, settings)
    still = {name for name, parameter in ranker.backbone.named_parameters() if not parameter.requires_grad}
    inside = {"Llama": ("embed_tokens.", "layers.0."), "T5Encoder": ("shared.", "encoder.block.0.")}[kind]
    assert still == {
        n for n, _ in ranker.backbone.named_parameters() if n.startswith(tuple(f"model.{i}" for i in inside))
    }
    assert set(rates(ranker, settings)).isdisjoint(f"backbone.{name}" for name in still)


def test_a_model_whose_parts_are_not_known_says_what_to_leave_out(make_ranker: MakeRanker) -> None:
    ranker = make_ranker("maxp")
    ranker.backbone.model = torch.nn.Linear(2, 2)
    with pytest.raises(SettingsError, match="embeddings of a Linear are not known: leave freeze_embeddings"):
        freeze(ranker, TrainSettings(freeze_embeddings=True))
    with pytest.raises(SettingsError, match="layers of a Linear are not known: leave freeze_layers and layer_decay"):
        make_optimizer(ranker, TrainSettings(layer_decay=0.5))


def test_fused_and_plain_optimizers_take_the_same_step(make_ranker: MakeRanker) -> None:
    stepped = []
    for fused in (False, True):
        ranker = make_ranker("maxp")
        for p in ranker.parameters():
            p.grad = torch.ones_like(p)
        make_optimizer(ranker, TrainSettings(fused_optimizer=fused)).step()
        stepped.append(torch.cat([p.flatten() for p in ranker.parameters()]))
    assert torch.allclose(stepped[0], stepped[1], atol=1e-7)


def test_dropout_is_set_where_it_is_on(make_ranker: MakeRanker) -> None:
    ranker = make_ranker("parade-transformer")
    before = {name: part.p for name, part in ranker.named_modules() if isinstance(part, torch.nn.Dropout)}
    assert set(before.values()) == {0.0, 0.1}  # of attention, and of all else
    set_dropout(ranker, 0.0)
    ranker.train()
    query, documents = Query("q", "find"), [Document("d", "one two three " * 8)]
    assert torch.equal(ranker(query, documents), ranker(query, documents))
    again = make_ranker("parade-transformer")
    set_dropout(again, 0.3)
    after = {name: part.p for name, part in again.named_modules() if isinstance(part, torch.nn.Dropout)}
    assert after == {name: 0.3 if rate else 0.0 for name, rate in before.items()}


@pytest.mark.parametrize("kind", ["Llama", "T5Encoder"])
def test_dropout_is_set_in_attention_too_where_its_rate_is_a_number(kind: str) -> None:
    ranker = ranker_over(kind)
    query, documents = Query("q", "find"), [Document("d", "one two three " * 4)]
    ranker.train()
    before = [ranker(query, documents) for _ in range(2)]
    with learning_as(ranker, TrainSettings(dropout=0.0)):
        assert torch.equal(ranker(query, documents), ranker(query, documents))
    assert not torch.equal(*before)
    assert not torch.equal(ranker(query, documents), ranker(query, documents))  # as it was


def test_afterwards_a_ranker_learns_and_drops_as_before(make_ranker: MakeRanker) -> None:
    ranker = make_ranker("parade-transformer")
    learnt = [parameter.requires_grad for parameter in ranker.parameters()]
    rates = [part.p for part in ranker.modules() if isinstance(part, torch.nn.Dropout)]
    with pytest.raises(KeyboardInterrupt), learning_as(ranker, TrainSettings(freeze_layers=1, dropout=0.0)):
        assert [parameter.requires_grad for parameter in ranker.parameters()] != learnt
        assert not any(part.p for part in ranker.modules() if isinstance(part, torch.nn.Dropout))
        raise KeyboardInterrupt
    assert [parameter.requires_grad for parameter in ranker.parameters()] == learnt
    assert [part.p for part in ranker.modules() if isinstance(part, torch.nn.Dropout)] == rates
