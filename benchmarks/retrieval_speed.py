"""How fast retrieval is against the libraries underneath, as ratios within one run.

    python benchmarks/retrieval_speed.py --documents 100000 --passages 1000000 --out retrieval_speed.json

Text is drawn from a Zipf law of 200,000 words. Times are CPU seconds of one thread (set OMP_NUM_THREADS=1); each
figure is the best of several rounds in which the two sides take turns. "Directly" means the library's own call and then
the same result as ours: a dict of ids and scores for each query. The bare call, rows as integers, is given beside it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from longrank.cli.retrieve import peak_megabytes
from longrank.core.types import Document, Query
from longrank.retrieval import BM25, Analyzer
from longrank.retrieval.dense import Dense, whole
from longrank.retrieval.rm3 import RM3

VOCABULARY = 200_000
LUCENE_RM3 = 61.0  # queries a CPU-second measured for Lucene on comparable data


def zipf_documents(count: int, words: int, *, seed: int = 1) -> Iterator[Document]:
    rng = np.random.default_rng(seed)
    names = np.array([f"w{number:x}" for number in range(VOCABULARY)], dtype=object)
    bounds = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    for number in range(count):
        # lengths differ, or equal scores would make every comparison of rankings a matter of ties
        drawn = np.searchsorted(bounds, rng.random(rng.integers(words // 2, words * 3 // 2 + 1)) * bounds[-1])
        yield Document(f"d{number}", " ".join(names[drawn]))


def zipf_queries(count: int, *, seed: int = 2) -> list[Query]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 7, count)
    return [
        Query(f"q{i}", " ".join(f"w{n:x}" for n in rng.integers(20, 5000, length))) for i, length in enumerate(lengths)
    ]


def best_times(sides: dict[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """CPU seconds of each side: the best of several rounds, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side()
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.process_time()
            side()
            times[name].append(time.process_time() - start)
    return {name: min(values) for name, values in times.items()}


def bench_indexing(documents: Sequence[Document], folder: Path) -> dict[str, float]:
    import bm25s

    start = time.process_time()
    BM25.build(documents, folder)
    ours = time.process_time() - start
    start = time.process_time()
    tokens = bm25s.tokenize(
        [document.text for document in documents], token_pattern=r"\w+", stopwords=None, show_progress=False
    )
    theirs = bm25s.BM25(k1=1.2, b=0.75)
    theirs.index(tokens, show_progress=False)
    theirs.save(str(folder) + "-bm25s", show_progress=False)
    direct = time.process_time() - start
    return {"longrank_seconds": ours, "bm25s_seconds": direct, "ratio": direct / ours}


def bench_querying(index: BM25, queries: Sequence[Query], depth: int, *, rounds: int) -> dict[str, float]:
    direct = index.as_bm25s()
    direct.backend = "numba"
    analyzer, ids = Analyzer(), index.postings.ids.by_row
    tokens = [analyzer.terms(query.text) for query in queries]

    def bare() -> tuple[np.ndarray, np.ndarray]:
        found = direct.retrieve(tokens, k=depth, show_progress=False)
        return found.documents, found.scores

    def same_result() -> dict[str, dict[str, float]]:
        rows = zip(queries, *bare(), strict=True)
        return {q.id: dict(zip(ids[d].tolist(), s.tolist(), strict=True)) for q, d, s in rows}

    times = best_times(
        {"longrank": lambda: index.retrieve(queries, depth=depth), "bm25s": same_result, "bm25s_bare": bare},
        rounds=rounds,
    )
    run, theirs = index.retrieve(queries, depth=10), same_result()
    overlap = np.mean([len(set(run.scores[q]) & set(list(theirs[q])[:10])) / 10 for q in theirs if run.scores[q]])
    return {
        **{f"{name}_queries_per_second": len(queries) / seconds for name, seconds in times.items()},
        "ratio": times["bm25s"] / times["longrank"],
        "ratio_to_bare_call": times["bm25s_bare"] / times["longrank"],
        "top_10_overlap": float(overlap),
    }


def bench_rm3(index: BM25, queries: Sequence[Query], *, rounds: int) -> dict[str, float]:
    rm3 = RM3(index)
    times = best_times(
        {"rm3": lambda: rm3.retrieve(queries, depth=100), "bm25": lambda: index.retrieve(queries, depth=100)},
        rounds=rounds,
    )
    speed = len(queries) / times["rm3"]
    return {"queries_per_second": speed, "times_lucene": speed / LUCENE_RM3, "times_bm25": times["rm3"] / times["bm25"]}


