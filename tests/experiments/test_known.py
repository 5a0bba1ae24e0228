"""Results of another machine: their cells are taken over, and nothing is made for them."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from longrank.core.errors import DataError
from longrank.experiments.execute import Store, run_steps
from longrank.experiments.gather import gather
from longrank.experiments.known import Known, read_known
from longrank.experiments.plan import make_plan
from longrank.experiments.records import CellResult, ExperimentResult, read_result, write_result
from longrank.experiments.settings import load_experiment
from longrank.experiments.step import Cell, Plan, Step


@pytest.fixture
def earlier(result: ExperimentResult, tmp_path: Path) -> Path:
    write_result(tmp_path / "earlier", result)
    return tmp_path / "earlier"


def quiet(line: str) -> None:
    pass


def test_when_all_scores_are_known_no_stage_is_trained_for_them(plan: Plan, earlier: Path) -> None:
    labels = [step.label for step in read_known([earlier]).remaining(plan).steps]
    assert not any(label.startswith("score") or "tuned" in label or "debiased on" in label for label in labels)
    assert any(label.startswith("positions") for label in labels)


def test_two_halves_made_in_two_places_are_the_same_as_one_whole(
    smallest: Path, result: ExperimentResult, tmp_path: Path
) -> None:
    whole = ["audits.stages=[]"]  # audits and run-times are no scores: they would be made in both places
    half = load_experiment(smallest, ["seeds=[0]", *whole])
    first, second = Store(tmp_path / "a"), Store(tmp_path / "b")
    run_steps(make_plan(half).steps, first, say=quiet)
    write_result(tmp_path / "half", gather(make_plan(half), first))
    plan, known = make_plan(load_experiment(smallest, whole)), read_known([tmp_path / "half"])
    rest = known.remaining(plan).steps
    assert not any("seed 0" in step.label and step.kind == "score" for step in rest)
    run_steps(rest, second, say=quiet)
    joined = gather(plan, second, known)
    expected = [cell for cell in result.cells if cell.labels.get("what") not in {"audit", "costs"}]
    made = [cell for cell in joined.cells if cell.labels.get("what") != "costs"]
    assert [cell.labels for cell in made] == [cell.labels for cell in expected]
    assert [(cell.values, cell.facts) for cell in made] == [(cell.values, cell.facts) for cell in expected]


def test_cells_of_other_settings_are_not_known(earlier: Path, smallest: Path) -> None:
    other = make_plan(load_experiment(smallest, ["training.batch_size=2"]))
    assert read_known([earlier]).remaining(other).cells == other.cells


def test_a_cell_is_known_only_by_the_measures_that_are_asked(earlier: Path, smallest: Path) -> None:
    other = make_plan(load_experiment(smallest, ['measures=["nDCG@10"]']))
    assert read_known([earlier]).remaining(other).cells == other.cells
    fewer = make_plan(load_experiment(smallest, ['measures=["RR"]']))
    known = read_known([earlier])
    found = [known.find(cell) for cell in fewer.cells if cell.kind == "scored"]
    assert [list(cell.values) if cell else None for cell in found] == [["RR"]] * len(found)


STEP, LABELS = Step("score", "score", {}), {"ranker": "maxp"}


def known_of(tmp_path: Path, *cells: CellResult) -> Known:
    """What is known from cells that stand in a folder each."""
    folders = [tmp_path / str(number) for number, _ in enumerate(cells)]
    for folder, cell in zip(folders, cells, strict=True):
        facts = {"fingerprints": [STEP.fingerprint], **cell.facts}
        write_result(folder, ExperimentResult({}, (replace(cell, facts=facts),)))
    return read_known(folders)


def test_a_cell_has_the_measures_of_all_folders_that_have_it(tmp_path: Path) -> None:
    known = known_of(tmp_path, *(CellResult(LABELS, {name: {"q": 0.5}}) for name in ("RR", "AP")))
    found = known.find(Cell(LABELS, "scored", (STEP,), measures=("AP", "RR")))
    assert found is not None
    assert found.values == {"AP": {"q": 0.5}, "RR": {"q": 0.5}}


def test_ranks_that_nobody_asked_for_are_not_taken_over(tmp_path: Path) -> None:
    known = known_of(tmp_path, CellResult(LABELS, {"RR": {"q": 1.0}}, ranks={"q": {"d": 1}}))
    cell = Cell(LABELS, "scored", (STEP,), measures=("RR",))
    found = [known.find(asked) for asked in (cell, replace(cell, ranked=True))]
    assert [one and one.ranks for one in found] == [{}, {"q": {"d": 1}}]


def test_an_ensemble_is_known_only_by_the_measure_that_weighed_it(tmp_path: Path) -> None:
    both = {"fingerprints": [STEP.fingerprint] * 2}
    one = CellResult(LABELS, {"RR": {"q": 1.0}}, {**both, "weighed_by": "AP"})
    other = CellResult(LABELS, {"RR": {"q": 0.5}}, {**both, "weighed_by": "RR"})
    known, cell = known_of(tmp_path, one, other), Cell(LABELS, "ensemble", (STEP, STEP), measures=("RR",))
    found = [known.find(replace(cell, weighed_by=measure)) for measure in ("AP", "RR", "P@5")]
    assert [each and each.values["RR"]["q"] for each in found] == [1.0, 0.5, None]


def test_compressed_records_are_read(earlier: Path) -> None:
    before = read_result(earlier)
    for path in list(earlier.glob("*.jsonl")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert read_result(earlier) == before


def test_two_folders_that_contradict_each_other_are_refused(
    earlier: Path, result: ExperimentResult, tmp_path: Path
) -> None:
    (cell,) = result.where(ranker="firstp", seed=0, stage="zero-shot", scored_on="toy-far")
    flipped = {name: {q: 1 - value for q, value in row.items()} for name, row in cell.values.items()}
    write_result(tmp_path / "other", replace(result, cells=(replace(cell, values=flipped),)))
    with pytest.raises(DataError, match="other values"):
        read_known([earlier, tmp_path / "other"])
