"""Query-document pairs profiled by the papers' matching, over one process and over several; the profiles are compared.

Run: python benchmarks/position_profile.py [--pairs 5000] [--workers 2] [--json FILE]
"""

import argparse
import json
import resource
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.seeds import generator
from longrank.core.types import Collection, Document, Qrels, Query
from longrank.positions.matching import MatchingEstimator, PassageMatcher
from longrank.positions.profile import PositionProfile
from longrank.positions.profiling import profile_positions

PASSAGE_WORDS = 80
WORDS = [f"w{rank}" for rank in range(50_000)]
SHARES = np.cumsum((np.arange(50_000) + 2.7) ** -1.05) / np.sum((np.arange(50_000) + 2.7) ** -1.05)


def planted(pairs: int) -> tuple[Collection, dict[str, list[str]], list[int]]:
    """Documents of 400 to 2,600 words with a passage planted, a tenth of its words changed, and the places."""
    rng = generator("profile benchmark", 0)
    documents, passages, places = {}, {}, []
    for number in range(pairs):
        name = f"{number:06}"
        length = int(rng.integers(400, 2_600))
        words = [WORDS[rank] for rank in np.searchsorted(SHARES, rng.random(length + PASSAGE_WORDS)).tolist()]
        words, passage = words[:length], words[length:]
        at = int(rng.integers(0, length - PASSAGE_WORDS))
        kept = rng.random(PASSAGE_WORDS) >= 0.1
        words[at : at + PASSAGE_WORDS] = [word if keep else "x" for word, keep in zip(passage, kept, strict=True)]
        documents[name], passages[name] = Document(name, " ".join(words)), [" ".join(passage)]
        places.append(at)
    queries = {name: Query(name, "where?") for name in documents}
    return Collection("planted", documents, queries, Qrels({name: {name: 1} for name in documents})), passages, places


class Timed(NamedTuple):
    """A profile and what it took."""

    profile: PositionProfile
    seconds: float
    cpu_seconds: float  # of this process and those it started


def timed(collection: Collection, estimator: MatchingEstimator, workers: int) -> Timed:
    started, cpu = time.perf_counter(), cpu_seconds()
    profile = profile_positions(collection, estimator, WordTokenizer(), workers=workers)
    return Timed(profile, time.perf_counter() - started, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    collection, passages, places = planted(arguments.pairs)
    estimator = MatchingEstimator(passages, PassageMatcher())
    alone, together = timed(collection, estimator, 1), timed(collection, estimator, arguments.workers)
    profile = alone.profile
    found = len(profile.located) == len(places)
    errors = np.abs(profile.first("start") - np.array(places)) if found else np.array([np.nan])
    row = {
        "pairs": arguments.pairs,
        "workers": arguments.workers,
        "seconds": [round(one.seconds, 2) for one in (alone, together)],
        "cpu_seconds": [round(one.cpu_seconds, 2) for one in (alone, together)],
        "same_profile": profile == together.profile,
        "located": len(profile.located),
        "starts_within_5_words": float(np.mean(errors <= 5)),
    }
    print("\n".join(f"{name}: {value}" for name, value in row.items()))
    print(profile.prefix_sentence())
    print(profile.bias_sentence())
    if arguments.json:
        arguments.json.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
