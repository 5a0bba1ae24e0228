"""Cost measured in turns and compared round by round."""

from collections.abc import Sequence

import pytest

from longrank.core.errors import DataError, SettingsError, UnknownName
from longrank.core.types import Document, Query, Scores
from longrank.evaluation.efficiency import Cost, measure_costs, relative_costs

WORK = [(Query("q1", "x"), [Document("a", "one two"), Document("b", "three")]), (Query("q2", "y"), [Document("c", "")])]


class Clock:
    """A clock that only moves when a ranker works; each round of the machine is slower than the one before."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now


class Timed:
    """A ranker that takes so many seconds a document."""

    def __init__(self, name: str, clock: Clock, seconds: float) -> None:
        self.name, self.clock, self.seconds = name, clock, seconds

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.clock.calls.append(self.name)
        slower = 1 + len(self.clock.calls) // 4  # two rankers x two queries a round
        self.clock.now += self.seconds * len(documents) * slower
        return Scores([0.0] * len(documents))


def words(query: Query, documents: Sequence[Document]) -> int:
    return sum(len(document.text.split()) for document in documents)


def test_rankers_take_turns_and_another_one_begins_each_round() -> None:
    clock = Clock()
    rankers = {"first": Timed("first", clock, 1.0), "max": Timed("max", clock, 3.0)}
    measure_costs(rankers, WORK, rounds=2, clock=clock)
    starts = [clock.calls[i] for i in range(0, 12, 4)]
    assert sorted(clock.calls) == ["first"] * 6 + ["max"] * 6  # warm-up and two rounds of two queries
    assert starts == ["max", "first", "max"]


def test_the_warm_up_round_is_not_counted_and_documents_are() -> None:
    clock = Clock()
    costs = measure_costs(
        {"only": Timed("only", clock, 1.0)}, WORK, rounds=3, clock=clock, count_tokens={"only": words}
    )
    assert len(costs["only"].seconds) == 3
    assert costs["only"].documents == 3
    assert costs["only"].tokens_per_document == 1.0  # two words, one, none
    assert Cost((2.0, 8.0, 4.0), 2, None).seconds_per_document == 2.0


def test_ratios_are_taken_within_rounds_so_a_slowing_machine_cancels() -> None:
    costs = {"FirstP": Cost((1.0, 2.0, 10.0), 4, 100), "MaxP": Cost((2.0, 4.0, 30.0), 4, 250)}
    relative = relative_costs(costs, {"MaxP": "FirstP"})["MaxP"]
    assert (relative.time, relative.fastest, relative.slowest, relative.tokens) == (2.0, 2.0, 3.0, 2.5)


def test_costs_that_cannot_be_compared_are_refused() -> None:
    costs = {"a": Cost((1.0,), 4, None), "b": Cost((1.0, 2.0), 4, None), "none": Cost((0.0,), 4, None)}
    with pytest.raises(DataError, match="same rounds"):
        relative_costs(costs, {"a": "b"})
    with pytest.raises(DataError, match="no measurable time"):
        relative_costs(costs, {"a": "none"})
    with pytest.raises(UnknownName, match="'c'"):
        relative_costs(costs, {"a": "c"})
    with pytest.raises(SettingsError, match="at least one"):
        measure_costs({}, WORK)
