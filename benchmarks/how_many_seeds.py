"""Would one seed have shown what three show? A change of training, tested with the first seed, the first two and so on.

    python benchmarks/how_many_seeds.py docs/results/real-text nq-far tuned
    python benchmarks/how_many_seeds.py docs/results/real-text nq-far debiased

Differences are those from zero-shot training, tested as in the report: seeds averaged by query, paired t-test at .01
after Holm's correction over the rankers, and a 95% BCa interval that excludes zero.
"""

import sys
from pathlib import Path

import numpy as np

from longrank.core.seeds import generator
from longrank.evaluation.significance import bca_interval, holm, paired_t
from longrank.experiments.records import ExperimentResult, read_result

THRESHOLD = 0.01


def by_seed(result: ExperimentResult, ranker: str, stage: str, collection: str) -> np.ndarray:
    """RR as [seeds, queries], both in their order."""
    cells = result.where(ranker=ranker, stage=stage, scored_on=collection)
    rows = sorted((int(cell.labels["seed"]), cell.values["RR"]) for cell in cells)
    return np.array([[values[query] for query in sorted(values)] for _, values in rows])


def main() -> None:
    folder, collection, stage = sys.argv[1:] or ("docs/results/real-text", "nq-far", "tuned")
    result = read_result(Path(folder))
    rankers = list(dict.fromkeys(cell.labels["ranker"] for cell in result.where(stage=stage, scored_on=collection)))
    changes = {
        ranker: by_seed(result, ranker, stage, collection) - by_seed(result, ranker, "zero-shot", collection)
        for ranker in rankers
    }
    for seeds in range(1, 1 + min(len(change) for change in changes.values())):
        means = {ranker: change[:seeds].mean(axis=0) for ranker, change in changes.items()}
        corrected = holm([paired_t(mean) for mean in means.values()])
        print(f"{stage} against zero-shot on {collection}, seeds: {seeds}")
        for (ranker, mean), p in zip(means.items(), corrected, strict=True):
            low, high = bca_interval(mean, rng=generator("how many seeds", 0))
            shown = "SHOWN" if p < THRESHOLD and low * high > 0 else "not shown"
            print(f"  {ranker}: {mean.mean():+.3f} [{low:+.3f}, {high:+.3f}], corrected p {p:.3f}, {shown}")


if __name__ == "__main__":
    main()
