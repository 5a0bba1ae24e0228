"""Spans, orders and words of the dialects, without a server."""

import json
import math
import tracemalloc
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.types import CharSpan
from longrank.serving.admission import Refusal
from longrank.serving.dialects import CohereRequest, RelevantSpans, order, parse, relevant_spans, sigmoid
from longrank.serving.explore import windows
from longrank.serving.metrics import Meters
from longrank.serving.readers import Part, Reading
from longrank.serving.settings import ServeSettings

SETTINGS = ServeSettings(ranker="tiny")

PARTS = st.builds(
    lambda start, length, value: Part(CharSpan(start, start + length), value),
    st.integers(0, 60),
    st.integers(0, 20),
    st.floats(-5, 5),
)


@given(st.lists(PARTS, max_size=25), st.integers(1, 6) | st.none(), st.floats(0, 1))
def test_spans_never_overlap_fall_in_score_and_begin_with_the_best(
    parts: list[Part], most: int | None, threshold: float
) -> None:
    found = relevant_spans(parts, RelevantSpans(threshold=threshold, max_spans=most), sigmoid)
    assert len(found) <= (most or len(parts))
    assert all(one["end"] <= two["start"] or two["end"] <= one["start"] for one, two in combinations(found, 2))
    assert [s["score"] for s in found] == sorted((s["score"] for s in found), reverse=True)
    good = [part for part in parts if part.chars.start < part.chars.stop and sigmoid(part.value) > threshold]
    assert bool(found) == bool(good)
    if good:
        assert found[0]["score"] == sigmoid(max(part.value for part in good))
    if most is None:  # whatever was left out is in the way of something better
        for part in good:
            assert any(s["start"] < part.chars.stop and part.chars.start < s["end"] for s in found)


def test_spans_of_a_worked_example() -> None:
    parts = [Part(CharSpan(0, 10), 1.0), Part(CharSpan(5, 15), 2.0), Part(CharSpan(15, 20), 0.0)]
    # the second is best and shuts out the first; the third begins where it ends
    found = relevant_spans(parts, RelevantSpans(), sigmoid)
    assert [(s["start"], s["end"]) for s in found] == [(5, 15), (15, 20)]
    assert found[0]["score"] == pytest.approx(1 / (1 + math.exp(-2)))


def test_equal_scores_keep_the_order_of_the_request() -> None:
    readings = [Reading(score, 1) for score in (0.5, 2.0, 0.5, 2.0)]
    assert order(readings) == [1, 3, 0, 2]
    assert order(readings, 3) == [1, 3, 0]


def test_scores_that_the_sigmoid_cannot_tell_apart_are_still_ordered() -> None:
    readings = [Reading(score, 1) for score in (50.0, 60.0, 55.0)]
    assert {sigmoid(reading.score) for reading in readings} == {1.0}
    assert order(readings) == [1, 2, 0]


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_refusal_never_quotes_a_text(query: str, text: str) -> None:
    secret = "secret" + query
    body = json.dumps({"query": [secret], "documents": {"x": text}, "top_n": secret}).encode("utf-8", "replace")
    with pytest.raises(Refusal) as refused:
        parse(CohereRequest, body, SETTINGS, status=400)
    assert "secret" not in refused.value.message


def test_a_count_may_be_written_as_3_point_0() -> None:
    assert parse(CohereRequest, b'{"query": "a", "documents": ["b"], "top_n": 3.0}', SETTINGS, status=400).top_n == 3


@pytest.mark.parametrize(
    ("start", "item", "words"),
    [
        ('{"query": "q", "documents": [', "1,", "more than 321000 values"),
        ('{"query": "q", "documents": ["a"], "other": [', "[],", "more than 321000 values"),
        ('{"query": "q", "documents": [', '{"text":""},', "83333 documents were sent and 10000 is the most"),
    ],
)
def test_a_megabyte_of_small_values_is_refused_in_little_memory(start: str, item: str, words: str) -> None:
    body = (start + (item * (1_000_000 // len(item)))[:-1] + "]}").encode()
    tracemalloc.start()
    try:
        with pytest.raises(Refusal, match=words) as refused:
            parse(CohereRequest, body, SETTINGS, status=400)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
    assert refused.value.status == 413


def test_only_the_first_wrong_document_is_looked_at() -> None:
    body = json.dumps({"query": "q", "documents": ["fine", *[1] * 9_000]}).encode()
    with pytest.raises(Refusal, match=r"documents\.1") as refused:
        parse(CohereRequest, body, SETTINGS, status=400)
    assert "documents.2" not in refused.value.message


@pytest.mark.parametrize("text", ["[a, {b}], " * 2_000, '\\", "' * 2_000, '\\\\", ' * 2_000 + "\\"])
def test_separators_inside_a_text_are_no_values(text: str) -> None:
    settings = ServeSettings(ranker="tiny", max_documents=1)  # at most 1,032 values
    body = json.dumps({"query": "q", "documents": [text]}).encode()
    assert parse(CohereRequest, body, settings, status=400).texts == [text]


@given(st.integers(0, 900))
def test_windows_cover_a_text_from_its_first_word_to_its_last(words: int) -> None:
    text = " ".join(f"w{n}" for n in range(words))
    found = windows(text, words=20, most=12)
    assert found[0].start == 0
    assert found[-1].stop == len(text)
    assert all(later.start <= earlier.stop for earlier, later in pairwise(found))
    assert len(found) <= 13


def test_times_are_counted_in_every_bucket_that_holds_them() -> None:
    meters = Meters()
    meters.answered("/rerank", 200, 0.03)
    meters.answered("/rerank", 200, 400.0)
    lines = dict(line.rsplit(" ", 1) for line in meters.text({"longrank_held_bytes": 7}).splitlines())
    bucket = 'longrank_request_seconds_bucket{path="/rerank",le="%s"}'
    assert [lines[bucket % bound] for bound in ("0.025", "0.05", "300", "+Inf")] == ["0", "1", "1", "2"]
    assert lines['longrank_requests_total{path="/rerank",status="200"}'] == "2"
    assert lines["longrank_held_bytes"] == "7"
