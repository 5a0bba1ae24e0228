"""The encoder from scratch, with learned and with rotary positions."""

from pathlib import Path

import pytest
import torch

from longrank.core.errors import SettingsError
from longrank.core.types import Document, Query, Spec
from longrank.encoders.registry import BACKBONES
from longrank.encoders.tiny import tiny
from longrank.rankers import checkpoint
from longrank.rankers.zoo import build_ranker

QUERY = Query("q", "what is the bridge made of")
DOCUMENTS = [Document("a", "stone " * 30 + "bridge"), Document("b", "the bridge is made of oak"), Document("c", "")]


def test_rotary_positions_are_turned_not_added() -> None:
    learned, turned = (dict(tiny(rotary=rotary).model.named_parameters()) for rotary in (False, True))
    assert "embeddings.position_embeddings.weight" in learned
    assert "embeddings.position_embeddings.weight" not in turned
    assert not any("position" in name for name, p in turned.items() if p.requires_grad)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"layers": -1}, "layers must be at least 1"),
        ({"dim": 0}, "dim must be at least 1"),
        ({"heads": 0}, "heads must be at least 1"),
        ({"dim": 15}, "a multiple of 2 with 2 heads, got 15"),
        ({"dim": 6, "rotary": True}, "a multiple of 4 with 2 heads, got 6"),
        ({"vocabulary": 0}, "vocabulary of the tiny encoder must be at least 5, for 4 ids are reserved, got 0"),
        ({"vocabulary": -7}, "at least 5, for 4 ids are reserved, got -7"),
        ({"vocabulary": 4}, "at least 5, for 4 ids are reserved, got 4"),
        ({"vocabulary": "brt"}, "vocabulary is 'bert' or a whole number, not 'brt'"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_in_words(params: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        BACKBONES.build(Spec("tiny", params))
    assert said in str(refused.value)


def test_a_rotary_longp_tells_word_order() -> None:
    ranker = build_ranker(Spec("longp", {"backbone": Spec("tiny", {"rotary": True}), "tokens": 200}))
    orders = [Document("x", "one two three four"), Document("y", "four three two one")]
    first, second = ranker.score(QUERY, orders).values
    assert first != pytest.approx(second, abs=1e-6)


@pytest.mark.parametrize("rotary", [False, True])
def test_a_checkpoint_gives_the_same_scores(rotary: bool, tmp_path: Path) -> None:
    ranker = build_ranker(Spec("longp", {"backbone": Spec("tiny", {"rotary": rotary}), "tokens": 200}))
    ranker.trained = True
    checkpoint.save(ranker, tmp_path / "model")
    again = checkpoint.load(tmp_path / "model")
    assert again.score(QUERY, DOCUMENTS).values == ranker.score(QUERY, DOCUMENTS).values


def test_the_seed_decides_the_weights_and_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (tiny(rotary=True, seed=seed).model.state_dict() for seed in (1, 1, 2))
    name = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(one[name], same[name])
    assert not torch.equal(one[name], other[name])
    assert torch.equal(torch.random.get_rng_state(), before)
