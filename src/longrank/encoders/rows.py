"""What goes into a backbone and what comes out."""

from dataclasses import dataclass
from enum import Flag, auto
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from longrank.core.types import IntArray


class Needs(Flag):
    """Which states an aggregator reads: one vector a row, token states, of every layer, of the query."""

    CHUNKS = auto()
    TOKENS = auto()
    LAYERS = auto()
    QUERY = auto()


@dataclass(frozen=True, eq=False)
class Row:
    """One input sequence; ``global_tokens`` leading positions attend everywhere in models with local attention.

    Tokens that are not ``attended`` (None: all are) keep their position and get states, but no token looks at them.
    """

    ids: IntArray
    types: IntArray
    global_tokens: int = 0
    attended: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Encoded:
    """States of rows, in the order the rows were given."""

    pooled: Tensor  # [rows, dim]
    tokens: Tensor | None  # [layers, all tokens, dim]: rows one after another, no padding
    lengths: tuple[int, ...]

    @property
    def starts(self) -> list[int]:
        """First token of every row within ``tokens``."""
        return [0, *accumulate(self.lengths)][:-1]


@dataclass(frozen=True)
class Specials:
    """Ids of the tokens that frame an input; None where the model has no such token."""

    cls: int | None
    sep: int | None
    pad: int

    @property
    def framing(self) -> int:
        """Tokens that framing adds to a query and a chunk: 3 for BERT, 0 for a plain decoder."""
        return (self.cls is not None) + 2 * (self.sep is not None)
