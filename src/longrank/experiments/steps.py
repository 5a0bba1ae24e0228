"""How each kind of step is made: a function from its settings and its inputs' folders to files in its own folder."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrank.core.disk import write_atomic
from longrank.core.errors import SettingsError
from longrank.core.settings import parse_settings, to_spec
from longrank.core.types import Qrels, Query, Run, Spec
from longrank.corpora.formats.trec import read_run, write_run
from longrank.experiments.collections import Opened, make_collection
from longrank.experiments.job import FACTS, LOG, MODEL, RUN, Job, allows_code, ranker_spec
from longrank.experiments.sources import RetrieverSettings
from longrank.experiments.telling import (
    make_audit,
    make_costs,
    make_judged,
    make_positions,
    make_snippets,
    make_statistics,
)
from longrank.training.settings import TrainSettings

if TYPE_CHECKING:
    from longrank.core.contracts import Ranker, Retriever
    from longrank.rankers.neural import NeuralRanker
    from longrank.retrieval.dense import Dense
    from longrank.training.examples import Sampler
    from longrank.training.trainer import Teach, Validate


def make_step(job: Job) -> None:
    """Write a step's files into its folder."""
    MAKERS[job.step.kind](job)


def _make_collection(job: Job) -> None:
    of = job.collection("of") if "of" in job.inputs else None
    make_collection(job.settings, job.folder, of=of, hints=job.step.hints)


def _make_candidates(job: Job) -> None:
    opened = job.collection()
    queries, given = _asked(opened), opened.given_candidates()
    if given is not None:
        run = given
    elif "run" in job.step.hints:
        found = read_run(job.step.hints["run"])
        run = replace(found, scores={q.id: found.scores.get(q.id, {}) for q in queries})
    else:
        table = {name: value for name, value in job.settings.items() if name != "contents"}
        settings = parse_settings(RetrieverSettings, table, source=job.step.label)
        scratch = job.folder / "index"
        run = _retriever(settings, opened, scratch).retrieve(queries, depth=settings.depth)
        shutil.rmtree(scratch)
    write_run(job.folder / RUN, run, metadata={})


def _asked(opened: Opened) -> list[Query]:
    """Queries of any split or fold, each once."""
    ids = dict.fromkeys(q for part in (opened.splits, opened.folds) for row in part.values() for q in row)
    return [opened.collection.queries[query_id] for query_id in ids]


def _retriever(settings: RetrieverSettings, opened: Opened, scratch: Path) -> "Retriever":
    from longrank.retrieval.bm25 import BM25
    from longrank.retrieval.hybrid import Hybrid, HybridSettings
    from longrank.retrieval.rm3 import RM3

    documents = opened.collection.documents
    scratch.mkdir(parents=True)
    if settings.method == "dense":
        return _dense(settings, opened, scratch)
    bm25 = BM25.build(documents.values(), scratch / "bm25", settings.bm25)
    if settings.method == "rm3":
        return RM3(bm25, settings.rm3)
    if settings.method == "hybrid":
        mixture = HybridSettings(bm25_weight=settings.bm25_weight, pool_depth=max(1000, settings.depth))
        return Hybrid(bm25, _dense(settings, opened, scratch), mixture)
    return bm25


def _dense(settings: RetrieverSettings, opened: Opened, scratch: Path) -> "Dense":
    from longrank.retrieval.dense import DenseSettings
    from longrank.retrieval.embedding import open_dense

    return open_dense(opened.collection.documents.values(), scratch, settings.dense, DenseSettings())


# -- training ----------------------------------------------------------------------------------------------------------


def _make_warmup(job: Job) -> None:
    from longrank.rankers.zoo import build_ranker
    from longrank.training.examples import PassageSampler

    opened, settings = job.collection("on"), _training(job)
    positives, negatives = opened.evidence()
    taught = tuple(q for q in opened.queries("train") if q in positives)  # never those that are tested
    queries = opened.collection.queries
    sampler = PassageSampler(queries, positives, negatives, taught, settings.seed)
    ranker = build_ranker(ranker_spec(job.settings), seed=settings.seed)
    _fit(job, ranker, sampler, settings)


def _make_train(job: Job) -> None:
    from longrank.rankers.zoo import build_ranker

    settings, opened, candidates = _training(job), job.collection(), job.candidates()
    if "start" in job.inputs:
        ranker = _reading_as(job.model("start"), job.settings.get("reading", {}))
    else:
        ranker = build_ranker(_warmed(job), seed=settings.seed)
        if "warm-up" in job.inputs and allows_code(ranker_spec(job.settings)):
            ranker.backbone.load_state_dict(job.model("warm-up").backbone.state_dict())
    parameters = sum(parameter.numel() for parameter in ranker.parameters())
    sampler = _sampler(job, ranker, opened, candidates, seed=settings.seed, facts={"parameters": parameters})
    _fit(job, ranker, sampler, settings, validate=_validation(job, opened, candidates), teach=_teacher(job))


def _training(job: Job) -> TrainSettings:
    return parse_settings(TrainSettings, job.settings["training"], source=job.step.label)


def _warmed(job: Job) -> Spec:
    """The ranker to train, with the backbone that was warmed up; one with code of its own stays as it was allowed."""
    spec = ranker_spec(job.settings)
    if "warm-up" not in job.inputs or allows_code(spec):
        return spec
    backbone = Spec("pretrained", {"model": str(job.inputs["warm-up"] / MODEL / "backbone")})
    return Spec(spec.name, {"backbone": backbone, **to_spec(job.settings["ranker"]).params})


