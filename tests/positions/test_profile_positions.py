import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import ChatError, DataError, SettingsError
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, TokenSpan
from longrank.positions.alignment import PassageAligner
from longrank.positions.estimators import Located, PositionEstimator
from longrank.positions.gold import gold_estimator
from longrank.positions.matching import MatchingEstimator, MatchSettings, PassageMatcher
from longrank.positions.profile import PositionProfile
from longrank.positions.profiling import load_profile, profile_positions, relevant_pairs, save_profile
from longrank.positions.records import PairRecord
from longrank.reports.position_plots import decile_figure, first_position_figure
from longrank.reports.position_tables import profile_table

WORDS = WordTokenizer()
EVIDENCE = "here stands the very answer that was wanted"


def planted(positions: dict[str, int], *, length: int = 1200) -> Collection:
    """One query and one document a name, its evidence planted at the given word."""
    documents, spans = {}, []
    for name, at in positions.items():
        words = [f"x{number}" for number in range(length)]
        words[at:at] = EVIDENCE.split()
        text = " ".join(words)
        documents[name] = Document(name, text)
        start = text.index(EVIDENCE)
        spans.append(GoldSpan(f"q-{name}", name, CharSpan(start, start + len(EVIDENCE)), "planted"))
    queries = {f"q-{name}": Query(f"q-{name}", "?") for name in positions}
    return Collection("toy", documents, queries, Qrels({f"q-{name}": {name: 1} for name in positions}), spans)


POSITIONS = {"a": 0, "b": 470, "c": 500, "d": 1100}


def estimators(collection: Collection) -> list[PositionEstimator]:
    passages = {query_id: [EVIDENCE] for query_id in collection.queries}
    return [gold_estimator(collection.spans), MatchingEstimator(passages, PassageMatcher())]


@pytest.mark.parametrize("kind", [0, 1])
def test_planted_positions_are_recovered_exactly(kind: int) -> None:
    collection = planted(POSITIONS)
    profile = profile_positions(collection, estimators(collection)[kind], WORDS)
    assert profile.first("start").tolist() == list(POSITIONS.values())
    assert profile.first("end").tolist() == [at + 8 for at in POSITIONS.values()]
    assert set(profile.lengths().tolist()) == {1208}


def test_chunk_shares_are_those_of_the_papers_table() -> None:
    # chunks of 477: starts 0, 470 | 500 | 1100 -> 2, 1, 1; the last tokens are 7 | 477, 507 | 1107 -> 1, 2, 1
    collection = planted(POSITIONS)
    profile = profile_positions(collection, gold_estimator(collection.spans), WORDS)
    assert profile.chunk_shares("start") == (0.5, 0.25, 0.25, 0, 0, 0, 0)
    assert profile.chunk_shares("end") == (0.25, 0.5, 0.25, 0, 0, 0, 0)
    assert profile.chunk_shares("start", chunk_tokens=100, chunks=3) == (0.25, 0, 0, 0.75)


def records(*pairs: tuple[str, int, tuple[tuple[int, int], ...]]) -> PositionProfile:
    made = [
        PairRecord(query, f"d{number}", length, tuple(TokenSpan(a, b, "words-v1") for a, b in spans), "gold")
        for number, (query, length, spans) in enumerate(pairs)
    ]
    return PositionProfile("made", "words-v1", tuple(made))


def test_decile_rates_are_shares_of_each_tenth() -> None:
    # first: tokens 0-15 of 100 fill tenth 1 and half of tenth 2; second: nothing but the last tenth
    profile = records(("q1", 100, ((0, 15),)), ("q2", 100, ((90, 100),)))
    assert profile.decile_rates() == pytest.approx((0.5, 0.25, 0, 0, 0, 0, 0, 0, 0, 0.5))


def test_passages_a_document_are_counted_and_collapsed() -> None:
    profile = records(("q1", 900, ((0, 50), (60, 110), (300, 340))), ("q2", 900, ((5, 9),)))
    assert profile.passage_counts().three_or_more == 0.5
    collapsed = profile.passage_counts(max_tokens=130)  # 0-110 is one passage, 300-340 another
    assert (collapsed.one, collapsed.one_or_two, collapsed.three_or_more) == (0.5, 1.0, 0.0)
    judged = PairRecord("q", "d", 9, spans_of(0, 1, 2), "gold", slots=9, relevant_slots=(0, 1, 2))
    assert PositionProfile("judged", "words-v1", (judged,)).passage_counts(max_tokens=130).three_or_more == 1


