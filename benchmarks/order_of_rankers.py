"""Compare the order of rankers with that of the positional-bias paper's Table 4.

    python benchmarks/order_of_rankers.py docs/results/headline

Seeds are averaged by query. Kendall's tau is that between our means and the paper's; its interval, and those of the
differences, are percentiles of 9,999 draws of queries.
"""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

from longrank.core.seeds import generator
from longrank.evaluation.papers import paper_table
from longrank.experiments.records import read_result

SYSTEMS = {
    "firstp": "FirstP (ELECTRA)",
    "longp": "LongP (Longformer)",
    "maxp": "MaxP (ELECTRA)",
    "parade-attn": "PARADE Attn (ELECTRA)",
    "parade-transformer": "PARADE Transf-RAND-L2 (ELECTRA)",
    "cedr-knrm": "CEDR-KNRM",
}
DRAWS = 9_999


def by_query(folder: Path, ranker: str, stage: str) -> np.ndarray:
    """RR on toy-far by query, seeds averaged."""
    cells = read_result(folder).where(ranker=ranker, stage=stage, scored_on="toy-far")
    seeds = [cell.values["RR"] for cell in cells if cell.labels["backbone"] == "minilm-2"]
    return np.mean([[values[query] for query in sorted(values)] for values in seeds], axis=0)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/results/headline")
    table = paper_table("positional-bias/4")
    printed = {row.system: row.values for row in table.rows}
    for column, stage in enumerate(("zero-shot", "tuned")):
        theirs = np.array([printed[name][column] or np.nan for name in SYSTEMS.values()], dtype=float)
        known = np.isfinite(theirs)
        ours = np.stack([by_query(folder, ranker, stage) for ranker in SYSTEMS], axis=1)  # [queries, rankers]
        rng = generator("ordering", column)
        drawn = ours[rng.integers(len(ours), size=(DRAWS, len(ours)))].mean(axis=1)
        taus = [kendalltau(row[known], theirs[known]).statistic for row in drawn]
        tau = kendalltau(ours.mean(axis=0)[known], theirs[known]).statistic
        low, high = np.percentile(taus, [2.5, 97.5])
        print(f"{stage}: tau {tau:.2f} [{low:.2f}, {high:.2f}] over {known.sum()} rankers, {len(ours)} queries")
        for (a, left), (b, right) in combinations(enumerate(SYSTEMS), 2):
            gap, edges = ours[:, a].mean() - ours[:, b].mean(), np.percentile(drawn[:, a] - drawn[:, b], [2.5, 97.5])
            paper = theirs[a] - theirs[b]
            verdict = "" if edges[0] < 0 < edges[1] else ("same sign" if paper * gap > 0 else "OTHER SIGN")
            print(f"  {left} - {right}: {gap:+.3f} [{edges[0]:+.3f}, {edges[1]:+.3f}], theirs {paper:+.3f}  {verdict}")


if __name__ == "__main__":
    main()
