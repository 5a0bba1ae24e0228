"""From finished steps to the records of an experiment's cells."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longrank.core.fingerprint import plain
from longrank.core.seeds import generator
from longrank.core.types import Qrels, Run
from longrank.corpora.formats.trec import read_run
from longrank.evaluation.measures import PerQuery, evaluate
from longrank.experiments.collections import Opened, open_collection
from longrank.experiments.execute import Say, Store, versions
from longrank.experiments.job import CARD, COSTS, FACTS, LOG, PROFILE, RUN
from longrank.experiments.known import NOTHING, Known
from longrank.experiments.records import CellResult, ExperimentResult
from longrank.experiments.step import Cell, Plan, Step

RANDOM_ORDERS = 200


def gather(plan: Plan, store: Store, known: Known = NOTHING, *, say: Say = lambda line: None) -> ExperimentResult:
    """The records of every cell that is known or whose steps are all done and whole, in the order of the plan."""
    opened, whole = _Collections(store), _Whole(store, say)
    cells = []
    for cell in plan.cells:
        earlier = known.find(cell)
        if earlier is not None:
            cells.append(earlier)
            continue
        needed = (*cell.results, *cell.trained, *([cell.collection] if cell.collection else []))
        if not all(whole(step) for step in needed):
            continue
        if cell.kind == "ensemble" and sum(map(bool, _asked(cell, store))) < 2:
            say(
                f"{cell.labels['ranker']}: only one fold has queries, none is left to find weights on; ask more of them"
            )
            continue
        cells.append(_told(cell, store) if cell.collection is None else _scored(cell, store, opened))
    experiment = plan.experiment
    about = {
        "title": experiment.title,
        "size": experiment.size,
        "about": experiment.about,
        "papers": [plain(paper) for paper in experiment.papers],
        "measures": list(experiment.measures),
        "cells": len(plan.cells),
        "finished_cells": len(cells),
        "versions": versions(),
        "settings": json.loads(experiment.model_dump_json(exclude_unset=True)),
    }
    return ExperimentResult(about, tuple(cells))


class _Collections:
    """The collections of finished steps, each read once: points of a sweep have steps of their own for the same one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[str, Opened] = {}

    def __call__(self, step: Step) -> Opened:
        if step.fingerprint not in self._known:
            self._known[step.fingerprint] = open_collection(self.store.folder(step), step.hints)
        return self._known[step.fingerprint]


class _Whole:
    """Whether a step is done and nothing of it was lost or changed since; each is looked at once."""

    def __init__(self, store: Store, say: Say) -> None:
        self.store, self.say = store, say
        self._known: dict[str, bool] = {}

    def __call__(self, step: Step) -> bool:
        if step.fingerprint not in self._known:
            done = self.store.is_done(step)
            damaged = self.store.damage(step) if done else None
            if damaged is not None:
                self.say(f"{damaged} is missing or was changed: what '{step.label}' gave is left out; run it again")
            self._known[step.fingerprint] = done and damaged is None
        return self._known[step.fingerprint]


