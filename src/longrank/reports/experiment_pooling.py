"""Query sets that the papers report as one: each query counts once, so the mean is no mean of means."""

import json
from collections.abc import Iterable, Mapping

from longrank.core.errors import DataError
from longrank.evaluation.pooling import pool
from longrank.experiments.records import CellResult

POOLED: Mapping[str, tuple[str, ...]] = {
    "trec-dl-2019-2021": ("trec-dl-2019", "trec-dl-2020", "trec-dl-2021"),
    "trec-dl-2019-2020-passage": ("trec-dl-2019-passage", "trec-dl-2020-passage"),
}


def with_pooled(cells: Iterable[CellResult]) -> list[CellResult]:
    """The cells, and behind them one for every system that was scored on all parts of a pooled query set.

    Parts whose measures differ, or that share a query, are left as they are.
    """
    known = list(cells)
    found: dict[str, dict[str, CellResult]] = {}
    for cell in known:
        rest = json.dumps({k: v for k, v in cell.labels.items() if k != "scored_on"}, sort_keys=True)
        found.setdefault(rest, {})[str(cell.labels.get("scored_on"))] = cell
    made = [
        one
        for parts in found.values()
        for name, of in POOLED.items()
        if (one := _joined(name, [parts[part] for part in of if part in parts], len(of))) is not None
    ]
    return [*known, *made]


def _joined(name: str, parts: list[CellResult], wanted: int) -> CellResult | None:
    if len(parts) < wanted:
        return None
    try:
        values = pool([part.values for part in parts])
    except DataError:
        return None
    facts = {**parts[0].facts, "collapsed": any(part.facts.get("collapsed", False) for part in parts)}
    return CellResult({**parts[0].labels, "scored_on": name}, values, facts)
