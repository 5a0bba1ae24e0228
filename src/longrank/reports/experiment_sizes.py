"""Sizes of collections and models beside the tables in which the papers print them."""

from collections.abc import Callable, Mapping
from typing import Any

from longrank.evaluation.papers.tables import PaperTable, paper_table
from longrank.reports.experiment_reading import Reading
from longrank.reports.tables import Cell, Table

# a paper's column -> our statistic
_STATISTICS: Mapping[tuple[str, str], str] = {
    ("documents", "count"): "documents",
    ("documents", "mean BERT tokens"): "document_tokens",
    ("queries", "count"): "queries",
    ("queries", "mean BERT tokens"): "query_tokens",
    ("judgements", "mean relevant a query"): "relevant_per_query",
}
# a paper's row -> our collection, for documents and for queries
_COLLECTIONS: Mapping[str, str] = {
    "MS MARCO documents v1": "msmarco",
    "MS MARCO documents v2": "trec-dl-2021",
    "MS MARCO documents train": "msmarco",
    "MS MARCO documents dev": "msmarco-dev",
    "MS MARCO FarRelevant": "far-relevant",
    "MS MARCO passages v1": "trec-dl-2019-passage",
    "Natural Questions (BEIR)": "nq",
    "Needle (LongEmbed)": "longembed-needle",
    "Passkey (LongEmbed)": "longembed-passkey",
    "Robust04": "robust04-title",
    "Robust04 description": "robust04-description",
    "Robust04 title": "robust04-title",
    "TREC DL 2019": "trec-dl-2019",
    "TREC DL 2019, passages": "trec-dl-2019-passage",
    "TREC DL 2020": "trec-dl-2020",
    "TREC DL 2020, passages": "trec-dl-2020-passage",
    "TREC DL 2021": "trec-dl-2021",
}
_OF_BACKBONE: Mapping[str, tuple[str, ...]] = {
    "Longformer": ("longformer",),
    "BigBird": ("big-bird",),
    "JINA": ("jina",),
    "MOSAIC": ("mosaic",),
    "DEBERTA-based": ("deberta",),
    "TinyLLAMA-based": ("tinyllama",),
    "other BERT- and ELECTRA-based": ("bert", "electra"),
    "all others": ("bert", "electra"),
}
_MODELS = {"parameters", "fewest parameters", "most parameters"}


def sizes_beside(reading: Reading) -> dict[str, Table]:
    """A table for each paper's table of sizes that the experiment names, by name."""
    tables = {}
    for paper in reading.result.about.get("papers", ()):
        for number in paper.get("tables", ()):
            theirs = paper_table(f"{paper['key']}/{number}")
            measures = {column.measure for column in theirs.columns}
            ours = _models(theirs, reading) if measures <= _MODELS else _collections(theirs, reading)
            if ours:
                tables[f"{paper['key']}, Table {number}"] = _table(theirs, ours)
    return tables


def _collections(table: PaperTable, reading: Reading) -> dict[str, tuple[str, list[float | None]]]:
    known = {str(cell.labels["collection"]): cell.facts for cell in reading.result.where(what="statistics")}
    wanted = [_STATISTICS.get((column.collection, column.measure)) for column in table.columns]
    if not all(wanted):
        return {}
    return {
        row.system: (name, [float(known[name][key]) if key else None for key in wanted])
        for row in table.rows
        if (name := _COLLECTIONS.get(row.system, "")) in known
    }


def _models(table: PaperTable, reading: Reading) -> dict[str, tuple[str, list[float | None]]]:
    """Counts of the trained systems that a row is about; the fewest where the paper has one number for all."""
    counted = {
        (str(cell.labels["ranker"]), str(cell.labels["backbone"])): float(cell.facts["parameters"])
        for cell in reading.result.cells
        if cell.facts.get("parameters")
    }
    found: dict[str, tuple[str, list[float | None]]] = {}
    for row in table.rows:
        counts = {pair: count for pair, count in counted.items() if _is(row.system)(*pair)}
        if counts:
            picked: dict[str, Any] = {"most parameters": max}
            shown = [picked.get(column.measure, min)(counts.values()) for column in table.columns]
            found[row.system] = (", ".join(sorted({ranker for ranker, _ in counts})), shown)
    return found


def _is(system: str) -> Callable[[str, str], bool]:
    """Whether a ranker and backbone are what a row of the papers' counts is about."""
    if system.startswith("PARADE Transf"):
        name = system.casefold().replace(" ", "-").replace("transformer", "transf")
        return lambda ranker, _: ranker.startswith(name) and not ranker.startswith(f"{name}-q")
    wanted = _OF_BACKBONE.get(system, ())
    return lambda ranker, backbone: backbone in wanted and not ranker.startswith("parade-transf")


def _table(table: PaperTable, ours: Mapping[str, tuple[str, list[float | None]]]) -> Table:
    rows = tuple(
        (Cell(row.system), Cell(ours[row.system][0]), *map(_cell, ours[row.system][1], row.values))
        for row in table.rows
        if row.system in ours
    )
    notes = (f"{table.title}: {table.citation.rstrip('.')}, Table {table.number}; theirs as printed.",)
    return Table(("system", "ours is", *map(str, table.columns)), rows, notes)


def _cell(ours: float | None, theirs: float | None) -> Cell:
    return Cell("" if ours is None else _count(ours), gain="" if theirs is None else f"theirs {_count(theirs)}")


def _count(value: float) -> str:
    """A count with its thousands, a mean with one digit.

    >>> _count(3_200_000.0), _count(7.4)
    ('3,200,000', '7.4')
    """
    return f"{value:,.0f}" if value >= 200 or value == int(value) else f"{value:.1f}"
