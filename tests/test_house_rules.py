"""The rules of the house, checked."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import longrank

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "longrank").rglob("*.py"))


def test_public_names_are_these_and_resolve() -> None:
    assert sorted(longrank.__all__) == longrank.__all__
    assert len(longrank.__all__) <= 20
    for name in longrank.__all__:
        assert getattr(longrank, name).__name__ == name
    with pytest.raises(AttributeError, match="no_such_name"):
        longrank.no_such_name  # noqa: B018


def test_importing_longrank_loads_nothing_heavy() -> None:
    code = (
        "import sys, longrank; print([m for m in ('torch', 'transformers', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_the_version_stands_in_the_changelog_and_the_package() -> None:
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert declared is not None
    assert declared.group(1) == longrank.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert "## Unreleased" in changelog or f"## {longrank.__version__}" in changelog


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_a_module_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    assert text.startswith('"""')


def test_aggregators_reduce_padded_axes_only_through_masked() -> None:
    forbidden = re.compile(r"\.(mean|max|amax|softmax|logsumexp)\(|torch\.(mean|max|softmax)\(")
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in (ROOT / "src/longrank/rankers/aggregators").glob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if forbidden.search(line) and "masked." not in line and "# no padding" not in line
    ]
    assert found == []


def test_tests_mirror_the_package() -> None:
    folders = {p.name for p in (ROOT / "src/longrank").iterdir() if p.is_dir() and not p.name.startswith("_")}
    tested = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir()}
    assert not tested - folders - {"__pycache__"}


def made_by(name: str) -> ModuleType:
    """A script of docs/ that makes a page."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["architecture.md", "commands.md", "reference.md", "picture.svg"])
def test_a_page_made_from_the_code_is_current(name: str) -> None:
    script = f"make_{name.partition('.')[0]}"
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == made_by(script).page(), f"run `python docs/{script}.py`"


def test_the_architecture_page_shows_every_folder() -> None:
    folders = {p.name for p in (ROOT / "src/longrank").iterdir() if (p / "__init__.py").is_file()}
    assert folders <= set(made_by("make_architecture").ORDER)


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
        for target in re.findall(r"\]\(([^)#:\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
