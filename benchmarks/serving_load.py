"""What does serving cost, and does anybody starve? A server in a process of its own, clients in this one.

    python benchmarks/serving_load.py [--model minilm|tiny] [--requests 48] [--memory 2000] [--save FILE]

MaxP over windows of the whole document, with MiniLM's weights and an untrained head (speed is real, quality is not
claimed) or a tiny encoder. Every request has documents of its own, so nothing is found in a cache. Throughput at 1, 4
and 16 clients stands against the same ranker called directly, in turns; ``cpu`` compares the seconds of processor time,
which a busy machine disturbs less than the wall clock. Then memory over many requests, and small requests beside one
document of a million words and beside one request of ten thousand documents. Linux: it reads /proc.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from longrank.chunking.splitters import Sliding
from longrank.core.types import Document, Query, Spec
from longrank.encoders.pretrained import minilm
from longrank.encoders.tiny import tiny
from longrank.rankers.aggregators import MaxScore
from longrank.rankers.layouts import Joint
from longrank.rankers.neural import NeuralRanker
from longrank.serving.launch import listen, make_server
from longrank.serving.settings import ServeSettings

CLIENTS = (1, 4, 16)
VOCABULARY = [f"{a}{b}" for a in ("stone", "river", "light", "paper", "market", "winter") for b in range(400)]


def ranker(model: str) -> NeuralRanker:
    torch.manual_seed(0)
    backbone = tiny(dim=64, vocabulary=8192) if model == "tiny" else minilm(pooling="cls")
    found = NeuralRanker(Sliding(150, 100), Joint(), backbone, MaxScore(backbone.dim))
    found.spec, found.trained = Spec("maxp"), True
    return found.eval()


def serve(model: str, threads: int) -> None:
    torch.set_num_threads(threads)
    settings = ServeSettings(ranker=model, port=0, seconds=7200, body_seconds=300, max_requests=64)
    server, _ = make_server(ranker(model), settings)
    with listen(settings) as listening:
        print(listening.getsockname()[1], flush=True)
        server.run(sockets=[listening])


def body(rng: np.random.Generator, *, documents: int, words: tuple[int, int]) -> dict[str, Any]:
    lengths = np.exp(rng.uniform(*np.log(words), size=documents)).astype(int)
    texts = [" ".join(rng.choice(VOCABULARY, size=n)) for n in lengths]
    return {"query": " ".join(rng.choice(VOCABULARY, size=5)), "documents": texts}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def direct(model: NeuralRanker, bodies: list[dict[str, Any]]) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    for asked in bodies:
        model.score(Query("q", asked["query"]), [Document(str(n), text) for n, text in enumerate(asked["documents"])])
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}


async def asked_by(clients: int, url: str, bodies: list[dict[str, Any]]) -> list[float]:
    """Seconds of every request, the clients taking the next one as soon as they have an answer."""
    waiting, seconds = list(reversed(bodies)), []

    async def client() -> None:
        async with httpx.AsyncClient(base_url=url, timeout=None) as web:
            while waiting:
                asked, began = waiting.pop(), time.perf_counter()
                reply = await web.post("/v2/rerank", json=asked)
                assert reply.status_code == 200, reply.text
                seconds.append(time.perf_counter() - began)

    await asyncio.gather(*(client() for _ in range(clients)))
    return seconds


def spread(seconds: list[float]) -> dict[str, float]:
    return {"p50": float(np.percentile(seconds, 50)), "p95": float(np.percentile(seconds, 95)), "n": len(seconds)}


def throughput(model: NeuralRanker, url: str, pid: int, *, requests: int, rounds: int) -> dict[str, Any]:
    wall: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    cpu: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    latencies: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    for number in range(rounds):
        for clients in CLIENTS:
            rng = np.random.default_rng((number, clients))
            bodies = [body(rng, documents=8, words=(100, 1500)) for _ in range(requests)]
            alone = direct(model, bodies)
            began, before = time.perf_counter(), cpu_seconds(pid)
            latencies[clients] += asyncio.run(asked_by(clients, url, bodies))
            wall[clients].append(alone["seconds"] / (time.perf_counter() - began))
            cpu[clients].append(alone["cpu"] / (cpu_seconds(pid) - before))
    return {
        f"{clients} clients": {
            "throughput over direct": statistics.median(wall[clients]),
            "cpu of direct over served": statistics.median(cpu[clients]),
            "rounds": wall[clients],
            "seconds": spread(latencies[clients]),
        }
        for clients in CLIENTS
    }


def memory(url: str, pid: int, *, requests: int) -> dict[str, Any]:
    rng, found = np.random.default_rng(5), []
    step = max(1, requests // 10)
    for _ in range(10):
        bodies = [body(rng, documents=3, words=(20, 200)) for _ in range(step)]
        asyncio.run(asked_by(8, url, bodies))
        found.append(megabytes(pid))
    return {"requests": 10 * step, "after each tenth": found, "growth, last half": found[-1] / found[4] - 1}


async def beside(url: str, large: dict[str, Any], *, most_seconds: float) -> dict[str, Any]:
    """Small requests alone, and while a large one is answered."""
    rng = np.random.default_rng(6)
    small = [body(rng, documents=3, words=(50, 200)) for _ in range(20)]
    alone = await asked_by(1, url, small)
    async with httpx.AsyncClient(base_url=url, timeout=None) as web:
        began = time.perf_counter()
        asking = asyncio.create_task(web.post("/v2/rerank", json={**large, "top_n": 1}))
        meanwhile: list[float] = []
        while not asking.done() and time.perf_counter() - began < most_seconds:
            meanwhile += await asked_by(1, url, small[:1])
            await asyncio.sleep(0.05)
        status = (await asking).status_code if asking.done() else None
        asking.cancel()
    seconds = time.perf_counter() - began
    return {"large": status, "large seconds": seconds, "alone": spread(alone), "beside": spread(meanwhile)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["minilm", "tiny"], default="minilm")
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=2000)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--most-seconds", type=float, default=1800, help="then a large request is given up")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, for both")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    if options.serve:
        serve(options.model, options.threads)
        return
    torch.set_num_threads(options.threads)
    here = [sys.executable, __file__, "--serve", "--model", options.model, "--threads", str(options.threads)]
    with subprocess.Popen(here, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        rng = np.random.default_rng(7)
        asyncio.run(asked_by(4, url, [body(rng, documents=4, words=(100, 500)) for _ in range(8)]))
        model = ranker(options.model)
        direct(model, [body(rng, documents=4, words=(100, 500)) for _ in range(4)])
        long = body(rng, documents=1, words=(options.words, options.words + 1))
        many = body(rng, documents=options.documents, words=(50, 150))
        result = {
            "model": options.model,
            "threads": options.threads,
            "throughput": throughput(model, url, server.pid, requests=options.requests, rounds=options.rounds),
            "memory in megabytes": memory(url, server.pid, requests=options.memory),
            "a long document": asyncio.run(beside(url, long, most_seconds=options.most_seconds)),
            "many documents": asyncio.run(beside(url, many, most_seconds=options.most_seconds)),
            "memory at the end": megabytes(server.pid),
        }
        server.terminate()
    print(json.dumps(result, indent=1))
    if options.save:
        options.save.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
