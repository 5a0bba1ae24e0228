"""Position-balanced sampling: evidence that stands where evidence seldom stands is shown as often as any other."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import Field

from longrank.core.contracts import Tokenizer
from longrank.core.errors import TrainingError
from longrank.core.seeds import generator
from longrank.synthetic.sampling import Positioned, balance_positions, position_bins
from longrank.training.examples import TrainExample
from longrank.training.pools import PoolSampler
from longrank.training.weights import PositionBins, positioned


class PositionBalance(PositionBins):
    """How pairs are balanced, and what becomes of those whose evidence stands nobody knows where."""

    unknown: Literal["refuse", "leave-out"] = Field("refuse", description="pairs without a span")


@dataclass(frozen=True, eq=False)
class BalancedSampler:
    """Pairs of a query and a relevant document, in an epoch equally many of every position bin of a length cell.

    The rarest bin of a cell decides how many; which of the others' pairs are shown is drawn anew every epoch.
    """

    inner: PoolSampler
    pairs: Sequence[Positioned]
    settings: PositionBalance
    seed: int = 0

    def __post_init__(self) -> None:
        if self._bins and max(Counter(cell for cell, _ in self._bins).values()) > 1:
            return
        raise TrainingError(
            f"in no length cell does evidence stand in more than one of {self.settings.bins} bins, so there is nothing "
            "to balance: take more bins or fewer cells, or leave balance_positions out"
        )

    def __len__(self) -> int:
        return sum(self._least[cell] for cell, _ in self._bins)

    def __str__(self) -> str:
        return f"{len(self)} of {len(self.pairs)} training pairs an epoch, " + "; ".join(
            f"{least} in each of {sum(cell == at for at, _ in self._bins)} bins{self._named(cell)}"
            for cell, least in sorted(self._least.items())
        )

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """The pairs of an epoch in a shuffled order."""
        rng = generator(f"train-balanced-epoch-{number}", self.seed)
        shown = balance_positions(self.pairs, bins=self.settings.bins, cells=self.settings.cells, rng=rng)
        for place in rng.permutation(len(shown)).tolist():
            yield self.inner.example(shown[place].query_id, shown[place].document_id, rng=rng)

    @cached_property
    def _bins(self) -> Counter[tuple[int, int]]:
        return Counter(position_bins(self.pairs, bins=self.settings.bins, cells=self.settings.cells))

    @cached_property
    def _least(self) -> dict[int, int]:
        """Pairs of the rarest bin of each length cell."""
        cells = {cell for cell, _ in self._bins}
        return {cell: min(count for (at, _), count in self._bins.items() if at == cell) for cell in cells}

    def _named(self, cell: int) -> str:
        ends = self.settings.cells
        if not ends:
            return ""
        return f" up to {ends[cell]} tokens" if cell < len(ends) else f" above {ends[-1]} tokens"


def balanced(inner: PoolSampler, *, tokenizer: Tokenizer, settings: PositionBalance, seed: int) -> BalancedSampler:
    """The usable queries of a sampler with those of their relevant documents whose evidence has a span."""
    pairs = positioned(inner.collection, inner.query_ids, tokenizer=tokenizer)
    known = {(pair.query_id, pair.document_id) for pair in pairs}
    unknown = [pair for pair in inner.pairs() if pair not in known]
    if not pairs or (unknown and settings.unknown == "refuse"):
        query_id, document_id = unknown[0]
        way_out = "" if not pairs else 'balance_positions.unknown = "leave-out" to train without them, '
        raise TrainingError(
            f"collection {inner.collection.name!r} does not say of {len(unknown)} of {len(unknown) + len(pairs)} "
            f"training pairs where the evidence stands ({document_id!r} for query {query_id!r} is the first), so "
            f"positions cannot be balanced: give it a spans.jsonl for them, {way_out}or leave balance_positions out"
        )
    return BalancedSampler(inner, pairs, settings, seed)
