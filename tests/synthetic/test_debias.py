"""Shuffled documents keep every word, and their spans follow."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import SettingsError
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, TokenSpan
from longrank.synthetic.debias import DebiasSettings, SegmentShuffle, debiased

WORDS = [f"w{i}" for i in range(40)]
texts = st.text(alphabet="ab. \n", max_size=60)
modes = st.builds(
    DebiasSettings,
    seed=st.integers(0, 99),
    unit=st.sampled_from(["words", "sentences"]),
    segments=st.integers(2, 6),
)


def rotation(seed: int = 0) -> SegmentShuffle:
    return SegmentShuffle(DebiasSettings(seed=seed))


@given(text=texts, mode=modes, epoch=st.integers(0, 5))
def test_every_word_is_kept(text: str, mode: DebiasSettings, epoch: int) -> None:
    shuffled = SegmentShuffle(mode)(Document("d", text), epoch)
    assert Counter(shuffled.text.split()) == Counter(text.split())


@given(mode=modes, start=st.integers(0, 39), count=st.integers(1, 40))
def test_the_parts_of_a_span_hold_its_words(mode: DebiasSettings, start: int, count: int) -> None:
    words = [word + "." if i % 7 == 6 else word for i, word in enumerate(WORDS)]
    text, stop = " ".join(words), min(40, start + count)
    span = CharSpan(len(" ".join([*words[:start], ""])), len(" ".join(words[:stop])))
    shuffled = SegmentShuffle(mode).shuffle(Document("d", text))
    held = [word for part in shuffled.carry(span) for word in shuffled.document.text[part.start : part.stop].split()]
    assert sorted(held) == sorted(words[start:stop])


def test_two_segments_are_a_rotation_at_any_word() -> None:
    doubled, cuts = WORDS + WORDS, Counter[int]()
    for epoch in range(2000):
        found = rotation()(Document("d", " ".join(WORDS)), epoch).text.split()
        cut = WORDS.index(found[0])
        cuts[cut] += 1
        assert found == doubled[cut : cut + 40]
    # 39 cuts, about 51 times each, never the document as it was
    assert cuts.keys() == set(range(1, 40))
    assert max(cuts.values()) < 51.3 + 5 * 51.3**0.5


def test_more_segments_come_in_any_order_but_stay_whole() -> None:
    shuffle = SegmentShuffle(DebiasSettings(segments=4))
    breaks = []
    for epoch in range(50):
        found = [int(word[1:]) for word in shuffle(Document("d", " ".join(WORDS)), epoch).text.split()]
        breaks.append(sum(b != a + 1 for a, b in pairwise(found)))
    assert max(breaks) == 3


def test_sentences_stay_whole() -> None:
    shuffle = SegmentShuffle(DebiasSettings(unit="sentences", seed=3))
    text = "One two. Three four! Five six? Seven."
    seen = {shuffle(Document("d", text), epoch).text for epoch in range(60)}
    assert len(seen) > 15
    for one in seen:
        assert all(sentence in one for sentence in ("One two.", "Three four!", "Five six?", "Seven."))


def test_documents_and_epochs_have_orders_of_their_own_that_never_change() -> None:
    text = " ".join(WORDS)
    orders = {(name, epoch): rotation()(Document(name, text), epoch).text for name in "abcd" for epoch in range(4)}
    assert len(set(orders.values())) > 8
    assert orders["a", 1] == rotation()(Document("a", text), 1).text


def test_a_debiased_collection_has_the_training_queries_and_carried_spans() -> None:
    documents = {f"d{i}": Document(f"d{i}", " ".join(WORDS)) for i in range(20)}
    queries = {f"q{i}": Query(f"q{i}", "w9") for i in range(20)}
    at = " ".join(WORDS).index("w9")
    spans = tuple(GoldSpan(f"q{i}", f"d{i}", CharSpan(at, at + 2), "planted") for i in range(20))
    source = Collection("c", documents, queries, Qrels({f"q{i}": {f"d{i}": 1} for i in range(20)}), spans)
    made = debiased(source, DebiasSettings(), query_ids=[f"q{i}" for i in range(15)])
    assert list(made.queries) == [f"q{i}" for i in range(15)] == list(made.qrels)
    assert made.documents.keys() == documents.keys()
    starts = set()
    for gold in made.spans:
        assert made.documents[gold.document_id].text[gold.span.start : gold.span.stop] == "w9"
        starts.add(gold.span.start)
    assert len(made.spans) == 15
    assert len(starts) > 5


def test_spans_of_tokens_are_refused() -> None:
    gold = GoldSpan("q", "d", TokenSpan(0, 1, "words-v1"), "planted")
    source = Collection("c", {"d": Document("d", "a b")}, {"q": Query("q", "a")}, Qrels({"q": {"d": 1}}), (gold,))
    with pytest.raises(SettingsError, match="characters"):
        debiased(source, DebiasSettings(), query_ids=["q"])
