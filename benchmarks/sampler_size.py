"""What training examples cost at MS MARCO's size: 350,000 queries with 100 candidates each, of 3.2 million documents.

python benchmarks/sampler_size.py --queries 350000 --candidates 100 --documents 3200000 --epoch 20000 [--json FILE]

Candidates and texts are made when they are asked for, as a store on disk gives them, so that what is measured is the
sampler: the time to look at every candidate once, the memory it then holds, and the time to draw examples.
"""

import argparse
import json
import resource
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np

from longrank.core.types import Collection, Document, Qrels, Query, Run
from longrank.training.pools import NegativeSettings, PoolSampler


class Numbered(Mapping[str, Document]):
    """Documents d0, d1, ... whose text is made when it is read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return (f"d{number}" for number in range(self.count))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and int(name[1:]) < self.count

    def __getitem__(self, name: str) -> Document:
        return Document(name, f"text of {name}")


class Candidates(Mapping[str, Mapping[str, float]]):
    """Scores of candidates, a query's at a time, the same whenever they are asked for."""

    def __init__(self, queries: int, depth: int, documents: int) -> None:
        self.queries, self.depth, self.documents = queries, depth, documents
        self.falling = [float(self.depth - place) for place in range(depth)]

    def __len__(self) -> int:
        return self.queries

    def __iter__(self) -> Iterator[str]:
        return (f"q{number}" for number in range(self.queries))

    def __getitem__(self, name: str) -> Mapping[str, float]:
        at = np.arange(self.depth, dtype=np.int64) * 7_919 + int(name[1:]) * 104_729
        return dict(zip([f"d{number}" for number in (at % self.documents).tolist()], self.falling, strict=True))


def main() -> None:
    """Measure, print and write one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=350_000)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--documents", type=int, default=3_200_000)
    parser.add_argument("--epoch", type=int, default=20_000, help="examples drawn")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    made = Candidates(chosen.queries, chosen.candidates, chosen.documents)
    began = process_time()
    run = Run("candidates", made)  # every score is looked at once
    looking = process_time() - began
    queries = {name: Query(name, f"query {name}") for name in made}
    grades = {name: {f"d{104_729 * int(name[1:]) % chosen.documents}": 1} for name in made}
    collection = Collection("large", Numbered(chosen.documents), queries, Qrels(grades))
    before, began = held(), process_time()
    sampler = PoolSampler(collection, {"made": run}, list(made), negatives=NegativeSettings())
    building = process_time() - began - looking  # making the candidates once more is the benchmark's own work
    grown = held() - before
    began = process_time()
    drawn = sum(len(example.negatives) for example in islice(sampler.epoch(0), chosen.epoch))
    drawing = process_time() - began
    result = {
        "queries": len(sampler),
        "candidates": chosen.candidates,
        "documents": chosen.documents,
        "seconds_to_build": round(building, 1),
        "megabytes_held": round(grown),
        "bytes_a_candidate": round(grown * 2**20 / (len(sampler) * chosen.candidates), 1),
        "microseconds_an_example": round(1e6 * drawing / drawn, 1),
        "peak_megabytes_of_the_process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    text = json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    if chosen.json:
        chosen.json.write_text(text + "\n", encoding="utf-8")


def held() -> float:
    """Megabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