def spans_of(*starts: int) -> tuple[TokenSpan, ...]:
    return tuple(TokenSpan(start, start + 1, "words-v1") for start in starts)


def test_divergence_is_small_for_placement_by_chance_and_large_for_front_loading() -> None:
    rng = np.random.default_rng(0)
    spread = [(str(n), 1000, ((int(start), int(start) + 1),)) for n, start in enumerate(rng.integers(0, 1000, 2000))]
    front = [(str(n), 1000, ((n % 50, n % 50 + 1),)) for n in range(200)]
    assert records(*spread).divergence().ks < 0.04
    assert records(*spread).divergence().kl < 0.01
    assert records(*front).divergence().ks == pytest.approx(0.95, abs=0.02)
    assert records(*front).divergence().kl == pytest.approx(np.log(10), abs=0.02)  # all in the first tenth


def test_distances_stand_beside_those_of_placement_by_chance_in_the_same_documents() -> None:
    rng = np.random.default_rng(1)

    def placed() -> PositionProfile:
        """43 documents of several lengths, one token relevant in each."""
        lengths = range(200, 1060, 20)
        starts = [int(rng.integers(length)) for length in lengths]
        return records(*((str(at), n, ((at, at + 1),)) for n, at in zip(lengths, starts, strict=True)))

    found, profile = [placed().divergence(draws=1) for _ in range(300)], placed()
    told = profile.divergence()
    assert told == profile.divergence(seed=0) != profile.divergence(seed=1)
    for values, chance in (
        ([one.ks for one in found], told.ks_by_chance),
        ([one.kl for one in found], told.kl_by_chance),
    ):
        assert chance.mean == pytest.approx(np.mean(values), rel=0.1)
        assert chance.high == pytest.approx(np.quantile(values, 0.95), rel=0.15)
    assert f"which itself gives {told.ks_by_chance.mean:.3f}" in " ".join(profile_table(profile).notes)
    front = records(*((str(n), 1000, ((n, n + 1),)) for n in range(43))).divergence()
    assert front.ks > 2 * front.ks_by_chance.high


def test_sentences_say_what_a_prefix_holds_with_bounds_for_the_unlocated() -> None:
    missing = PairRecord("q9", "d9", 50, (), "none", reason="not there")
    found = records(("q1", 1000, ((0, 10),)), ("q2", 1000, ((900, 910),)), ("q3", 1000, ((3, 9),)))
    profile = PositionProfile("made", "words-v1", (*found.records, missing))
    sentence = profile.prefix_sentence(477)
    assert "starts within the first 477 words-v1 tokens in 66.7%" in sentence
    assert "50.0% to 75.0%" in sentence  # 3/4 located: .75 x 2/3, and a quarter more
    assert profile.share_not_located == 0.25
    assert profile.reasons() == {"not there": 1}


def test_bias_is_claimed_from_six_queries_on() -> None:
    late = [(f"q{number}", 1000, ((950, 960),)) for number in range(6)]
    assert "Bias cannot be told from chance: 5 queries" in records(*late[:5]).bias_sentence()
    assert "differs from chance (later)" in records(*late).bias_sentence()


def test_nothing_located_is_said_instead_of_computed() -> None:
    profile = PositionProfile("none", "words-v1", (PairRecord("q", "d", 5, (), "none", reason="why"),))
    assert "No relevant place was located" in profile.prefix_sentence()
    assert "cannot be told" in profile.bias_sentence()
    assert any("why" in note for note in profile_table(profile).notes)
    with pytest.raises(DataError, match="nothing to draw"):
        decile_figure(profile)


def test_spans_of_another_tokenizer_are_refused() -> None:
    record = PairRecord("q", "d", 9, (TokenSpan(0, 1, "bert-uncased"),), "gold")
    with pytest.raises(DataError, match="count all with one tokenizer"):
        PositionProfile("mixed", "words-v1", (record,))


