"""One progress bar for every long loop, on standard error; silent when that is not a terminal."""

import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Meter:
    """A bar with the time left, advanced by hand."""

    def __init__(self, what: str, *, total: int | None, done: int = 0) -> None:
        self._what, self._total, self._done = what, total, done
        self._bar: Any = None

    def __enter__(self) -> "Meter":
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
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=self._total, completed=self._done, note="")
        return self

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Move the bar on, with a short note behind it."""
        if self._bar is not None:
            self._bar.update(self._task, advance=steps, note=note)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def track(items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
    """The items, with a bar while they are consumed."""
    with Meter(what, total=total) as meter:
        for item in items:
            yield item
            meter.advance()
