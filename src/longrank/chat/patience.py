"""Asking again, with growing pauses, and never too many questions at once."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import Field

from longrank.chat.messages import ChatModel, Message, Reply
from longrank.core.errors import ChatBusy, ChatError
from longrank.core.settings import Settings


class Patience(Settings):
    """How often a busy model is asked, how long the pauses grow, and how many questions may be under way.

    A server that asks for a longer wait than ``longest_asked_seconds`` is given up.
    """

    attempts: int = Field(default=6, ge=1)
    first_wait_seconds: float = Field(default=1.0, ge=0)
    longest_wait_seconds: float = Field(default=60.0, ge=0)
    longest_asked_seconds: float = Field(default=600.0, ge=0)
    max_concurrent: int = Field(default=8, ge=1)

    def wait_seconds(self, failures: int, *, asked_for: float | None, spread: float) -> float:
        """The pause after so many failures: doubling, shortened by up to a half, at least what the server asked for.

        >>> Patience().wait_seconds(3, asked_for=None, spread=1.0), Patience().wait_seconds(1, asked_for=7, spread=0)
        (4.0, 7.0)
        """
        grown = min(self.longest_wait_seconds, self.first_wait_seconds * 2.0 ** (failures - 1))
        own = grown * (0.5 + 0.5 * spread)
        return max(own, float(asked_for or 0))


class PatientChat:
    """A chat model that is asked again while it is busy; any other failure is passed on at once.

    ``sleep`` and ``spread`` (a number below one, so that many askers do not return together) are for tests to replace;
    neither changes a reply.
    """

    def __init__(
        self,
        chat: ChatModel,
        patience: Patience | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        spread: Callable[[], float] = random.random,
    ) -> None:
        self._chat = chat
        self._patience = patience or Patience()
        self._places = threading.BoundedSemaphore(self._patience.max_concurrent)
        self._sleep, self._spread = sleep, spread

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """The first reply that comes; a ChatError tells how often it did not."""
        patience = self._patience
        for failures in range(1, patience.attempts + 1):
            try:
                with self._places:
                    return self._chat.reply(messages, max_tokens=max_tokens)
            except ChatBusy as busy:
                reason, asked_for = str(busy), busy.retry_after
            if asked_for is not None and asked_for > patience.longest_asked_seconds:
                raise ChatError(
                    f"{reason}; it asks to be left alone for {asked_for:,.0f} seconds, and at most "
                    f"{patience.longest_asked_seconds:,.0f} are waited. Run again later: finished replies are kept if "
                    f"a cache is used"
                )
            if failures < patience.attempts:
                self._sleep(patience.wait_seconds(failures, asked_for=asked_for, spread=self._spread()))
        raise ChatError(f"{reason}; asked {patience.attempts} times. Finished replies are kept if a cache is used")


def reply_all(
    chat: ChatModel, conversations: Sequence[Sequence[Message]], *, max_tokens: int, workers: int = 8
) -> list[Reply]:
    """Replies in the order of the conversations, ``workers`` asked at once; the first failure cancels what is left."""
    if workers == 1 or len(conversations) < 2:
        return [chat.reply(messages, max_tokens=max_tokens) for messages in conversations]
    with ThreadPoolExecutor(min(workers, len(conversations)), thread_name_prefix="longrank-chat") as pool:
        waiting = [pool.submit(chat.reply, messages, max_tokens=max_tokens) for messages in conversations]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
