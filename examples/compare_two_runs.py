"""Two systems of three seeds each against judgements: which one is better, and by how much?"""

import numpy as np

from longrank.core.seeds import generator
from longrank.core.types import Qrels, Run
from longrank.evaluation import compare, evaluate, evaluate_run
from longrank.reports.tables import comparison_table, differences_table, to_text

# 40 queries with 20 documents each, the first of which is highly relevant and the next two somewhat
qrels = Qrels({f"q{q}": {f"d{d}": grade for d, grade in enumerate([3, 1, 1, 0, 0])} for q in range(40)})


def ranked_with_noise(name: str, noise: float, rng: np.random.Generator) -> Run:
    """A run that sees the grades through noise."""
    grades = np.array([3, 1, 1, *([0] * 17)])
    rows = {query_id: grades + rng.normal(0, noise, size=20) for query_id in qrels}
    return Run(name, {q: {f"d{d}": float(score) for d, score in enumerate(row)} for q, row in rows.items()})


def main() -> None:
    rngs = [generator("example", seed) for seed in range(3)]
    first_p = [ranked_with_noise("FirstP", 1.6, rng) for rng in rngs]
    max_p = [ranked_with_noise("MaxP", 1.2, rng) for rng in rngs]

    measures = ["nDCG@10", "RR(rel=2)"]
    print(evaluate_run(first_p[0], qrels, measures).means)

    result = compare(
        {
            "FirstP": [evaluate(run, qrels, measures) for run in first_p],
            "MaxP": [evaluate(run, qrels, measures) for run in max_p],
        },
        baseline="FirstP",
        rng=generator("compare", 0),
    )
    gain = result.gains["MaxP", "nDCG@10"]
    print(f"nDCG@10: {gain.effect.wins} queries better, {gain.effect.losses} worse\n")
    print(to_text(comparison_table(result)))
    print(to_text(differences_table(result)))


if __name__ == "__main__":
    main()
