"""Steps made one after another or side by side, each found again by its folder; a killed run goes on where it was.

A step is done when its folder holds ``done.json`` with the hashes of its files. A file that changed later is found out
by its time or size and then by its hash, named, and the step is made again. Results are hashed whatever their time,
models and texts only where something is to be made of them.
"""

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from longrank import __version__
from longrank.core.addresses import shown_values
from longrank.core.disk import write_atomic
from longrank.core.errors import LongrankError, SettingsError
from longrank.core.fingerprint import file_hash, plain
from longrank.experiments.job import RESUMABLE, VOLATILE, Job
from longrank.experiments.step import Plan, Step
from longrank.experiments.steps import make_step

Say = Callable[[str], None]
DONE, SECONDS = "done.json", "seconds.json"
_LARGE = frozenset({"collection", "warm-up", "train"})


class StepFailed(LongrankError):
    """A step that could not be made; says which, and why."""


@dataclass(frozen=True)
class Store:
    """Where steps are kept, shared by all experiments."""

    root: Path

    def folder(self, step: Step) -> Path:
        """A step's folder."""
        return self.root / step.folder

    def is_done(self, step: Step) -> bool:
        """Whether a step's folder says it is finished; nothing else is looked at."""
        return (self.folder(step) / DONE).is_file()

    def damage(self, step: Step, *, thorough: bool = False) -> Path | None:
        """A file of a finished step that is missing or was changed; ``thorough`` reads them all."""
        folder = self.folder(step)
        written = (folder / DONE).stat().st_mtime_ns
        try:
            files: dict[str, Any] = json.loads((folder / DONE).read_text(encoding="utf-8"))["files"]
            known = [(folder / name, file["bytes"], file["sha256"]) for name, file in files.items()]
        except (ValueError, KeyError, TypeError, AttributeError):
            return folder / DONE
        for path, size, sha in known:
            if not path.is_file() or (size is not None and path.stat().st_size != size):
                return path
            if sha is None:  # holds times: that it is there is all that can be asked
                continue
            touched = path.stat().st_mtime_ns > written
            if (touched or thorough) and file_hash(path) != sha:
                return path
        return None

    def seconds(self, step: Step) -> float | None:
        """How long a step took, over all its attempts that were not killed."""
        try:
            return float(json.loads((self.folder(step) / SECONDS).read_text(encoding="utf-8"))["seconds"])
        except (OSError, ValueError, KeyError, TypeError):  # not there, or damaged: it is only a time
            return None

    def make(self, step: Step) -> None:
        """Make a step if nobody has; another process that is at it is waited for."""
        folder = self.folder(step)
        with _alone(self.root / f".{step.folder}.lock"):
            if self.is_done(step) and self.damage(step) is None:
                return
            if step.kind not in RESUMABLE or self.is_done(step):
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            for half_written in folder.glob(".*"):  # of a killed attempt: files are written under such a name first
                shutil.rmtree(half_written) if half_written.is_dir() else half_written.unlink()
            began, before = time.perf_counter(), self.seconds(step) or 0.0
            inputs = {role: self.folder(inner) for role, inner in step.inputs.items()}
            try:
                make_step(Job(step, folder, inputs))
            finally:
                taken = before + time.perf_counter() - began
                write_atomic(folder / SECONDS, json.dumps({"seconds": taken}))
            self._finish(step)

    def forget(self, step: Step) -> None:
        """Remove what a step has made."""
        with _alone(self.root / f".{step.folder}.lock"):
            shutil.rmtree(self.folder(step), ignore_errors=True)

    def _finish(self, step: Step) -> None:
        folder = self.folder(step)
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        files = {name: _identity(folder / name) for name in names if Path(name).name not in {DONE, SECONDS}}
        facts = {
            "label": step.label,
            "settings": shown_values(plain(step.settings)),
            "versions": versions(),
            "files": files,
        }
        write_atomic(folder / DONE, json.dumps(facts, indent=1, sort_keys=True))

    def versions(self, step: Step) -> Mapping[str, str] | None:
        """What a finished step was made with; None of one that does not say."""
        found: Mapping[str, str] | None = json.loads((self.folder(step) / DONE).read_text("utf-8")).get("versions")
        return found


@cache
def versions() -> Mapping[str, str]:
    """What the numbers are made with."""
    packages = {name: version(name) for name in ("torch", "transformers", "numpy")}
    return {"longrank": __version__, "python": platform.python_version(), **packages}


