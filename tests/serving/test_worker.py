"""One thread for all: everybody gets an answer, the small soon, and no one pays for another's fault."""

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from longrank.core.errors import TruncatedInput
from longrank.core.types import Document, Query, Scores
from longrank.rankers.neural import NeuralRanker
from longrank.serving.readers import reader_of
from longrank.serving.worker import Job, Worker
from longrank.testing import WordOverlapRanker

WAIT = 60.0


class Slow:
    """Counts letters, takes a millisecond a document, and writes down what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.go = threading.Event()
        self.go.set()

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        self.go.wait(WAIT)
        self.calls.append((query.text, len(documents)))
        time.sleep(0.001 * len(documents))
        if query.text == "bad":
            raise ValueError("the text is private")
        return Scores([float(len(document.text)) for document in documents])


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def worker(slow: Slow) -> Iterator[Worker]:
    found = Worker(reader_of(slow, batch_tokens=64), batch_tokens=64, turn_seconds=0.01)
    yield found
    slow.go.set()
    found.stop()


def scores(job: Job) -> list[float]:
    return [reading.score for reading in job.done.result(WAIT)]


def test_jobs_of_many_threads_each_get_their_own_scores(tiny: NeuralRanker) -> None:
    worker = Worker(reader_of(tiny, batch_tokens=256), batch_tokens=256, turn_seconds=0.02)
    jobs = [Job(f"word{n}", [f"word{n} " * k for k in (1, 50, 90, 300)]) for n in range(12)]
    threads = [threading.Thread(target=worker.submit, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for job in jobs:
        direct = tiny.score(Query("q", job.query), [Document(str(n), text) for n, text in enumerate(job.texts)])
        assert scores(job) == pytest.approx(direct.values, abs=2e-5)
    worker.stop()
    assert worker.waiting == 0


def test_a_small_job_does_not_wait_for_a_large_one(worker: Worker, slow: Slow) -> None:
    large = Job("large", ["some words " * 20] * 1000)
    worker.submit(large)
    time.sleep(0.05)
    small = Job("small", ["a", "bb"])
    worker.submit(small)
    assert scores(small) == [1.0, 2.0]
    assert not large.done.done()
    assert len(scores(large)) == 1000
    assert max(count for _, count in slow.calls) < 200  # never all at once


def test_a_large_job_goes_on_while_small_ones_keep_coming(worker: Worker) -> None:
    large = Job("large", ["some words " * 20] * 100)
    worker.submit(large)
    asked = 0
    while not large.done.done() and asked < 2000:
        small = Job("small", ["abc"] * 5)
        worker.submit(small)
        scores(small)
        asked += 1
    assert large.done.done()


def test_a_job_that_fails_takes_no_other_with_it(worker: Worker, slow: Slow) -> None:
    slow.go.clear()
    jobs = [Job(query, ["text"]) for query in ("first", "good", "bad", "fine")]
    for job in jobs:
        worker.submit(job)
    time.sleep(0.05)
    slow.go.set()
    assert [scores(job) for job in jobs if job.query != "bad"] == [[4.0]] * 3
    with pytest.raises(ValueError, match="private"):
        scores(jobs[2])


def test_a_cancelled_job_is_not_worked_on(worker: Worker, slow: Slow) -> None:
    slow.go.clear()
    first, second = Job("first", ["a"]), Job("second", ["some words"] * 5000)
    worker.submit(first)
    worker.submit(second)
    assert second.done.cancel()
    slow.go.set()
    assert scores(first) == [1.0]
    third = Job("third", ["abc"])
    worker.submit(third)
    assert scores(third) == [3.0]
    assert sum(count for query, count in slow.calls if query == "second") < 500


def test_stopping_finishes_what_was_taken_in(slow: Slow) -> None:
    worker = Worker(reader_of(slow, batch_tokens=64), batch_tokens=64, turn_seconds=0.01)
    job = Job("q", ["words " * n for n in range(200)])
    worker.submit(job)
    worker.stop()
    assert len(job.done.result(0)) == 200


def test_documents_of_a_listwise_ranker_are_handed_over_together() -> None:
    slow = Slow()
    worker = Worker(reader_of(slow, batch_tokens=64, listwise=True), batch_tokens=64, turn_seconds=0.01)
    job = Job("q", ["some words " * 50] * 500)
    worker.submit(job)
    assert len(scores(job)) == 500
    worker.stop()
    assert slow.calls == [("q", 500)]


def test_a_strict_job_is_refused_before_anything_is_cut(tiny: NeuralRanker) -> None:
    worker = Worker(reader_of(tiny, batch_tokens=256))
    job = Job("q", ["short", "long " * 300], strict=True)
    worker.submit(job)
    with pytest.raises(TruncatedInput, match=r"document 1 .* 100 tokens"):
        job.done.result(WAIT)
    worker.stop()


def test_a_job_without_texts_is_done_at_once() -> None:
    worker = Worker(reader_of(WordOverlapRanker(), batch_tokens=64))
    job = Job("q", [])
    worker.submit(job)
    assert job.done.result(0) == []
    worker.stop()