def test_bad_pairs_become_reasons_and_the_others_stay() -> None:
    collection = planted({"a": 10, "b": 20})
    spans = [*collection.spans[:1], GoldSpan("q-b", "b", CharSpan(0, 10**6), "bad")]
    qrels = Qrels({"q-a": {"a": 1, "gone": 1, "empty": 1}, "q-b": {"b": 1}, "q-c": {"a": 1}})
    documents = {**collection.documents, "empty": Document("empty", "")}
    damaged = Collection("toy", documents, collection.queries, qrels, spans)
    profile = profile_positions(damaged, gold_estimator(spans), WORDS)
    reasons = {(r.query_id, r.document_id): r.reason for r in profile.records}
    assert reasons["q-a", "a"] == ""
    assert "not in the collection" in reasons["q-a", "gone"]
    assert "no words" in reasons["q-a", "empty"]
    assert "SpanOutsideDocument" in reasons["q-b", "b"]
    assert "query is not in the collection" in reasons["q-c", "a"]
    assert len(profile.located) == 1


def test_several_processes_give_the_same_profile() -> None:
    # more batches of 16 than are sent ahead to two processes
    collection = planted({str(number): number for number in range(180)}, length=200)
    passages = {query_id: [EVIDENCE] for query_id in collection.queries}
    estimator = MatchingEstimator(passages, PassageMatcher())
    assert profile_positions(collection, estimator, WORDS, workers=2) == profile_positions(collection, estimator, WORDS)


class StopsAfter:
    """An estimator that dies after a number of pairs, as a killed job would."""

    def __init__(self, inner: PositionEstimator, calls: int) -> None:
        self.inner, self.left = inner, calls

    def locate(self, query: Query, document: Document) -> Located:
        if not self.left:
            raise ChatError("killed")
        self.left -= 1
        return self.inner.locate(query, document)


def test_a_killed_job_continues_where_it_stopped(tmp_path: Path) -> None:
    collection = planted(POSITIONS)
    journal, inner = tmp_path / "profile.journal", gold_estimator(collection.spans)
    with pytest.raises(ChatError):
        profile_positions(collection, StopsAfter(inner, 2), WORDS, journal=journal)
    with journal.open("a") as stream:
        stream.write('{"query_id": "cut o')  # torn while writing
    rest = StopsAfter(inner, 2)
    profile = profile_positions(collection, rest, WORDS, journal=journal)
    assert rest.left == 0
    assert profile == profile_positions(collection, inner, WORDS)
    again = profile_positions(collection, StopsAfter(inner, 0), WORDS, journal=journal)
    assert again == profile


def test_a_journal_of_another_job_is_refused(tmp_path: Path) -> None:
    collection = planted(POSITIONS)
    journal = tmp_path / "profile.journal"
    profile_positions(collection, gold_estimator(collection.spans), WORDS, journal=journal)
    with pytest.raises(DataError, match="another collection"):
        profile_positions(collection, gold_estimator(collection.spans), WORDS, journal=journal, at_least=2)


def test_a_journal_of_other_passages_or_another_matcher_is_refused(tmp_path: Path) -> None:
    collection = planted(POSITIONS)
    journal = tmp_path / "profile.journal"
    passages = {query_id: [EVIDENCE] for query_id in collection.queries}
    done = profile_positions(collection, MatchingEstimator(passages, PassageMatcher()), WORDS, journal=journal)
    again = profile_positions(collection, MatchingEstimator(passages, PassageMatcher()), WORDS, journal=journal)
    assert again == done
    others = (
        MatchingEstimator({**passages, "q-a": ["something else altogether was asked for"]}, PassageMatcher()),
        MatchingEstimator(passages, PassageAligner()),
        MatchingEstimator(passages, PassageMatcher(MatchSettings(subsequence=0.9))),
    )
    for other in others:
        with pytest.raises(DataError, match="another collection"):
            profile_positions(collection, other, WORDS, journal=journal)


