"""Is a document store cheap to open and flat in memory, against a dict of the same documents?

Usage: python benchmarks/document_store.py [--passages N] [--documents N] [--save FILE]

Every figure is taken in a process of its own. 'private' is memory that no other process shares (Linux), 'resident'
the peak of all pages, mapped files included. Nothing is written but temporary files, unless --save names one.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from longrank.core.types import Document
from longrank.corpora.formats.jsonl import read_documents
from longrank.corpora.store import DocumentStore

WORDS = [f"w{number:04d}" for number in range(5000)]


def made(count: int, words: int) -> Iterator[Document]:
    rng = random.Random(0)
    for number in range(count):
        yield Document(f"D{number:07d}", " ".join(rng.choices(WORDS, k=words)))


def megabytes(file: str, label: str) -> float:
    """Sum of the kilobyte figures of this process whose label begins so (Linux)."""
    lines = Path("/proc/self", file).read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(label)) / 1024


def measured(kind: str, path: Path, reads: int) -> dict[str, float]:
    """Open or load, then read random documents; times in seconds, memory in MB."""
    start = time.perf_counter()
    documents = (
        DocumentStore.open(path) if kind == "store" else {d.id: d for d in read_documents(path / "documents.jsonl")}
    )
    opened = time.perf_counter() - start
    rng = random.Random(1)
    names = [f"D{rng.randrange(len(documents)):07d}" for _ in range(reads)]
    start = time.perf_counter()
    characters = sum(len(documents[name].text) for name in names)
    spent = time.perf_counter() - start
    assert characters > 0
    return {
        "open_seconds": opened,
        "microseconds_a_read": spent / reads * 1e6,
        "private_mb": megabytes("smaps_rollup", "Private"),
        "peak_resident_mb": megabytes("status", "VmHWM"),
    }


def apart(kind: str, path: Path, reads: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", kind, str(path), str(reads)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def compared(folder: Path, *, passages: int, documents: int) -> dict[str, object]:
    start = time.perf_counter()
    DocumentStore.build(folder / "passages", made(passages, 45))
    built = time.perf_counter() - start
    store, loaded = (apart(kind, folder / "passages", 1000) for kind in ("store", "dict"))
    DocumentStore.build(folder / "documents", made(documents, 1000))
    long = apart("store", folder / "documents", 1000)
    return {
        "passages": {"count": passages, "build_seconds": built, "store": store, "dict": loaded},
        "documents": {"count": documents, "words_each": 1000, "store": long},
        "ratios": {
            "open_faster_than_dict (bar: at least 3)": loaded["open_seconds"] / store["open_seconds"],
            "private_memory_against_dict (bar: at most 0.1)": store["private_mb"] / loaded["private_mb"],
            "resident_mb_long_documents (bar: under 300)": long["peak_resident_mb"],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--measure", nargs=3, metavar=("KIND", "PATH", "READS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        kind, path, reads = options.measure
        print(json.dumps(measured(kind, Path(path), int(reads))))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = compared(Path(folder), passages=options.passages, documents=options.documents)
    text = json.dumps(result, indent=2)
    print(text)
    if options.save:
        options.save.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
