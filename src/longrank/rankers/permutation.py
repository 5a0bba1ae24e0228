"""Orders that a chat model writes down, and one order out of several."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_ITEM = r"[\[({【]?[ \t]*\d{1,4}(?!\d)[ \t]*[\])}】]?"
_LINK = r"\s*(?:>=|>+|&gt;|≥|≻|→|->|=)\s*"
_CHAIN = re.compile(rf"{_ITEM}(?:{_LINK}{_ITEM})+")
_BRACKETED = re.compile(r"[\[({【][ \t]*(\d{1,4})[ \t]*[\])}】]")
_NUMBER = re.compile(r"(?<!\d)\d{1,4}(?!\d)")


@dataclass(frozen=True)
class Permutation:
    """An order of ``count`` items, 0 first, and how far the reply was from being one."""

    order: tuple[int, ...]
    missing: int = 0
    repeated: int = 0
    out_of_range: int = 0

    @property
    def complete(self) -> bool:
        """Whether the reply named every item once and nothing else."""
        return not (self.missing or self.repeated or self.out_of_range)


def read_permutation(reply: str, count: int) -> Permutation:
    """The order a reply gives to the items 1 to ``count``; what it leaves out follows in the order shown.

    A chain such as ``[2] > [1]`` counts before numbers in brackets, and those before bare numbers, so that prose around
    the order does no harm. Of several chains the one with most items counts, of equals the last. Thoughts are skipped.

    >>> read_permutation("Of the 3 texts I prefer: (2) > (9) > (2) > (1)", 3)
    Permutation(order=(1, 0, 2), missing=1, repeated=1, out_of_range=1)
    """
    named = _named(_THOUGHT.sub("", reply), count)
    inside = [number - 1 for number in named if 1 <= number <= count]
    given = list(dict.fromkeys(inside))
    rest = [item for item in range(count) if item not in set(given)]
    return Permutation((*given, *rest), len(rest), len(inside) - len(given), len(named) - len(inside))


def _named(reply: str, count: int) -> list[int]:
    chains = [[int(n) for n in _NUMBER.findall(found[0])] for found in _CHAIN.finditer(reply)]
    if chains:
        # max keeps the first of equals, hence from the end
        return max(reversed(chains), key=lambda chain: len({n for n in chain if 1 <= n <= count}))
    return [int(n) for n in _BRACKETED.findall(reply) or _NUMBER.findall(reply)]


def agreed_order(orders: Sequence[Sequence[int]]) -> list[int]:
    """One order of the same items: by mean rank, then each item moves up while most orders put it before its neighbour.

    The second step (local Kemenization, Dwork et al. 2001) leaves no pair of neighbours that most orders have the other
    way round. Ties keep the order of the first list.

    >>> agreed_order([[0, 1, 2], [1, 0, 2], [1, 2, 0]])
    [1, 0, 2]
    """
    places = [{item: place for place, item in enumerate(order)} for order in orders]
    totals: Counter[int] = Counter()
    for place in places:
        totals.update(place)
    agreed: list[int] = []
    for item in sorted(orders[0], key=lambda i: (totals[i], places[0][i])):
        at = len(agreed)
        while at and 2 * sum(p[item] < p[agreed[at - 1]] for p in places) > len(places):
            at -= 1
        agreed.insert(at, item)
    return agreed
