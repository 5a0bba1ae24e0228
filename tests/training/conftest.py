"""A collection of six queries, whose relevant documents end in a word of their own, and small rankers."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from longrank.core.types import Collection, Document, Qrels, Query, Run, Spec
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.training.examples import CandidateSampler
from longrank.training.settings import TrainSettings
from longrank.training.trainer import TrainLog, fit

QUERIES = tuple(f"q{number}" for number in range(6))


@pytest.fixture(scope="session")
def collection() -> Collection:
    documents, queries, grades = {}, {}, {}
    for number, query_id in enumerate(QUERIES):
        filler = " ".join(f"w{(7 * number + place) % 40}" for place in range(8 + number))
        queries[query_id] = Query(query_id, f"find w{number}")
        documents[f"good{number}"] = Document(f"good{number}", f"{filler} {filler} yes yes")
        documents[f"bad{number}"] = Document(f"bad{number}", f"{filler} {filler} no no")
        grades[query_id] = {f"good{number}": 1, f"bad{(number + 1) % 6}": 0}
    return Collection("marks", documents, queries, Qrels(grades))


@pytest.fixture(scope="session")
def candidates(collection: Collection) -> Run:
    """For every query its good document first, then the bad ones from its own on."""
    scores = {
        q: {f"good{n}": 1.0} | {f"bad{(n + place) % 6}": -float(place) for place in range(6)}
        for n, q in enumerate(QUERIES)
    }
    return Run("near", scores)


@pytest.fixture(scope="session")
def sampler(collection: Collection, candidates: Run) -> CandidateSampler:
    return CandidateSampler(collection, candidates, QUERIES, negatives=2, depth=6)


MakeRanker = Callable[..., NeuralRanker]


@pytest.fixture(scope="session")
def make_ranker() -> MakeRanker:
    def make(name: str = "maxp", *, dropout: bool = True, seed: int = 0, layers: int = 1) -> NeuralRanker:
        backbone = Spec("tiny", {"layers": layers, "dim": 16, "positions": 32, "vocabulary": 256})
        params: dict[str, object] = {"backbone": backbone, "query_tokens": 4}
        if name == "firstp":
            params["tokens"] = 12
        elif name.startswith("cedr"):
            params |= {"size": 12, "max_chunks": 3}
        else:
            params |= {"size": 12, "stride": 12, "max_tokens": 36}
        ranker = build_ranker(Spec(name, params), seed=seed)
        if not dropout:
            for part in ranker.modules():
                if isinstance(part, torch.nn.Dropout):
                    part.p = 0.0
        return ranker

    return make


Train = Callable[..., tuple[NeuralRanker, TrainLog]]


@pytest.fixture
def train(make_ranker: MakeRanker, sampler: CandidateSampler, tmp_path: Path) -> Train:
    """Train a new ranker with some settings changed; gives it and the log."""

    def run(folder: str = "run", *, dropout: bool = True, **changes: object) -> tuple[NeuralRanker, TrainLog]:
        ranker = make_ranker(dropout=dropout)
        settings = TrainSettings.model_validate(
            {"batch_size": 2, "backbone_rate": 1e-3, "aggregator_rate": 1e-3, **changes}
        )
        return ranker, fit(ranker, sampler, settings=settings, folder=tmp_path / folder)

    return run


@pytest.fixture(scope="session")
def weights() -> Callable[[NeuralRanker], torch.Tensor]:
    """All parameters of a ranker in one row."""
    return lambda ranker: torch.cat([value.flatten().float() for value in ranker.state_dict().values()])
