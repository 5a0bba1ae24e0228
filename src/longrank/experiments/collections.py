"""Collections as steps leave them: made once in a folder, or found where they are and pointed at."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer
from longrank.core.disk import write_atomic
from longrank.core.errors import DataError
from longrank.core.seeds import generator
from longrank.core.settings import parse_settings
from longrank.core.types import Collection, Query, Run
from longrank.corpora.catalog.folder import load_folder, save_collection
from longrank.corpora.catalog.irdatasets import load_irdataset
from longrank.corpora.formats import jsonl, trec
from longrank.corpora.formats.records import read_records, write_records
from longrank.corpora.splits import FILE, read_split
from longrank.synthetic.debias import DebiasSettings, debiased
from longrank.synthetic.far_relevant import FarRelevantSettings, far_relevant, hard_passages, same_topic
from longrank.synthetic.longembed import TaskSettings, read_longembed
from longrank.synthetic.needle import make_needle
from longrank.synthetic.passkey import make_passkey
from longrank.synthetic.toy import ToySettings, make_toy
from longrank.synthetic.toy_passages import toy_passages
from longrank.synthetic.writing import write_far_relevant

_DATA, _SOURCE, _SPLITS, _FOLDS = "data", "source.json", FILE, "folds.json"
_EVIDENCE, _GIVEN = "evidence.jsonl", "candidates.trec"
Splits = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Opened:
    """A collection with its splits and folds of query ids."""

    collection: Collection
    splits: Splits
    folds: Splits
    folder: Path

    def queries(self, split: str, fold: str | None = None) -> tuple[str, ...]:
        """Query ids of a split; with a fold, of that fold ('test') or of all the others ('train')."""
        if fold is None:
            if split not in self.splits:
                known = ", ".join(self.splits) or "none"
                raise DataError(f"{self.collection.name!r} has no {split!r} queries; it has {known}")
            return self.splits[split]
        if split == "train":
            return tuple(q for name, ids in self.folds.items() if name != fold for q in ids)
        return self.folds[fold]

    def given_candidates(self) -> Run | None:
        """Candidates that belong to the collection, so that no retriever is asked."""
        return trec.read_run(self.folder / _GIVEN) if (self.folder / _GIVEN).is_file() else None

    def evidence(self) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
        """The relevant passage of each query, and passages that come close."""
        path = self.folder / _EVIDENCE
        if not path.is_file():
            raise DataError(
                f"{self.collection.name!r} has no evidence passages to warm up on: use a toy collection, or a "
                "far-relevant one with hard = 'bm25'"
            )
        rows = {record.text("query_id"): record.fields for record in read_records(path)}
        return {q: row["text"] for q, row in rows.items()}, {q: tuple(row["negatives"]) for q, row in rows.items()}


def open_collection(folder: Path, hints: Mapping[str, Any]) -> Opened:
    """The collection of a finished step; ``hints`` say where one that is only pointed at lies now."""
    found = {name: _ids(folder / name) for name in (_SPLITS, _FOLDS)}
    if (folder / _DATA).is_dir():
        collection = load_folder(folder / _DATA)
    else:
        # the step is known by contents: it may have been made when they lay elsewhere
        collection = _pointed_at({**json.loads((folder / _SOURCE).read_text(encoding="utf-8")), **hints})
    return Opened(collection, found[_SPLITS], found[_FOLDS], folder)


def make_collection(
    settings: Mapping[str, Any], folder: Path, *, of: Opened | None = None, hints: Mapping[str, str]
) -> None:
    """Make or find a collection of a source's settings; ``of`` is the one it is made from."""
    make = {
        "toy": _toy,
        "toy-far": _toy,
        "toy-passages": _toy_passages,
        "folder": _found,
        "files": _found,
        "ir_datasets": _ir_datasets,
        "far-relevant": _far_relevant,
        "longembed": _longembed,
        "debiased": _debiased,
    }[settings["kind"]]
    splits, folds = make(settings, folder, of, hints)
    if settings["folds"] is not None:
        every = [query_id for ids in splits.values() for query_id in ids]
        splits, folds = {"test": tuple(every)}, _drawn_folds(every, settings["folds"])
    limits = {"train": settings["max_train"], "test": settings["max_test"]}
    splits = {name: _limited(name, ids, limits.get(name)) for name, ids in splits.items()}
    if settings["max_test"] is not None:
        folds = {name: tuple(q for q in ids if q in set(splits["test"])) for name, ids in folds.items()}
    _write_ids(folder / _SPLITS, splits)
    _write_ids(folder / _FOLDS, folds)


