"""Every block of the tutorials is a region of a tested example file."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import typer

from longrank.cli.main import app

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
SUFFIXES = {"python": ".py", "sh": ".sh", "toml": ".toml"}  # Python files are run by test_examples.py
SCRIPTS = sorted((ROOT / "examples").glob("*.sh"))
LONG = {"reproduce_the_papers", "choose_a_ranker"}  # trains, audits


def blocks(path: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.S | re.M)


def commands(path: Path) -> list[str]:
    found = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("longrank ")]
    assert found
    return found


def is_region(block: str, text: str) -> bool:
    """Whether whole lines of the text are the block, as it stands or one level further in."""
    return any(f"\n{textwrap.indent(block, prefix)}" in f"\n{text}" for prefix in ("", "    "))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_every_block_of_a_tutorial_is_a_region_of_an_example(path: Path) -> None:
    found = blocks(path)
    assert found
    for language, block in found:
        assert language in SUFFIXES, f"a block of {language or 'no language'} is not tested: {block[:60]!r}"
        files = (ROOT / "examples").glob(f"*{SUFFIXES[language]}")
        assert any(is_region(block, file.read_text(encoding="utf-8")) for file in files), f"in no example:\n{block}"


def test_a_changed_block_is_noticed() -> None:
    text = (ROOT / "examples" / "add_a_ranker.py").read_text(encoding="utf-8")
    block = "together = ranker.score(query, documents).values\n"
    assert is_region(block, text)
    assert not is_region(block.replace("together", "apart"), text)
    assert not is_region("ranker.score(query, documents).values\n", text), "half a line is no region"


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in SCRIPTS],
    ids=[path.stem for path in SCRIPTS],
)
def test_the_commands_of_a_tutorial_run(path: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    program = tmp_path / "bin" / "longrank"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom longrank.cli.main import run\nrun()\n", encoding="utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    if path.stem == "choose_a_ranker":
        assert "exit code 3" in done.stdout, "the gate must close"
        assert "77 in all" in done.stdout, "so many scored texts does the tutorial speak of"
        assert (tmp_path / "hardened" / "hardened.toml").is_file()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_commands_of_a_tutorial_exist_with_their_options(path: Path) -> None:
    group = typer.main.get_command(app)
    context = group.context_class(group)
    for line in commands(path):
        _, name, *words = shlex.split(line.partition("||")[0])
        command = group.get_command(context, name)  # type: ignore[attr-defined]
        assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_links_of_a_tutorial_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not (path.parent / target).exists()] == []
