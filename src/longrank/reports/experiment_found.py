"""Relevant documents by rank and by which first stages found them: PARADE's Figure 5 for one's own retrievers."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from longrank.core.seeds import generator
from longrank.evaluation.significance import bca_interval
from longrank.experiments.records import LABELS, CellResult, ExperimentResult
from longrank.reports.experiment_reading import Reading
from longrank.reports.found_plot import ALL, ALONE, SOME, FoundPanel, found_bars
from longrank.reports.page import Figure
from longrank.reports.tables import Cell, Table

Pair = tuple[str, str]  # query and relevant document
_TOPS = (10, 20, 100)


class Found(NamedTuple):
    """One order of one first stage's candidates: the ranks of relevant documents by who else found them."""

    collection: str
    name: str
    depth: int
    queries: tuple[str, ...]
    ranks: Mapping[str, Sequence[Mapping[Pair, int]]]  # who found it -> a table of ranks a seed

    def per_query(self, group: str, low: int, high: int) -> list[float]:
        """Relevant documents of a group from rank ``low`` to ``high``, mean over seeds, of each query."""
        seeds = self.ranks[group]
        counts = dict.fromkeys(self.queries, 0.0)
        for table in seeds:
            for (query_id, _), rank in table.items():
                counts[query_id] += (low <= rank <= high) / len(seeds)
        return list(counts.values())


def found_orders(result: ExperimentResult) -> list[Found]:
    """Each first stage, and each ranker over its candidates, of collections searched by several."""
    orders = []
    for collection in result.distinct("scored_on"):
        cells = [c for c in result.where(scored_on=collection) if c.ranks]
        first = {str(c.labels["retriever"]): c for c in cells if c.labels["stage"] == "baseline"}
        if len(first) > 1:
            pairs = {name: _pairs(cell) for name, cell in first.items()}
            for name, cell in first.items():
                orders.append(_order(name, [cell], _groups(name, pairs)))
                orders += _rerankings(name, cells, _groups(name, pairs))
    return orders


def found_table(reading: Reading) -> Table | None:
    """A row for each order and each group of relevant documents: how many a query, how high they stand."""
    orders = found_orders(reading.result)
    tops = [top for top in _TOPS if top < max((o.depth for o in orders), default=0)]
    rows = [
        (
            Cell(order.name),
            Cell(group),
            Cell(str(len(order.ranks[group][0]))),
            *(_mean_cell(order, group, top) for top in (*tops, order.depth)),
            Cell(_median_rank(order, group)),
        )
        for order in orders
        for group in order.ranks
    ]
    headings = ("order", "found by", "documents", *(f"in the first {top}" for top in tops), "in all", "median rank")
    notes = (
        "Relevant documents among the candidates by which first stages found them; how many of them a query stand so "
        "high, with 95% intervals over queries, mean over seeds.",
    )
    return Table(headings, tuple(rows), notes) if rows else None


def found_figures(reading: Reading) -> Iterator[Figure]:
    """A figure a collection: a panel an order, a bar a bin of ranks, divided by who found the documents."""
    orders = found_orders(reading.result)
    for collection in dict.fromkeys(order.collection for order in orders):
        mine = [order for order in orders if order.collection == collection]
        bins = rank_bins(max(order.depth for order in mine))
        panels = [FoundPanel(o.name, {g: [_mean(o.per_query(g, *b)) for b in bins] for g in o.ranks}) for o in mine]
        alt = "; ".join(
            f"{panel.name}: " + ", ".join(f"{group} {sum(bars):.2f} a query" for group, bars in panel.bars.items())
            for panel in panels
        )
        caption = (
            f"Relevant documents of {collection} a query by rank, divided by which first stages found them; "
            "the bars of one first stage and of the rankers over it hold the same documents."
            + (" From rank 100 on a bin has 100 ranks, not 10, hence the step." if bins[-1][1] > 100 else "")
        )
        yield Figure(found_bars(panels, bins), caption, f"Stacked bars. {alt}.")


def rank_bins(depth: int) -> list[tuple[int, int]]:
    """First and last rank of each bin: ten of equal width to rank 100 as in the paper, then hundreds.

    >>> rank_bins(300)[8:]
    [(81, 90), (91, 100), (101, 200), (201, 300)]
    >>> rank_bins(20)[:2]
    [(1, 2), (3, 4)]
    """
    width = max(1, min(depth, 100) // 10)
    starts = [*range(1, min(depth, 100) + 1, width), *range(101, depth + 1, 100)]
    return [(start, stop - 1) for start, stop in zip(starts, [*starts[1:], depth + 1], strict=True)]


def _pairs(cell: CellResult) -> frozenset[Pair]:
    return frozenset((query_id, document) for query_id, row in cell.ranks.items() for document in row)


def _groups(name: str, pairs: Mapping[str, frozenset[Pair]]) -> dict[str, frozenset[Pair]]:
    """The relevant documents of one first stage by who found them."""
    others = [found for other, found in pairs.items() if other != name]
    by_all, by_any = frozenset.intersection(*others) & pairs[name], frozenset.union(*others) & pairs[name]
    groups = {ALL: by_all, SOME: by_any - by_all, ALONE: pairs[name] - by_any}
    return {group: found for group, found in groups.items() if found}


def _order(name: str, seeds: Sequence[CellResult], groups: Mapping[str, frozenset[Pair]]) -> Found:
    tables = [{(q, d): rank for q, row in cell.ranks.items() for d, rank in row.items()} for cell in seeds]
    ranks = {group: [{p: r for p, r in t.items() if p in found} for t in tables] for group, found in groups.items()}
    queries = tuple(dict.fromkeys(q for cell in seeds for row in cell.values.values() for q in row))
    labels, depth = seeds[0].labels, int(seeds[0].facts["depth"])
    return Found(str(labels["scored_on"]), name, depth, queries, ranks)


def _rerankings(name: str, cells: Sequence[CellResult], groups: Mapping[str, frozenset[Pair]]) -> Iterator[Found]:
    seeds: dict[tuple[str, ...], list[CellResult]] = {}
    for cell in cells:
        if cell.labels["retriever"] == name and cell.labels["stage"] != "baseline":
            point = ", ".join(f"{label}={value}" for label, value in cell.labels.items() if label not in LABELS)
            parts = (str(cell.labels[label]) for label in ("ranker", "backbone", "stage"))
            seeds.setdefault((*parts, point), []).append(cell)
    differ = [len({key[place] for key in seeds}) > 1 for place in range(1, 4)]  # backbone, stage, point of a sweep
    for (ranker, *rest), found in seeds.items():
        told = ", ".join(part for part, needed in zip(rest, differ, strict=True) if needed)
        yield _order(f"{ranker}{f' ({told})' if told else ''} over {name}", found, groups)


def _mean_cell(order: Found, group: str, top: int) -> Cell:
    values = order.per_query(group, 1, top)
    if len(values) < 2:
        return Cell(f"{_mean(values):.2f}")
    rng = generator(f"found {order.collection} {order.name} {group} {top}", 0)
    low, high = bca_interval(np.array(values), rng=rng)
    return Cell(f"{_mean(values):.2f} [{low:.2f}, {high:.2f}]")


def _median_rank(order: Found, group: str) -> str:
    return f"{median(rank for table in order.ranks[group] for rank in table.values()):g}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
