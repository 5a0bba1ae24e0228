"""Profile, ceiling and matchers on real long papers whose answers are marked."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, Run
from longrank.positions.alignment import PassageAligner
from longrank.positions.ceiling import ceiling, reach
from longrank.positions.gold import gold_estimator
from longrank.positions.matching import Matcher, PassageMatcher
from longrank.positions.profile import PositionProfile
from longrank.positions.profiling import profile_positions

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "covid-qa"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the COVID-QA papers are not at hand")


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((FOLDER / name).read_bytes()).splitlines()]


@pytest.fixture(scope="module")
def papers() -> Collection:
    documents = {one["id"]: Document(one["id"], one["text"]) for one in lines("docs.jsonl.gz")}
    queries = {one["id"]: Query(one["id"], one["text"]) for one in lines("queries.jsonl.gz")}
    spans = [
        GoldSpan(one["qid"], one["docid"], CharSpan(one["start"], one["end"]), "covid-qa")
        for one in lines("spans.jsonl.gz")
    ]
    return Collection("covid-qa", documents, queries, Qrels({s.query_id: {s.document_id: 1} for s in spans}), spans)


@pytest.fixture(scope="module")
def profile(papers: Collection) -> PositionProfile:
    return profile_positions(papers, gold_estimator(papers.spans), WordTokenizer())


def test_every_answer_is_located_and_few_lie_in_the_first_chunk(profile: PositionProfile) -> None:
    assert (len(profile.records), profile.share_not_located) == (1380, 0)
    assert reach(profile, window=477, rule="start").located.value < 0.25
    assert reach(profile, window=20_000, rule="end").located.value == 1


def test_answers_come_earlier_than_chance_would_place_them(profile: PositionProfile) -> None:
    shift = profile.first_shift()
    assert shift.high < 0
    assert shift.value == pytest.approx(profile.mean_shift().value, abs=0.01)  # one short span each: the same question


def test_the_ceiling_of_one_relevant_paper_a_query_is_the_reach(papers: Collection, profile: PositionProfile) -> None:
    everything = Run("all", {query_id: dict.fromkeys(papers.documents, 0.0) for query_id in papers.queries})
    for window in (477, 1431):
        best = ceiling(profile, papers.qrels, everything, window=window, rule="end")
        expected = reach(profile, window=window, rule="end").located.value
        for measure in ("RR", "nDCG@10", "AP"):
            assert best.mean(measure) == pytest.approx((expected, expected))


def sentence_around(text: str, span: CharSpan) -> CharSpan:
    """The sentence or sentences that hold the answer."""
    ends = [0, *(match.end() for match in re.finditer(r"(?<=[.!?])\s+", text)), len(text)]
    return CharSpan(max(end for end in ends if end <= span.start), min(end for end in ends if end >= span.stop))


# the papers' words end at blanks, so a lost comma is a changed word there; ours have no punctuation
@pytest.mark.parametrize(
    ("matcher", "lost"), [(PassageMatcher(), "\n"), (PassageAligner(), ",")], ids=["papers", "aligned"]
)
def test_the_answers_sentences_are_found_back(papers: Collection, matcher: Matcher, lost: str) -> None:
    found = tried = 0
    for gold in papers.spans[::9]:
        text = papers.documents[gold.document_id].text
        assert isinstance(gold.span, CharSpan)
        sentence = sentence_around(text, gold.span)
        passage = text[sentence.start : sentence.stop]
        if len(re.findall(r"\w+", passage)) < 8 or text.count(passage.strip()) > 1:
            continue
        tried += 1
        located = matcher.match(passage.upper().replace(" ", "\n ").replace(lost, " "), text)
        if located:
            overlap = min(located.spans[0].stop, sentence.stop) - max(located.spans[0].start, sentence.start)
            found += overlap > 0.8 * (sentence.stop - sentence.start)
    assert tried > 100
    assert found / tried >= 0.98
