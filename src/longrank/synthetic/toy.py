"""The toy world: two collections of the same passages and queries, alike but for where the relevant passage stands.

``toy`` puts it where MS MARCO's stand, mostly first; ``toy-far`` puts it behind all that a short model reads. Each
query asks for one attribute of one entity, each entity is asked about at most once, and the splits share no entity. All
other passages are filler, so no document but its own states a query's answer.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from longrank.chunking.tokenizers import bert_tokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.progress import track
from longrank.core.seeds import generator
from longrank.core.settings import Settings
from longrank.core.types import Collection, Document, GoldSpan, Qrels, Query
from longrank.corpora.catalog.encyclopedia import ATTRIBUTES_PER_ENTITY, MAX_PASSAGES, Encyclopedia, questions
from longrank.synthetic.placing import Piece, Placed, place_as_msmarco, place_far

SPLITS = ("test", "dev", "train")  # in the order they draw entities: more training queries leave the others alone
NEGATIVES_PER_KIND = 5
MIN_PASSAGES = 2_000


@dataclass(frozen=True)
class Scale:
    """Lengths in tokens that belong together: what a model takes in, and documents to fit.

    ``passages_per_query`` grows with the documents, so that a filler passage stands in about one document either way.
    """

    input_tokens: int
    query_tokens: int
    chunk_tokens: int
    window_tokens: int
    window_stride: int
    far_boundary: int
    max_tokens: int
    passages_per_query: int


SCALES: Mapping[str, Scale] = {
    "paper": Scale(512, 32, 477, 150, 100, far_boundary=512, max_tokens=1431, passages_per_query=24),
    "laptop": Scale(128, 16, 109, 36, 24, far_boundary=128, max_tokens=327, passages_per_query=6),
}


class ToySettings(Settings):
    """How large a toy world is made; the defaults are those of ``longrank make toy``."""

    seed: int = 0
    scale: Literal["paper", "laptop"] = "laptop"
    train: int = Field(default=1_600, ge=0)
    dev: int = Field(default=100, ge=0)
    test: int = Field(default=200, ge=0)
    passages: int | None = Field(default=None, ge=MIN_PASSAGES, le=MAX_PASSAGES)

    @model_validator(mode="after")
    def _enough_entities(self) -> "ToySettings":
        fitting = (self.passages or MAX_PASSAGES) // ATTRIBUTES_PER_ENTITY
        if not 1 <= self.queries <= fitting:
            raise ValueError(
                f"{self.queries} queries cannot be made: each needs an entity of its own, of {ATTRIBUTES_PER_ENTITY} "
                f"passages. Ask for 1 to {fitting} queries, or for more passages (at most {MAX_PASSAGES})."
            )
        return self

    @property
    def queries(self) -> int:
        """Queries of all splits."""
        return self.train + self.dev + self.test

    @property
    def passage_count(self) -> int:
        """Passages asked for, else what suits the scale: more would thin out the hard negatives, fewer crowd them."""
        usual = max(MIN_PASSAGES, self.lengths.passages_per_query * self.queries)
        return self.passages or min(MAX_PASSAGES, usual)

    @property
    def lengths(self) -> Scale:
        """The lengths of the scale."""
        return SCALES[self.scale]


@dataclass(frozen=True)
class ToyWorld:
    """Both collections, the query ids of each split, and the passages behind them.

    ``evidence`` holds the relevant passage of each query; ``negatives`` first the other passages about its entity, then
    passages that state the same attribute of other entities, those with similar names first.
    """

    toy: Collection
    far: Collection
    splits: Mapping[str, tuple[str, ...]]
    evidence: Mapping[str, str]
    negatives: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Need:
    """A query and the passage that answers it."""

    query: Query
    passage: int

    @property
    def document_id(self) -> str:
        return f"{self.query.id}_p{self.passage}"


def make_toy(settings: ToySettings, tokenizer: Tokenizer | None = None) -> ToyWorld:
    """The toy world of these settings; lengths are counted by the tokenizer, else by the uncased BERT vocabulary.

    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> world = make_toy(ToySettings(train=4, dev=1, test=2), WordTokenizer())
    >>> len(world.far.documents), world.splits["test"]
    (7, ('q0', 'q1'))
    """
    book, lengths = Encyclopedia(settings.seed), settings.lengths
    needs, splits = _needs(settings, book)
    asked = {need.passage for need in needs}
    pool = np.setdiff1d(np.arange(settings.passage_count), np.fromiter(asked, dtype=np.int64), assume_unique=True)
    pieces = _Pieces(book, tokenizer or bert_tokenizer())

    def near(need: _Need, rng: np.random.Generator) -> Placed:
        relevant, filler = pieces[need.passage], pieces.drawn(pool, rng)
        return place_as_msmarco(relevant, filler, chunk_tokens=lengths.chunk_tokens, rng=rng)

    def far(need: _Need, rng: np.random.Generator) -> Placed:
        relevant, filler = pieces[need.passage], pieces.drawn(pool, rng)
        return place_far(relevant, filler, boundary=lengths.far_boundary, max_tokens=lengths.max_tokens, rng=rng)

    return ToyWorld(
        toy=_collection("toy", needs, near, seed=settings.seed),
        far=_collection("toy-far", needs, far, seed=settings.seed),
        splits=splits,
        evidence={need.query.id: pieces[need.passage].text for need in needs},
        negatives={need.query.id: _negatives(need, book, asked, settings) for need in needs},
    )


class _Pieces:
    """Passages with their token counts, made and counted once each."""

    def __init__(self, book: Encyclopedia, tokenizer: Tokenizer) -> None:
        self._book, self._tokenizer = book, tokenizer
        self._known: dict[int, Piece] = {}

    def __getitem__(self, index: int) -> Piece:
        if index not in self._known:
            text = self._book.passage(index).text
            self._known[index] = Piece(text, len(self._tokenizer.tokenize(text)))
        return self._known[index]

    def drawn(self, pool: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator) -> Iterator[Piece]:
        """Passages of the pool at random, none twice."""
        seen: set[int] = set()
        while len(seen) < len(pool):
            index = int(pool[rng.integers(len(pool))])
            if index not in seen:
                seen.add(index)
                yield self[index]


def _needs(settings: ToySettings, book: Encyclopedia) -> tuple[list[_Need], dict[str, tuple[str, ...]]]:
    """The queries, each about an entity of its own, and their ids by split."""
    rng = generator("toy/queries", settings.seed)
    entities = rng.permutation(settings.passage_count // ATTRIBUTES_PER_ENTITY)
    sizes = {name: int(getattr(settings, name)) for name in SPLITS}
    needs = []
    for number, entity in enumerate(entities[: sum(sizes.values())].tolist()):
        passage = book.passage(entity * ATTRIBUTES_PER_ENTITY + int(rng.integers(ATTRIBUTES_PER_ENTITY)))
        text = questions(passage)[int(rng.integers(3))]
        needs.append(_Need(Query(f"q{number}", text), passage.index))
    ids = iter(need.query.id for need in needs)
    return needs, {name: tuple(next(ids) for _ in range(size)) for name, size in sizes.items()}


def _collection(
    name: str, needs: list[_Need], place: Callable[[_Need, np.random.Generator], Placed], *, seed: int
) -> Collection:
    """One document a query; its random stream depends on collection, query and seed only."""
    documents, spans = {}, []
    for need in track(needs, f"writing {name}", total=len(needs)):
        text, span = place(need, generator(f"{name}/{need.query.id}", seed)).joined()
        documents[need.document_id] = Document(need.document_id, text)
        spans.append(GoldSpan(need.query.id, need.document_id, span, "planted"))
    return Collection(
        name=name,
        documents=documents,
        queries={need.query.id: need.query for need in needs},
        qrels=Qrels({need.query.id: {need.document_id: 1} for need in needs}),
        spans=tuple(spans),
    )


def _negatives(need: _Need, book: Encyclopedia, asked: set[int], settings: ToySettings) -> tuple[str, ...]:
    """Texts of filler passages that come close: same entity, then same attribute."""
    entity, attribute = book.fact(need.passage)
    same_entity = range(entity * ATTRIBUTES_PER_ENTITY, (entity + 1) * ATTRIBUTES_PER_ENTITY)
    same_attribute = []
    for other in book.neighbours(entity):
        for passage in range(other * ATTRIBUTES_PER_ENTITY, (other + 1) * ATTRIBUTES_PER_ENTITY):
            if passage < settings.passage_count and passage not in asked and book.fact(passage)[1] == attribute:
                same_attribute.append(passage)
    chosen = [p for p in same_entity if p not in asked] + same_attribute[:NEGATIVES_PER_KIND]
    return tuple(book.passage(index).text for index in chosen)
