"""Two-layer models that were taught where to look, or where not to: the audit tells them apart.

A topic has query words and words of its own; the evidence is a slot of six words with some of these. A model that
learnt on two slots is taken further on documents of eight, with the evidence always early or anywhere.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from longrank.audit.design import AuditDesign, make_design
from longrank.audit.run import audit
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import Filler, Source
from longrank.audit.verdict import Findings, Outcome
from longrank.core.seeds import generator
from longrank.core.types import Document, Query, Spec
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.training.examples import TrainExample
from longrank.training.settings import TrainSettings
from longrank.training.trainer import fit

TOPICS, BACKGROUND, SLOT, SLOTS = 16, 30, 6, 8
QUERIES = 200
BATCH = 32


def background(rng: np.random.Generator, count: int) -> list[str]:
    return [f"plain{n}" for n in rng.integers(BACKGROUND, size=count)]


def question(rng: np.random.Generator, topic: int) -> str:
    return " ".join(f"ask{topic}x{n}" for n in rng.choice(3, size=2, replace=False))


def passage(rng: np.random.Generator, topic: int) -> str:
    """Six words, two of them of a topic."""
    words = [f"told{topic}x{n}" for n in rng.choice(4, size=2, replace=False)] + background(rng, SLOT - 2)
    return " ".join(words[n] for n in rng.permutation(SLOT))


def document(rng: np.random.Generator, topic: int, *, slots: int, at: int) -> Document:
    """Slots of plain words, one of which holds a passage of a topic."""
    texts = [passage(rng, topic) if n == at else " ".join(background(rng, SLOT)) for n in range(slots)]
    return Document("d", " ".join(texts))


@dataclass(frozen=True)
class Topics:
    """Documents of the topic asked for against those of another, with both passages in the first ``last`` slots."""

    steps: int
    slots: int
    last: int
    name: str

    def __len__(self) -> int:
        return self.steps * BATCH

    def epoch(self, number: int) -> Iterator[TrainExample]:
        rng = generator(f"topics/{self.name}/{number}", 0)
        for n in range(len(self)):
            right, wrong = rng.choice(TOPICS, size=2, replace=False).tolist()
            places = rng.integers(self.last, size=2).tolist()
            yield TrainExample(
                Query(f"q{n}", question(rng, right)),
                document(rng, right, slots=self.slots, at=places[0]),
                (document(rng, wrong, slots=self.slots, at=places[1]),),
            )


def two_layers(name: str, **params: object) -> NeuralRanker:
    backbone = Spec("tiny", {"layers": 2, "dim": 48, "heads": 4, "positions": 64})
    return build_ranker(Spec(name, {"backbone": backbone, "query_tokens": 4, **params}))


def taught(ranker: NeuralRanker, topics: Topics, folder: Path) -> NeuralRanker:
    settings = TrainSettings(
        batch_size=BATCH,
        queries_at_once=BATCH,
        backbone_rate=1e-3,
        aggregator_rate=1e-3,
        warmup_fraction=0.1,
        save_every=10_000,
        dropout=0.0,
    )
    fit(ranker, topics, settings=settings, folder=folder)
    return ranker


def further(start: NeuralRanker, topics: Topics, folder: Path) -> NeuralRanker:
    """A model that reads all eight slots, from the weights of one that read two."""
    ranker = two_layers("longp", tokens=SLOTS * SLOT)
    ranker.load_state_dict(start.state_dict())
    return taught(ranker, topics, folder)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> NeuralRanker:
    """FirstP over two slots; what stands in a document behind them is no part of its training."""
    ranker = two_layers("firstp", tokens=2 * SLOT)
    return taught(ranker, Topics(1_100, slots=2, last=2, name="warm"), tmp_path_factory.mktemp("warm"))


@pytest.fixture(scope="module")
def design() -> AuditDesign:
    rng = generator("topics/audit", 0)
    topics = rng.integers(TOPICS, size=QUERIES).tolist()
    queries = tuple(Query(f"q{n}", question(rng, topic)) for n, topic in enumerate(topics))
    others = [[int(t) for t in rng.permutation(TOPICS) if t != topic] for topic in topics]
    source = Source(
        name="topics",
        queries=queries,
        evidence={query.id: passage(rng, topic) for query, topic in zip(queries, topics, strict=True)},
        hard={q.id: tuple(passage(rng, t) for t in rest[:12]) for q, rest in zip(queries, others, strict=True)},
        filler=tuple(Filler(" ".join(background(rng, SLOT))) for _ in range(400)),
        barred={},
        left_out={},
    )
    return make_design(source, AuditSettings(queries=QUERIES, slots=SLOTS, lengths=(SLOTS * SLOT,), draws=1_999))


def judged(ranker: NeuralRanker, design: AuditDesign) -> Findings:
    return audit(ranker, design, name="model").findings


def shown(found: Findings) -> str:
    """The curve and the verdict, for the message of a test that fails."""
    mean = found.by_length[0].curve.mean.tolist()
    return json.dumps({"outcome": found.outcome.value, "slots": [round(value, 3) for value in mean]})


@pytest.mark.slow
def test_a_model_of_two_slots_is_blind_behind_them(warm: NeuralRanker, design: AuditDesign) -> None:
    found = judged(warm, design)
    assert found.outcome is Outcome.biased, shown(found)
    mean = found.by_length[0].curve.mean
    assert mean[:2].min() > 0.6, shown(found)
    assert mean[2:].max() < 0.3, shown(found)  # by chance it would be .174


@pytest.mark.slow
def test_the_best_of_two_slot_chunks_finds_evidence_anywhere(warm: NeuralRanker, design: AuditDesign) -> None:
    best = two_layers("maxp", size=2 * SLOT, stride=2 * SLOT, max_tokens=SLOTS * SLOT)
    best.load_state_dict(warm.state_dict())  # to chunks of two slots, early evidence is all there is to learn from
    found = judged(best, design)
    assert found.outcome is Outcome.robust, shown(found)


@pytest.mark.slow
def test_a_long_model_that_saw_early_evidence_only_is_biased(
    warm: NeuralRanker, design: AuditDesign, tmp_path: Path
) -> None:
    found = judged(further(warm, Topics(900, slots=SLOTS, last=2, name="early"), tmp_path), design)
    assert found.outcome is Outcome.biased, shown(found)
    assert found.by_length[0].primacy.value > 0.1, shown(found)


@pytest.mark.slow
def test_a_long_model_that_saw_evidence_anywhere_is_robust(
    warm: NeuralRanker, design: AuditDesign, tmp_path: Path
) -> None:
    found = judged(further(warm, Topics(900, slots=SLOTS, last=SLOTS, name="anywhere"), tmp_path), design)
    assert found.outcome is Outcome.robust, shown(found)