def _scored(cell: Cell, store: Store, opened: _Collections) -> CellResult:
    if cell.collection is None:
        raise ValueError("a scored cell has a collection")
    place = opened(cell.collection)
    grades = place.collection.qrels.grades
    folds = _asked(cell, store)
    if cell.scorings:
        runs = [read_run(store.folder(step) / RUN) for step in cell.scorings]
        asked = [q for fold in folds for q in fold]
    else:
        (found,) = (read_run(store.folder(step) / RUN) for step in cell.results)
        asked = list(place.queries(cell.split))[: cell.max_queries]
        runs = [Run(cell.kind, {q: found.scores.get(q, {}) for q in asked}, found.notes).top(cell.depth)]
    qrels = Qrels({q: grades[q] for q in asked if q in grades})
    scores: dict[str, Mapping[str, float]] = {q: row for run in runs for q, row in run.scores.items()}
    if cell.kind == "ensemble":
        first_stage = read_run(store.folder(cell.results[-1]) / RUN).top(cell.depth)
        scores = dict(_mixed(Run("ranker", scores), first_stage, folds, qrels, cell.weighed_by).scores)
    whole = Run(cell.kind, scores)
    values = _values(cell, whole, qrels)
    facts: dict[str, Any] = {
        "queries": len(qrels.grades),
        "queries_without_judgements": len(asked) - len(qrels.grades),
        "queries_without_candidates": sum(not scores.get(q) for q in asked),
        "relevant_found": sum(bool(qrels.relevant(q) & scores.get(q, {}).keys()) for q in qrels),
        "cut_documents": sum(run.notes.cut_documents for run in runs),
        "cut_tokens": sum(run.notes.cut_tokens for run in runs),
        "depth": cell.depth,
        "fingerprints": [step.fingerprint for step in cell.results],
        "versions": store.versions(cell.results[0]) or versions(),
    }
    if cell.weighed_by:
        facts["weighed_by"] = cell.weighed_by
    if cut_of_queries := sum(run.notes.cut_query_tokens for run in runs):
        facts["cut_query_tokens"] = cut_of_queries
    if cell.trained:
        facts |= _trained(cell.trained, store)
    ranks = relevant_ranks(whole, qrels) if cell.ranked and (cell.scorings or cell.kind == "retriever") else {}
    return CellResult(cell.labels, values, facts, _seconds(cell, store), ranks)


def _asked(cell: Cell, store: Store) -> list[list[str]]:
    """The queries that each scoring of a cell was asked, one list a fold."""
    return [_json(store.folder(step) / FACTS)["asked"] for step in cell.scorings]


def _mixed(ranker: Run, first_stage: Run, folds: Sequence[Sequence[str]], qrels: Qrels, measure: str) -> Run:
    """Both runs fused, each fold with the weights that are best by a measure on the other folds."""
    from longrank.retrieval.fusion import cross_validated, select

    def worth(run: Run) -> float:
        judged = Qrels({q: qrels.grades[q] for q in run if q in qrels.grades})
        values = evaluate(run, judged, [measure], missing="zero")[measure].values()
        return math.fsum(values) / max(1, len(values))

    return cross_validated([ranker, select(first_stage, ranker)], folds, worth)


def relevant_ranks(run: Run, qrels: Qrels) -> dict[str, dict[str, int]]:
    """Where each relevant document of a run stands, counted from 1; queries without one are left out.

    >>> relevant_ranks(Run("r", {"q": {"a": 0.1, "b": 0.9, "c": 0.5}, "p": {"a": 1.0}}), Qrels({"q": {"a": 1, "b": 2}}))
    {'q': {'b': 1, 'a': 3}}
    """
    found = {}
    for query_id in qrels:
        relevant = qrels.relevant(query_id)
        ranking = enumerate(run.ranking(query_id), start=1)
        found[query_id] = {document: rank for rank, document in ranking if document in relevant}
    return {query_id: ranks for query_id, ranks in found.items() if ranks}


def _values(cell: Cell, run: Run, qrels: Qrels) -> PerQuery:
    if cell.kind == "perfect":
        best = {q: {d: float(qrels.grades.get(q, {}).get(d, 0)) for d in row} for q, row in run.scores.items()}
        return evaluate(Run("perfect", best), qrels, cell.measures, missing="zero")
    if cell.kind == "random":
        return random_order(run, qrels, cell.measures)
    return evaluate(run, qrels, cell.measures, missing="zero")


