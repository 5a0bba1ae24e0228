from collections.abc import Iterable

import pytest

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import Collection, Document, Qrels, Query, Run
from longrank.positions.recovering import Passage, recover, recovered_profile

PASSAGE = "the small grey cat sat down on an old mat"
FILLER = "many years went by and nothing at all was heard of him in town or country"


class FixedRetriever:
    """Returns the same documents for every query and remembers what it was asked."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores, self.asked = scores, list[str]()

    def retrieve(self, queries: Iterable[Query], *, depth: int) -> Run:
        wanted = list(queries)
        self.asked += [query.text for query in wanted]
        return Run("fixed", {query.id: self.scores for query in wanted}).top(depth)


def test_relevant_documents_come_before_retrieved_ones_and_higher_ratios_before_lower() -> None:
    edited = f"{FILLER} the big grey cat sat down on an ugly mat"
    documents = {
        "whole": Document("whole", f"{FILLER} {PASSAGE}"),
        "early": Document("early", PASSAGE),
        "edited": Document("edited", edited),
        "other": Document("other", FILLER),
    }
    queries = {name: Query(name, name) for name in ("q1", "q2", "q3")}
    qrels = Qrels({"q1": {"edited": 1, "whole": 1, "early": 1}, "q2": {"other": 1}, "q3": {"edited": 1}})
    collection = Collection("toy", documents, queries, qrels)
    retriever = FixedRetriever({"edited": 3.0, "whole": 2.0, "gone": 1.0})
    passages = [Passage(f"p{number}", f"q{number}", PASSAGE) for number in (1, 2, 3)]
    first, second, third = recover(passages, collection, retriever=retriever)
    assert (first.document_id, first.stage) == ("early", "relevant")  # ratio 1 twice: the earlier position
    assert (second.document_id, second.stage) == ("whole", "retrieved")  # the better match, not the better score
    assert (third.document_id, third.stage, third.located.ratio) == ("edited", "relevant", 0.8)
    assert retriever.asked == [PASSAGE]


def test_a_passage_found_nowhere_is_reported_with_a_reason() -> None:
    collection = Collection("toy", {"d": Document("d", FILLER)}, {"q": Query("q", "?")}, Qrels({"q": {"d": 1}}))
    long, short = recover([Passage("p", "q", PASSAGE), Passage("s", "q", "too short")], collection)
    assert long.document_id is None
    assert "1 relevant documents" in long.located.reason
    assert "2 words" in short.located.reason


def test_recovered_passages_make_a_profile_in_which_lost_ones_count() -> None:
    documents = {"d": Document("d", f"{FILLER} {PASSAGE}"), "e": Document("e", PASSAGE)}
    queries = {name: Query(name, name) for name in ("q1", "q2")}
    collection = Collection("toy", documents, queries, Qrels({"q1": {"d": 1}, "q2": {"e": 1}}))
    lost = Passage("p3", "q2", "nobody ever wrote this sentence into a document")
    passages = [Passage("p1", "q1", PASSAGE), Passage("p0", "q1", FILLER), Passage("p2", "q2", PASSAGE), lost]
    profile = recovered_profile(recover(passages, collection), collection, WordTokenizer())
    spans = {(r.query_id, r.document_id): [(s.start, s.stop) for s in r.spans] for r in profile.records}
    assert spans == {("q1", "d"): [(0, 16), (16, 26)], ("q2", "e"): [(0, 10)], ("q2", ""): []}
    assert profile.share_not_located == pytest.approx(1 / 3)
