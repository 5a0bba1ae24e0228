"""Several audits judged together: Holm's correction over lengths, tests and rankers."""

from collections.abc import Sequence
from typing import NamedTuple

from longrank.audit.card import Card
from longrank.audit.verdict import ALPHA, Outcome
from longrank.evaluation.significance import holm


class Joint(NamedTuple):
    """A card's outcome among others, and the smallest of its p-values corrected over all of them; None if untested."""

    outcome: Outcome
    p: float | None


def judge_together(cards: Sequence[Card]) -> list[Joint]:
    """Each card's outcome where a bias must hold out against the tests of all cards; one that does not is unproven.

    Robust is earned by equivalence, of each ranker by itself, and is left as it is.
    """
    tests = [p for card in cards for at in card.lengths for p in (at.trend.p, at.bend.p, at.psi.p)]
    corrected = iter(holm(tests))
    found = []
    for card in cards:
        smallest = [min(next(corrected) for _ in range(3)) for _ in card.lengths]
        proven = any(at.outcome is Outcome.biased and p < ALPHA for at, p in zip(card.lengths, smallest, strict=True))
        unproven = card.outcome is Outcome.biased and not proven
        found.append(Joint(Outcome.inconclusive if unproven else card.outcome, min(smallest, default=None)))
    return found


def out_of_reach(cards: Sequence[Card]) -> bool:
    """Whether there are so many tests that the smallest p-value which permutations can give proves nothing."""
    tests = 3 * sum(len(card.lengths) for card in cards)
    return tests / (1 + max(card.design.draws for card in cards)) >= ALPHA
