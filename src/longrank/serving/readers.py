"""Rankers taken apart into steps, so that several requests can share the model and a long one can be put aside."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from longrank.chunking.tokenizers import CachedTokenizer, WordTokenizer
from longrank.core.contracts import Ranker
from longrank.core.errors import BadScore, DataError
from longrank.core.types import CharSpan, Document, IntArray, Query, SplitText, TokenizedText
from longrank.encoders.rows import Encoded, Needs, Row
from longrank.rankers import masked
from longrank.rankers.cross_encoder import TwoSeparators
from longrank.rankers.embedding import EmbeddingRanker
from longrank.rankers.layouts import Joint, Layout, Selected, chosen
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.published import PaddedJoint
from longrank.rankers.scoring import encode_in_batches
from longrank.rankers.states import ChunkStates
from longrank.serving.tokens import first_tokens, patient

_PADDED_CHUNKS = 8192  # chunk vectors, padding included, that are aggregated at once
_CACHED_TOKENS = 200_000  # that a ranker which is asked whole may remember: a server must not grow


class Part(NamedTuple):
    """A chunk and the score that the document would have if the chunk were all of it."""

    chars: CharSpan
    value: float


@dataclass(frozen=True)
class Reading:
    """What one text got: its raw score, how much was read and cut, where reading ended, its parts if asked for.

    ``read_to`` is in characters and None where it is not known.
    """

    score: float
    tokens: int
    cut_tokens: int = 0
    cut_documents: int = 0
    read_to: int | None = None
    parts: tuple[Part, ...] = ()
    cut_query_tokens: int = 0


@dataclass(eq=False)
class Asked:
    """A query made ready; ``parts`` asks for the scores of chunks, ``each`` for the cut tokens of each text."""

    query: str
    tokens: TokenizedText
    parts: bool = False
    each: bool = False
    vector: Tensor | None = None
    cut_tokens: int = 0


@dataclass(eq=False)
class Opened:
    """A text made ready: the tokens of every step it takes, and what the steps have found so far."""

    asked: Asked
    text: str
    costs: Sequence[int]
    cut_tokens: int
    split: SplitText | None = None
    taken: int = 0
    found: list[Tensor] = field(default_factory=list)
    reading: Reading | None = None


class Stretch(NamedTuple):
    """Neighbouring steps of one text."""

    opened: Opened
    start: int
    stop: int

    @property
    def tokens(self) -> int:
        """What the steps cost."""
        return sum(self.opened.costs[self.start : self.stop])


class Reader(Protocol):
    """How a ranker is asked in steps. ``open`` may run beside the model; ``run`` and ``close`` are the model's thread.

    ``together`` says that all texts of a request must be run at once; ``knows_parts`` that parts cost nothing.
    """

    together: bool
    knows_parts: bool

    def ask(self, query: str, *, parts: bool, each: bool) -> Asked:
        """The query, made ready."""
        ...

    def open(self, asked: Asked, text: str, *, most_tokens: int | None) -> Opened:
        """A text, made ready."""
        ...

    def run(self, work: Sequence[Stretch]) -> None:
        """Steps of any number of texts and queries."""
        ...

    def close(self, done: Sequence[Opened]) -> list[Reading]:
        """Readings of texts of one query all of whose steps were run."""
        ...


def reader_of(ranker: Ranker, *, batch_tokens: int, listwise: bool = False) -> Reader:
    """The finest steps a ranker allows: chunks where their vectors are all it keeps, else whole documents."""
    if isinstance(ranker, torch.nn.Module):
        ranker.eval()
    if isinstance(ranker, NeuralRanker) and not listwise:
        layout = ranker.layout.inner if isinstance(ranker.layout, Selected) else ranker.layout
        if isinstance(layout, Joint | PaddedJoint | TwoSeparators) and ranker.aggregator.needs == Needs.CHUNKS:
            return NeuralReader(ranker, layout, batch_tokens)
    if isinstance(ranker, EmbeddingRanker) and not (listwise or ranker.late or ranker.batch_rows):
        return EmbeddingReader(ranker, batch_tokens)
    return WholeReader(ranker, together=listwise)


class NeuralReader:
    """A ranker that keeps one vector a chunk: chunks of all requests share batches."""

    together = False
    knows_parts = True

    def __init__(self, ranker: NeuralRanker, layout: Layout, batch_tokens: int) -> None:
        self.ranker, self.layout, self.batch_tokens = ranker, layout, batch_tokens
        self.tokenizer = patient(ranker.backbone.tokenizer)

    def ask(self, query: str, *, parts: bool, each: bool) -> Asked:
        """The query's tokens."""
        tokens = self.tokenizer.tokenize(query)
        return Asked(query, tokens, parts, each, cut_tokens=self.layout.unread(tokens))

    def open(self, asked: Asked, text: str, *, most_tokens: int | None) -> Opened:
        """The chunks that will be read."""
        opened = _split(self.ranker.splitter, self.tokenizer.tokenize(text), asked, most_tokens)
        split = _read(opened)
        (opened.split,) = chosen(self.ranker.layout, asked.tokens, [split])
        opened.cut_tokens += opened.split.cut_tokens - split.cut_tokens
        fixed = min(len(asked.tokens), self.layout.query_tokens) + self.ranker.backbone.specials.framing
        opened.costs = [len(span) + fixed for span in _read(opened).spans]
        return opened

    def run(self, work: Sequence[Stretch]) -> None:
        """Encode the chunks, rows of like length together."""
        rows: list[Row] = []
        for stretch in work:
            rows += self.layout.rows(self.ranker.backbone, stretch.opened.asked.tokens, [_part(stretch)])
        encoded = encode_in_batches(self.ranker.backbone, rows, needs=Needs.CHUNKS, budget=self.batch_tokens)
        _hand_out(work, encoded.pooled)

    def close(self, done: Sequence[Opened]) -> list[Reading]:
        """Aggregate the chunks of each text."""
        found: dict[int, Reading] = {}
        for group in _groups(done):
            vectors = torch.cat([part for opened in group for part in opened.found])
            splits = [_read(opened) for opened in group]
            asked = group[0].asked
            lengths = (0,) * len(vectors)  # only token states are found by them
            states = self.layout.states(
                Encoded(vectors, None, lengths), self.ranker.backbone.specials, asked.tokens, splits
            )
            scores = self.ranker.aggregator(states).float().tolist()
            alone = self._alone(states) if asked.parts else [[] for _ in group]
            for opened, score, values in zip(group, scores, alone, strict=True):
                found[id(opened)] = _reading(opened, score, values)
        return [found[id(opened)] for opened in done]

    def _alone(self, states: ChunkStates) -> list[list[float]]:
        """Scores of every chunk as if it were a document."""
        real = states.chunk_mask
        sizes = None if states.sizes is None else states.sizes[real][:, None]
        single = ChunkStates(states.chunks[real][:, None], real[real][:, None], sizes=sizes)
        values = self.ranker.aggregator(single).float()
        return [part.tolist() for part in torch.split(values, real.sum(1).tolist())]


