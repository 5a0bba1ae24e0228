"""Planted scorers get the verdict they were built for, bad rankers get none, and an interrupted audit goes on."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from longrank.audit.card import card_json, make_card, read_card, write_card
from longrank.audit.design import AuditDesign
from longrank.audit.planted import Noisy, RandomScores, Windowed, WordMatch, decaying, ends_first, words
from longrank.audit.response import (
    PATIENCE,
    LengthResponse,
    QueryResponse,
    Responses,
    ask,
    checked_scores,
    collect,
    margin,
    reciprocal_rank,
)
from longrank.audit.run import audit
from longrank.audit.settings import AuditSettings
from longrank.audit.verdict import Outcome, expected_absent, judge
from longrank.audit.wrappers import chunk_max
from longrank.core.errors import BadScore, DataError
from longrank.core.types import Document, Query, Scores
from longrank.rankers.adapters import FunctionRanker


@dataclasses.dataclass
class Counting:
    """A ranker that counts documents, and raises once it was called so often."""

    inner: WordMatch
    stop_after: int = 10**9
    calls: int = 0
    documents: int = 0

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.calls += 1
        self.documents += len(documents)
        if self.calls > self.stop_after:
            raise KeyboardInterrupt
        return self.inner.score(query, documents)


@dataclasses.dataclass
class Replying:
    """A ranker that gives back the same thing whatever it is asked."""

    reply: object

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        if isinstance(self.reply, Exception):
            raise self.reply
        if self.reply == "nan":
            return Scores([float("nan")] * len(documents))
        if self.reply == "words":
            return Scores(["high"] * len(documents))  # type: ignore[list-item]
        return self.reply  # type: ignore[return-value]


def test_a_bag_of_words_is_exactly_flat_and_robust(design: AuditDesign, bag_of_words: WordMatch) -> None:
    found = audit(bag_of_words, design, name="bag")
    assert np.ptp(found.responses.planted(256), axis=1).max() == 0
    assert found.findings.outcome is Outcome.robust
    assert found.findings.lost is not None
    assert found.findings.lost.value == 0


def test_a_short_window_steps_where_it_ends_and_is_biased(design: AuditDesign, bag_of_words: WordMatch) -> None:
    found = audit(Windowed(bag_of_words, 100), design, name="first")
    assert found.findings.outcome is Outcome.biased
    assert "slot" in found.findings.reason
    table = found.responses.planted(256)
    assert table[:, 0].mean() > table[:, -1].mean() + 0.3
    for row, probe in zip(table, design.probes(), strict=True):
        texts = [document.text for document in probe.by_length[0].planted]
        starts = [len(words(text[: text.index(probe.isolated.text)])) for text in texts]
        unseen = [value for value, start in zip(row, starts, strict=True) if start >= 100]
        # what stands behind the window leaves the same words inside it, and so the same rank
        assert len(unseen) >= 2
        assert len(set(unseen)) == 1


def test_decay_and_a_bowl_are_biased_each_in_its_own_shape(design: AuditDesign, bag_of_words: WordMatch) -> None:
    falling = audit(bag_of_words.weighted(decaying(60)), design, name="decay").findings
    bowl = audit(bag_of_words.weighted(ends_first()), design, name="bowl").findings
    assert falling.outcome is bowl.outcome is Outcome.biased
    assert falling.by_length[0].trend.value < 0
    assert bowl.by_length[0].bend.value > 0
    assert bowl.by_length[0].worst is not None
    assert bowl.by_length[0].worst.slot == 2


def test_exponential_decay_has_the_slope_it_was_given(design: AuditDesign, bag_of_words: WordMatch) -> None:
    query, text = Query("q", "lighthouse"), ["plain"] * 200
    ranker = bag_of_words.weighted(decaying(50.0), linear=True)
    scores = []
    for place in (0, 50, 150):
        placed = [*text[:place], "lighthouse", *text[place:]]
        scores += ranker.score(query, [Document("d", " ".join(placed))]).values
    assert np.log(scores[1] / scores[0]) == pytest.approx(-1.0)
    assert np.log(scores[2] / scores[1]) == pytest.approx(-2.0)


def test_random_scores_are_not_auditable(design: AuditDesign) -> None:
    found = audit(RandomScores(), design, name="random").findings
    assert found.outcome is Outcome.not_auditable
    assert found.lost is None


def test_the_best_chunk_of_a_short_window_reads_to_the_end(design: AuditDesign, bag_of_words: WordMatch) -> None:
    wrapped = audit(chunk_max(Windowed(bag_of_words, 100), size=100, stride=50), design, name="max").findings
    assert wrapped.outcome is not Outcome.biased
    assert wrapped.lost is not None
    assert wrapped.lost.value < 0.1


def test_too_few_queries_for_a_noisy_ranker_are_inconclusive_and_say_how_many_it_takes(
    small: AuditDesign, bag_of_words: WordMatch
) -> None:
    noisy = Noisy(bag_of_words, 1.0, np.random.default_rng(2))
    found = audit(noisy, small, name="noisy").findings
    assert found.outcome is Outcome.inconclusive
    assert found.queries_needed is not None
    assert found.queries_needed > 8
    assert found.unstable_queries == 8


def test_a_document_without_evidence_ranks_as_chance_says(design: AuditDesign) -> None:
    values = [
        ask(RandomScores(seed), design.probe(query)).by_length[0].absent for seed, query in enumerate(design.queries)
    ]
    # H(21) / 21 = .1736; the standard deviation of one reciprocal rank is about .22
    assert abs(np.mean(values) - expected_absent(20)) < 3 * 0.22 / np.sqrt(40)


def test_a_ranker_that_gives_every_document_the_same_score_is_at_the_chance_that_the_card_prints() -> None:
    assert reciprocal_rank(1.0, [1.0] * 20) == pytest.approx(expected_absent(20))


def test_reciprocal_ranks_and_margins_by_hand() -> None:
    assert reciprocal_rank(5.0, [1.0, 2.0]) == 1.0
    assert reciprocal_rank(1.0, [3.0, 0.0, 2.0]) == 1 / 3
    assert reciprocal_rank(1.0, [1.0, 1.0, 1.0]) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert reciprocal_rank(1.0, [1.0 + 1e-12]) == 0.75  # the same as float32
    assert margin(4.0, [1.0, 2.0, 3.0]) == 2.0  # mean 2, deviation 1
    assert margin(4.0, [2.0, 2.0]) == 0.0


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Scores([1.0]), "wrong number of scores"),
        ("nan", "not finite"),
        ("words", "not a number"),
        (None, "no scores"),
        (RuntimeError("out of memory"), "RuntimeError: out of memory"),
        (TimeoutError("no answer in 60 s"), "TimeoutError: no answer in 60 s"),
    ],
)
def test_a_ranker_that_answers_badly_is_counted_and_gets_no_verdict(
    small: AuditDesign, reply: object, kind: str
) -> None:
    found = audit(Replying(reply), small, name="bad")
    assert found.responses.problems == {kind: PATIENCE}
    assert found.findings.outcome is Outcome.not_auditable
    assert kind in found.findings.reason
    assert make_card(found).lengths == ()


def test_one_missing_answer_is_enough_for_no_verdict(small: AuditDesign, bag_of_words: WordMatch) -> None:
    whole = collect(small, bag_of_words, name="bag")
    part = dataclasses.replace(whole, records=whole.records[1:], problems={"not finite": 1})
    assert judge(part, small.settings).outcome is Outcome.not_auditable


def test_booleans_and_none_are_no_scores() -> None:
    for bad in ([True], [None]):
        with pytest.raises(BadScore, match="not a number"):
            checked_scores(bad, 1)


@pytest.mark.parametrize("stop_after", [0, 1, 5, 11])
def test_an_audit_interrupted_anywhere_resumes_to_the_identical_card(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch, stop_after: int
) -> None:
    journal, ranker = tmp_path / "audit" / "responses.jsonl", Windowed(bag_of_words, 60)
    whole = card_json(make_card(audit(ranker, small, name="first")))
    with pytest.raises(KeyboardInterrupt):
        audit(Counting(ranker, stop_after), small, name="first", journal=journal)  # type: ignore[arg-type]
    with journal.open("a") as stream:
        stream.write('{"query_id": "q7", "by_le')  # what a kill in the middle of a write leaves
    resumed = Counting(ranker)  # type: ignore[arg-type]
    assert card_json(make_card(audit(resumed, small, name="first", journal=journal))) == whole
    assert resumed.calls == 2 * (8 - stop_after // 2)  # two calls a query, finished queries are not asked again
    again = Counting(ranker)  # type: ignore[arg-type]
    assert card_json(make_card(audit(again, small, name="first", journal=journal))) == whole
    assert again.calls == 0


def test_answers_of_an_earlier_run_are_announced(tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch) -> None:
    said: list[str] = []
    journal = tmp_path / "responses.jsonl"
    audit(bag_of_words, small, name="bag", journal=journal, budget=200, announce=said.append)
    assert not [sentence for sentence in said if "earlier" in sentence]
    audit(bag_of_words, small, name="bag", journal=journal, announce=said.append)
    assert f"3 of 8 queries were answered by an earlier run; remove {journal} to ask them again" in said


def test_a_journal_without_answers_gives_way_to_another_audit(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    journal = tmp_path / "responses.jsonl"
    audit(bag_of_words, small, name="one", journal=journal, budget=1)  # not enough for a query
    assert audit(bag_of_words, small, name="two", journal=journal).responses.complete
    assert len(journal.read_text().splitlines()) == 1 + 8


def test_answers_that_were_ranked_by_another_rule_are_not_gone_on_with(tmp_path: Path, small: AuditDesign) -> None:
    """Versions that gave ties their mid-rank wrote no rule; half of such answers would make a card of two rules."""
    journal, constant = tmp_path / "responses.jsonl", FunctionRanker(lambda query, texts: [0.0] * len(texts))
    audit(constant, small, name="one", journal=journal, budget=200)
    first, *answers = journal.read_text().splitlines()
    assert json.loads(first).pop("ties")
    journal.write_text("\n".join([json.dumps({"audit": json.loads(first)["audit"]}), *answers]) + "\n")
    with pytest.raises(DataError, match="ranked ties otherwise"):
        audit(constant, small, name="one", journal=journal)
    assert journal.read_text().splitlines()[1:] == answers  # nothing was lost or added
    journal.write_text("\n".join([first, *answers]) + "\n")
    assert audit(constant, small, name="one", journal=journal).responses.complete


def test_a_journal_of_another_ranker_is_refused(tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch) -> None:
    audit(bag_of_words, small, name="one", journal=tmp_path / "responses.jsonl")
    with pytest.raises(DataError, match="another ranker, data or settings"):
        audit(bag_of_words, small, name="two", journal=tmp_path / "responses.jsonl")


def _answers(planted: tuple[float, ...], isolated: float, absent: float) -> Responses:
    """Answers of twenty queries around these reciprocal ranks."""
    jitter = np.linspace(0.98, 1.02, 20)
    records = [
        QueryResponse(
            f"q{n}",
            (LengthResponse(256, tuple(planted), (0.0,) * 3, isolated * by, absent, (planted[0], planted[-1] * by)),),
            rerun=0.0,
        )
        for n, by in enumerate(jitter)
    ]
    return Responses(tuple(records), len(records))


@pytest.mark.parametrize(
    ("planted", "ending"),
    [
        ((0.9, 0.5, 0.05), "at slot 3 of 3 and not at slot 1: there its document ranks below chance."),
        ((1.0, 0.5, 0.2), "at slot 3 of 3 and not at slot 1: at slot 1 its document ranks above the passage alone."),
    ],
)
def test_more_than_the_whole_signal_is_said_to_be_all_of_it_and_why(planted: tuple[float, ...], ending: str) -> None:
    settings = AuditSettings(queries=20, slots=3, lengths=(256,), draws=199)
    found = judge(_answers(planted, isolated=0.8, absent=0.15), settings)
    assert found.lost is not None
    assert found.lost.value > 1
    assert "loses all of the usable signal (95% interval over 100%)" in found.reason
    assert found.reason.endswith(ending)


def test_robust_is_said_of_each_place_against_the_average_and_of_no_more() -> None:
    settings = AuditSettings(queries=20, slots=3, lengths=(256,), draws=199)
    found = judge(_answers((0.539, 0.461, 0.539), isolated=0.8, absent=0.15), settings)  # .04, -.08, .04 of .65
    assert found.outcome is Outcome.robust
    assert found.lost is not None
    assert found.lost.value > 0.10
    assert "within 10% of the average place" in found.reason
    assert "the best and the worst differ by 20% of the usable signal at most" in found.reason


def _one_slot_off(share: float, *, queries: int) -> Responses:
    """Noisy answers with a usable signal of .65 and the third of five slots so much of it below the mean of all."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, (queries, 5))
    table = noise - noise.mean(axis=0)
    curve = 0.5 - 0.65 * share * np.array([0, 0, 1.25, 0, 0])  # 5/4: the slot pulls the mean down by a quarter
    records = [
        QueryResponse(
            f"q{n}", (LengthResponse(256, tuple(row), (0.0,) * 5, isolated, 0.15, (row[0], row[-1])),), rerun=0.0
        )
        for n, (row, isolated) in enumerate(zip((curve + table).tolist(), rng.normal(0.8, 0.1, queries), strict=True))
    ]
    return Responses(tuple(records), queries)


