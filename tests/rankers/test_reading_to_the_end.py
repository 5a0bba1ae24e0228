"""The papers' claim in miniature: FirstP cannot find late evidence; the same weights as MaxP can."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from longrank.core.seeds import generator
from longrank.core.types import Document, Query, Spec
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.training.examples import TrainExample
from longrank.training.trainer import TrainSettings, fit

TOPICS, SLOTS, SLOT_WORDS, DISTRACTORS = 4, 6, 6, 9
CHANCE = sum(1 / rank for rank in range(1, DISTRACTORS + 2)) / (DISTRACTORS + 1)  # H(10) / 10 = .293


@dataclass(frozen=True)
class TopicWorld:
    """Queries of two words on a topic; a relevant document has one slot with four words on it among noise."""

    count: int

    def __len__(self) -> int:
        return self.count

    def query(self, topic: int, rng: np.random.Generator) -> Query:
        return Query("q", " ".join(f"ask{topic}x{i}" for i in rng.choice(3, 2, replace=False)))

    def document(self, topic: int, slot: int, rng: np.random.Generator) -> Document:
        words = [f"noise{i}" for i in rng.integers(20, size=SLOTS * SLOT_WORDS)]
        words[slot * SLOT_WORDS : slot * SLOT_WORDS + 4] = [f"say{topic}x{i}" for i in rng.permutation(4)]
        return Document("d", " ".join(words))

    def epoch(self, number: int) -> Iterator[TrainExample]:
        rng = generator(f"topic-world-{number}", 0)
        for _ in range(self.count):
            topic, other = rng.choice(TOPICS, 2, replace=False)
            positive, negative = (self.document(t, int(rng.integers(2)), rng) for t in (topic, other))
            yield TrainExample(self.query(topic, rng), positive, (negative,))


def reciprocal_rank(ranker: NeuralRanker, slot: int, *, queries: int = 60) -> float:
    world, rng = TopicWorld(0), generator("topic-world-test", slot)
    values = []
    for _ in range(queries):
        topic = int(rng.integers(TOPICS))
        others = [int(t) for t in rng.choice([t for t in range(TOPICS) if t != topic], DISTRACTORS)]
        documents = [world.document(t, slot, rng) for t in (topic, *others)]
        scores = np.array(ranker.score(world.query(topic, rng), documents).values)
        above, level = (scores[1:] > scores[0]).sum(), (scores[1:] == scores[0]).sum()
        values.append(1 / (1 + above + level / 2))  # mid-rank of ties
    return float(np.mean(values))


READ = 2 * SLOT_WORDS
BACKBONE = Spec("tiny", {"dim": 32, "heads": 4, "vocabulary": 2003, "positions": 32})


@pytest.fixture(scope="module")
def firstp(tmp_path_factory: pytest.TempPathFactory) -> NeuralRanker:
    ranker = build_ranker(Spec("firstp", {"backbone": BACKBONE, "query_tokens": 4, "tokens": READ}))
    rates = TrainSettings(backbone_rate=3e-3, aggregator_rate=3e-3, schedule="linear", warmup_fraction=0.1)
    fit(ranker, TopicWorld(3000), settings=rates, folder=tmp_path_factory.mktemp("firstp"))
    return ranker


@pytest.mark.science
def test_firstp_finds_early_evidence_and_is_at_chance_on_late_evidence(firstp: NeuralRanker) -> None:
    assert reciprocal_rank(firstp, 0) > 0.85
    assert abs(reciprocal_rank(firstp, SLOTS - 1) - CHANCE) < 0.12


@pytest.mark.science
def test_the_same_weights_read_window_by_window_find_late_evidence_too(firstp: NeuralRanker) -> None:
    maxp = build_ranker(Spec("maxp", {"backbone": BACKBONE, "query_tokens": 4, "size": READ, "stride": READ}))
    maxp.load_state_dict(firstp.state_dict())
    assert reciprocal_rank(maxp, 0) > 0.8
    assert reciprocal_rank(maxp, SLOTS - 1) > 0.8
