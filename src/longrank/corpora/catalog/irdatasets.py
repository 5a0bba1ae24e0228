"""Every collection that ir_datasets knows, by its id ('msmarco-document/dev', 'beir/nq', ...)."""

import difflib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from longrank.core.errors import DataError, DuplicateId, MissingExtra, UnknownName
from longrank.core.types import Collection, Document, Qrels, Query


def load_irdataset(dataset_id: str, *, include_title: bool = True) -> Collection:
    """The collection of an ir_datasets id: queries and judgements in memory, documents read when asked for.

    Texts are what ir_datasets calls the default text of a record, title included; without titles it is the field
    'text' or 'body' of records that have a title. Absent queries or judgements are empty.
    """
    dataset = _load(dataset_id)
    if not dataset.has_docs():
        raise DataError(f"ir_datasets {dataset_id!r} has no documents; name one of its parts, e.g. {dataset_id}/dev")
    with _explained(dataset_id):
        queries = _queries(dataset, dataset_id) if dataset.has_queries() else {}
        qrels = _qrels(dataset, dataset_id) if dataset.has_qrels() else {}
    return Collection(dataset_id, LookedUp(dataset_id, include_title=include_title), queries, Qrels(qrels))


class LookedUp(Mapping[str, Document]):
    """Documents of an ir_datasets id, looked up one by one; a pickled one is its id, loaded again on arrival."""

    def __init__(self, dataset_id: str, *, include_title: bool) -> None:
        self._dataset_id, self._include_title = dataset_id, include_title
        self._dataset = _load(dataset_id)
        self._store: Any = None

    def __getitem__(self, document_id: str) -> Document:
        with _explained(self._dataset_id):
            if self._store is None:
                self._store = self._dataset.docs_store()
            found = self._store.get_many([document_id])
        if document_id not in found:
            raise KeyError(document_id)
        return _document(found[document_id], include_title=self._include_title)

    def __iter__(self) -> Iterator[str]:
        with _explained(self._dataset_id):
            for record in self._dataset.docs_iter():
                yield record.doc_id

    def __len__(self) -> int:
        with _explained(self._dataset_id):
            count = self._dataset.docs_count()
            return sum(1 for _ in self._dataset.docs_iter()) if count is None else int(count)

    def __reduce__(self) -> tuple[Any, ...]:
        return _look_up, (self._dataset_id, self._include_title)


def _look_up(dataset_id: str, include_title: bool) -> LookedUp:
    return LookedUp(dataset_id, include_title=include_title)


def _load(dataset_id: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise MissingExtra("ir-datasets", "data", purpose=f"the collection {dataset_id!r}") from None
    try:
        return ir_datasets.load(dataset_id)
    except KeyError:
        near = difflib.get_close_matches(dataset_id, list(ir_datasets.registry), n=3)
        hint = f" Did you mean {', '.join(map(repr, near))}?" if near else ""
        raise UnknownName(f"ir_datasets has no {dataset_id!r}.{hint} All are listed at ir-datasets.com") from None


def _queries(dataset: Any, dataset_id: str) -> dict[str, Query]:
    queries: dict[str, Query] = {}
    for record in dataset.queries_iter():
        if record.query_id in queries:
            raise DuplicateId(f"ir_datasets {dataset_id!r}: query {record.query_id!r} occurs twice")
        queries[record.query_id] = Query(record.query_id, record.default_text())
    return queries


def _qrels(dataset: Any, dataset_id: str) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for record in dataset.qrels_iter():
        row = grades.setdefault(record.query_id, {})
        # some TREC files repeat a judgement; only a contradiction is refused
        if row.setdefault(record.doc_id, int(record.relevance)) != int(record.relevance):
            pair = f"document {record.doc_id!r} for query {record.query_id!r}"
            raise DuplicateId(f"ir_datasets {dataset_id!r}: {pair} is judged twice, with different grades")
    return grades


def _document(record: Any, *, include_title: bool) -> Document:
    title = getattr(record, "title", "")
    title = title if isinstance(title, str) else ""
    body = getattr(record, "body", getattr(record, "text", None))
    if title and isinstance(body, str) and not include_title:
        return Document(record.doc_id, body, title)
    return Document(record.doc_id, record.default_text(), title)


@contextmanager
def _explained(dataset_id: str) -> Iterator[None]:
    """Failures to get a file become one sentence with ir_datasets' own instruction, which it only logs."""
    said: list[str] = []

    def listen(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if not text.startswith("["):  # '[starting] ...' and the like are progress, not instruction
            said.append(" ".join(text.split()))
        return True

    logger = logging.getLogger("ir_datasets")
    logger.addFilter(listen)
    try:
        yield
    except (OSError, RuntimeError) as error:
        advice = " ".join(said) or "Is the network reachable, and the disk writable?"
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"ir_datasets cannot provide {dataset_id!r} ({reason}). {advice}") from error
    finally:
        logger.removeFilter(listen)
