"""Compare the order of rankers with that of the positional-bias paper's Table 4.

    python benchmarks/order_of_rankers.py docs/results/headline toy-far
    python benchmarks/order_of_rankers.py docs/results/real-text nq-far

Seeds are averaged by query. Kendall's tau is that between our means and the paper's; its interval, and those of the
differences, are percentiles of 9,999 draws of queries. Pairs that the intervals tell apart are listed, none corrected
for being one of many.
"""

import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from longrank.core.seeds import generator
from longrank.evaluation.papers import paper_table
from longrank.experiments.records import ExperimentResult, read_result

SYSTEMS = {
    "firstp": "FirstP (ELECTRA)",
    "longp": "LongP (Longformer)",
    "avgp": "AvgP",
    "maxp": "MaxP (ELECTRA)",
    "sump": "SumP",
    "parade-avg": "PARADE Avg",
    "parade-max": "PARADE Max",
    "parade-attn": "PARADE Attn (ELECTRA)",
    "parade-transformer": "PARADE Transf-RAND-L2 (ELECTRA)",
    "cedr-knrm": "CEDR-KNRM",
    "cedr-pacrr": "CEDR-PACRR",
}
DRAWS = 9_999


def by_query(result: ExperimentResult, ranker: str, stage: str, collection: str) -> np.ndarray | None:
    """RR by query, seeds averaged; None if the ranker was not tried."""
    seeds = [cell.values["RR"] for cell in result.where(ranker=ranker, stage=stage, scored_on=collection)]
    return np.mean([[values[query] for query in sorted(values)] for values in seeds], axis=0) if seeds else None


def main() -> None:
    folder, collection = sys.argv[1:] or ("docs/results/headline", "toy-far")
    result = read_result(Path(folder))
    printed = {row.system: row.values for row in paper_table("positional-bias/4").rows}
    for column, stage in enumerate(("zero-shot", "tuned")):
        tried = {name: by_query(result, name, stage, collection) for name in SYSTEMS}
        names = [n for n, v in tried.items() if v is not None and printed[SYSTEMS[n]][column] is not None]
        theirs = np.array([printed[SYSTEMS[name]][column] for name in names], dtype=float)
        ours = np.stack([tried[name] for name in names], axis=1)  # [queries, rankers]
        rng = generator("ordering", column)
        drawn = ours[rng.integers(len(ours), size=(DRAWS, len(ours)))].mean(axis=1)
        taus = [kendalltau(row, theirs).statistic for row in drawn]
        low, high = np.percentile(taus, [2.5, 97.5])
        tau = kendalltau(ours.mean(axis=0), theirs).statistic
        print(f"{stage}: tau {tau:.2f} [{low:.2f}, {high:.2f}] over {len(names)} rankers, {len(ours)} queries")
        found: Counter[str] = Counter()
        for (a, left), (b, right) in combinations(enumerate(names), 2):
            gap, edges = ours[:, a].mean() - ours[:, b].mean(), np.percentile(drawn[:, a] - drawn[:, b], [2.5, 97.5])
            if edges[0] <= 0 <= edges[1]:
                found["not told apart"] += 1
                continue
            paper = theirs[a] - theirs[b]
            verdict = "same sign" if paper * gap > 0 else "OTHER SIGN"
            found[verdict] += 1
            print(f"  {left} - {right}: {gap:+.3f} [{edges[0]:+.3f}, {edges[1]:+.3f}], theirs {paper:+.3f}  {verdict}")
        print("  " + ", ".join(f"{verdict}: {count}" for verdict, count in found.items()))


if __name__ == "__main__":
    main()
