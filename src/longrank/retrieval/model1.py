"""Lexical translation (IBM Model 1): how well a document's words explain a query's, learned from pairs by EM."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from longrank.core.disk import atomic_folder
from longrank.core.errors import DataError, TrainingError
from longrank.core.progress import track
from longrank.core.settings import Settings
from longrank.core.types import Document, Qrels, Query, Run
from longrank.retrieval.analysis import Analyzer
from longrank.retrieval.bm25 import BM25
from longrank.retrieval.expansion import word_segments
from longrank.retrieval.ids import mapped

Numbers = NDArray[np.float64]
Longs = NDArray[np.int64]
ABSENT_PROBABILITY = 1e-9  # of a query term that the collection does not have


class TrainingSettings(Settings):
    """How the table is learned."""

    iterations: int = Field(5, ge=1)
    prune_below: float = Field(1e-3, ge=0, lt=1)
    null_word: bool = True  # an empty word in every passage takes up what no word explains


class Model1Settings(Settings):
    """How the table is used; the defaults are those tuned in the papers."""

    self_translation: float = Field(0.05, ge=0, lt=1)
    background: float = Field(0.1, gt=0, lt=1)  # lambda, the weight of the collection model
    min_probability: float = Field(5e-4, ge=0, lt=1)


@dataclass(frozen=True, eq=False)
class TranslationTable:
    """T(query term | passage term), query term by query term; each passage term's row summed to one before pruning."""

    terms: tuple[str, ...]
    starts: Longs  # [terms + 1], by query term
    sources: NDArray[np.int32]  # [entries], passage terms, rising
    probabilities: NDArray[np.float32]  # [entries]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each term."""
        return {term: number for number, term in enumerate(self.terms)}

    def __len__(self) -> int:
        return len(self.sources)

    def probability(self, query_term: str, passage_term: str) -> float:
        """T(query term | passage term), 0 where the table has none."""
        target, source = self.numbers.get(query_term), self.numbers.get(passage_term)
        if target is None or source is None:
            return 0.0
        part = slice(self.starts[target], self.starts[target + 1])
        return float(self.probabilities[part][self.sources[part] == source].sum())

    def save(self, folder: Path) -> None:
        """Write the table, whole or not at all."""
        with atomic_folder(folder, mark="terms.json", what="a translation table") as temporary:
            (temporary / "terms.json").write_text(json.dumps(self.terms, ensure_ascii=False), encoding="utf-8")
            for name in ("starts", "sources", "probabilities"):
                np.save(temporary / f"{name}.npy", getattr(self, name))

    @classmethod
    def load(cls, folder: Path) -> "TranslationTable":
        """The table in a folder, memory-mapped."""
        try:
            terms = json.loads((folder / "terms.json").read_text(encoding="utf-8"))
            arrays = [mapped(folder / f"{name}.npy") for name in ("starts", "sources", "probabilities")]
        except (OSError, ValueError) as error:
            raise DataError(f"{folder} holds no readable translation table: {error}") from None
        return cls(tuple(terms), *arrays)


def train_model1(
    pairs: Iterable[tuple[str, str]], analyzer: Analyzer, settings: TrainingSettings | None = None
) -> TranslationTable:
    """The table learned from (query, relevant passage) texts.

    Memory is about 20 bytes for each query word times distinct passage word of each pair: use passages, not whole
    documents. Brown et al. 1993.
    """
    settings = settings or TrainingSettings()
    terms: dict[str, int] = {}
    links = _links(pairs, analyzer, terms, null_word=settings.null_word)
    width = len(terms) + 1  # the null word comes after the last term
    cells, cell = np.unique(links.targets * width + links.sources, return_inverse=True)
    sources = cells % width
    probabilities: Numbers = np.ones(len(cells))
    for _ in track(range(settings.iterations), "training Model 1", total=settings.iterations):
        explained = probabilities[cell] * links.counts
        shares = explained / np.bincount(links.words, explained)[links.words]
        expected = np.bincount(cell, shares, minlength=len(cells))
        probabilities = expected / np.bincount(sources, expected)[sources]
    kept = (probabilities >= settings.prune_below) & (sources < len(terms))
    targets = cells[kept] // width
    starts = np.zeros(len(terms) + 1, dtype=np.int64)
    np.cumsum(np.bincount(targets, minlength=len(terms)), out=starts[1:])
    return TranslationTable(
        tuple(terms), starts, sources[kept].astype(np.int32), probabilities[kept].astype(np.float32)
    )


