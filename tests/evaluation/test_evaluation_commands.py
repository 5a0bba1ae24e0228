"""``longrank evaluate`` and ``longrank compare`` on small files."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from longrank.cli.compare import compare
from longrank.cli.evaluate import evaluate
from longrank.core.errors import DataError, LongrankError, SettingsError, UnknownName

app = typer.Typer()
app.command()(evaluate)
app.command()(compare)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*arguments: object) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result.exception
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Judgements of 30 queries, and runs of three systems that put the relevant document at better and worse places."""
    rng = np.random.default_rng(0)
    qrels: list[str] = []
    weak: list[str] = []
    strong: list[str] = []
    for query in range(30):
        qrels.append(f"q{query} 0 good 1\n")
        for lines, top in ((weak, 6), (strong, 3)):
            place = int(rng.integers(1, top))
            ids = [f"bad{i}" for i in range(6)]
            ids.insert(place - 1, "good")
            lines += [f"q{query} Q0 {d} {r} {10 - r} t\n" for r, d in enumerate(ids, start=1)]
    for name, lines in (("qrels.txt", qrels), ("weak.run", weak), ("strong.run", strong)):
        (tmp_path / name).write_text("".join(lines))
    half = len(strong) // 2
    (tmp_path / "fold1.run").write_text("".join(strong[:half]))
    (tmp_path / "fold2.run").write_text("".join(strong[half:]))
    return tmp_path


def test_evaluate_prints_a_row_a_run(folder: Path) -> None:
    text = printed(
        "evaluate", folder / "weak.run", folder / "strong.run", "--qrels", folder / "qrels.txt", "--measures", "RR P@1"
    )
    assert text.splitlines()[0].split() == ["run", "RR", "P@1"]
    assert "weak: 30 queries." in text


def test_evaluate_writes_queries_as_csv(folder: Path) -> None:
    text = printed(
        "evaluate",
        folder / "weak.run",
        "--qrels",
        folder / "qrels.txt",
        "--measures",
        "RR",
        "--per-query",
        "--format",
        "csv",
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 30
    assert {row["measure"] for row in rows} == {"RR"}


def test_evaluate_counts_missing_queries_as_zero_on_request(folder: Path) -> None:
    arguments = (
        "evaluate",
        folder / "fold1.run",
        "--qrels",
        folder / "qrels.txt",
        "--measures",
        "RR",
        "--format",
        "json",
    )
    skipped, zeroed = json.loads(printed(*arguments))[0], json.loads(printed(*arguments, "--missing", "zero"))[0]
    assert (skipped["queries"], zeroed["queries"]) == (15, 30)
    assert zeroed["means"]["RR"] == pytest.approx(skipped["means"]["RR"] / 2)


def test_evaluate_warns_of_means_over_different_queries_and_names_the_command_that_takes_the_same_ones(
    folder: Path,
) -> None:
    options = ("--qrels", folder / "qrels.txt", "--measures", "RR")
    text = printed("evaluate", folder / "fold1.run", folder / "weak.run", *options)
    assert "different queries" in text
    assert "all runs have 15 of 30 queries. `longrank compare`" in text
    quiet = printed("evaluate", folder / "fold1.run", folder / "weak.run", *options, "--missing", "zero")
    assert "different queries" not in quiet  # both are means over all 30
    machine = call("evaluate", folder / "fold1.run", folder / "weak.run", *options, "--format", "csv")
    assert "different queries" in machine.stderr
    assert "different queries" not in machine.stdout


def test_compare_pools_folds_and_averages_seeds(folder: Path) -> None:
    folds = f"{folder}/fold1.run+{folder}/fold2.run"
    text = printed(
        *("compare", f"strong={folds},{folder}/strong.run", folder / "weak.run", "--baseline", "weak"),
        *("--qrels", folder / "qrels.txt", "--measures", "RR", "--format", "json"),
    )
    data = json.loads(text)
    assert data["seeds"] == {"strong": 2, "weak": 1}
    assert data["queries"] == {"RR": 30}
    assert data["estimates"][0]["significant"] is True


def test_compare_takes_the_threshold_from_the_collection_and_own_baselines(folder: Path) -> None:
    arguments = ("compare", folder / "strong.run", folder / "weak.run", "--own", "strong=weak", "--measures", "RR")
    text = printed(*arguments, "--qrels", folder / "qrels.txt", "--collection", "msmarco-document/dev")
    assert "thresholds: RR 0.01" in text
    assert "a = own baseline" in text
    latex = printed(*arguments, "--qrels", folder / "qrels.txt", "--format", "latex", "--test", "permutation")
    assert latex.startswith("\\begin{table}")
    assert "9999 draws" in latex


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_compare_shows_every_difference_with_its_interval_and_corrected_p(folder: Path, form: str) -> None:
    systems = ("compare", folder / "weak.run", folder / "strong.run", "--baseline", "weak")
    options = ("--qrels", folder / "qrels.txt", "--measures", "RR P@1", "--format")
    text = printed(*systems, *options, form).replace("\\", "").replace("{[}", "[")
    estimates = json.loads(printed(*systems, *options, "json"))["estimates"]
    for one in estimates:
        low, high = one["interval"]["low"], one["interval"]["high"]
        assert f"{one['difference']:+.3f} [{low:+.3f}, {high:+.3f}]" in text
    assert text.count("<0.001") + text.count("textless{}0.001") == sum(one["corrected_p"] < 0.001 for one in estimates)


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["evaluate", "foreign.run"], DataError, "same document ids"),
        (["evaluate", "other-queries.run"], DataError, "no query in common"),
        (["evaluate", "absent.run"], DataError, "cannot read"),
        (["evaluate", "weak.run", "--measures", "nDGC@10"], UnknownName, "nDCG@10"),
        (["compare", "weak.run", "strong.run"], SettingsError, "name a baseline"),
        (["compare", "weak.run", "strong.run", "--baseline", "bm25"], UnknownName, "weak, strong"),
        (["compare", "weak.run", "weak.run", "--baseline", "weak"], DataError, "two systems are named 'weak'"),
        (["compare", "weak.run", "--baseline", "weak"], DataError, "at least two systems, got 1"),
        (["compare", "weak.run", "strong.run", "--own", "weak"], SettingsError, "SYSTEM=BASELINE"),
        (["compare", "a.run", "b.run", "--own", "a=b", "--own", "a=a"], SettingsError, "names two of one: a=b, a=a"),
        (["compare", "weak.run", "strong=", "--baseline", "weak"], SettingsError, "'strong=' lacks a name or a file"),
        (["compare", "weak.run", "s=strong.run,", "--baseline", "weak"], SettingsError, "lacks a name or a file"),
        (["compare", "weak.run", "=strong.run", "--baseline", "weak"], SettingsError, "lacks a name or a file"),
    ],
)
def test_bad_input_is_told_in_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: type[LongrankError], hint: str
) -> None:
    (folder / "foreign.run").write_text("q1 Q0 unknown 1 1.0 t\n")
    (folder / "other-queries.run").write_text("zz Q0 good 1 1.0 t\n")
    monkeypatch.chdir(folder)
    result = call(*arguments, "--qrels", "qrels.txt")
    assert isinstance(result.exception, error)
    assert hint in str(result.exception)


