from collections.abc import Sequence
from pathlib import Path

import pytest

from longrank.chat.messages import Message
from longrank.chat.scripted import ScriptedChat
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import ChatError, SettingsError
from longrank.core.types import Collection, Document, Qrels, Query
from longrank.positions.agreement import kappa, paired_grades
from longrank.positions.gold import read_fira
from longrank.positions.judgements import JudgedCollection, judge_pairs, write_grades
from longrank.positions.judging import ChunkJudge, JudgeSettings
from longrank.positions.profiling import Pair

WORDS = WordTokenizer()
SMALL = JudgeSettings(chunk_tokens=6, max_chunks=3)
PIECES = {"none": "Nothing to see in here.", "some": "Some treasure is told of.", "all": "The treasure is right here."}


def by_words(messages: Sequence[Message]) -> str:
    piece = messages[-1].text.partition("Piece:")[2]
    return f"##final score: {3 if 'right here' in piece else 1 if 'treasure' in piece else 0}"


def collection(**texts: str) -> Collection:
    documents = {name: Document(name, " ".join(PIECES[word] for word in text.split())) for name, text in texts.items()}
    queries = {"q": Query("q", "where is the treasure?"), "r": Query("r", "and where is it not?")}
    return Collection("toy", documents, queries, Qrels({"q": dict.fromkeys(texts, 1)}))


def judged(workers: int = 1) -> JudgedCollection:
    texts = collection(a="none all", b="some none none none", empty="")
    pairs = [Pair("q", "a"), Pair("q", "b"), Pair("q", "empty"), Pair("q", "gone"), Pair("lost", "a")]
    return judge_pairs(texts, ChunkJudge(ScriptedChat(by_words), WORDS, SMALL, workers=workers), pairs)


def test_every_reading_of_the_grades_is_a_profile_of_all_pairs() -> None:
    profiles = judged().profiles()
    assert {grade: len(profile.located) for grade, profile in profiles.items()} == {1: 2, 2: 1, 3: 1}
    assert profiles[1].first("start").tolist() == [6, 0]
    assert all(len(profile.records) == 5 for profile in profiles.values())
    with pytest.raises(SettingsError, match="1, 2 or 3"):
        judged().profile(at_least=0)


def test_pairs_without_text_are_excluded_with_their_reasons() -> None:
    reasons = [record.reason for record in judged().excluded]
    assert reasons == [
        "the document has no words",
        "the document is not in the collection",
        "the query is not in the collection",
    ]


def test_the_account_tells_of_documents_that_were_not_read_to_the_end() -> None:
    sentences = judged().account()
    assert sentences[0].startswith("Judged 5 pieces of 2 documents; 0 replies")  # of b three pieces are judged
    assert sentences[1].startswith("1 documents have more pieces")


def test_several_questions_at_once_give_the_same_grades() -> None:
    assert judged(workers=4) == judged()


def test_a_judge_who_never_answers_stops_the_job_and_one_who_sometimes_does_not_is_counted() -> None:
    texts = collection(**{f"d{number}": "none some all" for number in range(9)})
    pairs = [Pair("q", name) for name in texts.documents]
    mute = ScriptedChat([TimeoutError("slow")] * 27)
    with pytest.raises(ChatError, match="none of 21 questions was answered"):
        judge_pairs(texts, ChunkJudge(mute, WORDS, SMALL), pairs)
    flaky = ScriptedChat([TimeoutError("slow")] * 26 + ["##final score: 2"])
    with pytest.raises(ChatError):
        judge_pairs(texts, ChunkJudge(flaky, WORDS, SMALL), pairs)
    late = ScriptedChat(["##final score: 2"] + [TimeoutError("slow")] * 26)
    assert judge_pairs(texts, ChunkJudge(late, WORDS, SMALL), pairs).tally.failed == 26


def test_grades_agree_with_people_s_in_fira_s_format(tmp_path: Path) -> None:
    result = judged()
    path = tmp_path / "people.txt"
    # as the judge says, but for the last piece of b
    path.write_text("q Q0 a_0 0\nq Q0 a_1 3\nq Q0 b_0 1\nq Q0 b_1 0\nq Q0 b_2 1\nr Q0 a_0 0\n")
    human = {(s.query_id, f"{s.document_id}_{n}"): g for s in read_fira(path) for n, g in enumerate(s.grades)}
    both, missing = paired_grades(human, {**result.grades(), ("r", "a_0"): 0})
    assert (len(both), missing) == (6, 0)
    # agreement 5/6; chance: people 3/6, 2/6, 1/6 (0, 1, 3), judge 4/6, 1/6, 1/6 -> 15/36; kappa (30 - 15) / (36 - 15)
    assert kappa(both).value == pytest.approx(15 / 21)


def test_grades_are_written_with_their_places(tmp_path: Path) -> None:
    write_grades(judged(), tmp_path / "grades.jsonl")
    lines = (tmp_path / "grades.jsonl").read_text().splitlines()
    assert len(lines) == 5
    assert '"piece": 1, "chars": [24, 51], "tokens": [6, 12], "tokenizer": "words-v1", "grade": 3' in lines[1]
