from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.chat.cache import CachedChat
from longrank.chat.messages import Message
from longrank.chat.scripted import ScriptedChat
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import ChatError, SettingsError
from longrank.core.types import Document, Query
from longrank.positions.judging import (
    THRESHOLDS,
    ChunkJudge,
    JudgeSettings,
    read_grade,
    sentence_chunks,
    total_tally,
)

WORDS = WordTokenizer()
QUERY = Query("q", "where is the treasure?")
SMALL = JudgeSettings(chunk_tokens=6, max_chunks=36)
# six tokens a sentence, the full stop included
SENTENCES = [
    "Nothing to see in here.",
    "The treasure is right here.",
    "Some treasure is told of.",
    "Nobody came back from there.",
]
TEXT = " ".join(SENTENCES)


def by_words(messages: Sequence[Message]) -> str:
    """A judge that reads: 3 where the treasure is, 1 where it is mentioned, else 0."""
    piece = messages[-1].text.partition("Piece:")[2]
    grade = 3 if "right here" in piece else 1 if "treasure" in piece else 0
    return f"##final score: {grade}"


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("##final score: 2", 2),
        ("M: 3\nT: 1\n##Final Score: 0", 0),
        ("**final score**: 3.", 3),
        (" 1 ", 1),
        ("final score: 4", None),
        ("final score: 12", None),
        ("final score: 1 ... final score: 3", None),
        ("The passage answers the query in 2 ways", None),
        ("", None),
    ],
)
def test_grades_are_read_from_replies_and_never_guessed(reply: str, grade: int | None) -> None:
    assert read_grade(reply) == grade


def test_each_sentence_is_judged_alone_and_all_thresholds_are_reported() -> None:
    judged = ChunkJudge(ScriptedChat(by_words), WORDS, SMALL).judge(QUERY, Document("d", TEXT))
    assert [chunk.grade for chunk in judged.chunks] == [0, 3, 1, 0]
    assert {grade: judged.record(at_least=grade).relevant_slots for grade in THRESHOLDS} == {
        1: (1, 2),
        2: (1,),
        3: (1,),
    }
    located = judged.located(at_least=2)
    assert TEXT[located.spans[0].start : located.spans[0].stop] == SENTENCES[1]
    assert (located.slots, judged.length) == (4, 24)


def test_unreadable_replies_are_counted_and_are_neither_relevant_nor_not() -> None:
    chat = ScriptedChat(["gibberish", "##final score: 1", ChatError("time out"), "##final score: 0"])
    judged = ChunkJudge(chat, WORDS, SMALL).judge(QUERY, Document("d", TEXT))
    assert [chunk.grade for chunk in judged.chunks] == [None, 1, None, 0]
    assert (judged.tally.chunks, judged.tally.unreadable, judged.tally.failed) == (4, 1, 1)
    record = judged.record()
    assert (record.slots, record.relevant_slots) == (2, (0,))
    assert record.spans[0].start == 6  # the place in the document stays that of the second sentence
    assert "2 pieces without a grade" in record.reason


def test_a_judge_of_nonsense_locates_nothing_and_says_so() -> None:
    judged = ChunkJudge(ScriptedChat(lambda _: "as a matter of fact"), WORDS, SMALL).judge(QUERY, Document("d", TEXT))
    assert not judged.located()
    assert judged.located().slots == 0
    assert judged.tally.unreadable == 4


def test_judging_again_costs_nothing_and_asks_only_what_failed(tmp_path: Path) -> None:
    flaky = ScriptedChat(["##final score: 0", TimeoutError("slow"), "##final score: 1", "##final score: 0"])
    first = ChunkJudge(CachedChat(flaky, tmp_path, model="m"), WORDS, SMALL).judge(QUERY, Document("d", TEXT))
    repaired = ScriptedChat(["##final score: 3"])
    second = ChunkJudge(CachedChat(repaired, tmp_path, model="m"), WORDS, SMALL).judge(QUERY, Document("d", TEXT))
    assert [chunk.grade for chunk in first.chunks] == [0, None, 1, 0]
    assert [chunk.grade for chunk in second.chunks] == [0, 3, 1, 0]
    assert (second.tally.asked, len(repaired.asked)) == (1, 1)
    assert second.tally.tokens_in == len(repaired.asked[0][0].text.split())


