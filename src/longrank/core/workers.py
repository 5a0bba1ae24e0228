"""Work spread over processes of one thread each, whose bars and messages all show in the parent."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from longrank.core import progress

T = TypeVar("T")
R = TypeVar("R")
Say = Callable[[str], None]


def in_processes(work: Callable[[T, Say], R], items: Iterable[T], *, workers: int, say: Say) -> Iterator[tuple[T, R]]:
    """What ``work(item, say)`` gives for each item, as it is ready; with one worker, here and in order.

    The first error is raised when the items at work have ended; the rest are not begun. A process dies with its parent.
    """
    if workers == 1:
        for item in items:
            yield item, work(item, say)
        return
    context = get_context("spawn")  # a fork would inherit torch's threads and hang on them
    news = context.Queue()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(news,))
    listener = Thread(target=_listen, args=(news, say), daemon=True)
    listener.start()
    try:
        futures: dict[Future[R], T] = {pool.submit(_work, work, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        news.put(None)
        listener.join()


_news: Any = None  # in a worker, the way to its parent


def _begin(news: Any) -> None:
    global _news  # noqa: PLW0603  # one for each process, set before any work
    _news = news
    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported, which is later
    progress.forward(_seldom(news))
    Thread(target=_die_with_parent, daemon=True).start()


def _seldom(news: Any) -> progress.Forward:
    """A bar's state goes to the parent a few times a second, whatever the loop's pace."""
    sent, named = 0.0, ""

    def send(what: str, done: int, total: int | None, note: str) -> None:
        nonlocal sent, named
        if what != named or monotonic() - sent > 0.2:
            sent, named = monotonic(), what
            news.put((os.getpid(), (what, done, total, note)))

    return send


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(work: Callable[[T, Say], R], item: T) -> R:
    return work(item, partial(_tell, _news))


def _tell(news: Any, text: str) -> None:
    news.put((os.getpid(), text))


def _listen(news: Any, say: Say) -> None:
    with progress.Bars() as bars:
        while (piece := news.get()) is not None:
            worker, told = piece
            if isinstance(told, str):
                say(told)
            else:
                bars.show(worker, *told)
