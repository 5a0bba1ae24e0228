"""``longrank report`` on a folder of records."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.core.errors import DataError
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


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("experiment.json", '{"title": "Sm', "experiment.json is damaged"),
        ("experiment.json", "[]", "experiment.json must hold a JSON object"),
        ("cells.jsonl", '{"cell": {}}\n', "cells.jsonl, line 1: 'facts' must be an object"),
        ("cells.jsonl", '{"cell": {"ranker": "maxp"}, "facts": {"parameters": 3}}\n', "lack a label or fact"),
        ("records.jsonl", '{"cell": {}, "query_id": "q"}\n', "records.jsonl, line 1: 'measures' must be an object"),
        ("records.jsonl", '{"cell": {}, "measures": {}}\n', "records.jsonl, line 1: 'query_id' must be a string"),
        (
            "records.jsonl",
            '{"cell": {}, "query_id": "q", "measures": {"RR": "high"}}\n',
            "records.jsonl, line 1: 'RR' of 'measures' must be a number, got 'high'",
        ),
        ("timings.jsonl", '{"cell": {}}\n', "timings.jsonl, line 1: 'seconds' must be an object"),
    ],
)
def test_damaged_records_are_told_by_file_and_line(tmp_path: Path, file: str, text: str, said: str) -> None:
    write_small(tmp_path)
    (tmp_path / file).write_text(text)
    refused = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(refused.exception, DataError)
    assert said in str(refused.exception)


def test_report_takes_another_baseline(tmp_path: Path) -> None:
    write_small(tmp_path)
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--baseline", "maxp"]).exit_code == 0
    assert "-28.6%" in (tmp_path / "report.md").read_text(encoding="utf-8")  # 1.25 / 1.75 - 1