def test_the_estimate_counts_every_call_and_at_least_the_text() -> None:
    judge = ChunkJudge(ScriptedChat(by_words), WORDS, SMALL)
    pairs = [(QUERY, Document("d", TEXT)), (QUERY, Document("empty", ""))]
    estimate = judge.estimate(pairs)
    judged = [judge.judge(*pair) for pair in pairs]
    assert estimate.asked == total_tally(judged).asked == 4
    assert estimate.tokens_in > 24
    assert estimate.cost(per_million_in=1.0, per_million_out=0.0) == pytest.approx(estimate.tokens_in / 1e6)


def test_braces_in_texts_are_left_alone() -> None:
    chat = ScriptedChat(by_words)
    ChunkJudge(chat, WORDS, SMALL).judge(Query("q", "{query}"), Document("d", "Set {piece} of {0} here."))
    assert "Set {piece} of {0} here." in chat.asked[0][0].text


def test_a_judge_s_identity_changes_with_what_can_change_its_grades(tmp_path: Path) -> None:
    def judge(
        model: str = "one", *, at_least: int = 1, settings: JudgeSettings = SMALL, workers: int = 1
    ) -> ChunkJudge:
        chat = CachedChat(ScriptedChat(by_words), tmp_path, model=model)
        return ChunkJudge(chat, WORDS, settings, at_least, workers)

    same = judge().identity
    assert judge(workers=4).identity == same
    others = [
        judge("two"),
        judge(at_least=2),
        judge(settings=JudgeSettings()),
        ChunkJudge(ScriptedChat([]), WORDS, SMALL),
    ]
    assert len({same, *(other.identity for other in others)}) == 5


def test_an_unknown_threshold_is_refused() -> None:
    with pytest.raises(SettingsError, match="1, 2 or 3"):
        ChunkJudge(ScriptedChat([]), WORDS, at_least=4)


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(4, 40), st.integers(1, 9))
def test_chunks_follow_one_another_and_keep_sentences_whole(lengths: list[int], near: int, most: int) -> None:
    text = " ".join(" ".join(["Word", *["word"] * (count - 1)]) + "." for count in lengths)
    tokens = WORDS.tokenize(text)
    split = sentence_chunks(tokens, near_tokens=near, max_chunks=most)
    assert len(split.spans) <= most
    assert split.spans[0].start == 0
    for one, next_one in zip(split.spans, split.spans[1:], strict=False):
        assert one.stop == next_one.start
        assert 0 < len(one) <= 2 * near
    if len(split.spans) < most:
        assert split.cut_tokens == 0
    if max(lengths, default=0) + 1 < 2 * near:  # no sentence is cut
        ends = {sum(lengths[: number + 1]) + number + 1 for number in range(len(lengths))}
        assert all(span.stop in ends for span in split.spans if len(span))


def test_chunks_are_near_the_size_asked_for() -> None:
    # sentences of 10 tokens: 50 is reached exactly by five, and 36 chunks leave the rest unread
    text = " ".join("One two three four five six seven eight nine." for _ in range(200))
    split = sentence_chunks(WORDS.tokenize(text), near_tokens=50, max_chunks=36)
    assert {len(span) for span in split.spans} == {50}
    assert split.cut_tokens == 2000 - 36 * 50


def test_a_text_without_sentences_is_cut_into_pieces() -> None:
    split = sentence_chunks(WORDS.tokenize("word " * 1000), near_tokens=256)
    assert split.cut_tokens == 0
    assert max(len(span) for span in split.spans) < 512
