from collections.abc import Sequence

import pytest

from longrank.chat.messages import Message
from longrank.chat.scripted import Script, ScriptedChat
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import DataError, SettingsError
from longrank.core.types import Query
from longrank.positions.judge_audit import AuditCase, JudgeAudit, audit_judge, planted_piece
from longrank.positions.judging import ChunkJudge

WORDS = WordTokenizer()
ANSWER = "The treasure lies under the old oak."
FILLER = " ".join(f"filler{number}" for number in range(300))
CASES = [AuditCase(Query(f"q{number}", "where is it?"), ANSWER, FILLER) for number in range(8)]


def piece_of(messages: Sequence[Message]) -> str:
    return messages[-1].text.partition("Piece:")[2].partition("Give no explanation")[0].strip()


def fair(messages: Sequence[Message]) -> str:
    return f"##final score: {3 if 'treasure' in piece_of(messages) else 0}"


def hasty(messages: Sequence[Message]) -> str:
    """Reads the first half of a piece only."""
    words = piece_of(messages).split()
    return f"##final score: {3 if 'treasure' in words[: len(words) // 2 + 1] else 1}"


def tired(messages: Sequence[Message]) -> str:
    """Gives a grade less for each doubling of the piece."""
    return (
        f"##final score: {3 if len(piece_of(messages).split()) < 100 else 2 if len(piece_of(messages)) < 1600 else 1}"
    )


def audit(script: Script) -> JudgeAudit:
    return audit_judge(ChunkJudge(ScriptedChat(script), WORDS), CASES)


def test_a_judge_who_reads_everything_shows_no_effect() -> None:
    found = audit(fair)
    assert (found.place_effect.value, found.length_effect.value) == (0, 0)
    assert not found.place_effect.excludes_zero
    assert set(found.means.values()) == {3.0}
    assert (found.cases, found.tally.asked) == (8, 8 * 9)
    assert found.sentence().count("does not visibly sway") == 2


def test_a_judge_who_reads_beginnings_only_is_caught_by_place_alone() -> None:
    found = audit(hasty)
    assert found.place_effect.value == -2  # 3 at the beginning, 1 at the end, whatever the length
    assert found.place_effect.excludes_zero
    assert not found.length_effect.excludes_zero
    assert "the answer's place sways it" in found.sentence()


def test_a_judge_who_marks_long_pieces_down_is_caught_by_length_alone() -> None:
    found = audit(tired)
    assert found.length_effect.value == -2
    assert found.length_effect.excludes_zero
    assert not found.place_effect.excludes_zero


@pytest.mark.parametrize("tokens", [64, 128, 256])
def test_planted_pieces_have_their_length_and_the_answer_at_its_place(tokens: int) -> None:
    # the answer has 8 tokens, its full stop included
    for place in (0.0, 0.25, 0.5, 1.0):
        piece = planted_piece(CASES[0], WORDS, place=place, tokens=tokens)
        assert len(WORDS.tokenize(piece)) == tokens
        assert len(WORDS.tokenize(piece.partition(ANSWER)[0])) == round(place * (tokens - 8))


def test_cases_without_all_grades_are_left_out_and_counted() -> None:
    replies = ["##final score: 2"] * 9 + ["no idea"] + ["##final score: 2"] * 8 + ["##final score: 2"] * 9
    found = audit_judge(ChunkJudge(ScriptedChat(replies), WORDS), CASES[:3])
    assert (found.cases, found.left_out, found.tally.unreadable) == (2, 1, 1)
    with pytest.raises(DataError, match="none of 8 cases"):
        audit(lambda _: "no idea")


def test_audits_that_cannot_be_made_are_refused() -> None:
    judge = ChunkJudge(ScriptedChat(fair), WORDS)
    with pytest.raises(SettingsError, match="two places"):
        audit_judge(judge, CASES, places=[0.5])
    with pytest.raises(DataError, match="the filler of query 'q' has 2 tokens"):
        audit_judge(judge, [AuditCase(Query("q", "?"), ANSWER, "too short")])