def test_the_queries_needed_follow_from_the_room_that_the_worst_place_leaves() -> None:
    settings = AuditSettings(slots=5, lengths=(256,), draws=199)
    found = judge(_one_slot_off(0.08, queries=60), settings)
    assert found.outcome is Outcome.inconclusive
    assert found.queries_needed is not None
    # the band reaches .047 of the signal to either side and .02 is left for it: 60 x (.047 / .02)^2 = 331
    assert 250 < found.queries_needed < 400
    assert judge(_one_slot_off(0.08, queries=150), settings).outcome is Outcome.inconclusive
    assert judge(_one_slot_off(0.08, queries=found.queries_needed + 50), settings).outcome is Outcome.robust


def test_a_place_that_may_be_off_by_chance_takes_no_room_from_the_queries_needed() -> None:
    found = judge(_one_slot_off(0.08, queries=12), AuditSettings(slots=5, lengths=(256,), draws=199))
    # the band reaches .11 and holds the mean; first against last has a spread of about .1 x sqrt(2), and
    # 7.85 x .02 / (.1 x .65)^2 = 37; with .02 of room it would be 12 x (.11 / .02)^2 = 363
    assert found.queries_needed is not None
    assert 30 < found.queries_needed < 50


def test_half_as_many_queries_again_are_asked_for_at_least() -> None:
    found = judge(_one_slot_off(0.057, queries=60), AuditSettings(slots=5, lengths=(256,), draws=199))
    # .042 of the signal is left for a band that reaches .049: 60 x (.049 / .042)^2 = 82, which may fail again
    assert found.queries_needed == 90