def _identity(path: Path) -> dict[str, str | int | None]:
    if path.name in VOLATILE:
        return {"sha256": None, "bytes": None}
    return {"sha256": file_hash(path), "bytes": path.stat().st_size}


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock file; the system lets go of it when its holder dies."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def chosen_steps(plan: Plan, patterns: Sequence[str]) -> tuple[Step, ...]:
    """The steps whose label or folder fits a pattern, and all they need."""
    if not patterns:
        return plan.steps
    wanted = {step.fingerprint for step in fitting_steps(plan.steps, patterns)}
    for step in reversed(plan.steps):  # behind those it reads, so what is needed is known in one pass
        if step.fingerprint in wanted:
            wanted |= {inner.fingerprint for inner in step.inputs.values()}
    return tuple(step for step in plan.steps if step.fingerprint in wanted)


def fitting_steps(steps: Sequence[Step], patterns: Sequence[str]) -> list[Step]:
    """The steps whose label or folder fits a pattern; patterns that fit none are refused."""
    found = [step for step in steps if matches(step, patterns)]
    if patterns and not found:
        shown = "; ".join(step.label for step in steps[:6])
        raise SettingsError(f"no step fits {', '.join(map(repr, patterns))}; labels are like: {shown}")
    return found


def with_readers(steps: Iterable[Step], plan: Plan) -> set[str]:
    """Fingerprints of the steps and of all that read them, directly or not: what they made is old when these change."""
    found = {step.fingerprint for step in steps}
    for step in plan.steps:  # each stands behind those it reads
        if found & {inner.fingerprint for inner in step.inputs.values()}:
            found.add(step.fingerprint)
    return found


def matches(step: Step, patterns: Sequence[str]) -> bool:
    """Whether a step's label or folder fits one of the patterns; one without '*' may stand anywhere in them."""
    wide = [pattern if "*" in pattern else f"*{pattern}*" for pattern in patterns]
    return any(fnmatch(name, pattern) for pattern in wide for name in (step.label, step.folder))


def missing_steps(steps: Sequence[Step], store: Store, say: Say, *, mend: bool = True) -> tuple[Step, ...]:
    """The steps to be made, in order; a damaged one is named and, to ``mend`` it, what it left is removed.

    A step that is not done needs its inputs whole: those are read through and hashed, and so is what all results are
    gathered from.
    """
    missing: dict[str, Step] = {}
    needed: set[str] = set()
    for step in reversed(steps):
        if not store.is_done(step):
            missing[step.fingerprint] = step
        else:
            damaged = store.damage(step, thorough=step.fingerprint in needed or step.kind not in _LARGE)
            if damaged is not None:
                say(f"{damaged} is missing or was changed: '{step.label}' is made again")
                if mend:
                    store.forget(step)
                missing[step.fingerprint] = step
        if step.fingerprint in missing:
            needed |= {inner.fingerprint for inner in step.inputs.values()}
    return tuple(step for step in steps if step.fingerprint in missing)


def run_steps(steps: Sequence[Step], store: Store, *, workers: int = 1, say: Say) -> None:
    """Make the steps, each after those it reads; with several workers each step has a process of its own."""
    if workers < 2 or len(steps) < 2:
        for number, step in enumerate(steps, start=1):
            say(f"[{number}/{len(steps)}] {step.label}")
            with _one_thread(), _explained(step):
                store.make(step)
        return
    from longrank.experiments.processes import run_side_by_side

    run_side_by_side(steps, store.root, workers=workers, say=say)


def make_alone(step: Step, root: Path) -> None:
    """Make one step in a process that does nothing else."""
    with _one_thread(), _explained(step):
        Store(root).make(step)


def ready_steps(waiting: Collection[Step], running: Collection[Step]) -> list[Step]:
    """Of the steps that wait, those that read nothing that still waits or runs."""
    unfinished = {step.fingerprint for step in (*waiting, *running)}
    return [s for s in waiting if not unfinished & {inner.fingerprint for inner in s.inputs.values()}]


@contextmanager
def _explained(step: Step) -> Iterator[None]:
    try:
        yield
    except LongrankError as error:
        raise StepFailed(f"'{step.label}' failed: {error}") from error


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread, whatever the machine: the same bytes for any number of workers."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
