"""How fast does MaxP score long documents, against what people use? One thread, CPU seconds, round-robin.

    python benchmarks/inference_speed.py [--documents 20] [--rounds 3] [--save FILE]

Real MiniLM-L6 weights with an untrained head (speed is real, quality is not claimed), documents of 100 to 4,000 words,
up to three chunks of 477 tokens. Rivals read the same chunks; ours finds its tokens cached after the first round. The
fraction is the useful floating-point rate over that of a large matrix product in the same run; it may pass 1, because
the last layer is computed at [CLS] alone and credited in full. ONNX Runtime (the extra ``onnx``, left out without it)
reads the same rows, sorted by length, at the best of three batch sizes. The token cache is opened anew and read warm.
On AMD processors with AVX-512 linear layers run by oneDNN; "by MKL" is what torch does by itself, elsewhere the same.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from longrank.chunking.splitters import Greedy
from longrank.chunking.token_cache import DiskTokenizer
from longrank.chunking.tokenizers import SubwordTokenizer, bert_tokenizer, minilm_folder
from longrank.core.errors import MissingExtra
from longrank.core.types import Document, Query
from longrank.encoders.pretrained import minilm
from longrank.rankers.aggregators import MaxScore
from longrank.rankers.layouts import Joint
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.runtimes import onnx_session, padded_inputs

CHUNK, CHUNKS, QUERY_TOKENS = 477, 3, 32


def texts(count: int, rng: np.random.Generator) -> list[str]:
    known = [
        w for w in (minilm_folder() / "vocab.txt").read_text().split("\n") if w.isalpha() and w.isascii() and len(w) > 1
    ]
    weights = 1 / np.arange(1, len(known) + 1)
    lengths = np.exp(np.linspace(np.log(100), np.log(4000), count)).astype(int)
    return [" ".join(rng.choice(known, size=n, p=weights / weights.sum())) for n in lengths]


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def sgemm_rate() -> float:
    a, b = torch.rand(2048, 2048), torch.rand(2048, 2048)
    return 2 * 2048**3 / cpu_seconds(lambda: a @ b)


def padded_rows(ranker: NeuralRanker, query: Query, documents: list[Document], *, always: int | None) -> torch.Tensor:
    """Token ids of every chunk padded to 512; ``always`` chunks a document, empty ones included."""
    rows = []
    for document in ranker.split(documents):
        found = ranker.layout.rows(ranker.backbone, ranker.backbone.tokenizer.tokenize(query.text), [document])
        ids = [np.pad(row.ids, (0, 512 - len(row))) for row in found]
        rows += ids + [np.pad(ids[0][:2], (0, 510))] * ((always or 0) - len(ids))
    return torch.from_numpy(np.stack(rows).astype(np.int64))


def onnx_ways(ranker: NeuralRanker, query: Query, documents: list[Document]) -> dict[str, Callable[[], object]]:
    """ONNX Runtime in single precision over our rows, longest first, a few batch sizes; none without the extra."""
    try:
        session = onnx_session(ranker.backbone, threads=1)
    except MissingExtra:
        return {}
    asked = ranker.backbone.tokenizer.tokenize(query.text)
    rows = ranker.layout.rows(ranker.backbone, asked, ranker.split(documents))
    rows.sort(key=len, reverse=True)

    def run(size: int) -> None:
        for start in range(0, len(rows), size):
            session.run(None, padded_inputs(rows[start : start + size], pad=0))

    return {f"ONNX Runtime fp32, batches of {size}": partial(run, size) for size in (1, 4, 16)}


def token_cache_speed(documents: list[Document]) -> dict[str, float]:
    """Milliseconds to tokenise all documents, and to read them from a cache that was just opened."""
    tokenizer = bert_tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        first = DiskTokenizer(tokenizer, Path(folder))

        def read(source: DiskTokenizer | SubwordTokenizer, times: int = 1) -> None:
            for document in documents * times:
                source.tokenize(document.text)

        read(first)
        first.flush()
        warm = DiskTokenizer(tokenizer, Path(folder))
        fresh = min(cpu_seconds(lambda: read(tokenizer)) for _ in range(3))
        read(warm)
        cached = min(cpu_seconds(lambda: read(warm, 20)) / 20 for _ in range(3))
    return {"tokenise, ms": 1e3 * fresh, "warm cache, ms": 1e3 * cached, "faster by": fresh / cached}


def two_thread_cost(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds at two threads over those at one; on busy cores waiting threads spin and inflate it."""
    spent: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads, seconds in spent.items():
            torch.set_num_threads(threads)
            work()  # wakes the threads
            seconds.append(cpu_seconds(work))
    torch.set_num_threads(1)
    return statistics.median(spent[2]) / statistics.median(spent[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)

    from sentence_transformers import CrossEncoder
    from transformers import BertForSequenceClassification

    backbone = minilm()
    ranker = NeuralRanker(Greedy(CHUNK, CHUNKS), Joint(QUERY_TOKENS), backbone, MaxScore(backbone.dim)).eval()
    query = Query("q", "which material was used for the northern bridge over the river")
    documents = [Document(str(i), t) for i, t in enumerate(texts(options.documents, np.random.default_rng(0)))]
    ranker.score(query, documents[:2])

    folder = tempfile.mkdtemp()
    BertForSequenceClassification.from_pretrained(minilm_folder(), num_labels=1).save_pretrained(folder)
    bert_tokenizer().save(Path(folder) / "tokenizer.json")
    for name in ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        (Path(folder) / name).write_bytes((minilm_folder() / name).read_bytes())
    rival = CrossEncoder(folder, max_length=512, device="cpu")
    chunk_texts = [
        (query.text, split.source.text[slice(*_chars(split.source, span.start, span.stop))])
        for split in ranker.split(documents)
        for span in split.spans
    ]
    sdpa = BertForSequenceClassification.from_pretrained(folder, attn_implementation="sdpa").eval()
    eager = BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()

    def padded(model: torch.nn.Module) -> None:
        with torch.inference_mode():
            rows = padded_rows(ranker, query, documents, always=CHUNKS)
            for batch in rows.split(8):
                model(input_ids=batch, attention_mask=(batch != 0).long())

    def by_mkl() -> None:
        torch.backends.mkldnn.enabled = False
        try:
            ranker.score(query, documents)
        finally:
            torch.backends.mkldnn.enabled = True

    ways: dict[str, Callable[[], object]] = {
        "longrank": lambda: ranker.score(query, documents),
        "longrank, products by MKL": by_mkl,
        "sentence-transformers, same chunks": lambda: rival.predict(chunk_texts, show_progress_bar=False),
        "3 x 512 padded, SDPA": lambda: padded(sdpa),
        "3 x 512 padded, eager": lambda: padded(eager),
        **onnx_ways(ranker, query, documents),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    rates = []
    for number in range(options.rounds + 1):
        rates.append(sgemm_rate())
        for name, way in ways.items():
            spent = cpu_seconds(way)
            if number:  # the first round warms up
                times[name].append(spent)
    spent = {name: statistics.median(values) for name, values in times.items()}

    lengths = [
        len(row)
        for d in ranker.split(documents)
        for row in ranker.layout.rows(backbone, backbone.tokenizer.tokenize(query.text), [d])
    ]
    weights = sum(p.numel() for n, p in backbone.model.named_parameters() if "embeddings" not in n and p.dim() == 2)
    flops = sum(2 * weights * n + 6 * 4 * n * n * backbone.dim for n in lengths)
    few = documents[:: max(1, len(documents) // 10)]
    fraction = flops / spent["longrank"] / statistics.median(rates)
    result = {
        "documents": len(documents),
        "cpu seconds at two threads over one": two_thread_cost(lambda: ranker.score(query, few), options.rounds),
        "tokens": sum(lengths),
        "cpu seconds": spent,
        "longrank is faster by": {name: value / spent["longrank"] for name, value in spent.items()},
        "fraction of the matrix product rate": fraction,
        "token cache": token_cache_speed(documents),
    }
    print(json.dumps(result, indent=1))
    if options.save:
        options.save.write_text(json.dumps(result, indent=1))


def _chars(text: object, start: int, stop: int) -> tuple[int, int]:
    return int(text.char_starts[start]), int(text.char_stops[stop - 1])  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
