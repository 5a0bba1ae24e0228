"""Made collections on disk: the texts, the splits, and where they come from."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from longrank.core.disk import atomic_folder, write_atomic
from longrank.core.errors import DataError
from longrank.core.fingerprint import plain
from longrank.core.types import Collection, Document, GoldSpan, Qrels, Query
from longrank.corpora.catalog.folder import Format, save_collection
from longrank.corpora.formats import beir, flexneuart, jsonl
from longrank.corpora.formats.files import writing
from longrank.corpora.formats.records import to_line, write_records
from longrank.corpora.splits import write_splits
from longrank.synthetic.far_relevant import FarRelevant
from longrank.synthetic.toy import ToySettings, ToyWorld

ORIGIN = "origin.json"
_LABEL = "collection.json"


def write_collection(
    collection: Collection,
    folder: Path,
    *,
    splits: Mapping[str, tuple[str, ...]],
    format: Format = "jsonl",  # noqa: A002
    origin: Mapping[str, object],
) -> None:
    """Save a made collection with ``splits.json`` and ``origin.json``; BEIR gets one file of judgements a split."""
    save_collection(collection, folder, format=format)
    if format == "beir":
        write_beir_splits(folder, collection.qrels, splits)
    write_splits(folder, splits)
    write_origin(folder, origin)


def write_beir_splits(folder: Path, qrels: Qrels, splits: Mapping[str, tuple[str, ...]]) -> None:
    """Judgements as ``qrels/<split>.tsv``, one file a split."""
    for name, query_ids in splits.items():
        row = {query_id: qrels.grades[query_id] for query_id in query_ids if query_id in qrels.grades}
        beir.write_qrels(folder / "qrels" / f"{name}.tsv", Qrels(row))


def write_origin(folder: Path, origin: Mapping[str, object]) -> None:
    """Write down what made the folder: settings, counts, licence of the source, and the version."""
    table = {"longrank": version("longrank"), **{key: plain(value) for key, value in origin.items()}}
    write_atomic(folder / ORIGIN, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


def write_toy(world: ToyWorld, folder: Path, *, settings: ToySettings, format: Format = "jsonl") -> None:  # noqa: A002
    """Write ``toy/``, ``toy-far/`` and ``evidence.jsonl``: {query_id, text, negatives}, passages all of them."""
    for collection in (world.toy, world.far):
        origin = {"made_by": "make toy", "settings": settings, "licence": "invented text, of the package's licence"}
        write_collection(collection, folder / collection.name, splits=world.splits, format=format, origin=origin)
    rows = (
        {"query_id": query_id, "text": text, "negatives": list(world.negatives[query_id])}
        for query_id, text in world.evidence.items()
    )
    write_records(folder / "evidence.jsonl", rows)


class Written(NamedTuple):
    """How much was written, and how much was left out by reason."""

    documents: int
    queries: int
    tokens: int
    dropped: Mapping[str, int]


def write_far_relevant(
    made: FarRelevant,
    folder: Path,
    *,
    format: Format = "jsonl",  # noqa: A002
    origin: Mapping[str, object],
    workers: int = 1,
) -> Written:
    """Write a collection while it is made, in one pass: what is held does not grow with the number of documents.

    Beside the files of the format: ``spans.jsonl``, ``gold.tsv`` (spans in tokens and characters, distractors' too),
    ``splits.json`` and ``origin.json``.
    """
    with atomic_folder(folder, mark=_LABEL, what="a made collection") as temporary:
        seen, counts = set[str](), Counter[str]()
        with ExitStack() as stack:
            documents = _noted(made, temporary, stack, format=format, workers=workers, seen=seen, counts=counts)
            if format == "beir":
                beir.write_corpus(temporary / "corpus.jsonl", documents)
            elif format == "flexneuart":
                flexneuart.write_documents(temporary / "AnswerFields.jsonl.gz", documents)
            else:
                jsonl.write_documents(temporary / "documents.jsonl", documents)
        if not counts["documents"]:
            raise DataError(_nothing_made(made))
        _write_queries(temporary, [query for query in made.queries.values() if query.id in seen], format)
        write_splits(temporary, {name: tuple(q for q in ids if q in seen) for name, ids in made.splits.items()})
        written = {"documents": counts["documents"], "queries": len(seen), "tokens": counts["tokens"]}
        dropped = _dropped(made, counts, queries=len(seen))
        write_origin(temporary, {**origin, "settings": made.settings, "written": written, "dropped": dropped})
        write_atomic(temporary / _LABEL, json.dumps({"name": made.name, "format": format}) + "\n")
    return Written(**written, dropped=dropped)


def _dropped(made: FarRelevant, counts: Counter[str], *, queries: int) -> dict[str, int]:
    """What was left out by reason; single documents are named only where some were."""
    distractors = counts["made"] * made.settings.distractors - counts["distractors"]
    documents = {
        "relevant documents whose passages do not fit": len(made.divided.needs) - counts["made"],
        "distractor documents whose passage does not fit": distractors,
    }
    return {
        **made.divided.dropped,
        "queries whose passages fit no document": len(made.queries) - queries,
        **{reason: count for reason, count in documents.items() if count},
    }


def _nothing_made(made: FarRelevant) -> str:
    reasons = [f"{count} {reason}" for reason, count in made.divided.dropped.items() if count]
    left_out = f" Left out: {', '.join(reasons)}." if reasons else ""
    return (
        f"not one document of {made.name!r} could be made for its {len(made.queries)} queries.{left_out} There is too "
        "little filler (passages that answer no query) for documents of this length, or the relevant passages are "
        "longer than it: add passages, or set another length (boundary, max_tokens)"
    )


def _noted(
    made: FarRelevant,
    folder: Path,
    stack: ExitStack,
    *,
    format: Format,  # noqa: A002
    workers: int,
    seen: set[str],
    counts: Counter[str],
) -> Iterator[Document]:
    """The documents, their judgements and spans written on the way."""
    spans = stack.enter_context(writing(folder / "spans.jsonl"))
    gold = stack.enter_context(writing(folder / "gold.tsv"))
    gold.write("query_id\tdocument_id\tkind\tstart_token\tstop_token\tstart_char\tstop_char\n")
    judge = _judge(made, folder, stack, format)
    for one in made.documents(workers=workers):
        name = one.document.id
        for query_id, grade in one.grades.items():
            judge(query_id, name, grade)
            seen.add(query_id)
        for query_id, place in one.answers or ((one.query_id, 0),):
            chars, tokens, kind = one.chars[place], one.spans[place], "evidence" if one.answers else "distractor"
            gold.write(f"{query_id}\t{name}\t{kind}\t{tokens.start}\t{tokens.stop}\t{chars.start}\t{chars.stop}\n")
        spans.writelines(map(span_line, one.gold))
        counts["documents"] += 1
        counts["tokens"] += one.tokens
        counts["made"] += bool(one.answers) and one.slot == 0
        counts["distractors"] += not one.answers
        yield one.document


def _judge(
    made: FarRelevant,
    folder: Path,
    stack: ExitStack,
    format: Format,  # noqa: A002
) -> Callable[[str, str, int], object]:
    """Writes one judgement into the file where its format has it."""
    if format != "beir":
        qrels = stack.enter_context(writing(folder / "qrels.txt"))
        return lambda query_id, name, grade: qrels.write(f"{_word(query_id)} 0 {_word(name)} {grade}\n")
    streams = {name: stack.enter_context(writing(folder / "qrels" / f"{name}.tsv")) for name in made.splits}
    for stream in streams.values():
        stream.write("query-id\tcorpus-id\tscore\n")
    where = {query_id: streams[name] for name, ids in made.splits.items() for query_id in ids}
    return lambda query_id, name, grade: where[query_id].write(f"{_word(query_id)}\t{_word(name)}\t{grade}\n")


def _write_queries(folder: Path, queries: list[Query], format: Format) -> None:  # noqa: A002
    if format == "flexneuart":
        flexneuart.write_queries(folder / "QuestionFields.jsonl", queries)
    elif format == "beir":
        beir.write_queries(folder / "queries.jsonl", queries)
    else:
        jsonl.write_queries(folder / "queries.jsonl", queries)


def span_line(gold: GoldSpan) -> str:
    """A span of characters as a line of ``spans.jsonl``."""
    fields = {"query_id": gold.query_id, "document_id": gold.document_id, "start": gold.span.start}
    return to_line({**fields, "stop": gold.span.stop, "unit": "characters", "tokenizer": None, "source": gold.source})


def _word(name: str) -> str:
    if name.startswith("#") or len(name.split()) != 1:
        raise DataError(f"id {name!r} cannot stand in a file of judgements: it must be one word; rename it")
    return name
