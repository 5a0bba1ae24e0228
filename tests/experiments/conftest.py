"""The smallest experiment that has every part, as a file and as it is run once for all tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from longrank.experiments.execute import Store, missing_steps, run_steps
from longrank.experiments.gather import gather
from longrank.experiments.plan import make_plan
from longrank.experiments.records import ExperimentResult, write_result
from longrank.experiments.settings import load_experiment
from longrank.experiments.step import Plan
from longrank.reports.experiment import write_reports

SMALLEST = Path(__file__).parent / "smallest.toml"


def quiet(line: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="session")
def smallest() -> Path:
    return SMALLEST


@pytest.fixture(scope="session")
def plan() -> Plan:
    return make_plan(load_experiment(SMALLEST))


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, plan: Plan) -> Store:
    """A store in which the smallest experiment is done."""
    made = Store(tmp_path_factory.mktemp("store"))
    run_steps(plan.steps, made, say=quiet)
    return made


@pytest.fixture(scope="session")
def result(plan: Plan, store: Store) -> ExperimentResult:
    return gather(plan, store)


@pytest.fixture(scope="session")
def results_of() -> Callable[[Plan, Store, Path], dict[str, bytes]]:
    """The bytes of the files that must be the same for the same experiment."""

    def written(plan: Plan, store: Store, folder: Path) -> dict[str, bytes]:
        run_steps(missing_steps(plan.steps, store, quiet), store, say=quiet)
        write_result(folder, gather(plan, store))
        write_reports(folder)
        same = ("experiment.json", "records.jsonl", "cells.jsonl", "report.md", "report.tex")
        return {name: (folder / name).read_bytes() for name in same}

    return written


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[str], Path]:
    """The smallest experiment with lines added in front, as a file."""

    def write(text: str) -> Path:
        path = tmp_path / "changed.toml"
        path.write_text(text + "\n" + SMALLEST.read_text())
        return path

    return write
