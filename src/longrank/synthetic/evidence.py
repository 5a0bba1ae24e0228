"""Which passages are evidence, which are filler, and which queries belong to which split.

Queries that share a passage, or two passages of the same text, hang together: they are kept or left out, and split,
together. So no filler passage, and no document of another split, holds a query's evidence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from pydantic import Field

from longrank.core.errors import DataError, SettingsError
from longrank.core.seeds import generator
from longrank.core.settings import Settings
from longrank.core.types import Collection
from longrank.synthetic.assembling import Pool
from longrank.synthetic.passages import Passages


class Division(Settings):
    """How judged passages are shared out.

    ``evidence`` is the number of passages kept as evidence (a group of queries that share passages may pass it), needed
    where every passage is judged relevant to some query; None keeps all. ``dev`` and ``test`` are numbers of queries,
    the rest is for training. ``relevant`` passages go into one document.
    """

    seed: int = 0
    at_least: int = Field(default=1, ge=1)
    relevant: int = Field(default=1, ge=1)
    evidence: int | None = Field(default=None, ge=1)
    dev: int = Field(default=0, ge=0)
    test: int = Field(default=0, ge=0)


@dataclass(frozen=True, slots=True)
class Need:
    """A query and the relevant passages that go into one of its documents."""

    query_id: str
    passage_ids: tuple[str, ...]

    @property
    def document_id(self) -> str:
        """``<query>_<passage>``, with every passage if there are several."""
        return "_".join((self.query_id, *self.passage_ids))


@dataclass(frozen=True)
class Divided:
    """Needs in the order of the queries, ids by split, queries by passage, and what was left out and why."""

    needs: tuple[Need, ...]
    splits: Mapping[str, tuple[str, ...]]
    asking: Mapping[str, tuple[str, ...]]
    dropped: Mapping[str, int]
    reserved: frozenset[str]

    def pool(self, passages: Passages) -> Pool:
        """The filler: passages with text that are not reserved, nor the same text as one that is."""
        rows = [passages.rows[name] for name in self.reserved if name in passages.rows]
        free = passages.tokens > 0
        free[rows] = False
        taken = {text_key(passages.texts[row]) for row in rows}
        for row in np.flatnonzero(free).tolist():
            if text_key(passages.texts[row]) in taken:
                free[row] = False
        return Pool(passages, np.flatnonzero(free))


def divide(collection: Collection, division: Division, *, reserved: Iterable[str] = ()) -> Divided:
    """Evidence, splits and reserved passages; ``reserved`` names more that must not be filler, say of other splits."""
    relevant, missing = _relevant(collection, division.at_least)
    keys = {name: text_key(collection.documents[name].text) for row in relevant.values() for name in row}
    groups = _groups(keys, relevant)
    rng = generator("far-relevant/division", division.seed)
    order = [groups[i] for i in rng.permutation(len(groups)).tolist()]
    kept = _kept(order, relevant, division.evidence)
    chosen = {query_id for group in kept for query_id in group}
    needs = tuple(
        Need(query_id, tuple(row[at : at + division.relevant]))
        for query_id, row in relevant.items()
        if query_id in chosen
        for at in range(0, len(row) - division.relevant + 1, division.relevant)
    )
    asked = {need.query_id for need in needs}
    if not needs:
        raise DataError(
            f"collection {collection.name!r} has no query with {division.relevant} relevant passages; "
            "check that judgements, queries and passages belong together, or ask for fewer relevant passages"
        )
    judged = {p for q in chosen for p, grade in collection.qrels.grades[q].items() if grade > 0}
    dropped = {
        "queries without a relevant passage": missing,
        "queries given to the filler": len(relevant) - len(chosen),
        "queries with too few relevant passages": len(chosen) - len(asked),
    }
    splits = _splits([[q for q in group if q in asked] for group in kept], division)
    return Divided(needs, splits, _asking(keys, relevant, asked), dropped, frozenset(judged).union(reserved))


def plain_text(text: str) -> str:
    """The text in lower case with single spaces."""
    return " ".join(text.lower().split())


def text_key(text: str) -> bytes:
    """Eight bytes that are the same for texts that differ in case or space only."""
    return blake2b(plain_text(text).encode("utf-8", "replace"), digest_size=8).digest()


def _relevant(collection: Collection, at_least: int) -> tuple[dict[str, list[str]], int]:
    rows = {}
    for query_id in collection.queries:
        row = collection.qrels.grades.get(query_id, {})
        rows[query_id] = [name for name, grade in row.items() if grade >= at_least and name in collection.documents]
    return {query_id: row for query_id, row in rows.items() if row}, sum(not row for row in rows.values())


def _groups(keys: Mapping[str, bytes], relevant: Mapping[str, list[str]]) -> list[list[str]]:
    """Queries that hang together by a passage's text."""
    parent: dict[str | bytes, str | bytes] = {}

    def root(node: str | bytes) -> str | bytes:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    for query_id, row in relevant.items():
        for passage_id in row:
            parent[root(keys[passage_id])] = root(query_id)
    groups: dict[str | bytes, list[str]] = {}
    for query_id in relevant:
        groups.setdefault(root(query_id), []).append(query_id)
    return list(groups.values())


def _kept(groups: list[list[str]], relevant: Mapping[str, list[str]], evidence: int | None) -> list[list[str]]:
    if evidence is None:
        return groups
    held: set[str] = set()
    for count, group in enumerate(groups):
        if len(held) >= evidence:
            return groups[:count]
        held.update(passage_id for query_id in group for passage_id in relevant[query_id])
    return groups


def _asking(
    keys: Mapping[str, bytes], relevant: Mapping[str, list[str]], asked: set[str]
) -> dict[str, tuple[str, ...]]:
    """Queries that a passage answers, those of its doubles included."""
    by_text: dict[bytes, dict[str, None]] = {}
    for query_id, row in relevant.items():
        if query_id in asked:
            for passage_id in row:
                by_text.setdefault(keys[passage_id], {})[query_id] = None
    return {passage_id: tuple(by_text[key]) for passage_id, key in keys.items() if key in by_text}


def _splits(groups: list[list[str]], division: Division) -> dict[str, tuple[str, ...]]:
    wanted = {"test": division.test, "dev": division.dev}
    found: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for group in groups:
        place = next((name for name, count in wanted.items() if len(found[name]) + len(group) <= count), "train")
        found[place] += group
    for name, count in wanted.items():
        if len(found[name]) < count:
            raise SettingsError(
                f"{count} {name} queries were asked for, {len(found[name])} can be had without sharing passages "
                "between splits; ask for fewer"
            )
    return {name: tuple(sorted(ids)) for name, ids in found.items() if ids}