Made = tuple[Splits, Splits]


def _toy(settings: Mapping[str, Any], folder: Path, of: Opened | None, hints: Mapping[str, str]) -> Made:
    table = settings.get("world") or {k: v for k, v in settings.items() if k in ToySettings.model_fields}
    world = make_toy(parse_settings(ToySettings, table, source="toy collection"))
    save_collection(world.toy if settings["kind"] == "toy" else world.far, folder / _DATA)
    _write_evidence(folder, world.evidence, world.negatives)
    return world.splits, {}


def _toy_passages(settings: Mapping[str, Any], folder: Path, of: Opened | None, hints: Mapping[str, str]) -> Made:
    chosen = parse_settings(ToySettings, settings["world"], source="toy passages")
    passages = toy_passages(chosen)
    save_collection(passages.collection, folder / _DATA)
    texts = passages.collection.documents
    relevant = {q: texts[min(passages.collection.qrels.relevant(q))].text for q in passages.collection.queries}
    _write_evidence(folder, relevant, {q: tuple(texts[d].text for d in row) for q, row in passages.hard.items()})
    return {"test": tuple(passages.collection.queries)}, {}


def _found(settings: Mapping[str, Any], folder: Path, of: Opened | None, hints: Mapping[str, str]) -> Made:
    source = {"kind": settings["kind"], **hints}
    write_atomic(folder / _SOURCE, json.dumps(source))
    beside = Path(hints["path"]) if "path" in hints else None
    if beside is not None and (beside / FILE).is_file():
        names = json.loads((beside / FILE).read_text(encoding="utf-8"))
        return {name: read_split(beside, name) for name in names}, {}
    collection = _pointed_at(source)
    judged = [query_id for query_id in collection.queries if collection.qrels.relevant(query_id)]
    order = [judged[i] for i in generator("experiment-splits", 0).permutation(len(judged)).tolist()]
    dev = settings["dev"]
    test = len(order) - dev if settings["test"] is None else settings["test"]
    parts = {"dev": order[:dev], "test": order[dev : dev + test], "train": order[dev + test :]}
    return {name: tuple(ids) for name, ids in parts.items() if ids}, {}


def _ir_datasets(settings: Mapping[str, Any], folder: Path, of: Opened | None, hints: Mapping[str, str]) -> Made:
    names = ("kind", "splits", "fold_ids", "borrowed", "query_field", "include_title")
    source = {name: settings[name] for name in names}
    write_atomic(folder / _SOURCE, json.dumps(source))
    parts = {name: _judged(load_irdataset(part)) for name, part in settings["splits"].items()}
    folds = {name: _judged(load_irdataset(part)) for name, part in settings["fold_ids"].items()}
    parts |= {name: tuple(load_irdataset(part).queries) for name, part in settings["borrowed"].items()}
    if folds and "test" not in parts:
        parts["test"] = tuple(query_id for ids in folds.values() for query_id in ids)
    return parts, folds


def _far_relevant(settings: Mapping[str, Any], folder: Path, of: Opened | None, hints: Mapping[str, str]) -> Made:
    if of is None:
        raise DataError("a far-relevant collection is made of another one's passages")
    table = {name: settings[name] for name in FarRelevantSettings.model_fields}
    chosen = parse_settings(FarRelevantSettings, table, source="far-relevant collection")
    counted = bert_tokenizer() if settings["tokenizer"] == "bert" else WordTokenizer()
    hard: Mapping[str, Sequence[str]] = {}
    if settings["hard"] == "bm25":
        hard = _bm25_hard(of.collection, folder)
    elif settings["hard"] == "same-topic":
        hard = same_topic(of.collection)
    made = far_relevant(of.collection, counted, chosen, hard=hard if chosen.distractors else None)
    write_far_relevant(made, folder / _DATA, origin={"made_by": "longrank run"})
    if hard:
        texts, qrels = of.collection.documents, of.collection.qrels
        wrong = {q: [d for d in row if d not in qrels.relevant(q)] for q, row in hard.items() if q in made.queries}
        kept = [q for q, row in wrong.items() if row and qrels.relevant(q)]
        relevant = {q: texts[min(qrels.relevant(q))].text for q in kept}
        _write_evidence(folder, relevant, {q: tuple(texts[d].text for d in wrong[q][:10]) for q in kept})
    names = json.loads((folder / _DATA / FILE).read_text(encoding="utf-8"))
    return {name: read_split(folder / _DATA, name) for name in names}, {}


