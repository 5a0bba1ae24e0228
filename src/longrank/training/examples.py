"""Training examples: a query, a relevant document and others that are not."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from longrank.core.errors import TrainingError
from longrank.core.seeds import generator
from longrank.core.types import Collection, Document, Query, Run


@dataclass(frozen=True)
class TrainExample:
    """One step's worth of ranking: the positive should score above every negative.

    Its loss is multiplied by ``weight``; weights that average 1 leave the size of the updates as it is.
    """

    query: Query
    positive: Document
    negatives: tuple[Document, ...]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise TrainingError(f"an example's weight is a number from 0 on, got {self.weight} at {self.query.id!r}")


class Sampler(Protocol):
    """Examples of an epoch; the same epoch always gives the same examples in the same order."""

    def __len__(self) -> int: ...

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Examples of epoch 0, 1, ..., texts fetched as they are consumed."""
        ...


@dataclass(frozen=True)
class CandidateSampler:
    """One positive from the judgements and hard negatives from the candidates, drawn anew every epoch.

    A negative is a candidate of the collection that is not judged relevant. Queries without a positive or without
    enough negatives are left out; ``skipped`` names them.
    """

    collection: Collection
    candidates: Run
    query_ids: tuple[str, ...]
    negatives: int = 1
    depth: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not self._pools:
            raise TrainingError(
                f"none of the {len(self.query_ids)} training queries has both a relevant document and "
                f"{self.negatives} other candidates: check that run, judgements and documents belong together"
            )

    def __len__(self) -> int:
        return len(self._pools)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Queries that cannot be trained on."""
        usable = self._pools
        return tuple(query_id for query_id in self.query_ids if query_id not in usable)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Every usable query once, in a shuffled order."""
        rng = generator(f"train-examples-epoch-{number}", self.seed)
        pools = self._pools
        ids = sorted(pools)
        for place in rng.permutation(len(ids)):
            query_id = ids[place]
            relevant, others = pools[query_id]
            positive = relevant[rng.integers(len(relevant))]
            chosen = rng.choice(len(others), size=self.negatives, replace=False)
            documents = self.collection.documents
            yield TrainExample(
                self.collection.queries[query_id], documents[positive], tuple(documents[others[i]] for i in chosen)
            )

    @cached_property
    def _pools(self) -> Mapping[str, tuple[list[str], list[str]]]:
        pools = {}
        for query_id in self.query_ids:
            judged, documents = self.collection.qrels.relevant(query_id), self.collection.documents
            relevant = sorted(d for d in judged if d in documents)
            top = self.candidates.ranking(query_id)[: self.depth]
            others = [d for d in top if d not in judged and d in documents]
            if relevant and len(others) >= self.negatives and query_id in self.collection.queries:
                pools[query_id] = (relevant, others)
        return pools


@dataclass(frozen=True)
class PassageSampler:
    """Examples from passages rather than documents: a cheap warm-up of the backbone."""

    queries: Mapping[str, Query]
    positives: Mapping[str, str]
    negatives: Mapping[str, Sequence[str]]
    query_ids: tuple[str, ...]
    seed: int = 0

    def __len__(self) -> int:
        return len(self.query_ids)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Every query once, with one of its negative passages."""
        rng = generator(f"train-passages-epoch-{number}", self.seed)
        for place in rng.permutation(len(self.query_ids)):
            query_id = self.query_ids[place]
            wrong = self.negatives[query_id]
            chosen = int(rng.integers(len(wrong)))
            yield TrainExample(
                self.queries[query_id],
                Document("positive", self.positives[query_id]),
                (Document(f"negative-{chosen}", wrong[chosen]),),
            )


def examples_per_epoch(sampler: Sampler, limit: int | None, *, repeats: int = 1) -> int:
    """Examples an epoch has when the sampler is gone through ``repeats`` times, at most ``limit``."""
    every = len(sampler) * repeats
    return every if limit is None else min(limit, every)
