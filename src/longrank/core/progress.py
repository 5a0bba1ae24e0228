"""One progress bar for every long loop, on standard error; silent when that is not a terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
Forward = Callable[[str, int, int | None, str], None]  # what, done, total, note

_forward: Forward | None = None  # set in a worker process, whose bars its parent draws


def forward(to: Forward) -> None:
    """Send the bars of this process elsewhere from now on."""
    global _forward  # noqa: PLW0603  # standard error is one for each process too
    _forward = to


class Bars:
    """One bar a worker, each showing what that worker does now."""

    def __init__(self) -> None:
        self._drawn: Any = None
        self._tasks: dict[int, Any] = {}

    def __enter__(self) -> "Bars":
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            columns = (
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.fields[note]}"),
            )
            self._drawn = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._drawn.start()
        return self

    def show(self, worker: int, what: str, done: int, total: int | None, note: str = "") -> None:
        """Draw the worker's bar as far as it is now."""
        if self._drawn is None:
            return
        task = self._tasks.get(worker)
        if task is None or self._drawn.tasks[self._drawn.task_ids.index(task)].description != what:
            if task is not None:
                self._drawn.remove_task(task)
            task = self._tasks[worker] = self._drawn.add_task(what, total=total, completed=done, note=note)
        self._drawn.update(task, completed=done, note=note)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._drawn is not None:
            self._drawn.stop()


class Meter:
    """A bar with the time left, advanced by hand."""

    def __init__(self, what: str, *, total: int | None, done: int = 0) -> None:
        self._what, self._total, self._done = what, total, done
        self._bars = Bars()

    def __enter__(self) -> "Meter":
        if _forward is None:
            self._bars.__enter__()
        self.advance(0)
        return self

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Move the bar on, with a short note behind it."""
        self._done += steps
        if _forward is None:
            self._bars.show(0, self._what, self._done, self._total, note)
        else:
            _forward(self._what, self._done, self._total, note)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.__exit__(kind, error, at)


def track(items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
    """The items, with a bar while they are consumed."""
    with Meter(what, total=total) as meter:
        for item in items:
            yield item
            meter.advance()