def _longembed(settings: Mapping[str, Any], folder: Path, of: Opened | None, hints: Mapping[str, str]) -> Made:
    if "path" in hints:
        task = read_longembed(hints["path"])
    else:
        table = {name: settings[name] for name in TaskSettings.model_fields}
        chosen = parse_settings(TaskSettings, table, source="needle or passkey task")
        task = (make_needle if settings["task"] == "needle" else make_passkey)(chosen)
    save_collection(task.collection, folder / _DATA)
    trec.write_run(folder / _GIVEN, task.same_length())
    return {"test": tuple(task.collection.queries)}, {}


def _debiased(settings: Mapping[str, Any], folder: Path, of: Opened | None, hints: Mapping[str, str]) -> Made:
    if of is None:
        raise DataError("a de-biased collection is made of another one")
    table = {name: settings[name] for name in DebiasSettings.model_fields}
    chosen = parse_settings(DebiasSettings, table, source="de-biased collection")
    train = of.queries("train")
    save_collection(debiased(of.collection, chosen, query_ids=train), folder / _DATA)
    return {"train": train}, {}


def _pointed_at(source: Mapping[str, Any]) -> Collection:
    if source["kind"] == "folder":
        return load_folder(source["path"])
    if source["kind"] == "files":
        documents = {document.id: document for document in jsonl.read_documents(Path(source["documents"]))}
        queries = {query.id: query for query in jsonl.read_queries(Path(source["queries"]))}
        name = Path(source["documents"]).parent.name
        return Collection(name, documents, queries, trec.read_qrels(Path(source["qrels"])))
    parts = [*source["splits"].values(), *source["fold_ids"].values()]
    loaded = [load_irdataset(part, include_title=source["include_title"]) for part in parts]
    queries, grades = dict[str, Query](), dict[str, Mapping[str, int]]()
    for part, one in zip(parts, loaded, strict=True):
        queries |= _field(part, source["query_field"]) if source["query_field"] else one.queries
        grades |= one.qrels.grades
    for part in source["borrowed"].values():
        queries |= load_irdataset(part).queries
    return replace(loaded[0], queries=queries, qrels=replace(loaded[0].qrels, grades=grades))


def _field(dataset_id: str, name: str) -> dict[str, Query]:
    """Queries of an ir_datasets id by one field of their records."""
    import ir_datasets

    records = list(ir_datasets.load(dataset_id).queries_iter())
    if records and not hasattr(records[0], name):
        raise DataError(
            f"the queries of {dataset_id!r} have no field {name!r}; they have {', '.join(records[0]._fields)}"
        )
    return {record.query_id: Query(record.query_id, getattr(record, name)) for record in records}


def _judged(collection: Collection) -> tuple[str, ...]:
    return tuple(query_id for query_id in collection.queries if collection.qrels.relevant(query_id))


def _bm25_hard(collection: Collection, folder: Path) -> dict[str, tuple[str, ...]]:
    from tempfile import TemporaryDirectory

    from longrank.retrieval.bm25 import BM25

    with TemporaryDirectory(dir=folder) as scratch:
        index = BM25.build(collection.documents.values(), Path(scratch) / "bm25")
        return hard_passages(index.retrieve(collection.queries.values(), depth=20))


def _write_evidence(folder: Path, evidence: Mapping[str, str], negatives: Mapping[str, Sequence[str]]) -> None:
    rows = ({"query_id": q, "text": text, "negatives": list(negatives[q])} for q, text in evidence.items())
    write_records(folder / _EVIDENCE, rows)


def _drawn_folds(query_ids: Sequence[str], count: int) -> dict[str, tuple[str, ...]]:
    order = [query_ids[i] for i in generator("experiment-folds", 0).permutation(len(query_ids)).tolist()]
    return {str(number + 1): tuple(order[number::count]) for number in range(count)}


def _limited(name: str, query_ids: Sequence[str], limit: int | None) -> tuple[str, ...]:
    """At most so many of the queries, in their order."""
    if limit is None or limit >= len(query_ids):
        return tuple(query_ids)
    chosen = generator(f"experiment-{name}", 0).choice(len(query_ids), size=limit, replace=False)
    return tuple(query_ids[i] for i in sorted(chosen.tolist()))


def _write_ids(path: Path, ids: Splits) -> None:
    write_atomic(path, json.dumps({name: list(row) for name, row in ids.items()}))


def _ids(path: Path) -> dict[str, tuple[str, ...]]:
    return {name: tuple(row) for name, row in json.loads(path.read_text(encoding="utf-8")).items()}
