"""What goes to a chat model and what comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer, what it cost in tokens, and whether it was read from disk instead of asked for.

    ``tokens_in`` is 0 where the server does not tell what was used: no prompt has none. ``logprobs`` holds the
    log-probabilities of candidate first tokens where the model gives them.
    """

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    logprobs: Mapping[str, float] | None = None
    cached: bool = False


@runtime_checkable
class ChatModel(Protocol):
    """Messages to one reply; a failure to answer is a ``ChatError``."""

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """The model's answer to the conversation, at most ``max_tokens`` long."""
        ...
