"""``longrank explain`` on files as they come."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.core.errors import BadLine
from longrank.rankers import checkpoint
from longrank.rankers.zoo import build_ranker
from longrank.testing import tiny_spec


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranker") / "maxp"
    checkpoint.save(build_ranker(tiny_spec("maxp")), folder)
    return folder


@pytest.mark.parametrize("given", ["file", "standard input"])
def test_a_text_that_is_not_utf8_is_refused_by_line(model: Path, tmp_path: Path, given: str) -> None:
    text, file = "plain\ncafé au lait".encode("latin-1"), tmp_path / "latin.txt"
    file.write_bytes(text)
    asked = ["explain", str(model), str(file) if given == "file" else "-", "--query", "coffee"]
    refused = CliRunner().invoke(app, asked, input=text).exception
    assert isinstance(refused, BadLine)
    assert (refused.line, "byte 4 is not UTF-8" in refused.reason) == (2, True)


def test_brackets_in_a_text_are_shown_and_mean_nothing(model: Path, tmp_path: Path) -> None:
    (tmp_path / "post.txt").write_text("[b]foxes[/i] :fox: [see below]")
    shown = CliRunner().invoke(app, ["explain", str(model), str(tmp_path / "post.txt"), "--query", "fox"])
    assert shown.exit_code == 0, shown.exception
    assert "[b]foxes[/i] :fox: [see below]" in shown.output


def test_a_text_is_read_the_same_from_a_file_and_from_standard_input(model: Path, tmp_path: Path) -> None:
    text, file = "a red fox\r\nin the snow\n" * 40, tmp_path / "fox.txt"
    file.write_bytes(text.encode())
    read = [
        CliRunner().invoke(app, ["explain", str(model), name, "--query", "fox"], input=text.encode()).output
        for name in (str(file), "-")
    ]
    assert read[0] == read[1]
    assert "score" in read[0]