def _at_two_lengths(short: Responses, long: Responses) -> Responses:
    """The answers to documents of 256 tokens, and those of other queries as if to documents of 512."""
    records = [
        dataclasses.replace(one, by_length=(*one.by_length, dataclasses.replace(other.by_length[0], length=512)))
        for one, other in zip(short.records, long.records, strict=True)
    ]
    return Responses(tuple(records), len(records))


def test_the_length_that_takes_most_queries_says_how_many_are_needed() -> None:
    settings = AuditSettings(slots=5, lengths=(256, 512), draws=199)
    near, far, too_far = (_one_slot_off(share, queries=60) for share in (0.057, 0.08, 0.13))
    found = judge(_at_two_lengths(near, far), settings)
    assert found.by_length[0].queries_needed == 90
    assert found.queries_needed == found.by_length[1].queries_needed
    assert f"about {found.queries_needed} are needed" in found.reason
    hopeless = judge(_at_two_lengths(near, too_far), settings)
    assert hopeless.by_length[0].queries_needed == 90
    assert hopeless.queries_needed is None
    assert "in documents of 512 tokens slot 3 of 5 is 13% off it" in hopeless.reason


def test_a_length_without_signal_is_named_where_the_others_are_robust() -> None:
    robust = _answers((0.5, 0.5, 0.5), isolated=0.8, absent=0.15)
    mute = _answers((0.15, 0.15, 0.15), isolated=0.15, absent=0.15)
    found = judge(_at_two_lengths(robust, mute), AuditSettings(slots=3, lengths=(256, 512), draws=199))
    assert (found.outcome, found.queries_needed) == (Outcome.inconclusive, None)
    assert found.reason.startswith("Among documents of 512 tokens the relevant passage alone is not ranked above")
    assert found.reason.endswith("at the other lengths every place is within 10% of the average place.")


