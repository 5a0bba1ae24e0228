"""The papers' finding in miniature: train where relevance comes early, test where it comes late.

Four rankers share one warmed-up backbone. Each is trained on ``toy``, scored on ``toy`` and on ``toy-far`` (zero-shot),
then fine-tuned on ``toy-far`` and scored there again. A finished part is found by its folder, whose name holds every
setting; an interrupted one goes on where it was.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from pydantic import Field

from longrank import __version__
from longrank.core.disk import write_atomic
from longrank.core.fingerprint import fingerprint
from longrank.core.seeds import generator
from longrank.core.settings import Settings
from longrank.core.types import Collection, Qrels, Run, Spec
from longrank.core.workers import in_processes
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import read_run, write_run
from longrank.corpora.splits import write_splits
from longrank.evaluation.measures import evaluate
from longrank.evaluation.significance import bca_interval
from longrank.experiments.gather import expected_reciprocal_rank
from longrank.rankers import checkpoint
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.rerank import rerank
from longrank.rankers.zoo import build_ranker
from longrank.retrieval.bm25 import BM25
from longrank.synthetic.toy import ToySettings, ToyWorld, make_toy
from longrank.training.examples import CandidateSampler, PassageSampler
from longrank.training.trainer import TrainSettings, fit

MEASURE = "RR"
CODE = 2  # counts changes that make earlier results incomparable
Say = Callable[[str], None]
T = TypeVar("T")


_RATES = {"batch_size": 8, "schedule": "linear", "warmup_fraction": 0.1}


class DemoSettings(Settings):
    """The demo's size; the defaults are for two CPU cores and MiniLM's first four layers."""

    toy: ToySettings = ToySettings(train=1_600, dev=60, test=60)
    depth: int = Field(20, ge=2)
    layers: int | None = 4
    warmup: TrainSettings = TrainSettings(
        epochs=3, queries_at_once=8, backbone_rate=2e-4, aggregator_rate=1e-3, freeze_embeddings=True, **_RATES
    )
    train: TrainSettings = TrainSettings(
        examples_per_epoch=400, backbone_rate=1e-4, aggregator_rate=1e-3, freeze_embeddings=True, **_RATES
    )
    seed: int = 0


def quick_settings() -> DemoSettings:
    """Everything runs, with a two-layer encoder from scratch that has no time to learn to match new names."""
    return DemoSettings(
        layers=None,
        warmup=TrainSettings(epochs=8, queries_at_once=8, backbone_rate=1e-3, aggregator_rate=1e-3, **_RATES),
        train=TrainSettings(examples_per_epoch=480, backbone_rate=3e-4, aggregator_rate=1e-3, **_RATES),
    )


@dataclass(frozen=True)
class Score:
    """A mean over queries with its 95% BCa bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class DemoRow:
    """One ranker's scores: on toy, on toy-far without and with fine-tuning there."""

    ranker: str
    toy: Score
    far_zero_shot: Score
    far_tuned: Score


@dataclass(frozen=True)
class DemoResult:
    """Everything the table and the page show."""

    rows: tuple[DemoRow, ...]
    bm25: tuple[Score, Score]
    random: tuple[float, float]
    ceiling: tuple[float, float]
    queries: int
    depth: int
    backbone: str
    seed: int
    positions: Mapping[str, tuple[list[int], list[int]]]  # collection -> starts of evidence, document lengths
    cut_tokens: Mapping[str, int]


RANKERS: Mapping[str, str] = {
    "FirstP": "firstp",
    "MaxP": "maxp",
    "PARADE-Attn": "parade-attn",
    "PARADE-Transformer": "parade-transformer",
}
SCORINGS = (("toy", "zero-shot"), ("toy-far", "zero-shot"), ("toy-far", "tuned"))  # on which collection, how trained


