"""Writes docs/commands.md from the command line's own help: `python docs/make_commands.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from longrank.cli.main import app

HEAD = """# The commands

What `longrank COMMAND --help` says; made by `docs/make_commands.py`, and a test compares the two.
"""
WIDTH = 100


def pages(command: Any, name: str, above: Any) -> Iterator[str]:
    """Help of a command and of those below it."""
    sizes = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    context = command.context_class(command, info_name=name, parent=above, **sizes)
    lines = [line.rstrip() for line in command.get_help(context).strip().splitlines()]
    yield f"\n## {context.command_path}\n\n```\n" + "\n".join(lines) + "\n```\n"
    if hasattr(command, "list_commands"):  # typer's groups need not be click's
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            if below is not None:
                yield from pages(below, child, context)


def page() -> str:
    """The whole page."""
    return HEAD + "".join(pages(typer.main.get_command(app), "longrank", None))


if __name__ == "__main__":
    (Path(__file__).parent / "commands.md").write_text(page(), encoding="utf-8")
