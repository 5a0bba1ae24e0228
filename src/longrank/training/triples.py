"""Training data as other tools exchange it: sentence-transformers' JSON lines and CEDR's tab-separated files."""

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from longrank.core.errors import BadLine, DataError, DuplicateId, TrainingError
from longrank.core.seeds import generator
from longrank.core.types import Collection, Document, Query, Run
from longrank.corpora.formats.files import BOM, numbered_lines, writing
from longrank.corpora.formats.records import Record, read_records, write_records
from longrank.corpora.formats.trec import read_qrels, write_qrels
from longrank.training.examples import TrainExample

# -- sentence-transformers: {"anchor": ..., "positive": ..., "negative": ...} ------------------------------------------


def write_triples(path: Path, examples: Iterable[TrainExample]) -> None:
    """One line an example; of several negatives the fields are ``negative_1``, ``negative_2`` and so on."""

    def record(example: TrainExample) -> dict[str, object]:
        texts = [document.text for document in example.negatives]
        names = ["negative"] if len(texts) == 1 else [f"negative_{n}" for n in range(1, len(texts) + 1)]
        return {
            "anchor": example.query.text,
            "positive": example.positive.text,
            **dict(zip(names, texts, strict=True)),
        }

    write_records(path, (record(example) for example in examples))


def read_triples(path: Path) -> Iterator[TrainExample]:
    """The examples of a file, in its order; ids are line numbers."""
    return (_example(record) for record in read_records(path))


class TripleSampler:
    """The examples of a file of JSON lines in a new order every epoch; only the places of lines are held."""

    def __init__(self, path: Path, *, seed: int = 0) -> None:
        if path.suffix in {".gz", ".bz2"}:
            raise DataError(f"{path} is compressed, so lines cannot be read in any order: unpack it first")
        self.path, self.seed = path, seed
        if not path.is_file():
            raise DataError(f"no file {path}")
        self._starts, at = array("q"), 0
        with path.open("rb") as stream:
            for line in stream:
                if line.strip():
                    self._starts.append(at)
                at += len(line)
        if not self._starts:
            raise TrainingError(f"{path} holds no example")

    def __len__(self) -> int:
        return len(self._starts)

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Every line once."""
        rng = generator(f"train-triples-epoch-{number}", self.seed)
        with self.path.open("rb") as stream:
            for place in rng.permutation(len(self._starts)):
                stream.seek(self._starts[place])
                yield _example(_record(stream.readline(), self.path, int(place) + 1))


def _record(line: bytes, path: Path, number: int) -> Record:
    """One line of JSON as a record."""
    try:
        fields = json.loads(line.removeprefix(BOM.encode()))
    except ValueError as error:
        raise BadLine(path, number, f"not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise BadLine(path, number, "a JSON object is needed")
    return Record(path, number, fields)


def _example(record: Record) -> TrainExample:
    names = (
        ["negative"]
        if "negative" in record.fields
        else sorted(
            (name for name in record.fields if name.startswith("negative_")), key=lambda name: (len(name), name)
        )
    )
    if not names:
        raise record.bad("no negative: a field 'negative', or 'negative_1', 'negative_2', ... is needed")
    query = Query(f"line-{record.number}", record.text("anchor"))
    negatives = tuple(Document(name, record.text(name)) for name in names)
    return TrainExample(query, Document("positive", record.text("positive")), negatives)


# -- CEDR: data_query.tsv, data_docs.tsv, train_pairs.tsv, qrels.txt ---------------------------------------------------


class CedrData(NamedTuple):
    """A collection and the pairs to train on, scored where the file has scores, else by falling place."""

    collection: Collection
    candidates: Run


def write_cedr(folder: Path, collection: Collection, candidates: Run, *, depth: int = 100) -> None:
    """Write the queries of a run with their relevant documents and top candidates; white space becomes one blank."""
    pairs = {
        q: list(dict.fromkeys([*sorted(collection.qrels.relevant(q)), *candidates.ranking(q)[:depth]]))
        for q in candidates
    }
    pairs = {q: [d for d in ids if d in collection.documents] for q, ids in pairs.items()}
    wanted = dict.fromkeys(d for ids in pairs.values() for d in ids)
    _write_texts(folder / "data_query.tsv", "query", (collection.queries[q] for q in pairs))
    _write_texts(folder / "data_docs.tsv", "doc", (collection.documents[d] for d in wanted))
    with writing(folder / "train_pairs.tsv") as stream:
        stream.writelines(f"{q}\t{d}\n" for q, ids in pairs.items() for d in ids)
    write_qrels(folder / "qrels.txt", collection.qrels)


def read_cedr(folder: Path) -> CedrData:
    """The collection and pairs in a folder of CEDR files."""
    queries, documents = {}, {}
    for name in ("data_query.tsv", "data_docs.tsv"):
        for kind, text_id, text in _read_texts(folder / name):
            if kind == "query":
                queries[text_id] = Query(text_id, text)
            else:
                documents[text_id] = Document(text_id, text)
    scores: dict[str, dict[str, float]] = {}
    path = folder / "train_pairs.tsv"
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        query_id, *rest = line.split("\t")
        if not rest:
            raise BadLine(path, number, "a query id, a tab and a document id are needed")
        document_id, *rest = rest
        row = scores.setdefault(query_id, {})
        if document_id in row:
            raise DuplicateId(f"{path}, line {number}: the pair {query_id!r}, {document_id!r} occurs a second time")
        row[document_id] = _score(rest, path, number, default=-float(len(row)))
    collection = Collection(folder.name, documents, queries, read_qrels(folder / "qrels.txt"))
    return CedrData(collection, Run(path.stem, scores))


def _score(columns: Sequence[str], path: Path, number: int, *, default: float) -> float:
    try:
        return float(columns[0]) if columns else default
    except ValueError:
        raise BadLine(path, number, f"the third column must be a score, got {columns[0]!r}") from None


def _write_texts(path: Path, kind: str, items: Iterable[Query | Document]) -> None:
    with writing(path) as stream:
        stream.writelines(f"{kind}\t{item.id}\t{' '.join(item.text.split())}\n" for item in items)


def _read_texts(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in numbered_lines(path):
        columns = line.split("\t", 2)
        if len(columns) != 3 or columns[0] not in {"query", "doc"}:
            raise BadLine(path, number, "three columns are needed: 'query' or 'doc', id, text")
        yield columns[0], columns[1], columns[2]
