"""How large and how strict an audit is."""

from itertools import pairwise

from pydantic import Field, model_validator

from longrank.core.settings import Settings

LEAST_QUERIES = 8  # fewer say nothing: their intervals hold everything
SHORTEST = 16  # tokens of a document; fewer have no room for slots
MANY_QUERIES = 1_000  # from here on the stricter tolerance can be resolved


class AuditSettings(Settings):
    """Size and strictness of an audit.

    ``tolerance`` is how far every slot may lie from the mean of all, as a share of the usable signal.
    """

    queries: int = Field(default=100, ge=LEAST_QUERIES)
    slots: int = Field(default=8, ge=3)
    lengths: tuple[int, ...] = Field(default=(512, 1024, 2048), min_length=1)
    distractors: int = Field(default=20, ge=4)
    seed: int = 0
    tolerance: float | None = Field(default=None, gt=0, lt=1)
    draws: int = Field(default=9_999, ge=99)

    @model_validator(mode="after")
    def _rising(self) -> "AuditSettings":
        if self.lengths[0] < SHORTEST or any(a >= b for a, b in pairwise(self.lengths)):
            raise ValueError(f"lengths must rise and start at {SHORTEST} tokens or more, got {self.lengths}")
        return self

    def epsilon(self, answered: int) -> float:
        """The tolerance asked for, else .10, or .05 where a thousand queries were answered."""
        return self.tolerance or (0.05 if answered >= MANY_QUERIES else 0.10)

    @property
    def documents_per_query(self) -> int:
        """Distinct documents of a query: planted, reversed, distractors and absent by length, and the passage."""
        return len(self.lengths) * (self.slots + 2 + self.distractors + 1) + 1


QUICK = AuditSettings(queries=40, slots=4, lengths=(512,))
