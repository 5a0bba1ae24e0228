import numpy as np
import pytest

from longrank.core.errors import SettingsError
from longrank.core.seeds import generator
from longrank.positions.alignment import AlignSettings, PassageAligner

VOCABULARY = [f"w{rank}" for rank in range(5_000)]
WEIGHTS = (np.arange(5_000) + 2.7) ** -1.05
WEIGHTS /= WEIGHTS.sum()
PASSAGE_WORDS = 60


def random_words(rng: np.random.Generator, count: int) -> list[str]:
    return [VOCABULARY[place] for place in rng.choice(5_000, size=count, p=WEIGHTS)]


def edited(words: list[str], share: float, rng: np.random.Generator) -> list[str]:
    """Each word deleted, replaced or followed by a foreign one, a third each, with this probability."""
    result: list[str] = []
    for word in words:
        kind = int(rng.integers(3)) if rng.random() < share else 3
        other = random_words(rng, 1)
        result += ([], other, [word, *other], [word])[kind]
    return result


def found_again(share: float, *, pairs: int) -> float:
    """Share of edited passages whose found span overlaps the true one by half of both."""
    rng = generator(f"edited {share}", 0)
    aligner, hits = PassageAligner(), 0
    for _ in range(pairs):
        before, passage = random_words(rng, int(rng.integers(0, 600))), random_words(rng, PASSAGE_WORDS)
        place, after = edited(passage, share, rng), random_words(rng, 300)
        text = " ".join([*before, *place, *after])
        found = aligner.match(" ".join(passage), text)
        if found:
            start = text.count(" ", 0, found.spans[0].start)
            stop = text.count(" ", 0, found.spans[0].stop) + 1
            true_start, true_stop = len(before), len(before) + len(place)
            overlap = min(stop, true_stop) - max(start, true_start)
            hits += overlap / (max(stop, true_stop) - min(start, true_start)) >= 0.5
    return hits / pairs


@pytest.mark.parametrize(("share", "least"), [(0.0, 1.0), (0.1, 0.98), (0.2, 0.90)])
def test_edited_passages_are_found_again(share: float, least: float) -> None:
    assert found_again(share, pairs=150) >= least


def test_passages_are_not_found_where_they_are_not() -> None:
    rng = generator("absent", 0)
    aligner = PassageAligner()
    wrong = [
        aligner.match(" ".join(random_words(rng, length)), " ".join(random_words(rng, 900)))
        for length in (8, 15, 30, 60)
        for _ in range(60)
    ]
    assert sum(map(bool, wrong)) <= 2  # under 1% of 240


def test_a_passage_with_forty_words_inserted_in_its_middle_is_found_whole() -> None:
    rng = generator("inserted", 0)
    for _ in range(30):
        before, passage, foreign, after = (random_words(rng, count) for count in (200, 60, 40, 200))
        text = " ".join([*before, *passage[:30], *foreign, *passage[30:], *after])
        found = PassageAligner().match(" ".join(passage), text)
        start = text.count(" ", 0, found.spans[0].start)
        stop = text.count(" ", 0, found.spans[0].stop) + 1
        assert abs(start - 200) <= 3
        assert abs(stop - 300) <= 3


def test_two_copies_are_flagged_as_ambiguous_and_one_is_not() -> None:
    rng = generator("copies", 0)
    passage, filler = random_words(rng, 40), random_words(rng, 300)
    once, twice = [*filler, *passage, *filler], [*filler, *passage, *filler, *passage]
    assert not PassageAligner().match(" ".join(passage), " ".join(once)).ambiguous
    assert PassageAligner().match(" ".join(passage), " ".join(twice)).ambiguous


def test_a_second_copy_missing_a_tenth_of_its_words_is_not_a_rival() -> None:
    rng = generator("rival", 0)
    passage, filler = random_words(rng, 40), random_words(rng, 300)
    worse = [word for place, word in enumerate(passage) if place % 10]  # .90 against 1.00
    near = [word for place, word in enumerate(passage) if place != 20]  # .975 against 1.00
    text = " ".join([*filler, *passage, *filler, *worse])
    assert not PassageAligner().match(" ".join(passage), text).ambiguous
    assert PassageAligner().match(" ".join(passage), " ".join([*filler, *passage, *filler, *near])).ambiguous


def test_punctuation_and_case_do_not_matter() -> None:
    text = "Start. The CAT (small, grey) sat: down; on an OLD mat! End."
    found = PassageAligner().match("the cat small grey sat down on an old mat", text)
    assert text[found.spans[0].start : found.spans[0].stop] == "The CAT (small, grey) sat: down; on an OLD mat"


@pytest.mark.parametrize(
    ("passage", "document"), [("too few words", "many words " * 9), ("one two three four five", "...")]
)
def test_short_passages_and_empty_documents_are_not_located_with_a_reason(passage: str, document: str) -> None:
    found = PassageAligner().match(passage, document)
    assert not found
    assert found.reason


def test_a_document_of_a_million_characters_is_searched() -> None:
    passage = "a small grey cat sat down on an old mat by the open door"
    text = ("lorem ipsum dolor sit amet " * 40_000)[:1_000_000] + " " + passage
    found = PassageAligner().match(passage, text)
    assert text[found.spans[0].start : found.spans[0].stop] == passage


def test_segments_of_too_few_words_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least 5 words"):
        PassageAligner(AlignSettings(segment_words=3))
