"""Work in processes: results, messages, bars and errors come back."""

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from longrank.core.workers import in_processes

MODULE = """
import os

from longrank.core.progress import track

def square(item, say):
    for _ in track(range(3), "squaring", total=3):
        pass
    say(f"did {item}")
    return item * item, os.getpid(), os.environ.get("OMP_NUM_THREADS")

def fail_at_three(item, say):
    if item == 3:
        raise ValueError("three is not wanted")
    return item
"""


@pytest.fixture
def works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that other processes can import, unlike this one."""
    (tmp_path / "works_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("works_of_a_test")


@pytest.mark.parametrize("workers", [1, 2])
def test_every_item_gives_its_result_and_says_its_word(works: Any, workers: int) -> None:
    said: list[str] = []
    got = {item: result[0] for item, result in in_processes(works.square, range(5), workers=workers, say=said.append)}
    assert got == {item: item * item for item in range(5)}
    assert sorted(said) == [f"did {item}" for item in range(5)]


def test_workers_are_other_processes_of_one_thread_and_one_worker_is_this_one(works: Any) -> None:
    apart = [result for _, result in in_processes(works.square, range(4), workers=2, say=lambda _: None)]
    assert os.getpid() not in {pid for _, pid, _ in apart}
    assert {threads for _, _, threads in apart} == {"1"}
    here = [result for _, result in in_processes(works.square, range(2), workers=1, say=lambda _: None)]
    assert {pid for _, pid, _ in here} == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_work_is_raised_here(works: Any, workers: int) -> None:
    with pytest.raises(ValueError, match="three is not wanted"):
        list(in_processes(works.fail_at_three, [1, 2, 3], workers=workers, say=lambda _: None))


SCRIPT = """
import os, sys, time
from longrank.core.workers import in_processes

def work(item, say):
    say(str(os.getpid()))
    time.sleep(60)

if __name__ == "__main__":
    list(in_processes(work, [1, 2], workers=2, say=lambda text: print(text, flush=True)))
"""


def test_workers_die_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
    waited = 0.0
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and waited < 20:
        time.sleep(0.1)
        waited += 0.1
    assert waited < 20
