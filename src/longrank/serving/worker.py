"""The one thread that runs the model, and how requests share it.

Texts are made ready beside the model, long ones in a lane of their own. The model works in turns of a fraction of a
second: half of a turn goes to the requests with least work left, so that small ones are soon answered, and half to
the oldest, so that a long one is never put off for ever.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from longrank.core.errors import TruncatedInput
from longrank.serving.readers import Asked, Opened, Reader, Reading, Stretch

_LONG = 100_000  # characters of a text that is made ready in the slow lane
_SLICE = 20_000  # characters that are made ready before another request has its turn
_LARGEST_TURN = 32  # batches


@dataclass(eq=False)
class Job:
    """The texts of one request on their way through the model; cancelling ``done`` takes it out.

    ``strict`` refuses to cut; ``parts`` and ``each`` as in ``Asked``.
    """

    query: str
    texts: Sequence[str]
    most_tokens: int | None = None
    strict: bool = False
    parts: bool = False
    each: bool = False
    done: "Future[list[Reading]]" = field(default_factory=Future)
    asked: Asked | None = None
    opening: bool = False
    next_text: int = 0
    unopened: int = 0  # characters
    ready_tokens: int = 0
    ready: "deque[Opened]" = field(default_factory=deque)
    numbers: dict[int, int] = field(default_factory=dict)
    readings: dict[int, Reading] = field(default_factory=dict)

    @property
    def work_left(self) -> float:
        """Tokens still to be run, those of texts not yet opened by their length."""
        return self.ready_tokens + self.unopened / 4


class Worker:
    """Runs jobs to their end; ``observe`` is told the rows, tokens and seconds of every turn."""

    def __init__(
        self,
        reader: Reader,
        *,
        batch_tokens: int = 2048,
        turn_seconds: float = 0.25,
        observe: Callable[[int, int, float], None] = lambda rows, tokens, seconds: None,
    ) -> None:
        self.reader = reader
        self._batch_tokens, self._turn_seconds, self._observe = batch_tokens, turn_seconds, observe
        self._rate = 4 * batch_tokens / turn_seconds  # tokens a second; a guess that the first turns correct
        self._jobs: list[Job] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._lanes = [ThreadPoolExecutor(1, thread_name_prefix=f"open-{name}") for name in ("short", "long")]
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Take a job in; its ``done`` will hold the readings in the order of the texts."""
        job.unopened = sum(map(len, job.texts))
        if not job.texts:
            job.done.set_result([])
            return
        job.done.add_done_callback(lambda _: self._wake())
        with self._changed:
            self._jobs.append(job)
            self._open_later(job)

    @property
    def waiting(self) -> int:
        """Jobs that are not done."""
        return len(self._jobs)

    @property
    def seconds_left(self) -> float:
        """How long the jobs at hand will take, at the pace of late."""
        with self._changed:
            return sum(job.work_left for job in self._jobs) / self._rate

    def stop(self) -> None:
        """Finish what was taken in, then end."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        for lane in self._lanes:
            lane.shutdown(wait=True)

    # -- making texts ready, beside the model --------------------------------------------------------------------------

    def _open_later(self, job: Job) -> None:
        job.opening = True
        lane = self._lanes[len(job.texts[job.next_text]) > _LONG]
        lane.submit(self._open_some, job)

    def _open_some(self, job: Job) -> None:
        try:
            opened, characters = self._opened(job)
        except Exception as error:  # whatever a tokenizer or a splitter raises must not end the lane
            _fail(job, error)
            return
        with self._changed:
            job.ready.extend(opened)
            job.ready_tokens += sum(sum(text.costs) for text in opened)
            job.unopened -= characters
            job.opening = False
            self._more(job)
            self._changed.notify_all()

    def _opened(self, job: Job) -> tuple[list[Opened], int]:
        job.asked = job.asked or self.reader.ask(job.query, parts=job.parts, each=job.each)
        if job.strict and job.asked.cut_tokens:
            raise TruncatedInput(
                f"the query is longer than this ranker reads: {job.asked.cut_tokens} tokens would be cut"
            )
        opened: list[Opened] = []
        characters = 0
        while job.next_text < len(job.texts) and characters < _SLICE and not job.done.done():
            text = job.texts[job.next_text]
            if characters and len(text) > _LONG:
                break
            ready = self.reader.open(job.asked, text, most_tokens=job.most_tokens)
            if job.strict and ready.cut_tokens:
                raise TruncatedInput(
                    f"document {job.next_text} is longer than this ranker reads: {ready.cut_tokens} tokens would be cut"
                )
            job.numbers[id(ready)] = job.next_text
            opened.append(ready)
            characters += len(text)
            job.next_text += 1
        return opened, characters

    def _more(self, job: Job) -> None:
        """Open further texts, unless enough lie ready or the job is over."""
        enough = job.ready_tokens > 4 * self._turn_tokens and not self.reader.together
        if not job.opening and not enough and job.next_text < len(job.texts) and not job.done.done():
            self._open_later(job)

    # -- the model's thread --------------------------------------------------------------------------------------------

    @property
    def _turn_tokens(self) -> int:
        wanted = int(self._rate * self._turn_seconds)
        return min(max(wanted, self._batch_tokens), _LARGEST_TURN * self._batch_tokens)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (turn := self._take()):
                    if self._stopping and not self._jobs:
                        return
                    self._changed.wait()
            with torch.inference_mode():
                self._do(turn)

    def _take(self) -> dict[Job, list[Stretch]]:
        """Steps for the next turn by job; jobs that are over are forgotten."""
        self._jobs = [job for job in self._jobs if not job.done.done()]
        whole = self.reader.together
        able = [job for job in self._jobs if job.ready and not (whole and _unfinished(job))]
        if not able:
            return {}
        turn: dict[Job, list[Stretch]] = {}
        budget = self._turn_tokens
        soonest = sorted(able, key=lambda job: job.work_left)
        budget = (budget + 1) // 2 + _fill(turn, soonest, budget // 2, together=whole)
        _fill(turn, able, budget, together=whole)
        for job in turn:
            self._more(job)
        return turn

    def _do(self, turn: dict[Job, list[Stretch]]) -> None:
        work = [stretch for stretches in turn.values() for stretch in stretches]
        began = time.perf_counter()
        try:
            self.reader.run(work)
        except Exception as error:
            if len(turn) == 1:
                _fail(next(iter(turn)), error)
                return
            for job, stretches in turn.items():  # one request's fault must not be another's
                self._do({job: stretches})
            return
        for job, stretches in turn.items():
            self._close(job, [s.opened for s in stretches if s.stop == len(s.opened.costs)])
        seconds, tokens = time.perf_counter() - began, sum(stretch.tokens for stretch in work)
        self._rate += 0.3 * (tokens / max(seconds, 1e-6) - self._rate)
        self._observe(sum(stretch.stop - stretch.start for stretch in work), tokens, seconds)

    def _close(self, job: Job, finished: Sequence[Opened]) -> None:
        if not finished:
            return
        try:
            readings = self.reader.close(finished)
        except Exception as error:
            _fail(job, error)
            return
        for opened, reading in zip(finished, readings, strict=True):
            job.readings[job.numbers.pop(id(opened))] = reading
        if len(job.readings) == len(job.texts):
            _settle(job, [job.readings[number] for number in range(len(job.texts))])

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _fill(turn: dict[Job, list[Stretch]], jobs: Iterable[Job], budget: int, *, together: bool) -> int:
    """Put steps of the jobs, in their order, into a turn; what is left of the budget comes back.

    A turn is never empty: a single step may be larger than the budget.
    """
    for job in jobs:
        while job.ready and (budget > 0 or not turn or (together and job in turn)):
            opened = job.ready[0]
            start = stop = opened.taken
            while stop < len(opened.costs) and (budget > 0 or not turn or together):
                budget -= opened.costs[stop]
                stop += 1
                if budget <= 0 and not together:
                    break
            turn.setdefault(job, []).append(Stretch(opened, start, stop))
            job.ready_tokens -= sum(opened.costs[start:stop])
            opened.taken = stop
            if stop == len(opened.costs):
                job.ready.popleft()
            elif budget <= 0:
                break
        if budget <= 0:
            break
    return max(budget, 0)


def _unfinished(job: Job) -> bool:
    """Whether texts of the job are still to be opened."""
    return job.opening or job.next_text < len(job.texts)


def _settle(job: Job, readings: list[Reading]) -> None:
    try:
        job.done.set_result(readings)
    except InvalidStateError:  # cancelled a moment ago
        return


def _fail(job: Job, error: Exception) -> None:
    try:
        job.done.set_exception(error)
    except InvalidStateError:
        return
