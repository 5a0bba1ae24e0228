"""What a neural FirstP learns under two placing policies, and what every mitigation costs and brings, at laptop size.

python benchmarks/leaks_and_mitigations.py --out FOLDER [--warm CHECKPOINT] [--part leaks|wrappers|training] [--seed 0]

All rankers start from a FirstP of MiniLM's first three layers, warmed up on passages of the toy world as in the demo
(made once in ``--out``, or given); in the leak part, whose rankers may have to learn to count matches against a
document, the head is new. Parts that are done are found in ``--out``, every query's value with them, and not done
again. With the defaults all parts take about thirteen minutes of one core, the warm-up two more.

leaks: FirstP fine-tuned where evidence is placed uniformly, and by the papers' policy against hard passages that stand
anywhere or follow the policy too; reciprocal rank minus chance on other queries.
wrappers: FirstP trained on toy, scored on toy and toy-far as it is and inside wrappers that need no weights.
training: LongP trained on toy as it is and with each mitigation; calibrated attention on the plain one.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import torch
from leak_tests import BEYOND, SEEN, UNIFORM, CaseSampler

from longrank.audit.leaks import LeakCase, expected_reciprocal_rank, leak_cases
from longrank.audit.wrappers import WRAPPERS, background_scores
from longrank.chunking.tokenizers import bert_tokenizer
from longrank.core.contracts import Ranker
from longrank.core.disk import write_atomic
from longrank.core.seeds import generator
from longrank.core.types import Collection, Document, Query, Run, Scores, Spec
from longrank.evaluation.significance import bca_interval
from longrank.rankers import checkpoint
from longrank.rankers.lengths import with_lengths
from longrank.rankers.mitigation import CalibratedAttention, random_offsets, sorted_random_positions
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.retrieval.bm25 import BM25
from longrank.synthetic.assembling import Placing
from longrank.synthetic.debias import DebiasSettings, SegmentShuffle
from longrank.synthetic.far_relevant import FarRelevantSettings, far_relevant
from longrank.synthetic.toy import ToySettings, ToyWorld, make_toy
from longrank.synthetic.toy_passages import toy_passages
from longrank.training.examples import CandidateSampler, PassageSampler, Sampler, TrainExample
from longrank.training.trainer import TrainSettings, fit
from longrank.training.weights import PositionWeights, WeightedSampler, position_weights

TOY = ToySettings(train=1_600, dev=60, test=60)
TRAIN = {"batch_size": 8, "schedule": "linear", "warmup_fraction": 0.1, "freeze_embeddings": True}
RATES = {"backbone_rate": 1e-4, "aggregator_rate": 1e-3}
OTHERS = 5  # candidates beside the relevant document
TRAINED = 300  # training queries with candidates

Values = dict[str, list[float]]


@dataclass(frozen=True)
class Bench:
    """What all parts share."""

    world: ToyWorld
    out: Path
    warm: Path
    seed: int
    queries: int
    examples: int

    def ranker(self, name: str) -> NeuralRanker:
        """The warm ranker, reading the beginning (firstp), all (longp), or the beginning with a new head (headless)."""
        if name == "headless":
            backbone = Spec("pretrained", {"model": str(self.warm / "backbone")})
            return build_ranker(
                Spec("firstp", {"backbone": backbone, "tokens": SEEN, "query_tokens": 16}), seed=self.seed
            )
        tokens = SEEN if name == "firstp" else TOY.lengths.max_tokens
        return with_lengths(checkpoint.load(self.warm), {"tokens": tokens})

    def trained(
        self,
        title: str,
        name: str,
        sampler: Sampler,
        *,
        around: Callable[[NeuralRanker], AbstractContextManager[None]] = lambda ranker: nullcontext(),
        **changes: object,
    ) -> NeuralRanker:
        """A ranker trained on these examples; found again by its folder."""
        folder = self.out / "models" / f"{title}.{self.seed}"
        if (folder / "log.json").is_file():
            return checkpoint.load(folder / "best")
        ranker = self.ranker(name)
        table = {**TRAIN, **RATES, "examples_per_epoch": self.examples, "seed": self.seed, **changes}
        began = process_time()
        with around(ranker):
            log = fit(ranker, sampler, settings=TrainSettings.model_validate(table), folder=folder)
        note = ", COLLAPSED" if log.collapsed else ""
        say(f"{title}: loss {log.losses[0]:.3f} -> {log.losses[-1]:.3f}, {process_time() - began:.0f} s{note}")
        return ranker.eval()

    def examples_of(self, collection: Collection) -> CandidateSampler:
        """Training examples with hard negatives of BM25."""
        ids = self.world.splits["train"][:TRAINED]
        return CandidateSampler(collection, self.candidates(collection, ids), ids, depth=20, seed=self.seed)

    def candidates(self, collection: Collection, ids: Sequence[str]) -> Run:
        """BM25's best of some queries."""
        with TemporaryDirectory() as folder:
            index = BM25.build(collection.documents.values(), Path(folder) / "bm25")
            return index.retrieve([collection.queries[name] for name in ids], depth=20)

    def shown(self, collection: Collection) -> list[tuple[Query, list[Document]]]:
        """Test queries with their relevant document first, then BM25's best others."""
        ids = self.world.splits["test"][: self.queries]
        run = self.candidates(collection, ids)
        rows = []
        for name in ids:
            (relevant,) = collection.qrels.relevant(name)
            others = [d for d in run.ranking(name) if d != relevant][:OTHERS]
            rows.append((collection.queries[name], [collection.documents[d] for d in (relevant, *others)]))
        return rows