@pytest.mark.parametrize("options", [["--baseline", "nope"], ["--own", "one=nope"], ["--own", "nope=two"]])
def test_a_baseline_that_is_none_of_the_systems_is_refused_before_a_file_is_read(options: list[str]) -> None:
    result = call("compare", "one=absent.run", "two.run", *options, "--qrels", "absent.txt")
    assert isinstance(result.exception, UnknownName)
    assert str(result.exception) == "no system 'nope' to compare with; the systems are one, two"


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_help_explains_the_command(command: str) -> None:
    text = printed(command, "--help")
    assert "--qrels" in text
    assert "Judgements" in text


def test_compare_puts_a_papers_numbers_beside_yours(folder: Path) -> None:
    systems = (f"firstp={folder / 'weak.run'}", f"maxp={folder / 'strong.run'}")
    options = (
        "--qrels",
        folder / "qrels.txt",
        "--baseline",
        "firstp",
        "--measures",
        "RR",
        "--collection",
        "msmarco-dev",
    )
    out = printed("compare", *systems, *options, "--paper", "positional-bias/1")
    below = out[out.index("theirs") :]
    assert re.search(r"FirstP \(BERT\)\s.*RR.*0\.394", below)  # as printed in the paper
    assert re.search(r"MaxP.*RR.*0\.392", below)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("--paper nope/1", "The papers are positional-bias"),
        ("--paper positional-bia/1", "Did you mean 'positional-bias/1'?"),
        ("--paper positional-bias/9999", "has the tables 1"),
        ("--paper positional-bias/1 --collection nowhere", "--collection and --measures may name one of"),
        ("--paper positional-bias/1 --collection msmarco-dev --measures AP", "none of your measures"),
        ("--paper positional-bias/1 --collection msmarco-dev --format json", "leave one of them out"),
    ],
)
def test_a_papers_table_that_cannot_be_shown_is_refused_before_a_run_is_read(asked: str, hint: str) -> None:
    never_read = ("compare", "firstp=absent.run", "maxp=gone.run", "--baseline", "firstp", "--qrels", "nowhere.txt")
    refused = call(*never_read, "--measures", "RR", *asked.split())
    assert hint in str(refused.exception)


def test_a_system_that_the_papers_table_lacks_is_refused_before_a_run_is_read() -> None:
    asked = ("--paper", "positional-bias/1", "--collection", "msmarco-dev", "--measures", "RR")
    refused = call("compare", "firstp=absent.run", "max=gone.run", "--baseline", "max", "--qrels", "none", *asked)
    assert "no system 'max' in positional-bias/1. Did you mean 'MaxP'?" in str(refused.exception)
