"""FarRelevant from any passage collection, and its counterbalanced forms.

Every relevant passage is planted in a document of filler, at a place that a policy draws; gold spans say where. With
the default policy this is the positional-bias paper's MS MARCO FarRelevant. Distractor documents come from the same
generator, each with a hard passage planted where the evidence could stand, and are judged 0.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from pydantic import Field

from longrank.core.contracts import Tokenizer
from longrank.core.errors import SettingsError
from longrank.core.progress import track
from longrank.core.seeds import generator
from longrank.core.settings import Settings
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, Run, TokenSpan
from longrank.synthetic.assembling import Assembled, Placing, Pool, assemble
from longrank.synthetic.evidence import Divided, Division, Need, divide
from longrank.synthetic.passages import Passages, count_passages, in_blocks

BLOCK = 512  # documents drawn together; part of what the bytes depend on


class FarRelevantSettings(Settings):
    """What is made; hard passages of distractor documents are placed by the policy of the evidence, or anywhere.

    With ``slots`` every document is written that many times, its evidence moved through as many places from first to
    last and all else the same: counterfactuals, named ``<query>_<passage>_s<slot>``.
    """

    seed: int = 0
    placing: Placing = Placing()
    division: Division = Division()
    distractors: int = Field(default=0, ge=0)
    distractor_places: Literal["policy", "anywhere"] = "policy"
    slots: int = Field(default=0, ge=0)


@dataclass(frozen=True, slots=True)
class Made:
    """A document, the query it was made for, the queries it answers, and where the planted passages stand.

    ``answers`` is empty for a distractor document; ``slot`` says which of its counterfactuals a document is, from 0.
    """

    document: Document
    query_id: str
    tokens: int
    chars: tuple[CharSpan, ...]
    spans: tuple[TokenSpan, ...]
    answers: tuple[tuple[str, int], ...]  # (query id, which of the planted passages)
    slot: int = 0

    @property
    def gold(self) -> tuple[GoldSpan, ...]:
        """Evidence of every query that the document answers."""
        return tuple(GoldSpan(q, self.document.id, self.chars[place], "planted") for q, place in self.answers)

    @property
    def grades(self) -> dict[str, int]:
        """Judgements: 1 for every query it answers, 0 for the query it distracts."""
        return dict.fromkeys((q for q, _ in self.answers), 1) or {self.query_id: 0}


@dataclass(frozen=True, eq=False)
class FarRelevant:
    """A collection that is made while it is read: nothing but the passages is held."""

    name: str
    queries: Mapping[str, Query]
    divided: Divided
    pool: Pool
    settings: FarRelevantSettings
    hard: Mapping[str, tuple[int, ...]]

    @property
    def splits(self) -> Mapping[str, tuple[str, ...]]:
        """Query ids by split; no two splits share a passage."""
        return self.divided.splits

    def documents(self, *, workers: int = 1) -> Iterator[Made]:
        """Documents in the order of the queries, each before its distractors; the same for any number of workers."""
        blocks = list(in_blocks(len(self.divided.needs), BLOCK))
        made = map(self.block, blocks) if workers == 1 else _shared_out(self, blocks, workers)
        for one in track(made, f"making {self.name}", total=len(blocks)):
            yield from one

    def block(self, numbers: range) -> list[Made]:
        """Documents of some needs: a pure function of settings and numbers."""
        needs, passages = self.divided.needs[numbers.start : numbers.stop], self.pool.passages
        rows = [tuple(map(passages.row, need.passage_ids)) for need in needs]
        rng = generator(f"far-relevant/{numbers.start}", self.settings.seed)
        found = assemble(rows, self.pool, self.settings.placing, numbers=numbers, rng=rng)
        distractors = self._distractors(needs, numbers) if self.settings.distractors else [()] * len(needs)
        made: list[Made] = []
        for need, one, others in zip(needs, found, distractors, strict=True):
            if one is not None:
                made += self._versions(need, one)
                made += others
        return made

    def _versions(self, need: Need, one: Assembled) -> list[Made]:
        if not self.settings.slots:
            return [self._made(need, one, need.document_id)]
        versions = one.moved(self.settings.slots)
        return [self._made(need, version, f"{need.document_id}_s{k}", slot=k) for k, version in enumerate(versions)]

    def _made(self, need: Need, one: Assembled, document_id: str, *, slot: int = 0) -> Made:
        passages = self.pool.passages
        order = {one.rows[place]: i for i, place in enumerate(one.planted)}
        answers = tuple(
            (query_id, order[passages.rows[name]])
            for name in need.passage_ids
            for query_id in self.divided.asking[name]
        )
        return replace(_finished(document_id, need.query_id, one, passages, answers), slot=slot)

    def _distractors(self, needs: Sequence[Need], numbers: range) -> list[tuple[Made, ...]]:
        count, settings = self.settings.distractors, self.settings
        rng = generator(f"far-relevant/distractors/{numbers.start}", settings.seed)
        planted: list[tuple[int, ...]] = []
        for need in needs:
            hard = self.hard.get(need.query_id, ())
            chosen = [hard[i] for i in rng.permutation(len(hard))[:count].tolist()]
            chosen += self.pool.rows[rng.integers(len(self.pool.rows), size=count - len(chosen))].tolist()
            planted += [(row,) for row in chosen]
        turns = [number for number in numbers for _ in range(count)]  # a distractor is as long as its document may be
        found = assemble(planted, self.pool, settings.placing, numbers=turns, rng=rng)
        if settings.distractor_places == "anywhere":
            found = [one and one.at(int(rng.integers(one.places))) for one in found]
        return [
            tuple(
                _finished(f"{need.document_id}_n{k}", need.query_id, one, self.pool.passages, ())
                for k, one in enumerate(found[i * count : (i + 1) * count])
                if one is not None
            )
            for i, need in enumerate(needs)
        ]

    def collection(self, *, workers: int = 1) -> Collection:
        """Everything in memory, with judgements and gold spans."""
        documents, spans, grades = {}, list[GoldSpan](), dict[str, dict[str, int]]()
        for made in self.documents(workers=workers):
            documents[made.document.id] = made.document
            spans += made.gold
            for query_id, grade in made.grades.items():
                grades.setdefault(query_id, {})[made.document.id] = grade
        queries = {query_id: self.queries[query_id] for query_id in self.queries if query_id in grades}
        return Collection(self.name, documents, queries, Qrels(grades), tuple(spans))


def far_relevant(
    collection: Collection,
    tokenizer: Tokenizer,
    settings: FarRelevantSettings,
    *,
    passages: Passages | None = None,
    reserved: Iterable[str] = (),
    hard: Mapping[str, Sequence[str]] | None = None,
) -> FarRelevant:
    """A FarRelevant collection of a passage collection's queries and judgements.

    ``passages`` are the collection's, counted beforehand; ``reserved`` names passages that must not be filler because
    other splits judge them; ``hard`` gives each query's hard passages, best first, of which only filler is used.

    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> texts = [Document(f"p{i}", f"passage number{i} speaks of nothing else") for i in range(60)]
    >>> judged = Collection("c", {d.id: d for d in texts}, {"q": Query("q", "number7")}, Qrels({"q": {"p7": 1}}))
    >>> wanted = FarRelevantSettings(placing=Placing(boundary=40, max_tokens=90))
    >>> (made,) = far_relevant(judged, WordTokenizer(), wanted).documents()
    >>> made.document.id, made.spans[0].start > 40, made.tokens <= 90
    ('q_p7', True, True)
    """
    divided = divide(collection, settings.division, reserved=reserved)
    counted = passages or count_passages(collection.documents.values(), tokenizer)
    pool = divided.pool(counted)
    asked = {need.query_id for need in divided.needs}
    return FarRelevant(
        name=f"{collection.name}-far-relevant",
        queries={name: query for name, query in collection.queries.items() if name in asked},
        divided=divided,
        pool=pool,
        settings=settings,
        hard=_usable(hard or {}, asked, pool),
    )


def hard_passages(run: Run, *, depth: int = 100) -> dict[str, tuple[str, ...]]:
    """Best passages of each query of a passage run, as hard passages to plant; evidence is left out later."""
    return {query_id: tuple(run.ranking(query_id)[:depth]) for query_id in run}


def same_topic(collection: Collection) -> dict[str, tuple[str, ...]]:
    """Passages with the title of a query's relevant passages that are there, as hard passages to plant."""
    by_title: dict[str, list[str]] = {}
    for document in collection.documents.values():
        if document.title:
            by_title.setdefault(document.title, []).append(document.id)
    found = {}
    for query_id in collection.queries:
        relevant = [collection.documents.get(name) for name in sorted(collection.qrels.relevant(query_id))]
        titles = {document.title for document in relevant if document}
        found[query_id] = tuple(name for title in sorted(titles) for name in by_title.get(title, ()))
    return found