def bench_dense(documents: int, folder: Path, *, rounds: int, dim: int = 384) -> dict[str, float]:
    rng = np.random.default_rng(0)
    # 500 clusters on a plane of 32 dimensions: embeddings lie together, and approximate search relies on it
    points = rng.normal(size=(500, 32))[rng.integers(0, 500, documents)] + 0.5 * rng.normal(size=(documents, 32))
    vectors = (points @ rng.normal(size=(32, dim))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    place = iter(range(0, documents, 256))

    def embed(texts: Sequence[str]) -> np.ndarray:
        if texts[0].startswith("query"):
            return vectors[: len(texts)]
        start = next(place)
        return vectors[start : start + len(texts)]

    index = Dense.build((Document(f"d{i}", "x") for i in range(documents)), folder, embed, chunk=whole)
    queries = [Query(f"q{i}", f"query {i}") for i in range(128)]
    wanted, ids = vectors[:128], index.ids.by_row

    def numpy_directly() -> dict[str, dict[str, float]]:
        scores = wanted @ vectors.T
        result = {}
        for query, row in zip(queries, scores, strict=True):
            best = np.argpartition(row, -100)[-100:]
            best = best[np.argsort(-row[best])]
            result[query.id] = dict(zip(ids[best].tolist(), row[best].tolist(), strict=True))
        return result

    times = best_times({"longrank": lambda: index.retrieve(queries, depth=100), "numpy": numpy_directly}, rounds=rounds)
    result = {f"{name}_queries_per_second": 128 / seconds for name, seconds in times.items()}
    return {**result, "ratio": times["numpy"] / times["longrank"], **_bench_faiss(index, wanted, queries, rounds)}


def _bench_faiss(index: Dense, wanted: np.ndarray, queries: Sequence[Query], rounds: int) -> dict[str, float]:
    try:
        import faiss
    except ImportError:
        return {}
    from longrank.retrieval.ann import Approximate

    near = Approximate.build(index)
    graph, ids = faiss.read_index(str(index.folder / "hnsw.faiss")), index.ids.by_row
    graph.hnsw.efSearch = near.settings.search_effort

    def directly() -> dict[str, dict[str, float]]:
        scores, places = graph.search(wanted, 100)
        rows = zip(queries, scores, places, strict=True)
        return {q.id: dict(zip(ids[p].tolist(), s.tolist(), strict=True)) for q, s, p in rows}

    times = best_times({"ours": lambda: near.retrieve(queries, depth=100), "faiss": directly}, rounds=rounds)
    return {"hnsw_ratio": times["faiss"] / times["ours"], "hnsw_recall": near.recall(queries, depth=100)}


def bench_large_build(passages: int) -> dict[str, float]:
    """Seconds and peak memory of building an index of many passages, in a process of its own."""
    command = [sys.executable, __file__, "--only-build", str(passages)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def only_build(passages: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before, start = peak_megabytes(), time.process_time()
        index = BM25.build(zipf_documents(passages, 45), Path(folder) / "index")
        seconds = time.process_time() - start
        start = time.process_time()
        BM25.open(Path(folder) / "index")
        opening = time.process_time() - start
        size = sum(path.stat().st_size for path in (Path(folder) / "index").iterdir()) / 1e6
        figures = {
            "passages": passages,
            "postings": len(index.postings.rows),
            "seconds_with_making_the_text": seconds,
            "peak_megabytes": peak_megabytes(),
            "megabytes_before": before,
            "index_megabytes": size,
            "seconds_to_open": opening,
        }
    print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--passages", type=int, default=1_000_000, help="size of the memory test; 0 leaves it out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only-build", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only_build:
        only_build(chosen.only_build)
        return
    documents, queries = list(zipf_documents(chosen.documents, chosen.words)), zipf_queries(chosen.queries)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results: dict[str, object] = {"documents": chosen.documents, "words": chosen.words, "queries": chosen.queries}
        results["indexing"] = bench_indexing(documents, folder / "bm25")
        index = BM25.open(folder / "bm25")
        for depth in (100, 1000):
            results[f"querying_{depth}"] = bench_querying(index, queries, depth, rounds=chosen.rounds)
        results["rm3"] = bench_rm3(index, queries, rounds=chosen.rounds)
        results["dense"] = bench_dense(chosen.documents, folder / "dense", rounds=chosen.rounds)
    if chosen.passages:
        results["large_build"] = bench_large_build(chosen.passages)
    text = json.dumps(results, indent=2)
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
