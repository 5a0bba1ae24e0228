"""Scores that are kept: nothing is asked twice, a re-run is, and what was paid before a failure is not lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from longrank.audit.card import card_json, make_card
from longrank.audit.design import AuditDesign
from longrank.audit.memory import RememberedScores
from longrank.audit.planted import Noisy, Windowed, WordMatch
from longrank.audit.response import asking_again
from longrank.audit.run import audit
from longrank.audit.wrappers import chunk_max, first_and_best, rotate
from longrank.core.errors import BadScore, DataError
from longrank.core.types import Document, Query, Scores

QUERY = Query("q", "red")


@dataclass
class Lengths:
    """Scores a text by its length, and fails at the call numbered ``fail_at``."""

    fail_at: int = 0
    asked: list[list[str]] = field(default_factory=list)

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.asked.append([document.text for document in documents])
        if len(self.asked) == self.fail_at:
            raise TimeoutError
        return Scores([float(len(document.text)) for document in documents])


def documents(*texts: str) -> list[Document]:
    return [Document(f"d{n}", text) for n, text in enumerate(texts)]


def test_a_text_is_asked_about_once_also_by_a_later_process(tmp_path: Path) -> None:
    inner = Lengths()
    first = RememberedScores(inner, tmp_path / "deep" / "scores.sqlite", "v1")
    assert first.score(QUERY, documents("a", "bbb", "a")).values == [1.0, 3.0, 1.0]
    again = RememberedScores(inner, tmp_path / "deep" / "scores.sqlite", "v1")
    assert again.score(QUERY, documents("bbb", "cc")).values == [3.0, 2.0]
    assert inner.asked == [["a", "bbb"], ["cc"]]


def test_what_a_ranker_cuts_of_a_query_is_passed_on(tmp_path: Path) -> None:
    class Curt:
        def score(self, query: Query, documents: Sequence[Document]) -> Scores:
            return Scores([0.0] * len(documents), cut_query_tokens=3)

    for ranker in (RememberedScores(Curt(), tmp_path / "s", "v1"), chunk_max(Curt()), rotate(Curt())):
        assert ranker.score(QUERY, documents("a", "bbb")).cut_query_tokens == 3


def test_another_query_or_ranker_is_asked_anew(tmp_path: Path) -> None:
    inner = Lengths()
    for identity, text in (("v1", "red"), ("v1", "blue"), ("v2", "red")):
        RememberedScores(inner, tmp_path / "s", identity).score(Query("q", text), documents("a"))
    assert len(inner.asked) == 3


def test_a_rerun_reaches_the_ranker(tmp_path: Path) -> None:
    inner = Lengths()
    ranker = RememberedScores(inner, tmp_path / "s", "v1")
    ranker.score(QUERY, documents("a"))
    with asking_again():
        ranker.score(QUERY, documents("a"))
    ranker.score(QUERY, documents("a"))
    assert inner.asked == [["a"], ["a"]]


def test_what_was_scored_before_a_failure_is_kept(tmp_path: Path) -> None:
    texts = documents(*("x" * n for n in range(1, 101)))
    broken = RememberedScores(Lengths(fail_at=2), tmp_path / "s", "v1")
    with pytest.raises(TimeoutError):
        broken.score(QUERY, texts)
    whole = Lengths()
    values = RememberedScores(whole, tmp_path / "s", "v1").score(QUERY, texts).values
    assert values == [float(n) for n in range(1, 101)]
    assert [len(asked) for asked in whole.asked] == [100 - 64]  # 64 were written down at a time


def test_bad_scores_are_refused_and_not_kept(tmp_path: Path) -> None:
    class Bad:
        def score(self, query: Query, documents: Sequence[Document]) -> Scores:
            return Scores([float("nan")] * len(documents))

    with pytest.raises(BadScore, match="not finite"):
        RememberedScores(Bad(), tmp_path / "s", "v1").score(QUERY, documents("a"))
    assert RememberedScores(Lengths(), tmp_path / "s", "v1").score(QUERY, documents("a")).values == [1.0]


def test_a_file_that_holds_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("not a database, and long enough to be looked at as one" * 20)
    with pytest.raises(DataError, match="cannot keep scores"):
        RememberedScores(Lengths(), tmp_path / "s", "v1").score(QUERY, documents("a"))


def test_the_card_is_the_same_with_and_without_a_memory_and_noise_is_still_seen(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    import numpy as np

    ranker = Windowed(bag_of_words, 60)
    remembered = RememberedScores(ranker, tmp_path / "s", "v1")
    plain = card_json(make_card(audit(ranker, small, name="first")))
    assert card_json(make_card(audit(remembered, small, name="first"))) == plain
    noisy = RememberedScores(Noisy(bag_of_words, 1.0, np.random.default_rng(2)), tmp_path / "noisy", "v1")
    assert audit(noisy, small, name="noisy").findings.unstable_queries == 8


def test_wrappers_share_the_chunks_that_were_scored(tmp_path: Path, small: AuditDesign) -> None:
    inner = Lengths()
    remembered = RememberedScores(inner, tmp_path / "s", "v1")
    probe = small.probe(small.queries[0])
    chunk_max(remembered, size=50, stride=25).score(probe.query, probe.documents)
    calls = len(inner.asked)
    first_and_best(remembered, size=50, stride=25).score(probe.query, probe.documents)
    assert len(inner.asked) == calls
