"""Steps side by side: a few worker processes, as many as memory allows, none left behind."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path

from longrank.core.errors import LongrankError
from longrank.experiments.execute import Say, StepFailed, make_alone, ready_steps
from longrank.experiments.step import Step

_MEMORY_SHARE = 0.9  # of what is free at the start
_WATCH_SECONDS = 0.5
_CODE = "from longrank.experiments.processes import serve; serve()"


class _Worker:
    """A process that makes one step after another; what it imports, it imports once."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", _CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.step: Step | None = None

    @property
    def pipe(self) -> int:
        """Number of the file from which its answers come."""
        if self.process.stdout is None:
            raise StepFailed("a worker has no way to answer")
        return self.process.stdout.fileno()

    def start(self, step: Step, root: Path) -> None:
        """Hand it a step."""
        self.step = step
        if self.process.stdin is not None:
            pickle.dump((step, root), self.process.stdin)
            self.process.stdin.flush()

    def finish(self) -> None:
        """Hear how its step went; a failure is raised."""
        label = self.step.label if self.step is not None else "nothing"
        try:
            problem = pickle.load(self.process.stdout) if self.process.stdout is not None else None
        except EOFError:
            code = self.process.wait()
            raise StepFailed(f"'{label}' ended with code {code}: was memory short? Try fewer --workers") from None
        if problem is not None:
            raise StepFailed(problem)
        self.step = None

    def end(self) -> None:
        """Stop it, at once if it is at work."""
        if self.step is not None:
            self.process.terminate()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait()


def run_side_by_side(steps: Sequence[Step], root: Path, *, workers: int, say: Say) -> None:
    """Make the steps in up to ``workers`` processes, each after those it reads.

    The first failure stops the others; what they have trained so far is gone on with by the next run.
    """
    waiting, team, started = list(steps), list[_Worker](), 0
    room = _free_bytes() * _MEMORY_SHARE
    try:
        while waiting or any(worker.step for worker in team):
            for step in ready_steps(waiting, [w.step for w in team if w.step]):
                busy = [worker.step for worker in team if worker.step]
                fits = sum(one.work.memory_bytes for one in busy) + step.work.memory_bytes <= room
                if len(busy) == workers or (busy and not fits):
                    break
                if len(busy) == len(team):
                    team.append(_Worker())
                waiting.remove(step)
                next(worker for worker in team if worker.step is None).start(step, root)
                started += 1
                say(f"[{started}/{len(steps)}] {step.label}")
            pipes = {worker.pipe: worker for worker in team if worker.step}
            for pipe in wait(list(pipes)):
                if isinstance(pipe, int):
                    pipes[pipe].finish()
    finally:
        for worker in team:
            worker.end()


def serve() -> None:
    """In a worker: make the steps that come in, and answer each with None or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends us
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints must not stand between the answers
        _import_early()
        while True:
            try:
                step, root = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            problem: str | None = None
            try:
                make_alone(step, root)
            except LongrankError as error:
                problem = str(error)
            except Exception as error:  # whoever's: the parent is told, and the traceback goes to standard error
                traceback.print_exc()
                problem = f"'{step.label}' failed: {type(error).__name__}: {error}"
            pickle.dump(problem, answers)
            answers.flush()


def _import_early() -> None:
    """Everything a step may need, so that a later change of the sources does not reach into a run."""
    import longrank.positions.profiling
    import longrank.rankers.ready
    import longrank.retrieval.embedding
    import longrank.training.trainer  # noqa: F401


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a killed run leaves nothing that writes on."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _free_bytes() -> float:
    path = Path("/proc/meminfo")
    if path.is_file():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2
