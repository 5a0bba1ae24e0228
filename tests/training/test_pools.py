"""Which documents stand beside a query in training."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from longrank.core.errors import TrainingError
from longrank.core.types import Collection, Document, Qrels, Query, Run, Scores
from longrank.rankers.neural import NeuralRanker
from longrank.training.distillation import ranker_teaches
from longrank.training.examples import CandidateSampler, PassageSampler, Sampler
from longrank.training.passages import PassageLevel
from longrank.training.pools import NegativeSettings, PoolSampler


def negatives_of(sampler: Sampler, query_id: str, epochs: int = 40) -> set[str]:
    found = (e for number in range(epochs) for e in sampler.epoch(number) if e.query.id == query_id)
    return {document.id for example in found for document in example.negatives}


def ids(sampler: Sampler, epoch: int) -> list[tuple[str, ...]]:
    return [(e.query.id, e.positive.id, *(d.id for d in e.negatives)) for e in sampler.epoch(epoch)]


@pytest.fixture
def pools(collection: Collection, candidates: Run) -> Callable[..., PoolSampler]:
    def make(**changes: object) -> PoolSampler:
        settings = NegativeSettings.model_validate(changes)
        return PoolSampler(collection, {"near": candidates}, list(collection.queries), negatives=settings)

    return make


def test_an_epoch_has_every_query_once_and_can_be_had_again(pools: Callable[..., PoolSampler]) -> None:
    sampler = pools(hard=2)
    assert ids(sampler, 3) == ids(sampler, 3) != ids(sampler, 4)
    assert sorted(row[0] for row in ids(sampler, 0)) == [f"q{n}" for n in range(6)]
    assert all(row[1] == row[0].replace("q", "good") for row in ids(sampler, 0))


def test_hard_negatives_come_from_the_top_and_medium_ones_from_below(pools: Callable[..., PoolSampler]) -> None:
    # q0 has good0, bad0, bad1, ... bad5 in this order
    assert negatives_of(pools(hard=1, hard_depth=3), "q0") == {"bad0", "bad1"}
    both = pools(hard=1, hard_depth=3, medium=1, medium_depth=5)
    assert negatives_of(both, "q0") == {"bad0", "bad1", "bad2", "bad3"}
    for example in both.epoch(0):
        assert len(example.negatives) == 2
    assert negatives_of(pools(hard=0, medium=1, hard_depth=3, medium_depth=5), "q0") == {"bad2", "bad3"}


def test_judged_documents_join_the_hard_ones(pools: Callable[..., PoolSampler]) -> None:
    # q3's bad4 is judged not relevant, and lies below the top two, good3 and bad3
    assert negatives_of(pools(hard=1, hard_depth=2), "q3") == {"bad3"}
    assert negatives_of(pools(hard=1, hard_depth=2, judged=True), "q3") == {"bad3", "bad4"}


def test_random_negatives_are_any_document_but_the_relevant_ones(pools: Callable[..., PoolSampler]) -> None:
    sampler = pools(hard=1, hard_depth=2, random=3)
    found = negatives_of(sampler, "q0")
    assert found == {f"bad{n}" for n in range(6)} | {f"good{n}" for n in range(1, 6)}
    for example in sampler.epoch(0):
        assert len({document.id for document in example.negatives}) == 4


def test_the_tops_of_several_candidate_sets_are_joined(collection: Collection, candidates: Run) -> None:
    other = Run("other", {q: {"bad5": 1.0, "good5": 0.5} for q in collection.queries})
    settings = NegativeSettings(hard=1, hard_depth=2)
    sampler = PoolSampler(collection, {"near": candidates, "other": other}, ["q0"], negatives=settings)
    assert negatives_of(sampler, "q0") == {"bad0", "bad5", "good5"}


def test_queries_that_cannot_be_used_are_counted_by_reason(collection: Collection, candidates: Run) -> None:
    grades = {**collection.qrels.grades, "q0": {"good0": 0}, "q1": {"elsewhere": 1}}
    thin = Run("thin", {**candidates.scores, "q2": {"good2": 1.0}})
    settings = NegativeSettings()
    sampler = PoolSampler(
        replace(collection, qrels=Qrels(grades)),
        {"thin": thin},
        [*collection.queries, "unknown"],
        negatives=settings,
    )
    assert len(sampler) == 3
    assert sampler.skipped == {"no relevant document": 2, "too few negatives": 1, "no text": 1}
    with pytest.raises(TrainingError, match=r"none of the 1 training queries can be used \(1 have too few negatives\)"):
        PoolSampler(collection, {"thin": thin}, ["q2"], negatives=settings)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one negative"):
        NegativeSettings(hard=0)
    with pytest.raises(ValueError, match="must lie below"):
        NegativeSettings(medium=1, medium_depth=50)


def test_a_candidate_that_the_collection_lacks_is_not_drawn(collection: Collection) -> None:
    run = Run("foreign", {"q0": {"absent": 2.0, "bad0": 1.0}})
    sampler = PoolSampler(collection, {"foreign": run}, ["q0"], negatives=NegativeSettings())
    assert negatives_of(sampler, "q0", epochs=5) == {"bad0"}


def test_passage_level_training_reads_one_chunk_of_each_document(
    make_ranker: Callable[..., NeuralRanker], sampler: CandidateSampler
) -> None:
    ranker = make_ranker("maxp")
    passages = PassageLevel(sampler, ranker.split)
    assert ids(passages, 1) == ids(passages, 1)
    assert len(passages) == len(sampler)
    for whole, cut in zip(sampler.epoch(0), passages.epoch(0), strict=True):
        assert cut.query == whole.query
        assert len(ranker.split([cut.positive])[0].spans) == 1
        assert cut.positive.text in whole.positive.text
    seen = {e.positive.id for number in range(20) for e in passages.epoch(number) if e.query.id == "q0"}
    assert len(seen) == len(ranker.split([sampler.collection.documents["good0"]])[0].spans)


def test_the_candidate_sampler_skips_and_names_what_it_cannot_use(collection: Collection, candidates: Run) -> None:
    sampler = CandidateSampler(collection, candidates, (*collection.queries, "unknown"), negatives=2)
    assert sampler.skipped == ("unknown",)
    assert len(sampler) == 6
    assert ids(sampler, 0) == ids(sampler, 0) != ids(sampler, 1)


def test_passages_are_paired_with_a_negative_of_their_query(collection: Collection) -> None:
    sampler = PassageSampler(collection.queries, {"q0": "right"}, {"q0": ["wrong", "worse"]}, ("q0",))
    found = [e for number in range(20) for e in sampler.epoch(number)]
    assert {e.positive.text for e in found} == {"right"}
    assert {d.text for e in found for d in e.negatives} == {"wrong", "worse"}


def test_candidates_that_the_collection_lacks_are_no_negatives(collection: Collection, candidates: Run) -> None:
    lacking = replace(collection, documents={k: v for k, v in collection.documents.items() if k != "bad0"})
    sampler = CandidateSampler(lacking, candidates, ("q0",), negatives=2, depth=4)
    assert negatives_of(sampler, "q0") == {"bad1", "bad2"}  # of good0, bad0, bad1, bad2


def test_a_teacher_is_asked_about_every_passage(collection: Collection) -> None:
    class Length:
        def score(self, query: Query, documents: list[Document]) -> Scores:
            return Scores([float(len(document.text)) for document in documents])

    teach = ranker_teaches(Length())  # type: ignore[arg-type]
    sampler = PassageSampler(collection.queries, {"q0": "right"}, {"q0": ["wrong one", "worse"]}, ("q0",))
    examples = [example for number in range(10) for example in sampler.epoch(number)]
    scores = {example.negatives[0].text: teach(example.query, example.negatives)[0] for example in examples}
    assert scores == {"wrong one": 9.0, "worse": 5.0}
