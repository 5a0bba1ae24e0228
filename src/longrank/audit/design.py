"""The paired design: the same query, evidence, filler and distractors at every slot, so that only position changes.

For each query and length, filler passages fill a document into which the relevant passage is put at one of K slots;
against it stand C distractors of the same length, half of them with one hard passage at a random slot. The fillers of a
shorter length are a prefix of those of a longer one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from longrank.audit.settings import AuditSettings
from longrank.audit.sources import Source
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.errors import DataError
from longrank.core.fingerprint import fingerprint
from longrank.core.seeds import generator
from longrank.core.types import Document, Query
from longrank.synthetic.placing import Piece


@dataclass(frozen=True, slots=True)
class LengthProbe:
    """All documents of one query at one length.

    ``planted`` holds the evidence at each slot, first to last. ``reversed_ends`` are the documents with evidence last
    and first, read backwards passage by passage: evidence then stands first and last among the same fillers.
    ``absent`` is one more draw from the law of the distractors.
    """

    length: int
    planted: tuple[Document, ...]
    distractors: tuple[Document, ...]
    absent: Document
    reversed_ends: tuple[Document, Document]


@dataclass(frozen=True, slots=True)
class Probe:
    """One query with the documents it is asked about; ``isolated`` is the relevant passage alone."""

    query: Query
    isolated: Document
    by_length: tuple[LengthProbe, ...]

    @property
    def documents(self) -> list[Document]:
        """Every document once."""
        found = [self.isolated]
        for probe in self.by_length:
            found += [*probe.planted, *probe.distractors, probe.absent, *probe.reversed_ends]
        return found


@dataclass(frozen=True)
class AuditDesign:
    """A source and settings; probes are made when asked for, each from its query and the seed alone."""

    source: Source
    settings: AuditSettings
    tokenizer: Tokenizer

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries that take part."""
        return self.source.queries[: self.settings.queries]

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a text, a setting or the tokenizer does; the tolerance and the draws are judged later."""
        settings = self.settings.model_dump(exclude={"tolerance", "draws"})
        return fingerprint(settings, self.tokenizer.name, self.source)

    def probes(self) -> Iterator[Probe]:
        """One probe a query."""
        return (self.probe(query) for query in self.queries)

    def probe(self, query: Query) -> Probe:
        """All documents of one query."""
        rng = generator(f"audit/{query.id}", self.settings.seed)
        evidence = self._piece(self.source.evidence[query.id])
        usable = self._usable(query.id)
        planted = self._drawn(usable, rng)
        others = [_Other(self._drawn(usable, rng), hard, slot) for hard, slot in self._hard(query.id, rng)]
        return Probe(
            query,
            Document(f"{query.id}/isolated", evidence.text),
            tuple(self._at_length(length, evidence, planted, others) for length in self.settings.lengths),
        )

    def _at_length(
        self, length: int, evidence: Piece, planted: Sequence[Piece], others: Sequence["_Other"]
    ) -> LengthProbe:
        slots = self.settings.slots
        filler = _prefix(planted, length - evidence.tokens)
        if len(filler) < slots - 1:
            raise DataError(
                f"only {len(filler)} filler passages fit beside the evidence into {length} tokens, too few for {slots} "
                f"slots: use fewer slots, greater lengths, or shorter passages"
            )
        orders = [[*filler[:at], evidence, *filler[at:]] for at in slot_boundaries(len(filler), slots)]
        drawn = [_document(f"{length}/other{n}", other.pieces(length, slots)) for n, other in enumerate(others)]
        return LengthProbe(
            length,
            planted=tuple(_document(f"{length}/slot{slot}", order) for slot, order in enumerate(orders)),
            distractors=tuple(drawn[1:]),
            absent=drawn[0],
            reversed_ends=(
                _document(f"{length}/reversed-first", orders[-1][::-1]),
                _document(f"{length}/reversed-last", orders[0][::-1]),
            ),
        )

    def _hard(self, query_id: str, rng: np.random.Generator) -> list[tuple[Piece | None, int]]:
        """Hard passage and slot of the absent document and of each distractor, exchangeable among them."""
        count, close = self.settings.distractors + 1, self.source.hard[query_id]
        picks = rng.permutation(np.resize(np.arange(len(close)), count // 2)).tolist()
        hard: list[Piece | None] = [self._piece(close[at]) for at in picks]
        hard += [None] * (count - len(hard))
        order = rng.permutation(count).tolist()
        return [(hard[at], int(rng.integers(self.settings.slots))) for at in order]

    def _usable(self, query_id: str) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        barred = self.source.barred.get(query_id, frozenset())
        if not barred:
            return np.arange(len(self._fillers))
        return np.array(
            [n for n, filler in enumerate(self.source.filler) if filler.origin not in barred], dtype=np.int64
        )

    def _drawn(self, usable: "np.ndarray[tuple[int], np.dtype[np.int64]]", rng: np.random.Generator) -> list[Piece]:
        """Fillers in a random order, none twice, enough for the greatest length."""
        taken: list[Piece] = []
        tokens = 0
        for at in rng.permutation(usable).tolist():
            if tokens >= self.settings.lengths[-1]:
                return taken
            taken.append(self._fillers[at])
            tokens += self._fillers[at].tokens
        if tokens < self.settings.lengths[-1]:
            raise DataError(
                f"source {self.source.name!r} has {tokens} tokens of filler, but documents of "
                f"{self.settings.lengths[-1]} are asked for: give more documents or smaller lengths"
            )
        return taken

    @cached_property
    def _fillers(self) -> list[Piece]:
        return [self._piece(filler.text) for filler in self.source.filler]

    def _piece(self, text: str) -> Piece:
        return Piece(text, len(self.tokenizer.tokenize(text)))


class _Other(NamedTuple):
    """A document without the evidence: its fillers and, in half of them, a hard passage with its slot."""

    filler: Sequence[Piece]
    hard: Piece | None
    slot: int

    def pieces(self, length: int, slots: int) -> list[Piece]:
        if self.hard is None:
            return _prefix(self.filler, length)
        filler = _prefix(self.filler, length - self.hard.tokens)
        at = slot_boundaries(len(filler), slots)[self.slot]
        return [*filler[:at], self.hard, *filler[at:]]


def make_design(source: Source, settings: AuditSettings, tokenizer: Tokenizer | None = None) -> AuditDesign:
    """The design of an audit; lengths are counted by the tokenizer, words if none is given."""
    return AuditDesign(source, settings, tokenizer or WordTokenizer())


def slot_boundaries(fillers: int, slots: int) -> list[int]:
    """Number of fillers before each slot: depth k / (K - 1), rounded to a boundary.

    >>> slot_boundaries(10, 4)
    [0, 3, 7, 10]
    """
    return [(2 * k * fillers + slots - 1) // (2 * (slots - 1)) for k in range(slots)]


def _prefix(pieces: Sequence[Piece], tokens: int) -> list[Piece]:
    """The longest prefix of at most so many tokens."""
    fitting = sum(total <= tokens for total in accumulate(piece.tokens for piece in pieces))
    return list(pieces[:fitting])


def _document(name: str, pieces: Sequence[Piece]) -> Document:
    return Document(name, " ".join(piece.text for piece in pieces))