def test_what_length_alone_costs_is_said_beside_robust_where_it_is_more_than_position_may() -> None:
    settings = AuditSettings(slots=3, lengths=(256,), draws=199)
    dear = judge(_answers((0.475, 0.475, 0.475), isolated=0.8, absent=0.15), settings)  # .325 of .65
    assert "Length does cost: 50% of the usable signal" in dear.reason
    cheap = judge(_answers((0.78, 0.78, 0.78), isolated=0.8, absent=0.15), settings)
    assert (dear.outcome, cheap.outcome) == (Outcome.robust, Outcome.robust)
    assert "Length" not in cheap.reason


def test_more_queries_are_not_asked_for_where_a_place_is_too_far_off() -> None:
    found = judge(_one_slot_off(0.13, queries=60), AuditSettings(slots=5, lengths=(256,), draws=199))
    assert found.outcome is Outcome.inconclusive
    assert found.queries_needed is None
    assert "more are not expected to show that every place is within 10% of the average place" in found.reason
    assert "slot 3 of 5 is 13% off it" in found.reason


def test_the_tolerance_follows_the_queries_answered_and_not_those_asked_for() -> None:
    settings = AuditSettings(queries=1000, slots=3, lengths=(256,), draws=199)
    assert judge(_answers((0.5, 0.5, 0.5), isolated=0.8, absent=0.15), settings).tolerance == 0.10  # twenty queries


