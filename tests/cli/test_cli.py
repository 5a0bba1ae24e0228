"""The command line as a newcomer meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app

RUNNER = CliRunner()
COMMANDS = [c.name or c.callback.__name__ for c in app.registered_commands if c.callback] + ["make"]


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from longrank.cli.main import run; run()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_loads_no_heavy_module() -> None:
    code = """
import sys
from typer.testing import CliRunner
from longrank.cli.main import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
heavy = "torch transformers scipy matplotlib bm25s ir_measures numba jinja2 pandas sklearn openai".split()
print([m for m in heavy if m in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = RUNNER.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output
    assert len(result.output.splitlines()) > 5


def test_help_lists_every_command() -> None:
    shown = RUNNER.invoke(app, ["--help"]).output
    assert not [command for command in COMMANDS if command not in shown]


def test_wrong_usage_exits_2_and_a_failure_exits_1_in_one_sentence(tmp_path: Path) -> None:
    usage = call("evaluate")
    assert usage.returncode == 2
    failure = call("train", tmp_path / "none.toml")
    assert failure.returncode in {1, 2}
    assert "Traceback" not in failure.stderr
    bad = tmp_path / "bad.run"
    bad.write_text("q1 Q0 d1 1 not-a-number tag\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    broken = call("evaluate", bad, "--qrels", tmp_path / "qrels")
    assert broken.returncode == 1
    assert broken.stderr.startswith("longrank: ")
    assert "line 1" in broken.stderr
    assert len(broken.stderr.strip().splitlines()) == 1
    assert "Traceback" in call("--debug", "evaluate", bad, "--qrels", tmp_path / "qrels").stderr


@pytest.mark.parametrize(
    "asked",
    [
        "fuse a.trec b.trec --out",
        "retrieve . --out",
        "rerank minilm . --candidates a.trec --out",
        "pseudo-label . --out",
        "expand . --model . --out",
        "profile . --out",
        "profile . --figure",
        "profile . --deciles",
        "profile . --grades",
        "profile . --journal",
        "board a.json --out",
    ],
)
def test_a_folder_is_not_taken_for_a_file_to_write(asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.trec", "b.trec", "a.json"):
        (tmp_path / name).write_text("q Q0 d 1 1.0 tag\n")
    (tmp_path / "precious").mkdir()
    for folder in ("precious", "."):
        refused = RUNNER.invoke(app, [*asked.split(), folder])
        assert refused.exit_code == 2
        assert "is a directory" in refused.output
    assert (tmp_path / "precious").is_dir()


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options of a small audit, in a folder with two functions to audit."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "functions.py").write_text(
        "def first(query, texts):\n    return [len({*query.split()} & {*text.split()[:60]}) for text in texts]\n"
        "def interrupted(query, texts):\n    raise KeyboardInterrupt\n"
    )
    return ["--queries", "12", "--slots", "3", "--lengths", "192", "--out", "out"]


def test_an_interrupt_says_that_the_command_goes_on_and_exits_130(functions: list[str]) -> None:
    interrupted = call("audit", "functions:interrupted", *functions)
    assert interrupted.returncode == 130
    assert interrupted.stderr.splitlines()[-1] == ("longrank: interrupted; the same command goes on where this one was")


def test_a_threshold_that_was_missed_exits_3(functions: list[str]) -> None:
    missed = call("audit", "functions:first", *functions, "--fail-if-lost", "0.1")
    assert missed.returncode == 3, missed.stderr
    assert "more than the 10.0% allowed" in missed.stdout


def test_a_place_that_cannot_be_written_to_is_named_in_one_sentence(functions: list[str], tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where a folder should be")
    failed = call("audit", "functions:first", *functions)
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "longrank: out: File exists"
    assert "Traceback" not in failed.stderr
    assert "Traceback" in call("--debug", "audit", "functions:first", *functions).stderr


def test_list_shows_every_ranker() -> None:
    from longrank.rankers.zoo import RANKERS

    shown = RUNNER.invoke(app, ["list", "rankers"], env={"COLUMNS": "250"}).output
    assert not [entry.name for entry in RANKERS if entry.name not in shown]


def test_from_nothing_to_an_evaluated_ranker(tmp_path: Path) -> None:
    """make toy, retrieve, train, rerank, evaluate: the whole path on a world of few documents."""
    small = ["--train", "30", "--dev", "5", "--test", "10"]
    assert call("make", "toy", "--out", tmp_path, *small).returncode == 0
    toy = tmp_path / "toy"
    retrieved = call("retrieve", toy, "--out", tmp_path / "bm25.trec", "--depth", "10")
    assert retrieved.returncode == 0, retrieved.stderr

    config = tmp_path / "train.toml"
    config.write_text(
        f"""
collection = {json.dumps(str(toy))}
candidates = {json.dumps(str(tmp_path / "bm25.trec"))}
out = {json.dumps(str(tmp_path / "model"))}

[ranker]
name = "maxp"
params = {{ backbone = {{ name = "tiny" }}, size = 60, stride = 60 }}

[train]
epochs = 1
"""
    )
    trained = call("train", config, "--set", "train.batch_size=8")
    assert trained.returncode == 0, trained.stderr
    best = next(p.parent for p in (tmp_path / "model").rglob("ranker.json"))
    reranked = call(
        "rerank", best, toy, "--candidates", tmp_path / "bm25.trec", "--out", tmp_path / "maxp.trec", "--split", "test"
    )
    assert reranked.returncode == 0, reranked.stderr
    evaluated = call("evaluate", tmp_path / "maxp.trec", "--qrels", toy / "qrels.txt", "--measures", "RR nDCG@10")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "nDCG@10" in evaluated.stdout