class Model1:
    """Scores candidates by translation: the mean over query terms of the log gain over the collection model.

    ln((1 - lambda) sum_d T(q|d) tf_d / |D| + lambda P(q|C)) - ln(lambda P(q|C)), where T gives a term
    ``self_translation`` to itself and the rest to the table. Combine with BM25 by ``fusion.best_weight``.
    """

    def __init__(self, table: TranslationTable, index: BM25, settings: Model1Settings | None = None) -> None:
        self.table, self.index = table, index
        self.settings = settings or Model1Settings()

    def rescore(self, queries: Iterable[Query], candidates: Run) -> Run:
        """Model 1 scores of a run's documents; 0 for a document that explains nothing of its query."""
        rows = {}
        for query in queries:
            places = np.array(self.index.postings.ids.rows(candidates, query.id), dtype=np.int64)
            scores = self._scores(Counter(self.index.terms(query)), places)
            rows[query.id] = dict(zip(candidates.scores.get(query.id, {}), scores.tolist(), strict=True))
        return Run("model1", rows)

    def _scores(self, query: Counter[str], rows: Longs) -> Numbers:
        total: Numbers = np.zeros(len(rows))
        if not query or not len(rows):
            return total
        postings, rules = self.index.postings, self.settings
        starts, stops = postings.forward_starts[rows], postings.forward_starts[rows + 1]
        places = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
        owners = np.repeat(np.arange(len(rows)), stops - starts)
        terms = postings.forward_terms[places]
        shares = postings.forward_counts[places] / postings.lengths[rows][owners]
        for term, count in query.items():
            translated = np.bincount(owners, self._translations(term)[terms] * shares, minlength=len(rows))
            floor = rules.background * self._collection_probability(term)
            total += count * np.log(((1 - rules.background) * translated + floor) / floor)
            self._clear(term)
        return total / query.total()

    @cached_property
    def _scratch(self) -> Numbers:
        return np.zeros(len(self.index.postings.vocabulary))

    @cached_property
    def _index_number(self) -> Longs:
        """The index's number of each term of the table, -1 where it has none."""
        vocabulary = self.index.postings.vocabulary
        return np.array([vocabulary.get(term, -1) for term in self.table.terms], dtype=np.int64)

    def _entries(self, term: str) -> tuple[Longs, Numbers]:
        """Numbers (of the index) and probabilities of the terms that translate into this one."""
        number = self.table.numbers.get(term)
        if number is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        part = slice(self.table.starts[number], self.table.starts[number + 1])
        sources = self._index_number[self.table.sources[part]]
        probabilities = self.table.probabilities[part].astype(np.float64)
        used = (sources >= 0) & (probabilities >= self.settings.min_probability)
        return sources[used], probabilities[used]

    def _translations(self, term: str) -> Numbers:
        """T(term | every term of the index), in an array that ``_clear`` must empty again."""
        sources, probabilities = self._entries(term)
        self._scratch[sources] = (1 - self.settings.self_translation) * probabilities
        own = self.index.postings.vocabulary.get(term)
        if own is not None:
            self._scratch[own] += self.settings.self_translation
        return self._scratch

    def _clear(self, term: str) -> None:
        self._scratch[self._entries(term)[0]] = 0.0
        own = self.index.postings.vocabulary.get(term)
        if own is not None:
            self._scratch[own] = 0.0

    def _collection_probability(self, term: str) -> float:
        postings = self.index.postings
        number = postings.vocabulary.get(term)
        if number is None:
            return ABSENT_PROBABILITY
        count = postings.counts[postings.starts[number] : postings.starts[number + 1]].sum(dtype=np.int64)
        return float(count) / float(postings.lengths.sum(dtype=np.int64))


def training_pairs(
    queries: Iterable[Query], qrels: Qrels, documents: Mapping[str, Document], analyzer: Analyzer, *, words: int = 200
) -> Iterator[tuple[str, str]]:
    """Each query with each of its relevant documents, of which the ``words`` in a row that share most terms with it.

    Of equal pieces the first is taken; a judged document that is not there is passed over.
    """
    for query in queries:
        wanted = set(analyzer.terms(query.text))
        for document_id in sorted(qrels.relevant(query.id)):
            if document_id in documents:
                pieces = word_segments(documents[document_id].text, words) or [""]
                yield query.text, max(pieces, key=lambda piece: len(wanted.intersection(analyzer.terms(piece))))


@dataclass(frozen=True, eq=False)
class _Links:
    """Every (query word, distinct passage term) of every pair."""

    words: Longs  # which query word, counted over all pairs
    targets: Longs
    sources: Longs
    counts: Numbers  # of the passage term in the passage


def _links(pairs: Iterable[tuple[str, str]], analyzer: Analyzer, terms: dict[str, int], *, null_word: bool) -> _Links:
    words: list[Longs] = []
    targets: list[Longs] = []
    sources: list[Longs] = []
    counts: list[Numbers] = []
    seen = 0
    for query, passage in pairs:
        wanted = _number(analyzer.terms(query), terms)
        given = Counter(_number(analyzer.terms(passage), terms))
        if null_word:
            given[-1] = 1
        if not wanted or not given:
            continue
        count = len(wanted)
        words.append(np.repeat(np.arange(seen, seen + count), len(given)))
        targets.append(np.repeat(wanted, len(given)))
        sources.append(np.tile(np.fromiter(given, dtype=np.int64), count))
        counts.append(np.tile(np.fromiter(given.values(), dtype=np.float64), count))
        seen += count
    if not words:
        raise TrainingError("Model 1 needs at least one pair in which both query and passage have words")
    found = np.concatenate(sources)
    found[found < 0] = len(terms)
    return _Links(np.concatenate(words), np.concatenate(targets), found, np.concatenate(counts))


def _number(words: Sequence[str], terms: dict[str, int]) -> list[int]:
    return [terms.setdefault(word, len(terms)) for word in words]