class EmbeddingReader:
    """A bi-encoder over chunks: chunks and queries of all requests share batches."""

    together = False
    knows_parts = True

    def __init__(self, ranker: EmbeddingRanker, batch_tokens: int) -> None:
        self.ranker, self.batch_tokens = ranker, batch_tokens
        self.tokenizer = patient(ranker.backbone.tokenizer)
        self.prefix = self.tokenizer.tokenize(ranker.document_prefix).ids

    def ask(self, query: str, *, parts: bool, each: bool) -> Asked:
        """The tokens of the query and its prefix."""
        tokens = self.tokenizer.tokenize(self.ranker.query_prefix + query)
        return Asked(query, tokens, parts, each, cut_tokens=max(0, len(tokens) - self.ranker.query_tokens))

    def open(self, asked: Asked, text: str, *, most_tokens: int | None) -> Opened:
        """The chunks that will be read."""
        opened = _split(self.ranker.splitter, self.tokenizer.tokenize(text), asked, most_tokens)
        opened.costs = [len(span) + len(self.prefix) + 2 for span in _read(opened).spans]
        return opened

    def run(self, work: Sequence[Stretch]) -> None:
        """Encode the chunks, and the queries that have no vector yet."""
        fresh = list({id(s.opened.asked): s.opened.asked for s in work if s.opened.asked.vector is None}.values())
        rows = [self._row(asked.tokens.ids[: self.ranker.query_tokens]) for asked in fresh]
        for stretch in work:
            ids = stretch.opened.split.source.ids if stretch.opened.split else self.prefix[:0]
            rows += [self._row(np.concatenate([self.prefix, ids[s.start : s.stop]])) for s in _part(stretch).spans]
        backbone: Any = self.ranker.backbone
        encoded = encode_in_batches(backbone, rows, needs=Needs.CHUNKS, budget=self.batch_tokens)
        vectors = F.normalize(encoded.pooled.float(), dim=-1).cpu()
        for asked, vector in zip(fresh, vectors[: len(fresh)], strict=True):
            asked.vector = vector
        _hand_out(work, vectors[len(fresh) :])

    def close(self, done: Sequence[Opened]) -> list[Reading]:
        """The best chunk of each text, or the mean of all."""
        readings = []
        for opened in done:
            if opened.asked.vector is None:
                raise DataError("a text was closed before its query was read")
            similar = torch.cat(opened.found) @ opened.asked.vector
            pool = masked.maximum if self.ranker.chunks == "max" else masked.mean
            score = float(pool(similar[None], torch.ones(1, len(similar), dtype=torch.bool), dim=1))
            readings.append(_reading(opened, score, similar.tolist() if opened.asked.parts else []))
        return readings

    def _row(self, ids: IntArray) -> Row:
        specials = self.ranker.backbone.specials
        cls = [specials.cls] if specials.cls is not None else []
        sep = [specials.sep] if specials.sep is not None else []
        framed = np.concatenate([cls, ids, sep]).astype(np.int32)
        if not len(framed):
            framed = np.array([specials.pad], dtype=np.int32)
        return Row(framed, np.zeros_like(framed))


