"""The docs page shows the example as it is and what it prints."""

import contextlib
import io
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "compare_two_runs.py"
PAGE = ROOT / "docs" / "evaluation.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_page_shows_the_example_file() -> None:
    assert block("python") == EXAMPLE.read_text(encoding="utf-8").rstrip()


def test_the_page_shows_what_the_example_prints() -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert block("text") == output.getvalue().rstrip()


def test_the_page_names_only_measures_that_can_be_parsed() -> None:
    from longrank.evaluation.names import parse_measure

    rows = re.findall(r"^\| (`.*?`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(.*?)`", row)]
    assert len(names) >= 15
    for name in names:
        assert parse_measure(name.replace("@k", "@10")).compute is not None
