"""Rows of many documents into few evenly filled batches."""

from collections.abc import Sequence

import numpy as np


def token_budget_batches(lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    """Row numbers grouped so that a batch holds at most ``budget`` tokens, longest rows first.

    Rows of like length share a batch, so padding is small for a model that pads. A row longer than the
    budget is a batch of its own.

    >>> token_budget_batches([3, 9, 4, 2], budget=8)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    room = 0
    for row in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        if not batches or lengths[row] > room:
            batches.append([])
            room = budget
        batches[-1].append(row)
        room -= lengths[row]
    return batches