class Remembering:
    """A ranker that scores a text once a query."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker, self.known = ranker, dict[tuple[str, str], float]()

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """Scores, known ones not computed again."""
        new = {d.text: d for d in documents if (query.id, d.text) not in self.known}
        if new:
            values = self.ranker.score(query, list(new.values())).values
            self.known.update({(query.id, text): value for text, value in zip(new, values, strict=True)})
        return Scores([self.known[query.id, d.text] for d in documents])


@dataclass(frozen=True)
class Doubled:
    """Examples whose first negative is the positive in another order: what the consistency loss compares."""

    inner: Sampler
    shuffle: SegmentShuffle

    def __len__(self) -> int:
        return len(self.inner)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """The inner sampler's examples, doubled."""
        for example in self.inner.epoch(number):
            moved = self.shuffle(example.positive, number)
            yield TrainExample(example.query, example.positive, (moved, *example.negatives))


def main() -> None:
    """Run the parts asked for and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--warm", type=Path, help="checkpoint of a warmed-up FirstP")
    parser.add_argument("--part", choices=["leaks", "wrappers", "training"], action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--queries", type=int, default=40, help="test queries of the mitigations")
    parser.add_argument("--examples", type=int, default=120, help="training examples of the mitigations")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    world = make_toy(TOY)
    warm = warmed(world, chosen.warm or chosen.out / "warm")
    bench = Bench(world, chosen.out, warm, chosen.seed, chosen.queries, chosen.examples)
    parts = {"leaks": leaks, "wrappers": wrappers, "training": training}
    for name in chosen.part or list(parts):
        parts[name](bench)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def warmed(world: ToyWorld, folder: Path) -> Path:
    """A FirstP that has learnt to match questions and passages."""
    place = folder if (folder / "ranker.json").is_file() else folder / "best"
    if not (place / "ranker.json").is_file():
        say("warming up the backbone on passages")
        backbone = Spec("minilm", {"layers": 3, "pooling": "mean"})
        ranker = build_ranker(Spec("firstp", {"backbone": backbone, "tokens": SEEN, "query_tokens": 16}))
        sampler = PassageSampler(world.toy.queries, world.evidence, world.negatives, world.splits["train"])
        table = {**TRAIN, "epochs": 3, "queries_at_once": 8, "backbone_rate": 2e-4, "aggregator_rate": 1e-3}
        fit(ranker, sampler, settings=TrainSettings.model_validate(table), folder=folder)
    return place


# -- leaks -------------------------------------------------------------------------------------------------------------


def leaks(bench: Bench) -> None:
    """FirstP trained and tested under each policy."""
    chance = sum(1 / n for n in range(1, 11)) / 10
    named = (("uniform", UNIFORM, "policy"), ("beyond", BEYOND, "anywhere"), ("both-beyond", BEYOND, "policy"))
    for name, placing, places in named:
        path = bench.out / f"leaks.{name}.{bench.seed}.json"
        if not path.is_file():
            train, test = policy_cases(bench, placing, places)
            settings = {"epochs": 2, "examples_per_epoch": len(train), "batch_size": 4}
            ranker = bench.trained(f"leaks-{name}", "headless", CaseSampler(train), **settings)
            shown = [(c.query, [c.positive.document, *(o.document for o in c.others)]) for c in test]
            write_atomic(path, json.dumps(reciprocal_ranks(ranker, shown)))
        values = np.asarray(json.loads(path.read_text(encoding="utf-8")))
        interval = bca_interval(values - chance, rng=generator("leaks", 0))
        say(f"{name}: {summary(values - chance, interval, sign=True)} above chance {chance:.3f}, {len(values)} queries")


def policy_cases(bench: Bench, placing: Placing, places: str) -> tuple[list[LeakCase], list[LeakCase]]:
    """Cases of 160 training queries and of the 120 others, nine other candidates each."""
    passages, tokenizer = toy_passages(TOY), bert_tokenizer()
    settings = FarRelevantSettings.model_validate(
        {"placing": placing, "distractors": 9, "distractor_places": places, "seed": bench.seed}
    )
    made = far_relevant(passages.collection, tokenizer, settings, hard=passages.hard)
    splits = bench.world.splits
    train = leak_cases(made, tokenizer, query_ids=splits["train"][:160])
    return train, leak_cases(made, tokenizer, query_ids=(*splits["dev"], *splits["test"]))


# -- mitigations -------------------------------------------------------------------------------------------------------


def wrappers(bench: Bench) -> None:
    """FirstP as it is and inside every wrapper."""
    plain = bench.trained("firstp", "firstp", bench.examples_of(bench.world.toy))
    kept = Remembering(plain)
    chunks = {"size": 90, "stride": 90}

    def made(name: str, ranker: Ranker) -> Ranker:
        params: dict[str, object] = {} if name == "rotate" else dict(chunks)
        if name == "rotate":
            params["rotations"] = 3
        if name == "calibrated-max":
            train = bench.world.splits["train"]
            asked = [bench.world.toy.queries[q] for q in train[:8]]
            params["background"] = background_scores(kept, asked, [bench.world.evidence[q] for q in train[100:112]])
        return WRAPPERS[name].make(ranker, **params)

    rankers: dict[str, Callable[[Ranker], Ranker]] = {"firstp": lambda ranker: ranker}
    for name in ("chunk-max", "first-and-best", "calibrated-max", "rotate"):
        rankers[name] = lambda ranker, name=name: made(name, ranker)
    scored(bench, "wrappers", {name: (make(kept), make(plain)) for name, make in rankers.items()})


def training(bench: Bench) -> None:
    """LongP trained in every way, and the plain one with calibrated attention."""
    toy = bench.world.toy
    examples = bench.examples_of(toy)
    plain = bench.trained("longp", "longp", examples)
    models: dict[str, Ranker] = {"longp": plain, "attention calibration": CalibratedAttention(plain, strength=0.5)}
    scored(bench, "training", {name: (model, model) for name, model in models.items()})
    models["random offsets"] = bench.trained("offsets", "longp", examples, around=random_offsets)
    models["sorted random ids"] = bench.trained("sorted", "longp", examples, around=sorted_random_positions)
    ids = bench.world.splits["train"][:TRAINED]
    weights = position_weights(toy, ids, tokenizer=plain.backbone.tokenizer, settings=PositionWeights(bins=4))
    models["inverse propensity"] = bench.trained("ips", "longp", WeightedSampler(examples, weights))
    scored(bench, "training", {name: (model, model) for name, model in models.items()})
    doubled = Doubled(examples, SegmentShuffle(DebiasSettings(seed=bench.seed)))
    models["consistency"] = bench.trained("consistency", "longp", doubled, loss="consistent-margin")
    scored(bench, "training", {name: (model, model) for name, model in models.items()})


def scored(bench: Bench, part: str, rankers: Mapping[str, tuple[Ranker, Ranker]]) -> None:
    """Values of every ranker, each scored once (first of a pair) and timed (second); the first row is the plain one."""
    path = bench.out / f"{part}.{bench.seed}.json"
    known: dict[str, Values] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    shown = {c.name: bench.shown(c) for c in (bench.world.toy, bench.world.far)}
    for name, (ranker, timed) in rankers.items():
        if name not in known:
            known[name] = {where: reciprocal_ranks(ranker, rows) for where, rows in shown.items()}
            known[name]["milliseconds"] = [milliseconds(timed, shown["toy-far"][:3])]
            write_atomic(path, json.dumps(known))
    first = next(iter(rankers))
    rng = generator("mitigations", 0)
    say(f"== {part}: RR over {bench.queries} queries, {1 + OTHERS} candidates; difference to {first}; time a document")
    for name in rankers:
        cells = []
        for where in shown:
            values, base = np.asarray(known[name][where]), np.asarray(known[first][where])
            cells.append(f"{where} {summary(values, bca_interval(values, rng=rng))}")
            if name != first:
                cells.append(f"({summary(values - base, bca_interval(values - base, rng=rng), sign=True)})")
        ratio = known[name]["milliseconds"][0] / known[first]["milliseconds"][0]
        say(f"{name:22} {' '.join(cells)}  x{ratio:.2f}")


def reciprocal_ranks(ranker: Ranker, rows: Sequence[tuple[Query, list[Document]]]) -> list[float]:
    return [expected_reciprocal_rank(ranker.score(query, documents).values) for query, documents in rows]


def milliseconds(ranker: Ranker, rows: Sequence[tuple[Query, list[Document]]]) -> float:
    """CPU time a document."""
    began = process_time()
    for query, documents in rows:
        ranker.score(query, documents)
    return 1e3 * (process_time() - began) / sum(len(documents) for _, documents in rows)


def summary(values: object, interval: tuple[float, float], *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    return f"{np.mean(np.asarray(values)):{form}} [{interval[0]:{form}}, {interval[1]:{form}}]"


if __name__ == "__main__":
    main()
