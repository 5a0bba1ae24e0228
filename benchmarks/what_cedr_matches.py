"""Ask what CEDR-KNRM's score is made of: exact matches, soft matches, contextual matches, or the chunk vector.

    python benchmarks/what_cedr_matches.py MODEL COLLECTION CANDIDATES    # folders of three steps of `longrank run`

The score is a linear layer over kernel counts in the embeddings, kernel counts in the other layers and the mean chunk
vector, so it is a sum of four parts that one pass over the documents gives. Candidates are ordered by each part alone
and by all but that part. Nothing is trained again: this shows what a trained model uses, not what it could learn
without it. Reciprocal rank, 95% BCa intervals over queries.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from longrank.core.seeds import generator
from longrank.core.types import Qrels, Run
from longrank.corpora.formats.trec import read_run
from longrank.evaluation.measures import evaluate
from longrank.evaluation.significance import bca_interval
from longrank.experiments.collections import open_collection
from longrank.rankers.checkpoint import load
from longrank.rankers.neural import NeuralRanker

DEPTH, QUERIES, KERNELS = 20, 300, 11


def parts_of(width: int, dim: int) -> dict[str, slice]:
    counts = width - dim
    return {
        "exact matches of embeddings": slice(KERNELS - 1, KERNELS),
        "soft matches of embeddings": slice(0, KERNELS - 1),
        "matches in contextual layers": slice(KERNELS, counts),
        "chunk vector": slice(counts, width),
    }


def summands(ranker: NeuralRanker, run: Run, collection_folder: Path) -> tuple[dict[str, Run], Qrels]:
    """The run of each part, and of their sum."""
    opened, weights = open_collection(collection_folder), ranker.aggregator.combine.weight.detach()[0]
    parts = parts_of(len(weights), ranker.backbone.dim)
    caught: list[torch.Tensor] = []
    ranker.aggregator.combine.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].detach()))
    scores: dict[str, dict[str, dict[str, float]]] = {name: {} for name in ("all", *parts)}
    asked = opened.queries("test")[:QUERIES]
    for query_id in asked:
        found = run.ranking(query_id)[:DEPTH]
        if not found:
            continue
        caught.clear()
        given = ranker.score(opened.collection.queries[query_id], [opened.collection.documents[d] for d in found])
        features = torch.cat(caught)
        sums = (features @ weights).numpy()
        # rows come in the order in which they were computed: a document's row is the one with its score
        place = np.empty(len(found), dtype=int)
        place[np.argsort(given.values, kind="stable")] = np.argsort(sums, kind="stable")
        scores["all"][query_id] = dict(zip(found, sums[place].tolist(), strict=True))
        for name, part in parts.items():
            values = (features[:, part] @ weights[part]).numpy()[place]
            scores[name][query_id] = dict(zip(found, values.tolist(), strict=True))
    grades = opened.collection.qrels.grades
    return {name: Run(name, rows) for name, rows in scores.items()}, Qrels({q: grades[q] for q in asked if q in grades})


def without(whole: Run, part: Run) -> Run:
    return Run("rest", {q: {d: v - part.scores[q][d] for d, v in row.items()} for q, row in whole.scores.items()})


def reciprocal_ranks(run: Run, qrels: Qrels) -> np.ndarray:
    values = evaluate(run, qrels, ["RR"], missing="zero")["RR"]
    return np.array([values[q] for q in sorted(values)])


def told(values: np.ndarray, purpose: str) -> str:
    low, high = bca_interval(values, rng=generator(purpose, 0))
    return f"{values.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def main() -> None:
    model, collection, candidates = map(Path, sys.argv[1:4])
    ranker, run = load(model), read_run(candidates / "run.trec")
    spread = ranker.aggregator.spreads.detach()[-1]
    runs, qrels = summands(ranker, run, collection)
    whole = reciprocal_ranks(runs["all"], qrels)
    print(f"{len(whole)} queries, top {DEPTH}; the exact kernel's spread after training: {spread:.4f}")
    print(f"{'all':30} {told(whole, 'all')}")
    print(f"{'first stage':30} {told(reciprocal_ranks(run.top(DEPTH), qrels), 'first stage')}")
    for name, part in runs.items():
        if name != "all":
            rest = reciprocal_ranks(without(runs["all"], part), qrels)
            alone = told(reciprocal_ranks(part, qrels), name)
            print(f"{name:30} alone {alone}; all but it {told(rest - whole, f'without {name}')} of the whole")


if __name__ == "__main__":
    main()
