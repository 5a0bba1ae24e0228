"""Wrappers by hand, and the advice that planted scorers get."""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from longrank.audit.design import make_design
from longrank.audit.estimates import Estimate
from longrank.audit.harden import Trial, build_wrapper, harden, load_hardened, write_config
from longrank.audit.planted import RandomScores, Windowed, WordMatch
from longrank.audit.response import asked_again
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import Source
from longrank.audit.verdict import Outcome
from longrank.audit.wrappers import (
    WRAPPERS,
    CalibratedMaximum,
    Rotated,
    calibrated_max,
    chunk_max,
    chunk_mean,
    first_and_best,
    rotate,
)
from longrank.core.contracts import Ranker
from longrank.core.errors import BadScore, SettingsError
from longrank.core.types import Document, Query, Scores, Spec
from longrank.rankers.adapters import FunctionRanker

QUERY = Query("q", "red")


class Starts:
    """Scores a text by the number its first word is."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def score(self, query: Query, documents: list[Document]) -> Scores:
        self.texts += [document.text for document in documents]
        return Scores([float(document.text.split()[0]) if document.text else 0.0 for document in documents])


def test_chunks_are_combined_as_named() -> None:
    document = [Document("d", "1 9 5 9 3 9")]  # chunks of two words begin with 1, 5 and 3
    assert chunk_max(Starts(), size=2, stride=2).score(QUERY, document).values == [5.0]  # type: ignore[arg-type]
    assert chunk_mean(Starts(), size=2, stride=2).score(QUERY, document).values == [3.0]  # type: ignore[arg-type]
    assert first_and_best(Starts(), size=2, stride=2).score(QUERY, document).values == [3.0]  # type: ignore[arg-type]


def test_a_chunk_that_documents_share_is_scored_once() -> None:
    starts = Starts()
    documents = [Document("a", "1 1 2 2"), Document("b", "1 1 3 3")]
    assert chunk_max(starts, size=2, stride=2).score(QUERY, documents).values == [2.0, 3.0]  # type: ignore[arg-type]
    assert starts.texts == ["1 1", "2 2", "3 3"]


@pytest.mark.parametrize("wrapper", [chunk_max, chunk_mean, first_and_best])
@pytest.mark.parametrize("bad", [[1.0, math.nan, 2.0], [1.0, 2.0], [1.0, None, 2.0]])
def test_a_wrapper_does_not_hide_a_chunk_without_a_score(wrapper: Callable[..., Ranker], bad: list[float]) -> None:
    with pytest.raises(BadScore):
        wrapper(FunctionRanker(lambda query, texts: bad), size=2, stride=2).score(QUERY, [Document("d", "a b c d e f")])
    with pytest.raises(BadScore):
        rotate(FunctionRanker(lambda query, texts: bad), rotations=3).score(QUERY, [Document("d", "a b c d e f")])


def test_rotations_bring_every_part_to_the_start() -> None:
    starts = Starts()
    values = rotate(starts, rotations=3).score(QUERY, [Document("d", "1 9 5 9 3 9")]).values  # type: ignore[arg-type]
    assert values == [3.0]  # (1 + 5 + 3) / 3
    assert starts.texts == ["1 9 5 9 3 9", "5 9 3 9 1 9", "3 9 1 9 5 9"]


def test_empty_documents_are_scored_by_every_wrapper() -> None:
    empty = [Document("d", "")]
    for ranker in (chunk_max(Starts()), Rotated(Starts(), 3)):  # type: ignore[arg-type]
        assert ranker.score(QUERY, empty).values == [0.0]
        assert ranker.score(QUERY, []).values == []


def test_the_calibrated_maximum_takes_off_the_luck_of_many_chunks() -> None:
    # background 0 and 1: E_1 = .5, E_2 = .75, so two chunks lose .25
    combine = CalibratedMaximum((1.0, 0.0))
    assert combine([0.9]) == pytest.approx(0.9)
    assert combine([0.2, 0.9]) == pytest.approx(0.65)
    with pytest.raises(SettingsError, match="irrelevant chunks"):
        calibrated_max(Starts(), background=())  # type: ignore[arg-type]


def test_every_wrapper_says_what_it_does() -> None:
    assert all(entry.summary for entry in WRAPPERS)
    assert len(WRAPPERS) == 6


def test_words_at_the_end_are_found_by_a_ranker_that_reads_the_end_of_its_window_worst() -> None:
    class Tiring:
        """Looks for the query among the first half of the words it is shown."""

        def score(self, query: Query, documents: Sequence[Document]) -> Scores:
            shown = (document.text.split() for document in documents)
            return Scores([float(query.text in words[: len(words) // 2 + 1]) for words in shown])

    asked, plain = Query("q", "lighthouse"), "plain " * 70
    middle, end = Document("middle", f"{plain}lighthouse {plain}"), Document("end", f"{plain}{plain}lighthouse sea bay")
    windows = {"size": 40, "stride": 5}
    best = build_wrapper(Tiring(), Spec("chunk-max", windows)).score(asked, [middle, end]).values
    with_end = build_wrapper(Tiring(), Spec("chunk-max-end", windows)).score(asked, [middle, end]).values
    assert (best, with_end) == ([1.0, 0.0], [1.0, 1.0])


def test_a_short_window_is_hardened_by_the_best_chunk(tmp_path: Path, source: Source, bag_of_words: WordMatch) -> None:
    design = make_design(source, AuditSettings(queries=24, slots=3, lengths=(256,), draws=199, tolerance=0.25))
    ranker = Windowed(bag_of_words, 120)
    result = harden(ranker, design, name="mine", longest=512, folder=tmp_path / "responses")
    assert result.window.words == 120
    assert result.chosen is not None
    assert result.chosen.wrapper is not None
    assert result.chosen.wrapper.name == "chunk-max"
    assert len(result.trials) == 2
    write_config(result, tmp_path / "hardened.toml")
    loaded = load_hardened(tmp_path / "hardened.toml", lambda name: {"mine": ranker}[name])
    late = [Document("d", "plain " * 300 + "lighthouse")]
    asked = Query("q", "lighthouse")
    assert ranker.score(asked, late).values == [0.0]
    assert loaded.score(asked, late).values[0] > 0


def test_wrappers_that_are_tried_one_after_the_other_score_no_chunk_twice(
    tmp_path: Path, source: Source, bag_of_words: WordMatch
) -> None:
    asked: list[tuple[str, str]] = []

    class Watched:
        def score(self, query: Query, documents: Sequence[Document]) -> Scores:
            if not asked_again():
                asked.extend((query.text, document.text) for document in documents)
            exact = Windowed(bag_of_words, 60).score(query, documents).values
            noise = (zlib.crc32(document.text.encode()) % 1000 / 100 for document in documents)
            return Scores([value + extra for value, extra in zip(exact, noise, strict=True)])

    design = make_design(source, AuditSettings(queries=8, slots=3, lengths=(192,), draws=199, tolerance=0.001))
    result = harden(Watched(), design, name="mine", longest=128, folder=tmp_path)
    assert [trial.wrapper and trial.wrapper.name for trial in result.trials][1:4] == [
        "chunk-max",
        "calibrated-max",
        "first-and-best",
    ]
    assert "chunk-max-end" in {trial.wrapper.name for trial in result.trials if trial.wrapper}
    of_audits = [pair for pair in asked if pair[0] in {query.text for query in design.queries}]
    assert len(of_audits) == len(set(of_audits))


def test_a_ranker_that_reads_to_the_end_is_left_alone(source: Source, bag_of_words: WordMatch) -> None:
    design = make_design(source, AuditSettings(queries=8, slots=3, lengths=(192,), draws=199))
    result = harden(bag_of_words, design, name="bag", longest=256)
    assert len(result.trials) == 1
    assert result.advice.startswith("Do nothing")


def test_wrappers_are_paid_for_only_when_they_are_tried(source: Source, bag_of_words: WordMatch) -> None:
    asked: list[str] = []

    class Watched:
        def score(self, query: Query, documents: Sequence[Document]) -> Scores:
            asked.extend(document.id for document in documents)
            return bag_of_words.score(query, documents)

    design = make_design(source, AuditSettings(queries=8, slots=3, lengths=(192,), draws=199))
    harden(Watched(), design, name="bag", longest=256)
    assert not [name for name in asked if name.startswith("chunk")]


def test_what_nothing_helps_gets_no_ranker_to_use(source: Source, bag_of_words: WordMatch) -> None:
    design = make_design(source, AuditSettings(queries=16, slots=3, lengths=(192,), draws=199))
    result = harden(Windowed(bag_of_words, 40), design, name="first words", longest=256, most_cost=1.0)
    assert [trial.wrapper for trial in result.trials] == [None]  # every wrapper reads more
    assert result.chosen is None
    assert result.advice == "No wrapper passed. A ranker trained on late evidence is the other way."


@pytest.mark.parametrize(("needed", "says"), [(331, " and may pass with 331 queries"), (None, "")])
def test_the_wrapper_that_lost_least_is_named_with_the_queries_it_may_pass_with(
    source: Source, bag_of_words: WordMatch, needed: int | None, says: str
) -> None:
    design = make_design(source, AuditSettings(queries=16, slots=3, lengths=(192,), draws=199))
    bare = harden(Windowed(bag_of_words, 40), design, name="first words", longest=256, most_cost=1.0)
    done, (at,) = bare.trials[0].audit, bare.trials[0].audit.findings.by_length
    assert at.worst is not None

    def trial(name: str, lost: float) -> Trial:
        worst = at.worst._replace(lost=Estimate(lost, lost, lost)) if at.worst else None
        open_ = replace(at, worst=worst, outcome=Outcome.inconclusive, queries_needed=needed)
        findings = replace(done.findings, outcome=Outcome.inconclusive, by_length=(open_,))
        return Trial(Spec(name), replace(done, findings=findings), 2.0)

    tried = replace(bare, trials=(*bare.trials, trial("chunk-max", 0.22), trial("rotate", 0.14)))
    assert tried.advice == (
        f"No wrapper passed. rotate lost least (14%){says}. A ranker trained on late evidence is the other way."
    )


def test_nothing_is_advised_about_a_ranker_that_cannot_be_audited(source: Source) -> None:
    design = make_design(source, AuditSettings(queries=24, slots=3, lengths=(192,), draws=199))
    result = harden(RandomScores(3), design, name="random", longest=64)
    assert result.chosen is None
    assert result.advice.startswith("No advice")