def random_order(run: Run, qrels: Qrels, measures: Sequence[str], *, orders: int = RANDOM_ORDERS) -> PerQuery:
    """Mean of each measure over random orders of a run's documents; for RR it is computed, not drawn.

    >>> run = Run("r", {"q": {"a": 2.0, "b": 1.0}})
    >>> random_order(run, Qrels({"q": {"a": 1}}), ["RR"])  # (1 + 1/2) / 2
    {'RR': {'q': 0.75}}
    """
    found: dict[str, dict[str, float]] = {}
    drawn = [name for name in measures if name != "RR"]
    if "RR" in measures:
        counts = {q: (len(run.scores.get(q, {})), len(qrels.relevant(q) & run.scores.get(q, {}).keys())) for q in qrels}
        found["RR"] = {q: expected_reciprocal_rank(*count) for q, count in counts.items()}
    rng = generator("random-order", 0)
    for _ in range(orders if drawn else 0):
        scores = {q: dict(zip(row, rng.random(len(row)).tolist(), strict=True)) for q, row in run.scores.items()}
        for name, row in evaluate(Run("random", scores), qrels, drawn, missing="zero").items():
            total = found.setdefault(name, dict.fromkeys(row, 0.0))
            for query_id, value in row.items():
                total[query_id] += value / orders
    return {name: found[name] for name in measures}


def expected_reciprocal_rank(documents: int, relevant: int) -> float:
    """Mean of 1 / rank of the first relevant document in a random order.

    >>> expected_reciprocal_rank(4, 1)  # (1 + 1/2 + 1/3 + 1/4) / 4
    0.5208333333333333
    """
    if not relevant:
        return 0.0
    total = math.comb(documents, relevant)
    last = documents - relevant + 1
    return sum(math.comb(documents - rank, relevant - 1) / total / rank for rank in range(1, last + 1))


def _trained(steps: Sequence[Step], store: Store) -> dict[str, Any]:
    """What the trainings of a cell were told and came to; several with folds."""
    logs = [_json(store.folder(step) / LOG) for step in steps]
    facts = [_json(store.folder(step) / FACTS) for step in steps]
    return {
        "collapsed": any(log["collapsed"] for log in logs),
        "losses": [log["losses"] for log in logs],
        "validation": [log["validation"] for log in logs],
        "parameters": facts[0].get("parameters"),
        "training_queries": [fact["training_queries"] for fact in facts],
        "skipped_training_queries": [fact["skipped_training_queries"] for fact in facts],
        "settings": plain(steps[0].settings),
    }


def _told(cell: Cell, store: Store) -> CellResult:
    """A cell about a collection, about run-times or about an audit."""
    (step,) = cell.results
    folder = store.folder(step)
    if cell.kind == "positions":
        values, counts = _positions(folder / PROFILE)
        judged = _json(folder / FACTS) if (folder / FACTS).is_file() else {}
        return CellResult(cell.labels, values, {**counts, **judged})
    if cell.kind == "audit":
        return CellResult(cell.labels, {}, _json(folder / CARD), {"audit": store.seconds(step) or 0.0})
    facts = _json(folder / FACTS)
    if cell.kind == "costs":
        seconds = {f"{name}, round {n}": s for name, row in _json(folder / COSTS).items() for n, s in enumerate(row)}
        return CellResult(cell.labels, {}, facts, seconds)
    return CellResult(cell.labels, {}, facts)


def _positions(path: Path) -> tuple[PerQuery, dict[str, Any]]:
    """Start, stop and length in tokens of each pair; a pair is named '<query> <document>'."""
    from longrank.positions.profiling import load_profile

    profile = load_profile(path)
    values: dict[str, dict[str, float]] = {"start": {}, "stop": {}, "length": {}, "passages": {}}
    for record in profile.records:
        if record.spans:
            pair = f"{record.query_id} {record.document_id}"
            values["start"][pair] = record.spans[0].start
            values["stop"][pair] = record.spans[0].stop
            values["length"][pair] = record.length
            values["passages"][pair] = len(record.spans)
    facts = {"tokenizer": profile.tokenizer, "pairs": len(profile.records), "located": len(values["start"])}
    return values, facts


def _seconds(cell: Cell, store: Store) -> dict[str, float]:
    parts = {"train": cell.trained, "score": cell.scorings}
    known = {name: [store.seconds(step) for step in steps] for name, steps in parts.items() if steps}
    return {name: sum(s for s in row if s is not None) for name, row in known.items()}


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
