"""A chat model that follows a script: for tests, examples and dry runs, without a network."""

from collections.abc import Callable, Iterable, Sequence

from longrank.chat.messages import Message, Reply
from longrank.core.errors import ChatError

Script = Callable[[Sequence[Message]], str]


class ScriptedChat:
    """Answers by a function of the messages, or by a list of replies used up in order; counts what it was asked.

    A reply that is an exception is raised instead. Tokens are counted as whitespace-separated words.

    >>> chat = ScriptedChat(["yes", "no"])
    >>> [chat.reply([Message("user", "Is it?")], max_tokens=5).text for _ in range(2)]
    ['yes', 'no']
    """

    def __init__(self, script: Script | Iterable[str | Exception]) -> None:
        self._script = script if callable(script) else None
        self._replies = iter(()) if callable(script) else iter(script)
        self.asked: list[tuple[Message, ...]] = []

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """The next scripted answer, cut to ``max_tokens`` words."""
        self.asked.append(tuple(messages))
        answer = self._script(messages) if self._script is not None else self._next()
        words = answer.split(" ")[:max_tokens]
        return Reply(" ".join(words), sum(len(m.text.split()) for m in messages), len(words))

    def _next(self) -> str:
        answer = next(self._replies, None)
        if answer is None:
            raise ChatError(f"the script has no reply for call {len(self.asked)}; give it more replies or a function")
        if isinstance(answer, Exception):
            raise answer
        return answer
