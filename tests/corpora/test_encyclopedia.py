"""The invented encyclopedia: lengths, variety, difficulty by construction, determinism."""

import hashlib
import itertools
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from statistics import mean

import pytest

from longrank.chunking.tokenizers import bert_tokenizer, minilm_folder
from longrank.core.errors import MissingExtra, SettingsError
from longrank.corpora.catalog.encyclopedia import MAX_PASSAGES, Encyclopedia, Passage, questions
from longrank.corpora.catalog.encyclopedia_grammar import (
    ATTRIBUTES,
    FIRST_HEADS,
    FIRST_TAILS,
    KINDS,
    SECOND_HEADS,
    SECOND_TAILS,
)
from longrank.corpora.catalog.encyclopedia_words import COMMON_FILLER, GROUP_FILLER, NEIGHBOUR_FILLER

BOOK = Encyclopedia(seed=11)
_FUNCTION_WORDS = """
a an and at all any as be by can did do does every for from has have he her his how i in into is it its no not of on one
or out over s so that the their them then there they this to up was were what when where which who whom whose why will
with you
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


@pytest.fixture(scope="module")
def sample() -> list[Passage]:
    """Passages from the beginning, the middle and the very end of an encyclopedia."""
    starts = (0, 400_002, MAX_PASSAGES - 1_500)
    return [passage for start in starts for passage in BOOK.passages(start + 1_500, start=start)]


def content_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", text).lower())) - FUNCTION_WORDS


def bert_length(text: str) -> int:
    try:
        minilm_folder()
    except MissingExtra as error:
        pytest.skip(str(error))
    return len(bert_tokenizer().tokenize(text))


def test_passages_have_25_to_70_bert_tokens_and_about_45_on_average(sample: list[Passage]) -> None:
    lengths = [bert_length(passage.text) for passage in sample]
    assert min(lengths) >= 25 and max(lengths) <= 70
    assert 43 <= mean(lengths) <= 47


def test_questions_have_5_to_14_bert_tokens(sample: list[Passage]) -> None:
    lengths = [bert_length(question) for passage in sample[::3] for question in questions(passage)]
    assert min(lengths) >= 5 and max(lengths) <= 14


def test_a_name_takes_at_most_three_word_pieces_a_part() -> None:
    parts = [head + tail for head in FIRST_HEADS for tail in FIRST_TAILS]
    parts += [head + tail for head in SECOND_HEADS for tail in SECOND_TAILS]
    assert len(set(parts)) == len(parts)
    pieces = [bert_length(part) for part in parts]
    assert max(pieces) <= 3
    assert mean(pieces) < 2.1


def test_there_are_enough_kinds_attributes_and_phrasings() -> None:
    assert len(KINDS) >= 6
    assert len(ATTRIBUTES) >= 12
    assert {name for kind in KINDS for name in kind.attributes} == set(ATTRIBUTES)
    for attribute in ATTRIBUTES.values():
        assert len(set(attribute.statements)) == 4
        assert len(set(attribute.questions)) == 3
        assert all("{n}" in text and "{v}" in text for text in attribute.statements)
        assert all("{n}" in text for text in attribute.questions)


def test_kinds_and_attributes_are_all_in_use(sample: list[Passage]) -> None:
    assert Counter(passage.entity.kind for passage in sample).keys() == {kind.name for kind in KINDS}
    assert {passage.attribute for passage in sample} == set(ATTRIBUTES)


def test_questions_share_few_content_words_with_the_statements_that_answer_them() -> None:
    overlaps = []
    for attribute in ATTRIBUTES.values():
        for statement, question in itertools.product(attribute.statements, attribute.questions):
            said, asked = content_words(statement), content_words(question)
            overlaps.append(len(said & asked) / len(said | asked))
    assert mean(overlaps) < 0.01
    assert max(overlaps) < 0.2


def test_phrasings_of_one_statement_share_few_content_words() -> None:
    overlaps = []
    for attribute in ATTRIBUTES.values():
        for one, other in itertools.combinations(map(content_words, attribute.statements), 2):
            overlaps.append(len(one & other) / len(one | other))
    assert mean(overlaps) < 0.03


def test_the_statement_names_its_entity_and_value(sample: list[Passage]) -> None:
    for passage in sample:
        assert passage.entity.name in passage.text
        assert passage.value.lower() in passage.text.lower()


def slots(texts: Iterable[str]) -> set[str]:
    return {slot for text in texts for slot in re.findall(r"\{(\w+)\}", text)}


def test_filler_can_hold_no_value_of_any_attribute() -> None:
    filler = [*COMMON_FILLER, *itertools.chain(*GROUP_FILLER.values()), *NEIGHBOUR_FILLER]
    values = slots(attribute.value for attribute in ATTRIBUTES.values())
    assert slots(filler) & (values | {"n", "v"}) == set()
    assert not re.search(r"\d", " ".join(filler))


def test_no_pair_of_entity_and_attribute_and_no_name_occurs_twice() -> None:
    facts = [BOOK.fact(index) for index in range(30_000)]
    assert len(set(facts)) == len(facts)
    names = [BOOK.entity(index).name for index in range(0, MAX_PASSAGES // 6)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("index", [0, 77, 64 * 900 + 13])
def test_every_name_shares_a_part_with_fourteen_neighbours_one_of_them_of_its_kind(index: int) -> None:
    entity = BOOK.entity(index)
    neighbours = [BOOK.entity(other) for other in BOOK.neighbours(index)]
    parts = set(entity.name.split())
    sharing = [other for other in neighbours if parts & set(other.name.split())]
    assert sharing == neighbours[:14]
    assert [other.kind for other in sharing].count(entity.kind) == 1
    assert len(set(neighbours)) == 63


def test_a_passage_depends_on_seed_and_index_alone() -> None:
    forwards = list(BOOK.passages(300, start=200))
    backwards = [Encyclopedia(seed=11).passage(index) for index in reversed(range(200, 300))]
    assert forwards == backwards[::-1]


def test_another_seed_gives_other_text() -> None:
    pairs = zip(BOOK.passages(300), Encyclopedia(seed=12).passages(300), strict=True)
    assert sum(one.text == other.text for one, other in pairs) == 0


def test_the_text_of_the_encyclopedia_is_frozen() -> None:
    # the difficulty was set on these very texts: a change of grammar must be deliberate and measured again
    digest = hashlib.sha256("\n".join(passage.text for passage in BOOK.passages(1_000)).encode()).hexdigest()
    assert digest[:16] == "65c5313919e2d154"


def test_sentences_do_not_repeat_within_a_passage(sample: list[Passage]) -> None:
    for passage in sample:
        sentences = passage.text.split(". ")
        assert len(set(sentences)) == len(sentences)


def test_text_has_no_empty_slots_and_right_articles(sample: list[Passage]) -> None:
    for passage in sample:
        assert not re.search(r"[{}]|  |\b[Aa] [aeio]", passage.text), passage.text


@pytest.mark.parametrize("index", [-1, MAX_PASSAGES])
def test_a_passage_outside_the_encyclopedia_is_refused(index: int) -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        BOOK.passage(index)


def memory_growth(count: int) -> int:
    """Bytes that streaming ``count`` passages leaves behind, once a thousand have been made."""
    book = Encyclopedia(seed=3)
    for _ in book.passages(1_000):
        pass
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        characters = sum(len(passage.text) for passage in book.passages(count, start=1_000))
        assert characters > 100 * (count - 1_000)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_streaming_takes_no_memory_that_grows() -> None:
    assert memory_growth(6_000) < 200_000  # five thousand passages hold more than a million characters


@pytest.mark.slow
def test_streaming_100_000_passages_takes_no_memory_that_grows() -> None:
    assert memory_growth(100_000) < 200_000