def test_a_journal_keeps_no_positions_of_texts_that_have_changed(tmp_path: Path) -> None:
    journal, moved = tmp_path / "profile.journal", planted({**POSITIONS, "b": 900})
    passages = {query_id: [EVIDENCE] for query_id in moved.queries}
    matching = MatchingEstimator(passages, PassageMatcher())
    profile_positions(planted(POSITIONS), StopsAfter(matching, 4), WORDS, journal=journal)
    profile = profile_positions(moved, StopsAfter(matching, 1), WORDS, journal=journal)
    assert profile.first("start").tolist() == [0, 900, 500, 1100]
    asked = replace(moved, queries={**moved.queries, "q-c": Query("q-c", "what else?")})
    with pytest.raises(ChatError):
        profile_positions(asked, StopsAfter(matching, 0), WORDS, journal=journal)
    assert profile_positions(moved, StopsAfter(matching, 0), WORDS, journal=journal) == profile


def test_spans_counted_with_another_tokenizer_are_excluded_and_counted() -> None:
    collection = planted(POSITIONS)
    spans = [*collection.spans[1:], GoldSpan("q-a", "a", TokenSpan(0, 8, "bert-uncased"), "hand")]
    profile = profile_positions(collection, gold_estimator(spans, WORDS), WORDS)
    assert len(profile.located) == 3
    (reason,) = profile.reasons()
    assert "counts tokens of 'bert-uncased', but 'words-v1' was given" in reason


def test_a_document_of_a_million_characters_is_profiled() -> None:
    collection = planted({"long": 150_000}, length=170_000)
    assert len(collection.documents["long"].text) > 1_000_000
    for estimator in estimators(collection):
        assert profile_positions(collection, estimator, WORDS).first("start").tolist() == [150_000]


def test_quantiles_are_tokens_by_which_a_share_has_started_or_ended() -> None:
    profile = records(*((str(n), 100 * (n + 1), ((n, n + 5),)) for n in range(10)))
    # starts 0..9, ends 5..14, lengths 100..1000: the first, fifth and ninth of ten
    assert profile.quantiles() == {"start": (0, 4, 8), "end": (5, 9, 13), "length": (100, 500, 900)}
    assert any("start by 0 / 4 / 8, end by 5 / 9 / 13" in note for note in profile_table(profile).notes)


def test_a_sample_is_drawn_by_seed_without_repeats() -> None:
    collection = planted({str(number): number for number in range(30)}, length=40)
    one, same = (relevant_pairs(collection, sample=10, seed=1) for _ in range(2))
    assert one == same != relevant_pairs(collection, sample=10, seed=2)
    assert len(set(one)) == 10
    with pytest.raises(SettingsError, match="empty"):
        relevant_pairs(collection, sample=0)


def test_a_saved_profile_comes_back_the_same(tmp_path: Path) -> None:
    collection = planted(POSITIONS)
    profile = profile_positions(collection, gold_estimator(collection.spans), WORDS)
    save_profile(profile, tmp_path / "profile.jsonl")
    assert load_profile(tmp_path / "profile.jsonl") == profile
    (tmp_path / "bad.jsonl").write_text(json.dumps({"name": "x"}) + "\n")
    for name in ("bad.jsonl", "gone.jsonl"):
        with pytest.raises(DataError, match="longrank profile"):
            load_profile(tmp_path / name)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a profile .* it is empty"),
        (b"\xff\xfe", "x.jsonl, line 1: byte 1 is not UTF-8"),
        (b'{"id": "d"}\n', "x.jsonl, line 1: 'name' must be a string"),
        (b'{"name": "n", "tokenizer": "t"}\n{"id": 1}\n', r"x.jsonl is not a profile .* not a position record"),
    ],
)
def test_what_is_no_profile_is_named_with_what_is_wrong(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(data)
    with pytest.raises(DataError, match=said) as refused:
        load_profile(tmp_path / "x.jsonl")
    assert "Error(" not in str(refused.value)


def test_figures_are_svg_with_the_profile_s_name() -> None:
    collection = planted(POSITIONS)
    profile = profile_positions(collection, gold_estimator(collection.spans), WORDS)
    for figure in (first_position_figure([profile]), decile_figure(profile)):
        assert figure.startswith("<svg")
        assert "toy" in figure
