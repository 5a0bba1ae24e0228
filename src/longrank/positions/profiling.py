"""A collection and an estimator to a profile: in parallel, resumable, and no bad pair stops the others."""

import json
import multiprocessing
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from longrank.chunking.tokenizers import CachedTokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.disk import write_atomic
from longrank.core.errors import DataError, SettingsError
from longrank.core.fingerprint import fingerprint
from longrank.core.progress import track
from longrank.core.seeds import generator
from longrank.core.types import Collection, Document, Query
from longrank.corpora.formats.records import read_records
from longrank.positions.estimators import PositionEstimator
from longrank.positions.profile import PositionProfile
from longrank.positions.records import PairRecord, pair_record

_BATCH = 16
_BATCHES_AHEAD = 4
_TEXTS = "texts"


class Pair(NamedTuple):
    """A query and a document judged relevant to it."""

    query_id: str
    document_id: str


def relevant_pairs(
    collection: Collection, *, at_least: int = 1, sample: int | None = None, seed: int = 0
) -> list[Pair]:
    """The relevant pairs by query and document id; a sample of them drawn without replacement if asked."""
    pairs = [
        Pair(query_id, document_id)
        for query_id in sorted(collection.qrels)
        for document_id in sorted(collection.qrels.relevant(query_id, at_least=at_least))
    ]
    if sample is None or sample >= len(pairs):
        return pairs
    if sample < 1:
        raise SettingsError(f"a sample of {sample} pairs is empty; ask for 1 or more")
    chosen = generator("profile sample", seed).choice(len(pairs), size=sample, replace=False)
    return [pairs[place] for place in sorted(chosen.tolist())]


def profile_positions(
    collection: Collection,
    estimator: PositionEstimator,
    tokenizer: Tokenizer,
    *,
    at_least: int = 1,
    sample: int | None = None,
    seed: int = 0,
    workers: int = 1,
    journal: Path | None = None,
) -> PositionProfile:
    """Where the evidence of the relevant pairs sits.

    A pair whose document is missing, or whose spans do not fit it, becomes a record with a reason. ``journal`` is a
    JSONL file in which finished pairs are kept: a second call continues it, if the estimator's ``identity`` (where it
    has one) is the same, and locates anew the pairs whose query or document has changed. With several workers the
    estimator and the tokenizer are pickled once each.
    """
    tokenizer = CachedTokenizer(tokenizer)  # one document is often relevant to many queries
    pairs = relevant_pairs(collection, at_least=at_least, sample=sample, seed=seed)
    identity = getattr(estimator, "identity", "")
    label = fingerprint(collection.name, tokenizer.name, type(estimator).__name__, identity, at_least)
    known = {} if journal is None else _read_journal(journal, label, collection)
    todo = [pair for pair in pairs if pair not in known]
    fresh = _located(_jobs(collection, todo), estimator, tokenizer, workers=workers)
    for record in track(_journalled(fresh, journal, label, collection), "profiling", total=len(todo)):
        known[_pair(record)] = record
    return PositionProfile(collection.name, tokenizer.name, tuple(known[pair] for pair in pairs))


def _pair(record: PairRecord) -> Pair:
    return Pair(record.query_id, record.document_id)


def _texts_mark(collection: Collection, pair: Pair) -> str:
    """Changes with what the estimator reads."""
    return fingerprint(collection.queries.get(pair.query_id), collection.documents.get(pair.document_id))


class _Job(NamedTuple):
    pair: Pair
    query: Query | None
    document: Document | None


def _jobs(collection: Collection, pairs: Sequence[Pair]) -> Iterator[_Job]:
    for pair in pairs:
        yield _Job(pair, collection.queries.get(pair.query_id), collection.documents.get(pair.document_id))