def _sampler(
    job: Job, ranker: "NeuralRanker", opened: Opened, candidates: Run, *, seed: int, facts: dict[str, Any]
) -> "Sampler":
    from longrank.retrieval.pseudo_labels import pseudo_labels
    from longrank.training.passages import PassageLevel
    from longrank.training.pools import NegativeSettings, PoolSampler

    collection, query_ids = opened.collection, opened.queries("train", job.settings["fold"])
    if job.settings["labels"] == "pseudo":
        collection = replace(collection, qrels=pseudo_labels(candidates))
    negatives = parse_settings(NegativeSettings, job.settings["negatives"], source=job.step.label)
    sampler = PoolSampler(collection, {"candidates": candidates}, query_ids, negatives=negatives, seed=seed)
    facts |= {"training_queries": len(sampler), "skipped_training_queries": dict(sorted(sampler.skipped.items()))}
    write_atomic(job.folder / FACTS, json.dumps(facts, sort_keys=True))
    return PassageLevel(sampler, ranker.split, seed) if job.settings["passage_level"] else sampler


def _validation(job: Job, opened: Opened, candidates: Run) -> "Validate | None":
    from longrank.evaluation.measures import evaluate
    from longrank.rankers.rerank import rerank

    measure = job.settings["validation"]
    if measure is None:
        return None
    query_ids = () if job.settings["fold"] is not None else opened.splits.get("dev", ())
    if not query_ids:
        raise SettingsError(
            f"validation = {measure!r} chooses an epoch by dev queries, and {opened.collection.name!r} has none"
            + (" in folds" if job.settings["fold"] is not None else "")
            + ": leave it out"
        )
    grades = opened.collection.qrels.grades
    qrels = Qrels({q: grades[q] for q in query_ids if q in grades})

    def validate(ranker: "NeuralRanker") -> float:
        run = rerank(ranker, candidates, opened.collection, query_ids=query_ids)
        values = evaluate(run, qrels, [measure], missing="zero")[measure]
        return sum(values.values()) / max(1, len(values))

    return validate


def _teacher(job: Job) -> "Teach | None":
    from longrank.training.distillation import ranker_teaches

    return ranker_teaches(job.model("teacher")) if "teacher" in job.inputs else None


def _fit(
    job: Job,
    ranker: "NeuralRanker",
    sampler: "Sampler",
    settings: TrainSettings,
    *,
    validate: "Validate | None" = None,
    teach: "Teach | None" = None,
) -> None:
    """Train, and keep the best weights and the log alone: states and last weights are large."""
    from longrank.training.trainer import fit

    if not (job.folder / LOG).is_file():  # written last: with it, a kill can only have hit the removal below
        ranker.to(job.step.hints.get("device", "cpu"))
        fit(ranker, sampler, settings=settings, folder=job.folder, validate=validate, teach=teach)
    for left in ("state", "last"):
        shutil.rmtree(job.folder / left, ignore_errors=True)


# -- scoring -----------------------------------------------------------------------------------------------------------


def _make_score(job: Job) -> None:
    _rerank(job, _reading_as(job.model(), job.settings["reading"]))


def _reading_as(ranker: "NeuralRanker", reading: Mapping[str, Any]) -> "NeuralRanker":
    """The trained ranker with other lengths; nothing else of it changes."""
    from longrank.rankers.zoo import build_ranker

    if not reading or ranker.spec is None:
        return ranker
    stand_in = Spec("tiny", {"dim": 8, "positions": min(ranker.backbone.max_tokens, 65536), "vocabulary": 64})
    params = {**ranker.spec.params, **reading, "backbone": stand_in}
    other = build_ranker(Spec(ranker.spec.name, params))
    ranker.splitter, ranker.layout = other.splitter, other.layout
    ranker.spec = Spec(ranker.spec.name, {**ranker.spec.params, **reading})
    return ranker


def _make_untrained(job: Job) -> None:
    from longrank.rankers.ready import build_ready

    spec = to_spec(job.step.hints["ranker"])
    chat = spec.params.get("chat")
    if not isinstance(chat, Spec):
        return _rerank(job, build_ready(spec))
    with job.keeping_replies(chat) as kept:
        return _rerank(job, build_ready(Spec(spec.name, {**spec.params, "chat": kept})))


def _rerank(job: Job, ranker: "Ranker") -> None:
    from longrank.rankers.rerank import rerank

    opened, candidates = job.collection(), job.candidates()
    split, most = job.settings["split"], job.settings.get("max_queries")
    wanted = opened.queries(split, job.settings.get("fold"))
    if most is not None:
        first = frozenset(opened.queries(split)[:most])
        wanted = tuple(q for q in wanted if q in first)
    found = tuple(q for q in wanted if candidates.scores.get(q))
    run = rerank(ranker, candidates, opened.collection, depth=job.settings["depth"], query_ids=found)
    write_run(job.folder / RUN, run, metadata={})
    write_atomic(
        job.folder / FACTS, json.dumps({"asked": list(wanted), "without_candidates": len(wanted) - len(found)})
    )


MAKERS: Mapping[str, Callable[[Job], None]] = {
    "collection": _make_collection,
    "candidates": _make_candidates,
    "warm-up": _make_warmup,
    "train": _make_train,
    "score": _make_score,
    "untrained": _make_untrained,
    "positions": make_positions,
    "judged": make_judged,
    "snippets": make_snippets,
    "statistics": make_statistics,
    "costs": make_costs,
    "audit": make_audit,
}
