"""Learning-rate schedules: update number to a factor of the base rate."""

from typing import Literal

ScheduleName = Literal["constant", "linear", "one-cycle"]


def rate_factor(
    name: ScheduleName, update: int, *, total: int, warmup_fraction: float, final_factor: float = 0.0
) -> float:
    """Factor for update 0 .. total - 1: a linear rise over the warm-up, then constant, or falling to ``final_factor``.

    ``one-cycle`` rises from a tenth and falls to a hundredth at least, both linearly.

    >>> [round(rate_factor("constant", u, total=10, warmup_fraction=0.2), 2) for u in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 1.0]
    """
    warmup = max(1, round(total * warmup_fraction)) if warmup_fraction > 0 else 0
    if update < warmup:
        low = 0.1 if name == "one-cycle" else 0.0
        return low + (1 - low) * (update + 1) / warmup
    if name == "constant":
        return 1.0
    done = (update - warmup) / max(1, total - warmup)
    floor = max(final_factor, 0.01) if name == "one-cycle" else final_factor
    return max(floor, 1 - (1 - floor) * done)
