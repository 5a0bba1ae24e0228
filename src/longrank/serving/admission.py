"""Who is let in, and how a body is read: counted while it comes, thrown away where it is too large."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from typing import Any

from longrank.serving.settings import MEGABYTE, ServeSettings

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

_LONGEST_RETRY = 120
_DRAINED = 256 * MEGABYTE  # of a refused body that are read, so that a client which sends first sees the refusal


class Refusal(Exception):
    """A request that is answered with an error: its status, a sentence for the client, and headers."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


class ClientGone(Exception):
    """The client has closed the connection; nobody waits for an answer."""


class Ticket:
    """A place in the server and the bytes that its request holds."""

    def __init__(self, admission: "Admission") -> None:
        self._admission, self._held = admission, 0

    def hold(self, size: int) -> None:
        """Count further bytes; refused when the server holds too many."""
        self._held += size
        self._admission.held += size
        if self._admission.held > self._admission.max_held:
            raise self._admission.full("the server holds as much text as it may")

    def release(self) -> None:
        """Give the bytes back."""
        self._admission.held -= self._held
        self._held = 0


class Admission:
    """The bounded queue: so many requests and bytes at a time, counted on the event loop alone."""

    def __init__(self, settings: ServeSettings, *, seconds_left: Callable[[], float] = lambda: 0.0) -> None:
        self.max_requests = settings.max_requests
        self.max_held = int(settings.max_held_megabytes * MEGABYTE)
        self.requests = 0
        self.held = 0
        self._seconds_left = seconds_left

    @contextmanager
    def enter(self) -> Iterator[Ticket]:
        """A place for the time of a request; refused when none is free."""
        if self.requests >= self.max_requests:
            raise self.full(f"{self.requests} requests are being worked on, which is as many as are taken")
        self.requests += 1
        ticket = Ticket(self)
        try:
            yield ticket
        finally:
            self.requests -= 1
            ticket.release()

    def full(self, reason: str) -> Refusal:
        """The refusal of a full server, with the seconds after which it should have room."""
        wait = min(_LONGEST_RETRY, max(1, ceil(self._seconds_left())))
        return Refusal(429, f"{reason}; try again in {wait} s", retry_after=wait)


async def read_body(
    receive: Receive, headers: Mapping[str, str], ticket: Ticket, *, most_bytes: int, seconds: float
) -> bytes:
    """The body of a request; one that is too large or too slow is refused and never held."""
    parts: list[bytes] = []
    size = 0
    announced = _announced(headers)
    try:
        async with asyncio.timeout(seconds):
            if announced > most_bytes:
                if announced <= _DRAINED and "expect" not in headers:
                    await _drain(receive)
                raise _too_large(most_bytes)
            while True:
                part, more = await _next(receive)
                size += len(part)
                try:
                    if size > most_bytes:
                        raise _too_large(most_bytes)
                    ticket.hold(len(part))
                except Refusal:
                    parts.clear()
                    if more:  # behind the last part there is nothing, and waiting for it would be for ever
                        await _drain(receive)
                    raise
                parts.append(part)
                if not more:
                    return b"".join(parts)
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {seconds:g} s") from None


async def discard_body(receive: Receive, headers: Mapping[str, str], *, seconds: float) -> None:
    """Read what a refused client still sends and throw it away, for a while."""
    if "expect" in headers or _announced(headers) > _DRAINED:
        return
    try:
        async with asyncio.timeout(seconds):
            await _drain(receive)
    except TimeoutError:
        return


async def client_gone(receive: Receive) -> None:
    """Returns when the client has closed the connection; for use once the body is read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _drain(receive: Receive) -> None:
    thrown, more = 0, True
    while more and thrown < _DRAINED:
        part, more = await _next(receive)
        thrown += len(part)


async def _next(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _announced(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


def _too_large(most_bytes: int) -> Refusal:
    return Refusal(
        413, f"the body is larger than {most_bytes / MEGABYTE:g} MB: send fewer documents, or raise max_body_megabytes"
    )
