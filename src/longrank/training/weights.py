"""Inverse-propensity weighting: evidence that stands where evidence seldom stands counts for more.

The propensity of a pair is the share of its position bin among the training pairs of its length cell; its loss is
multiplied by 1 / (bins that occur x share), so that every bin that occurs weighs the same and the mean weight is 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import Field, field_validator

from longrank.core.contracts import Tokenizer
from longrank.core.errors import TrainingError
from longrank.core.settings import Settings
from longrank.core.types import CharSpan, Collection
from longrank.synthetic.sampling import Positioned, inverse_propensity
from longrank.training.examples import Sampler, TrainExample

Pair = tuple[str, str]


class PositionBins(Settings):
    """``bins`` of relative position in each length cell."""

    bins: int = Field(4, ge=2)
    cells: tuple[int, ...] = Field((), description="upper ends, in tokens, of all length cells but the last")

    @field_validator("cells")
    @classmethod
    def _rising(cls, cells: tuple[int, ...]) -> tuple[int, ...]:
        if list(cells) != sorted(set(cells)) or any(end < 1 for end in cells):
            raise ValueError(f"cells are lengths in rising order, got {list(cells)}")
        return cells


class PositionWeights(PositionBins):
    """How pairs are weighted: no weight above ``largest``."""

    largest: float = Field(10.0, gt=0)


@dataclass(frozen=True, eq=False)
class WeightedSampler:
    """The examples of another sampler, each with the weight of its query and positive; 1 where none is known."""

    inner: Sampler
    weights: Mapping[Pair, float]

    def __len__(self) -> int:
        return len(self.inner)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """The same examples in the same order."""
        for example in self.inner.epoch(number):
            yield replace(example, weight=self.weights.get((example.query.id, example.positive.id), 1.0))


def position_weights(
    collection: Collection, query_ids: Sequence[str], *, tokenizer: Tokenizer, settings: PositionWeights
) -> dict[Pair, float]:
    """A weight for every pair of a query and a relevant document whose evidence has a span."""
    pairs = positioned(collection, query_ids, tokenizer=tokenizer)
    if not pairs:
        raise TrainingError(
            f"collection {collection.name!r} says of no training query where its evidence stands, so positions cannot "
            "be weighted: give it a spans.jsonl, or leave position_weights out"
        )
    weights = inverse_propensity(pairs, bins=settings.bins, cells=settings.cells, largest=settings.largest)
    return {(pair.query_id, pair.document_id): weight for pair, weight in zip(pairs, weights, strict=True)}


def positioned(collection: Collection, query_ids: Sequence[str], *, tokenizer: Tokenizer) -> list[Positioned]:
    """Where the first evidence of every training pair starts; documents are tokenised one at a time.

    Spans of documents that are not judged relevant are passed over, as are those the collection does not have.
    """
    wanted = {query_id: collection.qrels.relevant(query_id) for query_id in query_ids}
    first: dict[Pair, int] = {}
    lengths: dict[str, int] = {}
    for gold in sorted(collection.spans, key=lambda one: one.document_id):
        if gold.document_id not in wanted.get(gold.query_id, ()) or gold.document_id not in collection.documents:
            continue
        text = tokenizer.tokenize(collection.documents[gold.document_id].text)
        span = text.tokens(gold.span if isinstance(gold.span, CharSpan) else text.chars(gold.span))
        pair = (gold.query_id, gold.document_id)
        first[pair] = min(span.start, first.get(pair, span.start))
        lengths[gold.document_id] = len(text)
    return [Positioned(*pair, start, lengths[pair[1]]) for pair, start in sorted(first.items())]
