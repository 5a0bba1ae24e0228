"""Training documents whose relevant passages may stand anywhere: segments cut at word boundaries and shuffled.

Two segments are a rotation at a random word, as in Hofstätter et al. (2021); more segments, or all sentences, come in a
random order. For the training split only, positives and negatives alike: a test set that is shuffled is another test.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from longrank.core.errors import SettingsError
from longrank.core.seeds import generator
from longrank.core.settings import Settings
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, TokenSpan

_WORD = re.compile(r"\S+")
_SENTENCE = re.compile(r"[.!?][\"')\]]*\s+(?=\S)|[。！？](?=\S)")


class DebiasSettings(Settings):
    """How documents are shuffled: ``segments`` pieces cut at random words, or whole sentences."""

    seed: int = 0
    unit: Literal["words", "sentences"] = "words"
    segments: int = Field(default=2, ge=2)


class Shuffled(NamedTuple):
    """A document in its new order, and where pieces of the old one went: (old start, old stop, new start)."""

    document: Document
    pieces: tuple[tuple[int, int, int], ...]

    def carry(self, span: CharSpan) -> tuple[CharSpan, ...]:
        """A span of the old text in the new one, in parts where it was cut; space at a cut is not part of any."""
        parts = []
        for start, stop, new in self.pieces:
            first, last = max(span.start, start), min(span.stop, stop)
            if first < last:
                parts.append(CharSpan(first - start + new, last - start + new))
        return tuple(sorted(parts))


@dataclass(frozen=True)
class SegmentShuffle:
    """Shuffles a document, each epoch anew: what ``training.trainer.fit`` takes as ``augment``.

    >>> shuffle = SegmentShuffle(DebiasSettings(seed=1))
    >>> shuffle(Document("d", "one two three four five"), 0).text
    'three four five one two'
    """

    settings: DebiasSettings

    def __call__(self, document: Document, epoch: int) -> Document:
        """The document in the order of this epoch."""
        return self.shuffle(document, epoch).document

    def shuffle(self, document: Document, epoch: int = 0) -> Shuffled:
        """The document of this epoch and its pieces; a text of one word stays as it is."""
        rng = generator(f"debias/{document.id}/{epoch}", self.settings.seed)
        text = document.text
        if self.settings.unit == "sentences":
            cuts = [match.end() for match in _SENTENCE.finditer(text)]
        else:
            words = [match.start() for match in _WORD.finditer(text)][1:]
            count = min(self.settings.segments - 1, len(words))
            cuts = sorted(words[i] for i in rng.choice(len(words), size=count, replace=False)) if words else []
        segments = list(pairwise([0, *cuts, len(text)]))
        # two segments always change places: a rotation; more come in any order
        order = [1, 0] if len(segments) == 2 else rng.permutation(len(segments)).tolist()
        return _joined(document, [segments[i] for i in order])


class ShuffledDocuments(Mapping[str, Document]):
    """Documents shuffled when they are read."""

    def __init__(self, inner: Mapping[str, Document], shuffle: SegmentShuffle) -> None:
        self._inner, self._shuffle = inner, shuffle

    def __getitem__(self, document_id: str) -> Document:
        return self._shuffle(self._inner[document_id], 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)


def debiased(collection: Collection, settings: DebiasSettings, *, query_ids: Iterable[str]) -> Collection:
    """A training collection: all documents shuffled, these queries alone, spans where the evidence went.

    Titles are left out, because they stand no longer at the beginning. Spans must be of characters.
    """
    shuffle, wanted = SegmentShuffle(settings), set(query_ids)
    spans: list[GoldSpan] = []
    for gold in collection.spans:
        if gold.query_id not in wanted:
            continue
        if isinstance(gold.span, TokenSpan):
            raise SettingsError(f"the span of {gold.document_id!r} counts tokens; only characters can be carried along")
        moved = shuffle.shuffle(collection.documents[gold.document_id])
        spans += [gold._replace(span=part) for part in moved.carry(gold.span)]
    return Collection(
        f"{collection.name}-debiased",
        ShuffledDocuments(collection.documents, shuffle),
        {name: query for name, query in collection.queries.items() if name in wanted},
        Qrels({name: row for name, row in collection.qrels.grades.items() if name in wanted}),
        tuple(spans),
    )


def _joined(document: Document, segments: list[tuple[int, int]]) -> Shuffled:
    parts, pieces, at = list[str](), list[tuple[int, int, int]](), 0
    for start, stop in segments:
        part = document.text[start:stop].rstrip()
        if not part:
            continue
        parts.append(part)
        pieces.append((start, start + len(part), at))
        at += len(part) + 1
    return Shuffled(Document(document.id, " ".join(parts)), tuple(pieces))
