"""The toy world: exact spans, one answer a query, nothing leaked, same seed same bytes."""

import re
from collections import Counter
from statistics import mean

import pytest
from pydantic import ValidationError

from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer, minilm_folder
from longrank.core.contracts import Tokenizer
from longrank.core.errors import MissingExtra
from longrank.core.fingerprint import fingerprint
from longrank.core.types import CharSpan, Collection, GoldSpan
from longrank.corpora.catalog.encyclopedia import Encyclopedia
from longrank.synthetic.placing import MSMARCO_START_SHARES
from longrank.synthetic.toy import SCALES, ToySettings, ToyWorld, make_toy

SETTINGS = ToySettings(seed=5, train=240, dev=40, test=60)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    try:
        minilm_folder()
    except MissingExtra as error:
        pytest.skip(str(error))
    return bert_tokenizer()


@pytest.fixture(scope="module")
def world(tokenizer: Tokenizer) -> ToyWorld:
    return make_toy(SETTINGS, tokenizer)


def both(world: ToyWorld) -> tuple[Collection, Collection]:
    return world.toy, world.far


def characters(gold: GoldSpan) -> CharSpan:
    assert isinstance(gold.span, CharSpan)
    return gold.span


def starts_and_lengths(collection: Collection, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Start of the evidence and length of the document, counted in the final text."""
    found = []
    for gold in collection.spans:
        text = tokenizer.tokenize(collection.documents[gold.document_id].text)
        found.append((text.tokens(characters(gold)).start, len(text)))
    return found


def as_bytes(world: ToyWorld) -> str:
    texts = [[document.id, document.text] for one in both(world) for document in one.documents.values()]
    queries = [[query.id, query.text] for query in world.toy.queries.values()]
    return fingerprint(texts, queries, dict(world.splits), dict(world.evidence), dict(world.negatives))


def test_spans_hold_exactly_the_evidence(world: ToyWorld) -> None:
    for collection in both(world):
        assert len(collection.spans) == len(collection.queries)
        for gold in collection.spans:
            span = characters(gold)
            text = collection.documents[gold.document_id].text
            assert text[span.start : span.stop] == world.evidence[gold.query_id]
            assert gold.source == "planted"


def test_far_evidence_starts_behind_the_boundary_of_a_document_within_the_limit(
    world: ToyWorld, tokenizer: Tokenizer
) -> None:
    measured = starts_and_lengths(world.far, tokenizer)
    assert min(start for start, _ in measured) >= 128
    assert max(length for _, length in measured) <= 327


def test_paper_scale_keeps_the_boundary_and_the_limit_of_the_paper(tokenizer: Tokenizer) -> None:
    paper = make_toy(ToySettings(seed=1, scale="paper", train=20, dev=5, test=15), tokenizer)
    measured = starts_and_lengths(paper.far, tokenizer)
    assert min(start for start, _ in measured) >= 512
    assert max(length for _, length in measured) <= 1431
    assert mean(length for _, length in measured) > 800
    assert max(length for _, length in starts_and_lengths(paper.toy, tokenizer)) <= 8 * 477


def test_toy_evidence_starts_where_msmarco_has_it(world: ToyWorld, tokenizer: Tokenizer) -> None:
    measured = starts_and_lengths(world.toy, tokenizer)
    assert max(length for _, length in measured) <= 8 * SCALES["laptop"].chunk_tokens
    chunks = Counter(start // SCALES["laptop"].chunk_tokens for start, _ in measured)
    for chunk, share in enumerate(MSMARCO_START_SHARES):
        noise = (share * (1 - share) / len(measured)) ** 0.5
        assert chunks[chunk] / len(measured) == pytest.approx(share, abs=4 * noise)


def test_each_query_has_exactly_one_relevant_document_named_after_query_and_passage(world: ToyWorld) -> None:
    for collection in both(world):
        relevant = [collection.qrels.relevant(query_id) for query_id in collection.queries]
        assert all(len(ids) == 1 for ids in relevant)
        assert set().union(*relevant) == set(collection.documents)
        assert all(re.fullmatch(r"q\d+_p\d+", document_id) for document_id in collection.documents)


def test_no_other_document_states_what_a_query_asks_for(world: ToyWorld) -> None:
    book = Encyclopedia(SETTINGS.seed)
    by_text = {p.text: (p.entity.index, p.attribute) for p in book.passages(SETTINGS.passage_count)}
    asked = {by_text[text]: query_id for query_id, text in world.evidence.items()}
    assert len(asked) == SETTINGS.queries
    for collection in both(world):
        places: dict[str, list[str]] = {query_id: [] for query_id in collection.queries}
        for document in collection.documents.values():
            for text, fact in by_text.items():
                if fact in asked and text in document.text:
                    places[asked[fact]].append(document.id)
        for query_id, holders in places.items():
            assert set(holders) == collection.qrels.relevant(query_id)


def test_documents_consist_of_whole_passages_none_twice(world: ToyWorld) -> None:
    passages = {p.text for p in Encyclopedia(SETTINGS.seed).passages(SETTINGS.passage_count)}
    for document in list(world.far.documents.values())[:40]:
        rest, seen = document.text, list[str]()
        while rest:
            match = [text for text in passages if rest.startswith(text) and rest[len(text) :][:1] in ("", " ")]
            longest = max(match, key=len)
            seen.append(longest)
            rest = rest[len(longest) :].lstrip(" ")
        assert len(set(seen)) == len(seen)


def test_splits_are_disjoint_complete_and_share_no_entity(world: ToyWorld) -> None:
    assert {name: len(ids) for name, ids in world.splits.items()} == {"train": 240, "dev": 40, "test": 60}
    every = [query_id for ids in world.splits.values() for query_id in ids]
    assert sorted(every) == sorted(world.toy.queries)
    (documents,) = {tuple(collection.documents) for collection in both(world)}
    entities = [int(document_id.partition("_p")[2]) // 6 for document_id in documents]
    assert len(set(entities)) == len(entities)


def test_both_collections_ask_the_same_queries(world: ToyWorld) -> None:
    assert world.toy.queries == world.far.queries
    assert world.toy.documents.keys() == world.far.documents.keys()
    assert all(world.toy.documents[name] != world.far.documents[name] for name in world.far.documents)


def test_negatives_are_filler_on_the_same_entity_or_the_same_attribute(world: ToyWorld) -> None:
    book = Encyclopedia(SETTINGS.seed)
    by_text = {p.text: p for p in book.passages(SETTINGS.passage_count)}
    for query_id, negatives in world.negatives.items():
        evidence = by_text[world.evidence[query_id]]
        near = [by_text[text] for text in negatives]
        assert not set(negatives) & set(world.evidence.values())
        assert [one.entity for one in near[:5]] == [evidence.entity] * 5
        assert all(one.entity != evidence.entity and one.attribute == evidence.attribute for one in near[5:])
    assert mean(len(negatives) for negatives in world.negatives.values()) > 8


def test_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    small = {"train": 20, "dev": 5, "test": 5}
    one, again = (make_toy(ToySettings(seed=1, **small), WordTokenizer()) for _ in range(2))
    assert as_bytes(one) == as_bytes(again)
    assert as_bytes(one) != as_bytes(make_toy(ToySettings(seed=2, **small), WordTokenizer()))


def test_the_bytes_are_pinned() -> None:
    world = make_toy(ToySettings(seed=1, train=20, dev=5, test=5), WordTokenizer())
    assert as_bytes(world) == "0789a6911040c437"


def test_more_training_queries_leave_the_test_queries_alone() -> None:
    few, many = (
        make_toy(ToySettings(train=train, dev=5, test=15, passages=3_000), WordTokenizer()) for train in (20, 60)
    )
    assert few.splits["test"] == many.splits["test"]
    for query_id in few.splits["test"]:
        assert few.toy.queries[query_id] == many.toy.queries[query_id]
        assert few.evidence[query_id] == many.evidence[query_id]


@pytest.mark.parametrize(
    "wrong",
    [{"train": 0, "dev": 0, "test": 0}, {"passages": 1_999}, {"passages": 2_400, "train": 400, "dev": 1}],
)
def test_settings_that_cannot_be_met_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        ToySettings.model_validate(wrong)


def test_bm25_finds_toy_far_neither_trivial_nor_hopeless(world: ToyWorld) -> None:
    import bm25s

    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    ids = list(world.far.documents)
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index([words(world.far.documents[name].text) for name in ids], show_progress=False)
    ranks = []
    for query_id in world.far.queries:
        rows, _ = index.retrieve([words(world.far.queries[query_id].text)], k=100, show_progress=False)
        (relevant,) = world.far.qrels.relevant(query_id)
        ranking = [ids[row] for row in rows[0]]
        ranks.append(ranking.index(relevant) + 1 if relevant in ranking else 0)
    assert 0.15 <= mean(1 / rank if rank else 0.0 for rank in ranks) <= 0.45
    assert mean(0 < rank <= 20 for rank in ranks) >= 0.5
