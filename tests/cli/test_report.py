"""``longrank report`` on a folder of records."""

from pathlib import Path

from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.experiments.records import CellResult, ExperimentResult, write_result


def write_small(folder: Path) -> None:
    cells = [
        CellResult(
            {"ranker": name, "backbone": "tiny", "seed": 0, "stage": "main", "trained_on": "toy", "scored_on": "toy"},
            {"RR": {"q1": high, "q2": 0.5, "q3": 0.25}},
        )
        for name, high in (("firstp", 0.5), ("maxp", 1.0))
    ]
    write_result(folder, ExperimentResult({"title": "Small"}, tuple(cells)))


def test_report_writes_all_formats_or_the_one_asked_for(tmp_path: Path) -> None:
    write_small(tmp_path)
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--format", "md"])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.glob("report.*")) == ["report.md"]
    # (1 + .5 + .25) / 3 over (.5 + .5 + .25) / 3 is a gain of 40%
    assert "+40.0%" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["report", str(tmp_path)]).exit_code == 0
    assert sorted(path.name for path in tmp_path.glob("report.*")) == ["report.html", "report.md", "report.tex"]


def test_report_takes_another_baseline(tmp_path: Path) -> None:
    write_small(tmp_path)
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--baseline", "maxp"]).exit_code == 0
    assert "-28.6%" in (tmp_path / "report.md").read_text(encoding="utf-8")  # 1.25 / 1.75 - 1
