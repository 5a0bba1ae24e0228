"""From a run file of 7,000 queries x 1,000 documents to four measures: ours against ir-measures, ratios in one run.

    python benchmarks/evaluation_speed.py [--queries 7000] [--documents 1000] [--rounds 2] [--ties]

Times are processor seconds of one process each, peak memory is that process's; both readers start from the same file.
Each round runs every variant once, in turn. Prints JSON; fails if a bar is missed.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

MEASURES = ["nDCG@10", "RR", "AP", "R@100"]
SPEED_BAR, MEMORY_BAR = 4.0, 4.0


def write_files(folder: Path, queries: int, documents: int, ties: bool) -> None:
    rng = np.random.default_rng(0)
    with (folder / "run").open("w") as run, (folder / "qrels").open("w") as qrels:
        for query in range(queries):
            query_id = 1_000_000 + 7 * query
            ids = rng.choice(3_000_000, documents, replace=False).tolist()
            scores = np.sort(rng.normal(20, 5, documents))[::-1]
            scores = (np.round(scores) if ties else scores).tolist()
            rows = zip(ids, scores, strict=True)
            run.writelines(f"{query_id} Q0 D{d} {rank} {s:.6f} bm25\n" for rank, (d, s) in enumerate(rows, start=1))
            judged = rng.choice(documents, min(4, documents), replace=False).tolist()
            qrels.writelines(f"{query_id} 0 D{ids[place]} {rng.integers(0, 4)}\n" for place in judged)


def ours(folder: Path) -> dict[str, dict[str, float]]:
    from longrank.corpora.formats.trec import read_qrels
    from longrank.evaluation import evaluate_columns, read_columns

    values = evaluate_columns(read_columns(folder / "run"), read_qrels(folder / "qrels"), MEASURES).values
    return {name: dict(row) for name, row in values.items()}


def peer(folder: Path) -> dict[str, dict[str, float]]:
    import ir_measures

    measures = [ir_measures.parse_measure(name) for name in MEASURES]
    qrels, run = ir_measures.read_trec_qrels(str(folder / "qrels")), ir_measures.read_trec_run(str(folder / "run"))
    values: dict[str, dict[str, float]] = {name: {} for name in MEASURES}
    for metric in ir_measures.iter_calc(measures, qrels, run):
        values[str(metric.measure)][metric.query_id] = metric.value
    return values


def measure_here(variant: str, folder: Path) -> None:
    # imports are paid before the clock starts, on both sides
    import ir_measures

    import longrank.corpora.formats.trec
    import longrank.evaluation

    assert ir_measures and longrank
    start = time.process_time()
    values = {"ours": ours, "ir-measures": peer}[variant](folder)
    seconds = time.process_time() - start
    (folder / f"{variant}.json").write_text(json.dumps(values))
    print(json.dumps({"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def run_apart(variant: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--variant", variant, "--folder", str(folder)]
    result: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return result


def largest_difference(folder: Path) -> float:
    left, right = (json.loads((folder / f"{name}.json").read_text()) for name in ("ours", "ir-measures"))
    assert all(left[name].keys() == right[name].keys() for name in MEASURES)
    return max(float(abs(left[name][q] - right[name][q])) for name in MEASURES for q in left[name])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=7000)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ties", action="store_true")
    parser.add_argument("--variant")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.variant:
        measure_here(options.variant, options.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, options.queries, options.documents, options.ties)
        rounds = [{v: run_apart(v, folder) for v in ("ours", "ir-measures")} for _ in range(options.rounds)]
        size = (folder / "run").stat().st_size
        speed = statistics.median(r["ir-measures"]["seconds"] / r["ours"]["seconds"] for r in rounds)
        report = {
            "queries": options.queries,
            "documents": options.documents,
            "ties": options.ties,
            "file_megabytes": round(size / 1e6, 1),
            "seconds": {v: [round(r[v]["seconds"], 2) for r in rounds] for v in rounds[0]},
            "times_faster": round(speed, 2),
            "peak_memory_over_file": {v: round(max(r[v]["peak"] for r in rounds) / size, 2) for v in rounds[0]},
            "largest_difference": largest_difference(folder),
        }
    print(json.dumps(report, indent=2))
    memory = report["peak_memory_over_file"]["ours"]
    # a small file is dwarfed by the interpreter itself, so the bars hold for the full size only
    if options.queries * options.documents >= 7_000_000 and (speed < SPEED_BAR or memory > MEMORY_BAR):
        sys.exit(f"a bar is missed: {SPEED_BAR} times faster, at most {MEMORY_BAR} times the file in memory")
    if report["largest_difference"] > 1e-9:
        sys.exit("values differ by more than 1e-9")


if __name__ == "__main__":
    main()
