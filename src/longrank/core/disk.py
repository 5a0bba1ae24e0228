"""Files and folders written whole or not at all, and never over somebody's work."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longrank.core.errors import DataError


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path beside a file that takes its name only if the block succeeds; a link to a file stays a link."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is {'a folder' if path.is_dir() else 'no plain file'}; name a file to write")
    path = _behind_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, mark: str, what: str, holding: str = "") -> Iterator[Path]:
    """A new folder beside ``path`` that takes its name only if the block succeeds.

    What stands there is replaced only if it is an empty folder or has a file ``mark`` with the text ``holding`` in it:
    anything else may be somebody's work.
    """
    _refuse_foreign(path, mark=mark, what=what, holding=holding)
    path = _behind_link(path)
    temporary, aside = _beside(path), path.with_name(f".{os.getpid()}-old-{path.name}")
    if temporary.exists():  # left by a killed process that had the same number
        shutil.rmtree(temporary)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.mkdir()
    try:
        yield temporary
        if path.is_dir():  # a folder cannot be replaced in one step: move it aside, and only then throw it away
            os.replace(path, aside)
            os.replace(temporary, path)
            shutil.rmtree(aside)
        else:
            os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)


def write_atomic(path: Path, text: str) -> None:
    """Replace a file's text in one step."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def folder_name(label: str) -> str:
    """A label as the name of a folder, which never leads out of the one it stands in.

    >>> folder_name("my ranker/v2"), folder_name("..")
    ('my-ranker-v2', 'unnamed')
    """
    return re.sub(r"[^\w.-]+", "-", label).strip(".") or "unnamed"


def _refuse_foreign(folder: Path, *, mark: str, what: str, holding: str) -> None:
    if folder.name in ("", ".."):
        raise DataError(f"{folder} cannot be replaced by {what}: give a folder by its name")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / mark).is_file() or holding.encode() not in (folder / mark).read_bytes():
        raise DataError(f"{folder} exists and is not {what}; choose another folder, or empty it first")


def _behind_link(path: Path) -> Path:
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _beside(path: Path) -> Path:
    # the suffixes stay at the end, so a writer that looks at '.gz' sees it
    return path.with_name(f".{os.getpid()}-{path.name}")