def _usable(hard: Mapping[str, Sequence[str]], asked: set[str], pool: Pool) -> dict[str, tuple[int, ...]]:
    free = set(pool.rows.tolist()) if hard else set()
    rows = pool.passages.rows
    return {q: tuple(rows[p] for p in row if rows.get(p, -1) in free) for q, row in hard.items() if q in asked}


def _finished(
    document_id: str, query_id: str, one: Assembled, passages: Passages, answers: tuple[tuple[str, int], ...]
) -> Made:
    document = Document(document_id, one.text(passages))
    return Made(document, query_id, one.tokens(passages), one.char_spans(passages), one.token_spans(passages), answers)


_SHARED: list[FarRelevant] = []  # of a worker process: the maker, sent once


def _start(maker: FarRelevant) -> None:
    _SHARED[:] = [maker]


def _block(numbers: range) -> list[Made]:
    return _SHARED[0].block(numbers)


def _shared_out(maker: FarRelevant, blocks: Sequence[range], workers: int) -> Iterator[list[Made]]:
    """Blocks in their order, a few ahead of the reader and no more."""
    if workers < 1:
        raise SettingsError(f"workers must be at least 1, got {workers}")
    with ProcessPoolExecutor(workers, initializer=_start, initargs=(maker,)) as executor:
        left = iter(blocks)
        ahead: deque[Future[list[Made]]] = deque(executor.submit(_block, b) for b in islice(left, 2 * workers))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(executor.submit(_block, b) for b in islice(left, 1))
