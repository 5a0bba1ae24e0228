"""As many examples of every position: counted, the same again, and asked for in a training file."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import SettingsError, TrainingError
from longrank.core.fingerprint import fingerprint
from longrank.core.settings import parse_settings
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, Run
from longrank.rankers.neural import NeuralRanker
from longrank.training.balance import BalancedSampler, PositionBalance, balanced
from longrank.training.config import TrainConfig
from longrank.training.examples import TrainExample
from longrank.training.pools import NegativeSettings, PoolSampler
from longrank.training.settings import TrainSettings
from longrank.training.trainer import fit

MakeRanker = Callable[..., NeuralRanker]
Weights = Callable[[NeuralRanker], torch.Tensor]


def placed(*starts: int, words: int = 10) -> Collection:
    """A query and its document of one-letter words for each start, whose evidence is the word there; one other."""
    text = " ".join("x" for _ in range(words))
    numbers = range(len(starts))
    return Collection(
        "placed",
        {name: Document(name, text) for name in (*(f"d{i}" for i in numbers), "other")},
        {f"q{i}": Query(f"q{i}", "x") for i in numbers},
        Qrels({f"q{i}": {f"d{i}": 1} for i in numbers}),
        tuple(GoldSpan(f"q{i}", f"d{i}", CharSpan(2 * at, 2 * at + 1), "test") for i, at in enumerate(starts)),
    )


def sampler(collection: Collection, *, seed: int = 0, **settings: object) -> BalancedSampler:
    run = Run("bm25", {query_id: {"other": 1.0} for query_id in collection.queries})
    pools = PoolSampler(collection, {"bm25": run}, list(collection.queries), negatives=NegativeSettings(), seed=seed)
    chosen = PositionBalance.model_validate(settings)
    return balanced(pools, tokenizer=WordTokenizer(), settings=chosen, seed=seed)


def shown(examples: BalancedSampler, epoch: int) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(e.query.id, e.positive.id, tuple(d.id for d in e.negatives)) for e in examples.epoch(epoch)]


def test_an_epoch_has_as_many_pairs_of_every_place_and_all_come_in_turn() -> None:
    even = sampler(placed(0, 0, 1, 2, 4, 5, 9), bins=2)  # five in the first half, two in the second
    assert len(even) == 4
    assert str(even) == "4 of 7 training pairs an epoch, 2 in each of 2 bins"
    late, seen = {"q5", "q6"}, Counter[str]()
    for number in range(40):
        queries = [query_id for query_id, _, _ in shown(even, number)]
        assert len(set(queries)) == 4
        assert late < set(queries)
        seen.update(queries)
    assert set(seen) == {f"q{i}" for i in range(7)}
    assert all(example.negatives[0].id == "other" for example in even.epoch(0))


def test_length_cells_are_balanced_apart() -> None:
    short, long = placed(0, 0, 9), placed(0, 0, 0, 80, 81, words=100)
    both = replace(
        short,
        documents=dict(short.documents)
        | {f"long-{name}": replace(d, id=f"long-{name}") for name, d in long.documents.items()},
        queries=dict(short.queries)
        | {f"long-{name}": replace(q, id=f"long-{name}") for name, q in long.queries.items()},
        qrels=Qrels(
            dict(short.qrels.grades)
            | {f"long-{q}": {f"long-{d}": 1 for d in row} for q, row in long.qrels.grades.items()}
        ),
        spans=(
            *short.spans,
            *(s._replace(query_id=f"long-{s.query_id}", document_id=f"long-{s.document_id}") for s in long.spans),
        ),
    )
    even = sampler(both, bins=2, cells=(50,))
    assert len(even) == 2 + 4
    assert str(even).endswith("1 in each of 2 bins up to 50 tokens; 2 in each of 2 bins above 50 tokens")
    assert Counter(query_id.startswith("long") for query_id, _, _ in shown(even, 3)) == {True: 4, False: 2}


def test_an_epoch_is_the_same_again_and_another_seed_draws_others() -> None:
    collection = placed(*[0] * 8, 9, 9)
    even = sampler(collection, bins=2)
    assert shown(even, 1) == shown(sampler(collection, bins=2), 1)
    assert shown(even, 1) != shown(even, 2)
    assert shown(even, 1) != shown(sampler(collection, bins=2, seed=1), 1)


def test_a_query_with_several_relevant_documents_comes_with_each_of_them() -> None:
    collection = placed(0, 9)
    both = replace(
        collection,
        qrels=Qrels({"q0": {"d0": 1, "d1": 1}}),
        spans=tuple(span._replace(query_id="q0") for span in collection.spans),
    )
    assert sorted(shown(sampler(both, bins=2), 0)) == [("q0", "d0", ("other",)), ("q0", "d1", ("other",))]


def test_pairs_without_a_known_place_are_refused_or_left_out_by_name() -> None:
    collection = placed(0, 9, 3)
    part = replace(collection, spans=collection.spans[:2])
    with pytest.raises(
        TrainingError, match=r"of 1 of 3 training pairs where .* \('d2' for query 'q2' is the first\).*leave-out"
    ):
        sampler(part, bins=2)
    assert {query_id for query_id, _, _ in shown(sampler(part, bins=2, unknown="leave-out"), 0)} == {"q0", "q1"}
    with pytest.raises(TrainingError, match=r"of 3 of 3 training pairs .*spans\.jsonl"):
        sampler(replace(collection, spans=()), bins=2, unknown="leave-out")


def test_evidence_in_one_place_only_cannot_be_balanced() -> None:
    with pytest.raises(TrainingError, match="nothing to balance"):
        sampler(placed(0, 1, 2), bins=2)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"position_weights": {}}, "together twice: leave one out"),
        ({"passage_level": True}, "leave passage_level and shuffle out"),
        ({"shuffle": {"unit": "words"}}, "balance_positions is about where evidence stands"),
        ({"balance_positions": {"bins": 1}}, "balance_positions.bins"),
        ({"balance_positions": {"unknown": "guess"}}, "balance_positions.unknown"),
        ({"balance_positions": {"largest": 3}}, "balance_positions.largest"),
    ],
)
def test_what_contradicts_a_balance_is_refused(table: dict[str, object], says: str) -> None:
    base = {
        "collection": "c",
        "candidates": "r.trec",
        "out": "o",
        "ranker": {"name": "firstp"},
        "balance_positions": {},
    }
    parse_settings(TrainConfig, base, source="file")
    with pytest.raises(SettingsError, match=says):
        parse_settings(TrainConfig, base | table, source="file")


def test_a_file_without_a_balance_keeps_its_folder() -> None:
    base = {"collection": "c", "candidates": "r.trec", "out": "o", "ranker": {"name": "firstp"}}
    plain = parse_settings(TrainConfig, base, source="file")
    asked = parse_settings(TrainConfig, base | {"balance_positions": {}}, source="file")
    assert plain.mark != asked.mark
    # of the options that came later, a file that uses none is marked as if there were none
    later = {"position_weights", "balance_positions", "shuffle", "positions", "init_remote_code", "teacher_remote_code"}
    assert plain.mark == fingerprint(plain.model_dump(exclude={"seeds", "out", "device"} | later))


@dataclass(frozen=True, eq=False)
class Killed:
    """Examples that end in a crash, the first time."""

    inner: BalancedSampler
    after: int

    def __len__(self) -> int:
        return len(self.inner)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        for place, example in enumerate(self.inner.epoch(number)):
            if number == 1 and place == self.after:
                raise KeyboardInterrupt
            yield example


def test_a_stopped_training_goes_on_to_the_same_weights(
    make_ranker: MakeRanker, tmp_path: Path, weights: Weights
) -> None:
    even = sampler(placed(*[0] * 5, 7, 8, 9), bins=2)
    settings = TrainSettings(batch_size=2, epochs=3, backbone_rate=1e-3, save_every=1)
    whole, stopped = make_ranker(), make_ranker()
    log = fit(whole, even, settings=settings, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, Killed(even, 4), settings=settings, folder=tmp_path / "stopped")
    again = make_ranker()
    assert fit(again, even, settings=settings, folder=tmp_path / "stopped") == log
    assert torch.equal(weights(whole), weights(again))
    updates = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(updates[-1])["update"] == 3 * 3  # three epochs of six pairs, two an update
