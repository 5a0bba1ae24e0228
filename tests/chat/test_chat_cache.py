from pathlib import Path

import pytest

from longrank.chat.cache import CachedChat
from longrank.chat.messages import ChatModel, Message, Reply
from longrank.chat.scripted import ScriptedChat
from longrank.core.errors import ChatError

QUESTION = [Message("user", "how many?")]


def test_a_second_question_is_answered_from_disk_by_another_process_too(tmp_path: Path) -> None:
    first = CachedChat(ScriptedChat(["three of them"]), tmp_path, model="m").reply(QUESTION, max_tokens=9)
    silent = ScriptedChat([])
    second = CachedChat(silent, tmp_path, model="m").reply(QUESTION, max_tokens=9)
    assert (first.cached, second.cached) == (False, True)
    assert (second.text, second.tokens_in, second.tokens_out) == ("three of them", 2, 3)
    assert silent.asked == []


@pytest.mark.parametrize("change", ["model", "parameters", "messages", "max_tokens"])
def test_whatever_shapes_a_reply_asks_anew(tmp_path: Path, change: str) -> None:
    CachedChat(ScriptedChat(["old"]), tmp_path, model="m").reply(QUESTION, max_tokens=9)
    chat = CachedChat(
        ScriptedChat(["new"]),
        tmp_path,
        model="other" if change == "model" else "m",
        parameters={"temperature": 1} if change == "parameters" else None,
    )
    messages = [Message("user", "how few?")] if change == "messages" else QUESTION
    assert chat.reply(messages, max_tokens=5 if change == "max_tokens" else 9).text == "new"


def test_failures_are_not_kept(tmp_path: Path) -> None:
    chat = CachedChat(ScriptedChat([ChatError("time out"), "late"]), tmp_path, model="m")
    with pytest.raises(ChatError, match="time out"):
        chat.reply(QUESTION, max_tokens=9)
    assert chat.reply(QUESTION, max_tokens=9).text == "late"


def test_a_damaged_file_is_asked_for_again(tmp_path: Path) -> None:
    CachedChat(ScriptedChat(["one"]), tmp_path, model="m").reply(QUESTION, max_tokens=9)
    (path,) = tmp_path.rglob("*.json")
    path.write_text('{"text": "on')
    assert CachedChat(ScriptedChat(["two"]), tmp_path, model="m").reply(QUESTION, max_tokens=9).text == "two"


def test_logprobs_survive_the_disk(tmp_path: Path) -> None:
    class WithLogprobs:
        def reply(self, messages: object, *, max_tokens: int) -> Reply:
            return Reply("a", 1, 1, {"a": -0.5})

    chats = [CachedChat(WithLogprobs(), tmp_path, model="m") for _ in range(2)]
    assert [chat.reply(QUESTION, max_tokens=1).logprobs for chat in chats] == [{"a": -0.5}] * 2


def test_a_script_is_a_chat_model_that_follows_a_function_and_the_limit() -> None:
    chat = ScriptedChat(lambda messages: messages[-1].text.upper() + " AND SO ON")
    assert isinstance(chat, ChatModel)
    assert chat.reply(QUESTION, max_tokens=3).text == "HOW MANY? AND"
    assert chat.asked == [tuple(QUESTION)]


def test_a_script_that_has_run_out_says_so() -> None:
    with pytest.raises(ChatError, match="call 1"):
        ScriptedChat([]).reply(QUESTION, max_tokens=3)
