"""Passage-level training of MaxP (Dai and Callan 2019): a passage is as relevant as the document it stands in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from longrank.core.seeds import generator
from longrank.core.types import Document, SplitText
from longrank.training.examples import Sampler, TrainExample


@dataclass(frozen=True, eq=False)
class PassageLevel:
    """The examples of another sampler with each document cut down to one of its chunks, drawn anew every epoch.

    ``split`` is the ranker's own, so that a chunk is what the ranker will read.
    """

    inner: Sampler
    split: Callable[[Sequence[Document]], list[SplitText]]
    seed: int = 0

    def __len__(self) -> int:
        return len(self.inner)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """One chunk of the positive against one of each negative."""
        rng = generator(f"train-passage-level-epoch-{number}", self.seed)
        for example in self.inner.epoch(number):
            positive, *negatives = (
                _passage(document, split, rng)
                for document, split in zip(
                    (example.positive, *example.negatives),
                    self.split([example.positive, *example.negatives]),
                    strict=True,
                )
            )
            yield TrainExample(example.query, positive, tuple(negatives), example.weight)


def _passage(document: Document, split: SplitText, rng: np.random.Generator) -> Document:
    span = split.spans[int(rng.integers(len(split.spans)))]
    chars = split.source.chars(span)
    return Document(f"{document.id}@{span.start}", split.source.text[chars.start : chars.stop])