class Demo:
    """The demo's parts, each made once in ``workdir``."""

    def __init__(self, settings: DemoSettings, out: Path, say: Say, *, workers: int = 1) -> None:
        self.settings, self.out, self.say, self.workers = settings, out, say, workers
        self.workdir = out / fingerprint(settings, __version__, CODE)
        self.world: ToyWorld = _make_world(settings.toy)
        self.collections = {"toy": self.world.toy, "toy-far": self.world.far}
        self._save_collections()
        self.candidates = {name: self._candidates(collection) for name, collection in self.collections.items()}

    def run(self) -> DemoResult:
        """Train, score, fine-tune and score again; give the numbers."""
        backbone = self._warm_backbone()
        names = list(RANKERS.values())[::-1]  # the slowest first
        self._spread(_train, [name for name in names if not self._is_trained(name)], backbone)
        scorings = [(name, on, how) for name in names for on, how in SCORINGS]
        self._spread(_order, [one for one in scorings if not self._run_file(*one).is_file()], backbone)
        rows, cut = [], {}
        for title, name in RANKERS.items():
            runs = [self.ordered(name, on, how, backbone) for on, how in SCORINGS]
            toy, far, tuned = (self._score(run, on) for run, (on, _) in zip(runs, SCORINGS, strict=True))
            rows.append(DemoRow(title, toy, far, tuned))
            cut[title] = runs[1].notes.cut_tokens
        return self._result(tuple(rows), cut)

    def _spread(
        self, work: "Callable[[DemoSettings, Path, Spec, T, Say], object]", items: list[T], backbone: Spec
    ) -> None:
        made = partial(work, self.settings, self.out, backbone)
        for _ in in_processes(made, items, workers=min(self.workers, len(items) or 1), say=self.say):
            pass

    def models(self, name: str, backbone: Spec) -> dict[str, Path]:
        """A ranker trained on toy, and then fine-tuned on toy-far."""
        trained = self._trained(name, self._spec(name, backbone), on="toy", start=None)
        return {
            "zero-shot": trained,
            "tuned": self._trained(name, self._spec(name, backbone), on="toy-far", start=trained),
        }

    def ordered(self, name: str, on: str, how: str, backbone: Spec) -> Run:
        """A collection's candidates as a ranker orders them."""
        return self._scored(name, self.models(name, backbone)[how], on, how)

    def _save_collections(self) -> None:
        for name, collection in self.collections.items():
            if not (self.workdir / name).is_dir():
                save_collection(collection, self.workdir / name)
                write_splits(self.workdir / name, self.world.splits)

    def _candidates(self, collection: Collection) -> Run:
        path = self.workdir / "runs" / f"{collection.name}.bm25.trec"
        if not path.is_file():
            self.say(f"retrieving candidates for {collection.name} with BM25")
            index = BM25.build(collection.documents.values(), self.workdir / f"{collection.name}.bm25")
            write_run(path, index.retrieve(collection.queries.values(), depth=100))
        return read_run(path)

    def _spec(self, name: str, backbone: Spec) -> Spec:
        lengths = self.settings.toy.lengths
        params: dict[str, object] = {"backbone": backbone, "query_tokens": lengths.query_tokens}
        if name == "firstp":
            params["tokens"] = lengths.chunk_tokens
        else:  # disjoint chunks: three rows a document instead of thirteen windows
            params |= {"size": lengths.chunk_tokens, "stride": lengths.chunk_tokens, "max_tokens": lengths.max_tokens}
        return Spec(name, params)

    def _warm_backbone(self) -> Spec:
        """A backbone that has seen question and passage pairs, as the papers' ELECTRA had."""
        folder = self.workdir / "warm-up"
        if not (folder / "log.json").is_file():
            self.say("warming up the backbone on passages")
            layers = self.settings.layers
            mean = {"pooling": "mean"}  # MiniLM was trained with it: read at [CLS], three layers learn nothing
            tiny = Spec("tiny", {"vocabulary": "bert", **mean})
            start = tiny if layers is None else Spec("minilm", {"layers": layers, **mean})
            ranker = build_ranker(self._spec("firstp", start), seed=self.settings.seed)
            world = self.world
            sampler = PassageSampler(world.toy.queries, world.evidence, world.negatives, world.splits["train"])
            self._fit(ranker, sampler, self.settings.warmup, folder)
        return Spec("pretrained", {"model": str(folder / "best" / "backbone")})

    def _trained(self, name: str, spec: Spec, *, on: str, start: Path | None) -> Path:
        folder = self.workdir / "models" / f"{name}.{on}"
        if not (folder / "log.json").is_file():
            self.say(f"{'training' if start is None else 'fine-tuning'} {name} on {on}")
            ranker = build_ranker(spec, seed=self.settings.seed) if start is None else checkpoint.load(start)
            sampler = CandidateSampler(
                self.collections[on], self.candidates[on], self.world.splits["train"], depth=self.settings.depth
            )
            settings = self.settings.train.model_copy(update={"winner_only": name == "maxp"})  # exact, and quicker
            self._fit(ranker, sampler, settings, folder)
        return folder / "best"

    def _fit(
        self, ranker: NeuralRanker, sampler: PassageSampler | CandidateSampler, settings: TrainSettings, folder: Path
    ) -> None:
        began = perf_counter()
        log = fit(ranker, sampler, settings=settings.model_copy(update={"seed": self.settings.seed}), folder=folder)
        self.say(f"  {folder.name}: loss {log.losses[-1]:.3f}, {perf_counter() - began:.0f} s")
        if log.collapsed:
            self.say(f"  {folder.name}: its scores have become constant, this ranker has collapsed")

    def _run_file(self, name: str, on: str, how: str) -> Path:
        return self.workdir / "runs" / f"{name}.{how}.{on}.trec"

    def _is_trained(self, name: str) -> bool:
        return (self.workdir / "models" / f"{name}.toy-far" / "log.json").is_file()

    def _scored(self, name: str, model: Path, on: str, how: str) -> Run:
        path = self._run_file(name, on, how)
        if not path.is_file():
            self.say(f"scoring {name} on {on}, {how}")
            run = rerank(
                checkpoint.load(model),
                self.candidates[on],
                self.collections[on],
                depth=self.settings.depth,
                query_ids=self.world.splits["test"],
                name=f"{name}-{how}",
            )
            write_run(path, run, metadata={})
        return read_run(path)

    def _score(self, run: Run, on: str) -> Score:
        values = evaluate(run, self._test_qrels(on), [MEASURE], missing="zero")[MEASURE]
        interval = bca_interval(list(values.values()), rng=generator("demo-interval", self.settings.seed))
        return Score(sum(values.values()) / len(values), interval.low, interval.high)

    def _test_qrels(self, on: str) -> Qrels:
        grades = self.collections[on].qrels.grades
        return Qrels({query_id: grades[query_id] for query_id in self.world.splits["test"]})

    def _test_candidates(self, on: str) -> Run:
        run = self.candidates[on]
        return Run("bm25", {q: run.scores[q] for q in self.world.splits["test"]}).top(self.settings.depth)

    def _result(self, rows: tuple[DemoRow, ...], cut: Mapping[str, int]) -> DemoResult:
        bm25, chance, ceiling = [], [], []
        for name in self.collections:
            run = self._test_candidates(name)
            bm25.append(self._score(run, name))
            found = {q: len(self._test_qrels(name).relevant(q) & run.scores[q].keys()) for q in run}
            ceiling.append(sum(count > 0 for count in found.values()) / len(found))
            chance.append(sum(expected_reciprocal_rank(len(run.scores[q]), found[q]) for q in run) / len(found))
        result = DemoResult(
            rows=rows,
            bm25=(bm25[0], bm25[1]),
            random=(chance[0], chance[1]),
            ceiling=(ceiling[0], ceiling[1]),
            queries=len(self.world.splits["test"]),
            depth=self.settings.depth,
            backbone="tiny, from scratch" if self.settings.layers is None else f"MiniLM, {self.settings.layers} layers",
            seed=self.settings.seed,
            positions={name: self._positions(collection) for name, collection in self.collections.items()},
            cut_tokens=cut,
        )
        write_atomic(self.workdir / "result.json", json.dumps(asdict(result), indent=1, sort_keys=True))
        return result

    def _positions(self, collection: Collection) -> tuple[list[int], list[int]]:
        from longrank.chunking.tokenizers import bert_tokenizer
        from longrank.core.types import CharSpan

        starts, lengths = [], []
        wanted = set(self.world.splits["test"]) | set(self.world.splits["train"])
        for gold in collection.spans:
            if gold.query_id in wanted and isinstance(gold.span, CharSpan):
                text = bert_tokenizer().tokenize(collection.documents[gold.document_id].text)
                starts.append(text.tokens(gold.span).start)
                lengths.append(len(text))
        return starts, lengths


def _train(settings: DemoSettings, out: Path, backbone: Spec, name: str, say: Say) -> None:
    Demo(settings, out, say).models(name, backbone)


def _order(settings: DemoSettings, out: Path, backbone: Spec, scoring: tuple[str, str, str], say: Say) -> None:
    Demo(settings, out, say).ordered(*scoring, backbone)


_make_world = lru_cache(maxsize=1)(make_toy)  # a process makes several parts of one demo
