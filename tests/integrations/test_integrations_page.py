"""Every Python block of the page runs where its framework is installed."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from longrank.chunking.tokenizers import MINILM_PACKAGE

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
PACKAGES = {"langchain": "langchain_core", "sentence_transformers": "numpy"}


def adapter(block: str) -> str:
    found = re.search(r"from longrank\.integrations\.(\w+)", block)
    assert found is not None
    return found[1]


@pytest.mark.filterwarnings("default")  # what frameworks say at import is theirs
@pytest.mark.skipif(find_spec(MINILM_PACKAGE) is None, reason="the extra minilm is not installed")
@pytest.mark.parametrize("block", BLOCKS, ids=adapter)
def test_a_block_of_the_page_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = adapter(block)
    pytest.importorskip(PACKAGES.get(name, name), reason=f"the framework of {name!r} is not installed")
    exec(compile(block, name, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.strip()


def test_the_page_shows_every_adapter() -> None:
    folder = Path(__file__).parents[2] / "src" / "longrank" / "integrations"
    adapters = {path.stem for path in folder.glob("*.py")} - {"__init__", "scoring"}
    assert {adapter(block) for block in BLOCKS} == adapters
