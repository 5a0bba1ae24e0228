"""Training steps of MaxP: our loop against the usual padded one, in one-thread CPU seconds.

    python benchmarks/training_speed.py --input-tokens 512 --pairs 2 --rounds 3 --out training_speed.json

The usual loop pads every document to three inputs of full length, keeps attention dropout, and runs one pair at a
time with accumulation. All variants take one AdamW step a round; they run in turn, and medians are compared.
"""

import argparse
import json
import math
import platform
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import Tensor

from longrank.core.seeds import generator
from longrank.core.types import Document, Query, Spec
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.training.forward import Asked, train_scores
from longrank.training.optimizer import freeze, make_optimizer
from longrank.training.settings import TrainSettings

WORDS = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not", "he")
QUERY_TOKENS, CHUNKS, FRAMING = 32, 3, 3
Step = Callable[[Sequence[Asked]], Tensor]


def make_pairs(count: int, chunk: int, *, full: bool) -> list[Asked]:
    """Pairs of documents whose words are one token each; realistic lengths are log-normal around 1.3 chunks."""
    rng = generator("training-speed", 0)

    def text(words: int) -> str:
        return " ".join(rng.choice(WORDS, size=words))

    def size() -> int:
        return CHUNKS * chunk if full else max(8, round(float(rng.lognormal(math.log(1.3 * chunk), 0.8))))

    return [
        Asked(Query("q", text(8)), [Document("p", text(size())), Document("n", text(size()))]) for _ in range(count)
    ]


def make_ranker(arguments: argparse.Namespace, chunk: int) -> NeuralRanker:
    backbone = Spec("minilm", {"layers": arguments.layers})
    params = {"backbone": backbone, "size": chunk, "stride": chunk, "max_tokens": CHUNKS * chunk}
    return build_ranker(Spec("maxp", {**params, "query_tokens": QUERY_TOKENS})).train()


def ours(ranker: NeuralRanker, settings: TrainSettings) -> Step:
    freeze(ranker, settings)
    optimizer = make_optimizer(ranker, settings)

    def step(pairs: Sequence[Asked]) -> Tensor:
        total = torch.zeros(())
        for pair in pairs:
            (scores,) = train_scores(ranker, [pair], settings=settings).scores
            loss = torch.relu(1 - scores[0] + scores[1])
            (loss / len(pairs)).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step


def usual(ranker: NeuralRanker, width: int) -> Step:
    """Padded inputs through the model's own forward, as in most published training loops."""
    model: Any = ranker.backbone.model
    for part in model.modules():
        if type(part).__name__ == "BertSelfAttention":
            part.dropout.p = 0.1
    model.config.attention_probs_dropout_prob = 0.1
    optimizer = make_optimizer(ranker, TrainSettings())

    def step(pairs: Sequence[Asked]) -> Tensor:
        total = torch.zeros(())
        for pair in pairs:
            inputs = padded_inputs(ranker, pair, width)
            vectors = model(**inputs).last_hidden_state[:, 0].view(len(pair.documents), CHUNKS, -1)
            scores = ranker.aggregator.head(vectors).amax(1)  # type: ignore[operator]
            loss = torch.relu(1 - scores[0] + scores[1])
            (loss / len(pairs)).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step


def by_mkl(step: Step) -> Step:
    """The step as torch multiplies by itself; elsewhere than on AMD processors with AVX-512 that is the same."""

    def run(pairs: Sequence[Asked]) -> Tensor:
        torch.backends.mkldnn.enabled = False
        try:
            return step(pairs)
        finally:
            torch.backends.mkldnn.enabled = True

    return run


def padded_inputs(ranker: NeuralRanker, pair: Asked, width: int) -> dict[str, Tensor]:
    asked = ranker.backbone.tokenizer.tokenize(pair.query.text)
    ids = torch.zeros(len(pair.documents) * CHUNKS, width, dtype=torch.long)
    types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    mask[:, 0] = 1  # an empty chunk still attends to something
    for number, split in enumerate(ranker.split(pair.documents)):
        for place, row in enumerate(ranker.layout.rows(ranker.backbone, asked, [split])):
            at = number * CHUNKS + place
            ids[at, : len(row)] = torch.from_numpy(row.ids)
            types[at, : len(row)] = torch.from_numpy(row.types)
            mask[at, : len(row)] = 1
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}


def gradient_difference(arguments: argparse.Namespace, chunk: int, pairs: Sequence[Asked]) -> float:
    """Relative distance of winner-only gradients from those of the full graph, dropout off."""
    ranker = make_ranker(arguments, chunk)
    for part in ranker.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    found = []
    for settings in (TrainSettings(), TrainSettings(winner_only=True)):
        ranker.zero_grad(set_to_none=True)
        (scores,) = train_scores(ranker, pairs[:1], settings=settings).scores
        (scores[0] - scores[1]).backward()  # type: ignore[no-untyped-call]
        found.append(torch.cat([p.grad.flatten() for p in ranker.parameters() if p.grad is not None]))
    return float((found[1] - found[0]).norm() / found[0].norm())


def measure(arguments: argparse.Namespace, *, full: bool) -> dict[str, float]:
    chunk = arguments.input_tokens - QUERY_TOKENS - FRAMING
    pairs = make_pairs(arguments.pairs, chunk, full=full)
    plain = TrainSettings()
    lean = TrainSettings(freeze_embeddings=True, fused_optimizer=True)
    steps: dict[str, Step] = {
        "usual": usual(make_ranker(arguments, chunk), arguments.input_tokens),
        "ours": ours(make_ranker(arguments, chunk), plain),
        "ours, products by MKL": by_mkl(ours(make_ranker(arguments, chunk), plain)),
        "ours, frozen embeddings": ours(make_ranker(arguments, chunk), lean),
        "ours, frozen embeddings, winner only": ours(
            make_ranker(arguments, chunk), lean.model_copy(update={"winner_only": True})
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for round_number in range(arguments.rounds + 1):
        for name, step in steps.items():
            began = process_time()
            step(pairs if round_number else pairs[:1])  # the first round warms up
            if round_number:
                seconds[name].append(process_time() - began)
    speeds = {name: len(pairs) / statistics.median(values) for name, values in seconds.items()}
    speeds["gradient difference, winner only"] = gradient_difference(arguments, chunk, pairs)
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--input-tokens", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"machine": platform.machine(), "torch": torch.__version__, **vars(arguments)}
    results["out"] = None
    for kind in ("realistic", "full"):
        speeds = measure(arguments, full=kind == "full")
        difference = speeds.pop("gradient difference, winner only")
        lean, winner = "ours, frozen embeddings", "ours, frozen embeddings, winner only"
        ratios = {name: speed / speeds["usual"] for name, speed in speeds.items()}
        ratios["winner only over the full graph"] = speeds[winner] / speeds[lean]
        results[kind] = {"pairs per cpu second": speeds, "ratios": ratios, "gradient difference": difference}
        print(f"{kind}:")
        for name, ratio in ratios.items():
            print(f"  {name:40} {ratio:5.2f}x")
        print(f"  winner-only gradient differs by {difference:.1e}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
