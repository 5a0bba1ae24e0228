"""What happened at each update and epoch, as JSON lines, and for TensorBoard on request."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from longrank.core.disk import write_atomic
from longrank.core.errors import MissingExtra

FILE = "metrics.jsonl"


class Journal:
    """Lines of ``metrics.jsonl``; a resumed run first drops the lines that its saved state has not reached.

    Without a folder nothing is written.
    """

    def __init__(self, folder: Path | None, *, updates_done: int, tensorboard: bool = False) -> None:
        self.folder, self.updates_done = folder, updates_done
        self._stream: TextIO | None = None
        self._writer: Any = _writer(folder) if tensorboard and folder is not None else None

    def __enter__(self) -> "Journal":
        if self.folder is None:
            return self
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / FILE
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_atomic(path, "".join(line for line in lines if self._reached(line)))
        self._stream = path.open("a", encoding="utf-8")
        return self

    def write(self, *, update: int, **values: float) -> None:
        """Add a line; ``update`` counts the optimizer's steps from 1."""
        if self._stream is not None:
            self._stream.write(json.dumps({"update": update, **values}) + "\n")
            self._stream.flush()
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, update)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._writer is not None:
            self._writer.close()

    def _reached(self, line: str) -> bool:
        try:
            return bool(json.loads(line)["update"] <= self.updates_done)
        except (ValueError, KeyError, TypeError):  # cut short by a kill
            return False


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtra("tensorboard", "tensorboard", purpose="writing TensorBoard files") from None
    return SummaryWriter(str(folder / "tensorboard"))