class WholeReader:
    """Any other ranker: asked about whole documents, those of one request at a time; tokens are words here."""

    knows_parts = False

    def __init__(self, ranker: Ranker, *, together: bool = False) -> None:
        self.ranker, self.together = ranker, together
        self.words = WordTokenizer()
        tokenizer = getattr(getattr(ranker, "backbone", None), "tokenizer", None)
        if isinstance(tokenizer, CachedTokenizer):
            tokenizer.max_tokens = _CACHED_TOKENS

    def ask(self, query: str, *, parts: bool, each: bool) -> Asked:
        """The query as it is."""
        return Asked(query, self.words.tokenize(query), parts, each)

    def open(self, asked: Asked, text: str, *, most_tokens: int | None) -> Opened:
        """The text, cut behind so many words."""
        if most_tokens is None:
            return Opened(asked, text, [1 + len(text) // 5], 0)
        whole = self.words.tokenize(text)
        kept = first_tokens(whole, most_tokens)
        text = text[: int(kept.char_stops[-1])] if len(kept) < len(whole) else text
        return Opened(asked, text, [1 + len(kept)], len(whole) - len(kept))

    def run(self, work: Sequence[Stretch]) -> None:
        """Ask about the texts of one query after those of another."""
        queries: dict[int, list[Opened]] = {}
        for stretch in work:
            queries.setdefault(id(stretch.opened.asked), []).append(stretch.opened)
        for texts in queries.values():
            alone = texts[0].asked.each and not self.together
            for group in [[opened] for opened in texts] if alone else [texts]:
                self._score(group)

    def close(self, done: Sequence[Opened]) -> list[Reading]:
        """What the ranker said."""
        return [opened.reading for opened in done if opened.reading is not None]

    def _score(self, group: Sequence[Opened]) -> None:
        asked = group[0].asked
        documents = [Document(str(number), opened.text) for number, opened in enumerate(group)]
        found = self.ranker.score(Query("query", asked.query), documents)
        if len(found.values) != len(group):
            raise DataError(f"the ranker gave {len(found.values)} scores for {len(group)} documents")
        for number, (opened, value) in enumerate(zip(group, found.values, strict=True)):
            score = float(value)
            if not np.isfinite(score):
                raise BadScore("the ranker gave a score that is not finite")
            # a ranker tells what it cut of all documents together: the first of them carries it
            documents_cut, tokens_cut = (found.cut_documents, found.cut_tokens) if number == 0 else (0, 0)
            opened.reading = Reading(
                score,
                sum(opened.costs) + len(asked.tokens),
                opened.cut_tokens + tokens_cut,
                max(documents_cut, int(opened.cut_tokens > 0)),
                cut_query_tokens=found.cut_query_tokens,
            )


def _split(splitter: Any, text: TokenizedText, asked: Asked, most_tokens: int | None) -> Opened:
    kept = first_tokens(text, most_tokens)
    split: SplitText = splitter.split(kept)
    return Opened(asked, text.text, (), len(text) - len(kept) + split.cut_tokens, split)


def _read(opened: Opened) -> SplitText:
    if opened.split is None:
        raise DataError("a text was read before it was split")
    return opened.split


def _part(stretch: Stretch) -> SplitText:
    split = _read(stretch.opened)
    return SplitText(split.source, split.spans[stretch.start : stretch.stop])


def _hand_out(work: Sequence[Stretch], vectors: Tensor) -> None:
    parts = torch.split(vectors, [stretch.stop - stretch.start for stretch in work])
    for stretch, part in zip(work, parts, strict=True):
        # a copy of its own: a view would keep the states of the whole batch alive
        stretch.opened.found.append(part.clone())


def _groups(done: Sequence[Opened]) -> list[list[Opened]]:
    """Texts of like numbers of chunks, so that little is padded."""
    groups: list[list[Opened]] = []
    for opened in sorted(done, key=lambda o: -len(o.costs)):
        if groups and (len(groups[-1]) + 1) * len(groups[-1][0].costs) <= _PADDED_CHUNKS:
            groups[-1].append(opened)
        else:
            groups.append([opened])
    return groups


def _reading(opened: Opened, score: float, values: Sequence[float]) -> Reading:
    if not np.isfinite(score):
        raise BadScore("the ranker gave a score that is not finite: its weights are damaged")
    split = _read(opened)
    ends = [split.source.chars(span).stop for span in split.spans[-1:]]
    parts = [Part(split.source.chars(span), value) for span, value in zip(split.spans, values, strict=bool(values))]
    return Reading(
        score,
        sum(opened.costs),
        opened.cut_tokens,
        int(opened.cut_tokens > 0),
        max(ends, default=0) if opened.cut_tokens else len(opened.text),
        tuple(parts),
        opened.asked.cut_tokens,
    )
