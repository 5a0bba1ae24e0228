"""A trained ranker reads other lengths with the same weights."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import Document, Query, Spec
from longrank.rankers import checkpoint
from longrank.rankers.lengths import LENGTHS, with_lengths
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import RANKERS, build_ranker

QUERY = Query("q", "where is the otter")
DOCUMENT = Document("d", " ".join(f"word{i % 13}" for i in range(120)))


def ranker(name: str, **lengths: int) -> NeuralRanker:
    backbone = Spec("tiny", {"layers": 1, "dim": 24, "positions": 64, "vocabulary": 256})
    return build_ranker(Spec(name, {"backbone": backbone, "query_tokens": 8, **lengths}), seed=3)


def lengths_of(name: str) -> dict[str, int]:
    if name in {"firstp", "longp"}:
        return {"tokens": 20}
    windows = {"size": 20, "stride": 20, "max_tokens": 40}
    return windows if name in STRIDED else {"size": 20, "max_chunks": 2}


STRIDED = {entry.name for entry in RANKERS if "stride" in entry.make.__annotations__}


@pytest.mark.parametrize("chunks", range(1, 7))
def test_more_chunks_are_read_and_the_spec_says_so(chunks: int) -> None:
    model = ranker("maxp", size=20, stride=20, max_tokens=60)
    other = with_lengths(model, {"max_tokens": 20 * chunks})
    assert len(other.split([DOCUMENT])[0].spans) == chunks
    assert other.score(QUERY, [DOCUMENT]).cut_tokens == 120 - 20 * chunks
    assert other.spec is not None
    assert other.spec.params["max_tokens"] == 20 * chunks
    assert len(model.split([DOCUMENT])[0].spans) == 3


@pytest.mark.parametrize("name", [entry.name for entry in RANKERS])
def test_every_ranker_reads_twice_as_far_as_one_that_was_built_so(name: str) -> None:
    lengths = lengths_of(name)
    further = {key: 2 * value for key, value in lengths.items() if key in {"tokens", "max_tokens", "max_chunks"}}
    model = ranker(name, **lengths)
    expected = ranker(name, **{**lengths, **further}).score(QUERY, [DOCUMENT])
    found = with_lengths(model, further).score(QUERY, [DOCUMENT])
    assert found.values == pytest.approx(expected.values, abs=1e-6)
    assert found.cut_tokens == expected.cut_tokens
    assert with_lengths(model, {}).score(QUERY, [DOCUMENT]) == model.score(QUERY, [DOCUMENT])


def test_it_is_saved_and_loaded_with_its_new_lengths(tmp_path: Path) -> None:
    other = with_lengths(ranker("parade-attn", size=20, stride=20, max_tokens=40), {"size": 30, "stride": 10})
    other.trained = True
    checkpoint.save(other, tmp_path / "other")
    assert checkpoint.load(tmp_path / "other").score(QUERY, [DOCUMENT]) == other.score(QUERY, [DOCUMENT])


@pytest.mark.parametrize(
    ("lengths", "kind", "message"),
    [
        ({"layers": 2}, SettingsError, "'layers' is no length"),
        ({"tokens": 20}, SettingsError, "no parameter 'tokens'"),
        ({"stride": 30}, SettingsError, "tokens would be skipped"),
        ({"size": 60}, ModelError, "do not fit a backbone of 64 positions"),
    ],
)
def test_lengths_that_cannot_be_read_are_refused(
    lengths: Mapping[str, int], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        with_lengths(ranker("maxp", size=20, stride=20, max_tokens=40), lengths)


def test_a_ranker_composed_by_hand_is_refused() -> None:
    model = ranker("maxp", size=20, stride=20, max_tokens=40)
    model.spec = None
    with pytest.raises(ModelError, match="by hand"):
        with_lengths(model, {"max_tokens": 20})


def test_every_length_belongs_to_some_ranker() -> None:
    assert {name for entry in RANKERS for name in entry.make.__annotations__ if name in LENGTHS} == LENGTHS
