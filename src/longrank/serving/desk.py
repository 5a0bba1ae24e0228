"""Between the web and the model: a request's time, its client's patience, and errors as refusals."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from longrank.core.errors import BudgetSpent, ChatError, LongrankError, ServiceError
from longrank.serving import dialects, explore
from longrank.serving.admission import Admission, ClientGone, Receive, Refusal, client_gone
from longrank.serving.logs import LOGGER, failure
from longrank.serving.metrics import Meters
from longrank.serving.readers import Part, Reader, Reading
from longrank.serving.settings import ServeSettings
from longrank.serving.worker import Job, Worker

_IN_A_THREAD = 100_000  # bytes of a body from which on it is not parsed on the event loop

_BEHIND = (ServiceError, ChatError, BudgetSpent)  # failures of what the ranker itself asks

R = TypeVar("R", bound=BaseModel)


@dataclass
class Desk:
    """All that a server has: settings, the model's thread, the bounded queue, counters and the token asked for."""

    settings: ServeSettings
    worker: Worker
    meters: Meters
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.admission = Admission(self.settings, seconds_left=lambda: self.worker.seconds_left)

    @property
    def model(self) -> str:
        """The name shown to clients."""
        return self.settings.shown_names[0]

    def open(self, receive: Receive, facts: dict[str, object]) -> "Visit":
        """A request's time begins."""
        return Visit(self, receive, facts, time.monotonic() + self.settings.seconds)


def make_desk(reader: Reader, settings: ServeSettings, *, token: str | None = None) -> Desk:
    """A desk whose model's thread is running."""
    meters = Meters()
    worker = Worker(reader, batch_tokens=settings.batch_tokens, turn_seconds=settings.turn_seconds, observe=meters.turn)
    return Desk(settings, worker, meters, token)


@dataclass
class Visit:
    """One request: what is written about it to the log is put into ``facts``."""

    desk: Desk
    receive: Receive
    facts: dict[str, object]
    deadline: float

    async def parse(self, model: type[R], body: bytes, *, status: int) -> R:
        """The request in a body."""
        if len(body) < _IN_A_THREAD:
            return dialects.parse(model, body, self.desk.settings, status=status)
        return await asyncio.to_thread(dialects.parse, model, body, self.desk.settings, status=status)

    def check(self, query: str, texts: Sequence[str]) -> None:
        """Refuse what is over a limit; note how much it is."""
        self.facts.update(documents=len(texts), characters=sum(map(len, texts)))
        dialects.check_limits(query, texts, self.desk.settings)

    async def read(self, job: Job) -> list[Reading]:
        """The readings of a job; it is taken out of the queue when the client leaves or the time is over."""
        self.desk.worker.submit(job)
        done: asyncio.Future[Any] = asyncio.wrap_future(job.done)
        gone: asyncio.Future[Any] = asyncio.ensure_future(client_gone(self.receive))
        left = max(0.0, self.deadline - time.monotonic())
        try:
            await asyncio.wait({done, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done.done():
                readings: list[Reading] = done.result()
                return readings
            if gone.done():
                raise ClientGone
            raise Refusal(504, f"the answer was not found within {self.desk.settings.seconds:g} s: send less at a time")
        except LongrankError as error:
            raise Refusal(502 if isinstance(error, _BEHIND) else 422, str(error)) from None
        except (Refusal, ClientGone, asyncio.CancelledError):
            raise
        except Exception as error:
            LOGGER.error("the ranker failed", extra={"fields": failure(error)})
            raise Refusal(500, f"the ranker failed ({type(error).__name__}); the server's log says where") from None
        finally:
            gone.cancel()
            done.cancel()

    async def parts(self, query: str, texts: Sequence[str]) -> list[list[Part]]:
        """Windows of texts with the scores they get alone, for rankers that do not know their parts."""
        spans = await asyncio.to_thread(lambda: [explore.windows(text) for text in texts])
        cut = [text[span.start : span.stop] for text, found in zip(texts, spans, strict=True) for span in found]
        readings = iter(await self.read(Job(query, cut)))
        return [explore.parts(found, [next(readings) for _ in found]) for found in spans]

    def count(self, readings: Sequence[Reading]) -> dialects.Usage:
        """Note what was read, for log and metrics."""
        found = dialects.usage(readings)
        self.facts.update(
            tokens=found.tokens,
            cut_documents=found.cut_documents,
            cut_tokens=found.cut_tokens,
            cut_query_tokens=found.cut_query_tokens,
        )
        self.desk.meters.add("longrank_documents_total", len(readings))
        self.desk.meters.add("longrank_tokens_total", found.tokens)
        self.desk.meters.add("longrank_cut_documents_total", found.cut_documents)
        self.desk.meters.add("longrank_cut_tokens_total", found.cut_tokens)
        self.desk.meters.add("longrank_cut_query_tokens_total", found.cut_query_tokens)
        return found
