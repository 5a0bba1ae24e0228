"""Negatives of several kinds from several named candidate sets, held as numbers: texts are fetched as they are used."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from longrank.core.errors import TrainingError
from longrank.core.seeds import generator
from longrank.core.settings import Settings
from longrank.core.types import Collection, Document, IntArray, Run
from longrank.training.examples import TrainExample


class NegativeSettings(Settings):
    """How many negatives of each kind stand beside a positive."""

    hard: int = Field(1, ge=0, description="from the top of the candidate sets")
    hard_depth: int = Field(100, ge=1, description="how deep the top goes, in each set")
    medium: int = Field(0, ge=0, description="from the candidates below the top")
    medium_depth: int = Field(1000, ge=1)
    random: int = Field(0, ge=0, description="from the whole collection")
    judged: bool = Field(False, description="documents judged not relevant join the hard ones")

    @model_validator(mode="after")
    def _some(self) -> "NegativeSettings":
        if not self.count:
            raise ValueError("at least one negative is needed: raise hard, medium or random")
        if self.medium and self.medium_depth <= self.hard_depth:
            raise ValueError(f"medium_depth {self.medium_depth} must lie below hard_depth {self.hard_depth}")
        return self

    @property
    def count(self) -> int:
        """Negatives a positive has."""
        return self.hard + self.medium + self.random


_NOTHING: IntArray = np.array([], dtype=np.int32)


class _Pool(NamedTuple):
    """Documents of a query, by number."""

    positives: IntArray
    hard: IntArray
    medium: IntArray


class PoolSampler:
    """Every usable query once an epoch, with one positive and negatives as the settings say.

    Of several candidate sets the tops are joined. A negative is never judged relevant. ``skipped`` counts the queries
    that cannot be used, by reason.
    """

    def __init__(
        self,
        collection: Collection,
        candidates: Mapping[str, Run],
        query_ids: Sequence[str],
        *,
        negatives: NegativeSettings,
        seed: int = 0,
    ) -> None:
        self.collection, self.negatives, self.seed = collection, negatives, seed
        self.skipped: Counter[str] = Counter()
        self._numbers: dict[str, int] = {}
        self._pools: dict[str, _Pool] = {}
        for query_id in query_ids:
            pool = self._pool(query_id, candidates)
            reason = self._unusable(query_id, pool)
            if reason is None:
                self._pools[query_id] = pool
            else:
                self.skipped[reason] += 1
        self._ids = list(self._numbers)
        if not self._pools:
            why = ", ".join(f"{count} have {reason}" for reason, count in self.skipped.most_common())
            raise TrainingError(
                f"none of the {len(query_ids)} training queries can be used ({why or 'there is none'}): check that "
                "runs, judgements and documents belong together, or ask for fewer negatives"
            )

    def __len__(self) -> int:
        return len(self._pools)

    @property
    def query_ids(self) -> list[str]:
        """The usable queries."""
        return sorted(self._pools)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every usable query with each of its relevant documents."""
        for query_id in self.query_ids:
            yield from ((query_id, self._ids[number]) for number in self._pools[query_id].positives)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Every usable query once, in a shuffled order."""
        rng = generator(f"train-pools-epoch-{number}", self.seed)
        queries = self.query_ids
        for place in rng.permutation(len(queries)):
            positives = self._pools[queries[place]].positives
            yield self.example(queries[place], self._ids[positives[rng.integers(len(positives))]], rng=rng)

    def example(self, query_id: str, positive: str, *, rng: np.random.Generator) -> TrainExample:
        """A usable query and this relevant document of it, with negatives drawn."""
        pool, documents = self._pools[query_id], self.collection.documents
        chosen = [*_draw(rng, pool.hard, self.negatives.hard), *_draw(rng, pool.medium, self.negatives.medium)]
        found = [documents[self._ids[number]] for number in chosen]
        if self.negatives.random:
            relevant = self.collection.qrels.relevant(query_id)
            found += self._random(rng, avoid=relevant | {document.id for document in found})
        return TrainExample(self.collection.queries[query_id], documents[positive], tuple(found))

    def _random(self, rng: np.random.Generator, *, avoid: frozenset[str]) -> list[Document]:
        found: list[Document] = []
        while len(found) < self.negatives.random:
            document_id = self._everything[rng.integers(len(self._everything))]
            if document_id not in avoid:
                found.append(self.collection.documents[document_id])
                avoid |= {document_id}
        return found

    @cached_property
    def _everything(self) -> list[str]:
        return sorted(self.collection.documents)

    def _pool(self, query_id: str, candidates: Mapping[str, Run]) -> _Pool:
        settings, documents = self.negatives, self.collection.documents
        relevant = self.collection.qrels.relevant(query_id)
        rankings = [run.ranking(query_id) for run in candidates.values()]
        hard = dict.fromkeys(d for ranking in rankings for d in ranking[: settings.hard_depth])
        if settings.judged:
            hard |= dict.fromkeys(self.collection.qrels.grades.get(query_id, {}))
        medium: dict[str, None] = {}
        if settings.medium:
            deep = slice(settings.hard_depth, settings.medium_depth)
            medium = dict.fromkeys(d for ranking in rankings for d in ranking[deep] if d not in hard)
        return _Pool(
            self._numbered([d for d in sorted(relevant) if d in documents]),
            self._numbered([d for d in hard if d not in relevant and d in documents]),
            self._numbered([d for d in medium if d not in relevant and d in documents]),
        )

    def _numbered(self, ids: Sequence[str]) -> IntArray:
        if not ids:  # of 350,000 queries without medium negatives, all share this one
            return _NOTHING
        return np.array([self._numbers.setdefault(d, len(self._numbers)) for d in ids], dtype=np.int32)

    def _unusable(self, query_id: str, pool: _Pool) -> str | None:
        settings = self.negatives
        if query_id not in self.collection.queries:
            return "no text"
        if not len(pool.positives):
            return "no relevant document"
        if len(pool.hard) < settings.hard or len(pool.medium) < settings.medium:
            return "too few negatives"
        relevant = len(self.collection.qrels.relevant(query_id)) if settings.random else 0
        if settings.random and len(self.collection.documents) - relevant < settings.count:
            return "too few negatives"
        return None


def _draw(rng: np.random.Generator, pool: IntArray, count: int) -> IntArray:
    return rng.choice(pool, size=count, replace=False) if count else pool[:0]