def _located(
    jobs: Iterator[_Job], estimator: PositionEstimator, tokenizer: Tokenizer, *, workers: int
) -> Iterator[PairRecord]:
    if workers <= 1:
        for job in jobs:
            yield locate_pair(job, estimator, tokenizer)
        return
    # spawned, not forked: tokenizers and numpy may hold threads
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker, (estimator, tokenizer)) as pool:
        waiting: deque[Future[list[PairRecord]]] = deque()
        while batch := list(islice(jobs, _BATCH)):
            waiting.append(pool.submit(_work, batch))
            if len(waiting) > _BATCHES_AHEAD * workers:  # not all documents at once: they are sent as text
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def locate_pair(job: _Job, estimator: PositionEstimator, tokenizer: Tokenizer) -> PairRecord:
    """The record of one pair; what is wrong with it becomes its reason."""
    pair, query, document = job
    if document is None or query is None:
        missing = "document" if document is None else "query"
        return PairRecord(*pair, 0, (), "none", 0.0, reason=f"the {missing} is not in the collection")
    text = tokenizer.tokenize(document.text)
    if not len(text):
        return PairRecord(*pair, 0, (), "none", 0.0, reason="the document has no words")
    try:
        return pair_record(*pair, text, estimator.locate(query, document))
    except DataError as error:
        return PairRecord(*pair, len(text), (), "none", 0.0, reason=f"{type(error).__name__}: {error}")


_worker: list[tuple[PositionEstimator, Tokenizer]] = []


def _start_worker(estimator: PositionEstimator, tokenizer: Tokenizer) -> None:
    _worker[:] = [(estimator, tokenizer)]


def _work(jobs: list[_Job]) -> list[PairRecord]:
    return [locate_pair(job, *_worker[0]) for job in jobs]


def _read_journal(path: Path, label: str, collection: Collection) -> dict[Pair, PairRecord]:
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").split("\n")
    if len(lines) == 1:  # killed before its first line was whole
        path.unlink()
        return {}
    if lines[0] != _header(label):
        raise DataError(
            f"{path} was begun with another collection, tokenizer, estimator or passages; remove it or name another"
        )
    records: dict[Pair, PairRecord] = {}
    for line in lines[1:-1]:  # what follows the last line end was cut off while writing
        kept = json.loads(line)
        mark = kept.pop(_TEXTS, None)
        record = PairRecord.from_json(kept)
        if mark == _texts_mark(collection, _pair(record)):
            records[_pair(record)] = record
    _cut_to(path, "\n".join(lines[:-1]) + "\n")
    return records


def _cut_to(path: Path, text: str) -> None:
    with path.open("r+b") as stream:
        stream.truncate(len(text.encode()))


def _journalled(
    records: Iterator[PairRecord], path: Path | None, label: str, collection: Collection
) -> Iterator[PairRecord]:
    if path is None:
        yield from records
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with closing(path.open("a", encoding="utf-8")) as stream:
        if is_new:
            stream.write(_header(label) + "\n")
        for record in records:
            mark = _texts_mark(collection, _pair(record))
            stream.write(json.dumps({**record.to_json(), _TEXTS: mark}) + "\n")
            stream.flush()
            yield record


def _header(label: str) -> str:
    return json.dumps({"profile": label})


def save_profile(profile: PositionProfile, path: Path) -> None:
    """Write a profile as JSON lines: a header, then one record a line; the file appears whole."""
    header = json.dumps({"name": profile.name, "tokenizer": profile.tokenizer})
    lines = [header, *(json.dumps(record.to_json()) for record in profile.records)]
    write_atomic(path, "\n".join(lines) + "\n")


def load_profile(path: Path) -> PositionProfile:
    """The profile that ``save_profile`` wrote."""
    if not path.exists():
        raise DataError(f"no profile {path}; `longrank profile --out` writes one")
    try:
        lines = read_records(path)
        header = next(lines, None)
        if header is None:
            raise DataError("it is empty")
        name, tokenizer = header.text("name"), header.text("tokenizer")
        return PositionProfile(name, tokenizer, tuple(PairRecord.from_json(line.fields) for line in lines))
    except DataError as error:
        raise DataError(f"{path} is not a profile written by `longrank profile --out`: {error}") from None
