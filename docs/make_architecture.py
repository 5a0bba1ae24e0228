"""Writes docs/architecture.md from the modules' own first lines: `python docs/make_architecture.py`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "longrank"
HEAD = """# The code, folder by folder

Made from the modules' first lines by `docs/make_architecture.py`; a test compares the two. Folders follow the data,
from files to reports, and imports point up this list, never down (`make lint` checks it).
"""
ORDER = (
    *("core", "corpora", "chunking", "encoders", "retrieval", "rankers", "training", "evaluation"),
    *("chat", "positions", "synthetic", "audit", "experiments", "reports", "serving", "integrations"),
    "cli",
)


def first_line(path: Path) -> str:
    """First line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    folders = [SOURCE / name for name in ORDER if (SOURCE / name).is_dir()]
    for folder in folders:
        parts.append(f"\n## {folder.name}/\n\n{first_line(folder / '__init__.py')}\n")
        modules = [path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py"]
        parts += [f"- `{path.relative_to(folder)}`: {first_line(path)}" for path in modules]
    parts.append("\n## beside them\n")
    parts += [f"- `{p.name}`: {first_line(p)}" for p in sorted(SOURCE.glob("*.py"))]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "architecture.md").write_text(page(), encoding="utf-8")