def test_a_budget_stops_before_it_is_exceeded_and_the_next_run_goes_on(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    counting, journal = Counting(bag_of_words), tmp_path / "responses.jsonl"
    first = audit(counting, small, name="bag", journal=journal, budget=200)
    assert counting.documents <= 200
    assert len(first.responses.records) == 3  # 55 documents a query, the re-run included
    assert first.findings.outcome is Outcome.not_auditable
    assert "budget" in first.findings.reason
    rest = audit(bag_of_words, small, name="bag", journal=journal)
    assert rest.responses.complete


def test_a_listwise_ranker_is_asked_list_by_list(small: AuditDesign, bag_of_words: WordMatch) -> None:
    counting = Counting(bag_of_words)
    lists = ask(counting, small.probe(small.queries[0]), listwise=True)
    # 2 lengths x (3 slots + isolated + absent + 2 reversed + 1 re-run) lists of 21
    assert counting.calls == 16
    assert counting.documents == 16 * 21
    assert lists.by_length == ask(bag_of_words, small.probe(small.queries[0])).by_length


def test_each_distinct_document_is_scored_once(small: AuditDesign, bag_of_words: WordMatch) -> None:
    counting, probe = Counting(bag_of_words), small.probe(small.queries[0])
    ask(counting, probe)
    assert counting.documents == len({document.text for document in probe.documents}) + 2


def test_a_card_survives_the_disk_and_a_damaged_one_is_refused(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    card = make_card(audit(Windowed(bag_of_words, 60), small, name="first"))
    write_card(card, tmp_path / "card.json")
    assert read_card(tmp_path / "card.json") == card
    text = (tmp_path / "card.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('"ranker"', '"ranked"'))
    with pytest.raises(DataError, match="not a whole audit card"):
        read_card(tmp_path / "other.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(DataError, match="not an audit card"):
        read_card(tmp_path / "list.json")


def test_length_costs_a_decaying_ranker_and_a_short_window_nothing_more(
    small: AuditDesign, bag_of_words: WordMatch
) -> None:
    decay = audit(bag_of_words.weighted(decaying(100)), small, name="decay").findings
    assert decay.length_slope is not None
    assert decay.length_slope.value < 0
    # the shorter documents' fillers begin the longer ones, so the first 60 words are the same at both lengths
    window = audit(Windowed(bag_of_words, 60), small, name="first").findings
    assert window.length_slope == (0.0, 0.0, 0.0)
    assert window.interaction == (0.0, 1.0)
