"""Cross-validation over given folds, with a check that no query leaks, and pooled results."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longrank.core.errors import DataError, TrainingError
from longrank.core.types import Query, Run, RunNotes


class Fold(NamedTuple):
    """One round: the queries of one fold are tested, those of all others trained on."""

    name: str
    train: tuple[str, ...]
    test: tuple[str, ...]


def read_folds(path: Path) -> dict[str, tuple[str, ...]]:
    """Query ids of each fold, from a JSON object of lists or a list of lists (named 1, 2, ...).

    Capreolus' files, in which PARADE's and CEDR's five folds of Robust04 are published, are read too: a fold is what
    ``predict.test`` names.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"no folds file {path}") from None
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    if isinstance(table, list):
        table = {str(number): ids for number, ids in enumerate(table, start=1)}
    if isinstance(table, dict):
        table = {name: _tested(ids) for name, ids in table.items()}
    if not isinstance(table, dict) or not all(isinstance(ids, list) for ids in table.values()):
        raise DataError(f"{path} must be a JSON object (or list) of lists of query ids")
    return {str(name): tuple(str(query_id) for query_id in ids) for name, ids in table.items()}


def _tested(fold: Any) -> Any:
    """The ids that a fold of Capreolus tests; any other fold as it is."""
    test = fold.get("predict", {}).get("test") if isinstance(fold, dict) else None
    return fold if test is None else list(test)


def cross_validation(folds: Mapping[str, Sequence[str]], queries: Mapping[str, Query]) -> Iterator[Fold]:
    """The rounds of a cross-validation, in the order of the folds.

    A query id or a query text (case and spaces aside) that stands in two folds is refused: it would be tested by a
    ranker that was trained on it.
    """
    _check(folds, queries)
    for name, test in folds.items():
        train = tuple(q for other, ids in folds.items() if other != name for q in ids)
        yield Fold(name, train, tuple(test))


def unleaked(query_ids: Iterable[str], queries: Mapping[str, Query], held_out: Iterable[Query]) -> tuple[str, ...]:
    """The queries whose text (case and spaces aside) is none of those that are tested or validated on."""
    kept_apart = {_text(query) for query in held_out}
    return tuple(q for q in query_ids if q not in queries or _text(queries[q]) not in kept_apart)


def pool_runs(runs: Sequence[Run], *, name: str) -> Run:
    """The runs of all folds as one; a query that two of them answer is refused."""
    scores: dict[str, Mapping[str, float]] = {}
    notes = RunNotes()
    for run in runs:
        twice = next((query_id for query_id in run if query_id in scores), None)
        if twice is not None:
            raise TrainingError(f"query {twice!r} is answered in two folds: pooled results need folds that share none")
        scores |= run.scores
        notes += run.notes
    return Run(name, scores, notes)


def _check(folds: Mapping[str, Sequence[str]], queries: Mapping[str, Query]) -> None:
    if len(folds) < 2:
        raise TrainingError(f"cross-validation needs at least two folds, got {len(folds)}")
    place: dict[str, str] = {}
    texts: dict[str, tuple[str, str]] = {}
    for name, ids in folds.items():
        if not ids:
            raise TrainingError(f"fold {name!r} is empty")
        for query_id in ids:
            if query_id not in queries:
                raise TrainingError(f"fold {name!r} names query {query_id!r}, which the collection does not have")
            if query_id in place:
                raise TrainingError(f"query {query_id!r} leaks: it is in fold {place[query_id]!r} and in {name!r}")
            place[query_id] = name
            other, fold = texts.setdefault(_text(queries[query_id]), (query_id, name))
            if fold != name:
                raise TrainingError(
                    f"query {query_id!r} of fold {name!r} leaks: {other!r} of fold {fold!r} has the same text; "
                    "put both into one fold"
                )


def _text(query: Query) -> str:
    return " ".join(query.text.lower().split())
