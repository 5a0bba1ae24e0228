"""Your results beside a paper's."""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from longrank.core.errors import BadScore, DuplicateId, UnknownName
from longrank.evaluation.papers.tables import Column, PaperTable


@dataclass(frozen=True)
class Beside:
    """One of the paper's numbers and yours; ``ours_as`` is the name under which you gave it."""

    system: str
    column: Column
    theirs: float | None
    ours: float | None
    ours_as: str | None = None

    @property
    def difference(self) -> float | None:
        """Ours minus theirs, None if either is missing."""
        return None if self.theirs is None or self.ours is None else self.ours - self.theirs


def beside(table: PaperTable, ours: Mapping[tuple[str, tuple[str, str]], float]) -> tuple[Beside, ...]:
    """Every cell of a table in its order, with your value where you gave one under (system, (collection, measure)).

    A system is found by its printed name or by a spelling that differs only in case, spaces and punctuation, and
    BERT may be left out: ``parade-attn`` is "PARADE Attn", ``firstp`` is "FirstP (BERT)".

    >>> from longrank.evaluation.papers.tables import paper_table
    >>> rows = beside(paper_table("positional-bias/1"), {("parade-attn", ("msmarco-dev", "RR")): 0.411})
    >>> [(row.system, row.theirs, row.ours) for row in rows if row.ours is not None]
    [('PARADE Attn', 0.416, 0.411)]
    """
    placed = _place(table, ours)
    return tuple(
        Beside(row.system, column, theirs, *placed.get((row.system, column), (None, None)))
        for row in table.rows
        for column, theirs in zip(table.columns, row.values, strict=True)
    )


def _place(
    table: PaperTable, ours: Mapping[tuple[str, tuple[str, str]], float]
) -> dict[tuple[str, Column], tuple[float, str]]:
    placed: dict[tuple[str, Column], tuple[float, str]] = {}
    for (name, column), value in ours.items():
        system = _system(table, name)
        table.cell(system, column)
        key = (system, Column(*column))
        if not math.isfinite(value):
            raise BadScore(f"your value of {name!r} for {key[1]} is {value}; leave it out if there is none")
        if key in placed:
            raise DuplicateId(f"{placed[key][1]!r} and {name!r} both stand for {system!r} on {key[1]}; keep one")
        placed[key] = (value, name)
    return placed


def _system(table: PaperTable, name: str) -> str:
    exact = {row.system for row in table.rows}
    if name in exact:
        return name
    folded = {_fold(row.system): row.system for row in table.rows}
    without_bert = {key.removesuffix("bert"): system for key, system in folded.items() if system.endswith("(BERT)")}
    known = without_bert | folded
    if _fold(name) in known:
        return known[_fold(name)]
    near = difflib.get_close_matches(_fold(name), known, n=1, cutoff=0.4)
    hint = f" Did you mean {known[near[0]]!r}?" if near else ""
    raise UnknownName(f"no system {name!r} in {table.name}.{hint}")


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.casefold())
