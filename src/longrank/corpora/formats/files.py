"""Text files, plain or compressed by the name's end (.gz, .bz2): read with line numbers, written whole."""

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, TypeVar, cast

from longrank.core.disk import atomic_file
from longrank.core.errors import BadLine, DataError

COMPRESSIONS = (".gz", ".bz2")
BOM = "\ufeff"
T = TypeVar("T")
Refuse = Callable[[DataError], None]  # what a reader does with a line it cannot use


def find_file(folder: Path, name: str) -> Path | None:
    """The file of this name in the folder, plain or compressed; None if there is none."""
    candidates = [folder / f"{name}{ending}" for ending in ("", *COMPRESSIONS)]
    return next((path for path in candidates if path.is_file()), None)


def numbered_bytes(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line with its number from 1, line end included; a byte order mark at the start is left out."""
    number = 0
    try:
        with _open_bytes(path) as stream:
            for number, line in enumerate(stream, start=1):
                yield number, line.removeprefix(BOM.encode()) if number == 1 else line
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except (EOFError, OSError, zlib.error) as error:
        if not path.name.endswith(COMPRESSIONS):
            raise
        raise BadLine(
            path, number + 1, f"the compressed data is damaged or cut short ({error}); fetch it again"
        ) from None


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Each line with its number from 1, decoded, without its end; only \n and \r\n end a line."""
    for number, line in numbered_bytes(path):
        yield number, decode_line(line, path, number)


def stop_at_it(error: DataError) -> None:
    """Refuse a line by raising its error, as every reader does unless told otherwise."""
    raise error


def parse_lines(path: Path, parse: Callable[[int, bytes], T | None], refuse: Refuse = stop_at_it) -> Iterator[T]:
    """What ``parse`` makes of each line and its number; None is passed over, and what it cannot read is refused."""
    for number, line in numbered_bytes(path):
        try:
            item = parse(number, line)
        except DataError as error:
            refuse(error)
            continue
        if item is not None:
            yield item


def decode(data: bytes, path: Path, number: int) -> str:
    """The bytes as text; what is not UTF-8 is a bad line."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} is not UTF-8 ({error.reason}); convert the file, e.g. with iconv"
        raise BadLine(path, number, reason) from None


def decode_line(data: bytes, path: Path, number: int) -> str:
    """The text of a line without its end."""
    return decode(data, path, number).removesuffix("\n").removesuffix("\r")


@contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """A UTF-8 stream whose file takes its name only if the block succeeds; the same text gives the same bytes."""
    with atomic_file(path) as temporary, temporary.open("wb") as raw:
        stream = io.TextIOWrapper(_compressing(raw, path.name), encoding="utf-8", newline="\n")
        try:
            yield stream
        except UnicodeEncodeError as error:
            raise DataError(
                f"{path}: {error.object[error.start : error.start + 1]!r} is half of a surrogate pair, which UTF-8 "
                "cannot hold; repair the text first, e.g. text.encode('utf-16', 'surrogatepass').decode('utf-16')"
            ) from None
        finally:
            stream.close()


def _open_bytes(path: Path) -> BinaryIO:
    if path.name.endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.name.endswith(".bz2"):
        return cast(BinaryIO, bz2.open(path, "rb"))
    return path.open("rb")


def _compressing(raw: BinaryIO, name: str) -> BinaryIO:
    if name.endswith(".gz"):
        return cast(
            BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
        )  # no name, no time: same bytes
    if name.endswith(".bz2"):
        return cast(BinaryIO, bz2.BZ2File(raw, "wb"))
    return raw
