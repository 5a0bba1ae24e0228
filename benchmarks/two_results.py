"""Compare two kept results of an experiment cell by cell, where they scored the same collection.

    python benchmarks/two_results.py docs/results/real-text docs/results/real-text-first-third nq-far

Of each ranker and training, the seeds that both results have are averaged by query. Differences are the first result's
less the second's, with 95% BCa intervals over queries, uncorrected.
"""

import sys
from pathlib import Path

import numpy as np

from longrank.core.seeds import generator
from longrank.evaluation.significance import bca_interval
from longrank.experiments.records import ExperimentResult, read_result


def by_seed(result: ExperimentResult, ranker: str, stage: str, collection: str) -> dict[int, dict[str, float]]:
    """RR by query of each seed."""
    cells = result.where(ranker=ranker, stage=stage, scored_on=collection)
    return {int(cell.labels["seed"]): dict(cell.values["RR"]) for cell in cells}


def main() -> None:
    first, second = (read_result(Path(folder)) for folder in sys.argv[1:3])
    collection = sys.argv[3]
    tried = [cell.labels for cell in first.where(scored_on=collection) if cell.labels["seed"] >= 0]
    for ranker, stage in dict.fromkeys((labels["ranker"], labels["stage"]) for labels in tried):
        ours, theirs = (by_seed(result, ranker, stage, collection) for result in (first, second))
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            continue
        queries = sorted(set.intersection(*(set(of[seed]) for of in (ours, theirs) for seed in seeds)))
        one, other = (np.mean([[of[s][q] for q in queries] for s in seeds], axis=0) for of in (ours, theirs))
        low, high = bca_interval(one - other, rng=generator("two results", 0))
        gap = float((one - other).mean())
        means = f"{one.mean():.3f} and {other.mean():.3f}"
        print(
            f"{ranker}, {stage}: {means}, {gap:+.3f} [{low:+.3f}, {high:+.3f}], {len(queries)} queries, seeds {seeds}"
        )


if __name__ == "__main__":
    main()
