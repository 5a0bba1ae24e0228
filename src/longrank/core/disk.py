"""Files written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longrank.core.errors import DataError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` (file or folder) that takes its name only if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # the suffixes stay at the end, so a writer that looks at '.gz' sees it
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        yield temporary
        if path.is_dir():  # a folder cannot be replaced in one step: move it aside, and only then throw it away
            aside = path.with_name(f".{os.getpid()}-old-{path.name}")
            os.replace(path, aside)
            os.replace(temporary, path)
            shutil.rmtree(aside)
        else:
            os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def refuse_foreign(folder: Path, *, mark: str, what: str) -> None:
    """Refuse to replace a folder unless it is empty or holds the file ``mark``: it may be somebody's work."""
    if folder.exists() and not (folder / mark).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        raise DataError(f"{folder} exists and is not {what}; choose another folder, or empty it first")


def write_atomic(path: Path, text: str) -> None:
    """Replace a file's text in one step."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
