"""What an experiment leaves behind: one line a cell and query, so that means, gains and stars are views of it.

A *cell* is one place of a table: flat labels that say which ranker, backbone, seed, training and collection. The folder
of an experiment holds

- ``experiment.json``: title, paper, size, measures and the settings as they were run;
- ``records.jsonl``: ``{"cell": {...}, "query_id": "q1", "measures": {"RR": 0.5}}``, if asked for also
  ``"ranks": {"d1": 2}`` of the relevant documents;
- ``cells.jsonl``: ``{"cell": {...}, "facts": {...}}``: settings, versions, counts of what was dropped or cut, collapse;
- ``timings.jsonl``: ``{"cell": {...}, "seconds": {"train": 1.5}}``, apart because it is never the same twice.

A folder that is kept for long may hold its ``.jsonl`` files compressed, as ``.jsonl.gz``: they are read as well.

The first three are the same bytes whenever settings, inputs and versions are the same.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longrank.core.addresses import shown_values
from longrank.core.disk import write_atomic
from longrank.core.errors import DataError
from longrank.core.fingerprint import plain
from longrank.corpora.formats.records import Record, read_records, write_records
from longrank.evaluation.measures import PerQuery

Labels = Mapping[str, str | int | float | bool]

EXPERIMENT, RECORDS, CELLS, TIMINGS = "experiment.json", "records.jsonl", "cells.jsonl", "timings.jsonl"

# The labels every scored cell has; a sweep adds more, named by what it changes.
#   ranker        name in the zoo, or the label the file gives it, with "+first-stage" behind it where their scores are
#                 mixed; of baselines the retriever's name ("bm25"), "random" or "perfect"
#   backbone      name of the file's table; "" for baselines
#   seed          of weights and training; -1 where nothing is random
#   stage         name of the stage: "zero-shot", "tuned", ...
#   trained_on    collections trained on, in their order, joined by " > "; "" for none
#   scored_on     collection
#   retriever     whose candidates were scored
LABELS = ("ranker", "backbone", "seed", "stage", "trained_on", "scored_on", "retriever")
ENSEMBLE = "+first-stage"


@dataclass(frozen=True)
class CellResult:
    """Everything known about one cell; ``values`` is empty for a cell of facts alone."""

    labels: Labels
    values: PerQuery  # measure -> query -> value
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # query -> relevant document -> rank, from 1

    def matches(self, **wanted: str | int | float | bool) -> bool:
        """Whether every label given has this value.

        >>> CellResult({"ranker": "maxp", "seed": 0}, {}).matches(ranker="maxp", seed=0)
        True
        """
        return all(self.labels.get(name) == value for name, value in wanted.items())


@dataclass(frozen=True)
class ExperimentResult:
    """An experiment's cells in the order of its plan; ``about`` is what ``experiment.json`` holds."""

    about: Mapping[str, Any]
    cells: tuple[CellResult, ...]

    def where(self, **wanted: str | int | float | bool) -> tuple[CellResult, ...]:
        """The cells that have these labels."""
        return tuple(cell for cell in self.cells if cell.matches(**wanted))

    def distinct(self, label: str) -> tuple[str | int | float | bool, ...]:
        """Values of a label, each once, in the order of the cells that have it."""
        return tuple(dict.fromkeys(cell.labels[label] for cell in self.cells if label in cell.labels))


def write_result(folder: Path, result: ExperimentResult) -> None:
    """Write all files of an experiment; each appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(
        folder / EXPERIMENT, json.dumps(shown_values(plain(result.about)), indent=1, ensure_ascii=False) + "\n"
    )
    write_records(folder / RECORDS, (line for cell in result.cells for line in _lines(cell)))
    write_records(folder / CELLS, ({"cell": dict(c.labels), "facts": plain(c.facts)} for c in result.cells))
    timed = (cell for cell in result.cells if cell.seconds)
    write_records(folder / TIMINGS, ({"cell": dict(c.labels), "seconds": dict(c.seconds)} for c in timed))


def read_result(folder: Path) -> ExperimentResult:
    """The experiment in a folder, as it was written."""
    path = folder / EXPERIMENT
    if not path.is_file():
        raise DataError(f"{folder} holds no experiment: it has no {EXPERIMENT}. `longrank run FILE.toml` makes one")
    about = _about(path)
    facts = {_key(labels): (labels, record.table("facts")) for labels, record in _cells_of(folder / CELLS)}
    values: dict[str, dict[str, dict[str, float]]] = {}
    ranks: dict[str, dict[str, Mapping[str, int]]] = {}
    for labels, record in _cells_of(folder / RECORDS):
        row, query_id = values.setdefault(_key(labels), {}), record.text("query_id")
        if "ranks" in record.fields:
            ranks.setdefault(_key(labels), {})[query_id] = record.numbers("ranks")
        for name, value in record.numbers("measures").items():
            row.setdefault(name, {})[query_id] = value
    seconds: dict[str, Mapping[str, float]] = {}
    if _plain_or_compressed(folder / TIMINGS).is_file():
        seconds = {_key(labels): record.numbers("seconds") for labels, record in _cells_of(folder / TIMINGS)}
    return ExperimentResult(
        about,
        tuple(
            CellResult(labels, values.get(k, {}), known, seconds.get(k, {}), ranks.get(k, {}))
            for k, (labels, known) in facts.items()
        ),
    )


def by_system(
    cells: Iterable[CellResult], *, name: Sequence[str] = ("ranker", "backbone")
) -> dict[str, list[PerQuery]]:
    """One PerQuery a seed for each system, named by its labels: what ``evaluation.comparison.compare`` takes.

    >>> cells = [CellResult({"ranker": "maxp", "backbone": "tiny", "seed": s}, {"RR": {"q": s}}) for s in (0, 1)]
    >>> by_system(cells)
    {'maxp tiny': [{'RR': {'q': 0}}, {'RR': {'q': 1}}]}
    """
    systems: dict[str, list[PerQuery]] = {}
    for cell in cells:
        words = (str(cell.labels.get(label, "")) for label in name)
        systems.setdefault(" ".join(word for word in words if word), []).append(cell.values)
    return systems


def _lines(cell: CellResult) -> Iterator[dict[str, object]]:
    queries = dict.fromkeys(query_id for row in cell.values.values() for query_id in row)
    for query_id in queries:
        measures = {name: row[query_id] for name, row in cell.values.items() if query_id in row}
        ranks = {"ranks": dict(cell.ranks[query_id])} if query_id in cell.ranks else {}
        yield {"cell": dict(cell.labels), "query_id": query_id, "measures": measures, **ranks}


def _about(path: Path) -> Mapping[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(
            f"{path} is damaged ({error}): run the experiment again, what is finished will be found"
        ) from None
    if not isinstance(about, dict):
        raise DataError(f"{path} must hold a JSON object: run the experiment again, what is finished will be found")
    return about


def _cells_of(path: Path) -> Iterator[tuple[Labels, Record]]:
    path = _plain_or_compressed(path)
    if not path.is_file():
        raise DataError(f"{path} is missing: run the experiment again, what is finished will be found")
    for record in read_records(path):
        yield record.table("cell"), record


def _plain_or_compressed(path: Path) -> Path:
    compressed = path.with_name(f"{path.name}.gz")
    return compressed if compressed.is_file() and not path.is_file() else path


def _key(labels: Labels) -> str:
    return json.dumps(labels, sort_keys=True)
