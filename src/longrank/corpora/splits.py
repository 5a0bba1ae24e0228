"""Which queries are for training, validation and test: ``splits.json`` beside a collection, or BEIR's own splits."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from longrank.core.disk import write_atomic
from longrank.core.errors import DataError
from longrank.core.types import Collection
from longrank.corpora.catalog.folder import detect
from longrank.corpora.formats import beir

FILE = "splits.json"


def write_splits(folder: Path, splits: Mapping[str, tuple[str, ...]]) -> None:
    """Write the splits of a collection's folder; a query in two of them is refused."""
    seen: dict[str, str] = {}
    for name, query_ids in splits.items():
        for query_id in query_ids:
            if query_id in seen:
                raise DataError(f"query {query_id!r} is in two splits, {seen[query_id]!r} and {name!r}")
            seen[query_id] = name
    write_atomic(folder / FILE, json.dumps({name: list(ids) for name, ids in splits.items()}, indent=1))


def read_split(folder: Path, name: str) -> tuple[str, ...]:
    """Query ids of one split of a collection's folder; of a BEIR folder without the file, those the split judges."""
    path, judged = folder / FILE, beir.split_files(folder)
    if not path.is_file() and name in judged:
        return tuple(beir.read_qrels(judged[name]))
    if not path.is_file():
        raise DataError(f"{folder} has no {FILE}: a JSON object of lists of query ids, such as train and test")
    splits = read_splits(path)
    if name not in splits:
        raise DataError(f"{path} has no split {name!r}; it has {', '.join(splits) or 'none'}")
    return splits[name]


def read_splits(path: Path) -> dict[str, tuple[str, ...]]:
    """Query ids by split, as a file holds them."""
    try:
        table: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(table, dict) or not all(map(_is_ids, table.values())):
        raise DataError(f"{path} must be a JSON object of lists of query ids, such as train and test")
    return {name: tuple(ids) for name, ids in table.items()}


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def only_split(collection: Collection, folder: Path, name: str | None) -> Collection:
    """The collection of a folder with the queries of one split; with all it was loaded with where none is named.

    A BEIR folder's splits are ``load_folder``'s to choose, so nothing is left out here.
    """
    if name is None or (detect(folder)[0].name == "beir" and beir.split_files(folder)):
        return collection
    wanted = frozenset(read_split(folder, name))
    return replace(collection, queries={q: query for q, query in collection.queries.items() if q in wanted})
