"""The numbers that papers printed for the systems and columns of an experiment, where a table of theirs corresponds."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from longrank.evaluation.papers.tables import Column as PaperColumn
from longrank.evaluation.papers.tables import PaperTable, paper_table
from longrank.evaluation.papers.tables import Row as PaperRow
from longrank.experiments.records import ENSEMBLE
from longrank.reports.experiment_reading import Reading
from longrank.reports.experiment_rows import Column, Row
from longrank.reports.tables import Cell, Table

# a small collection of ours -> the collection of the papers whose part it plays
STANDS_FOR: Mapping[str, str] = {
    "toy": "msmarco-dev",
    "nq-early": "msmarco-dev",
    "toy-far": "far-relevant",
    "nq-far": "far-relevant",
}
_RANKERS: Mapping[str, tuple[str, ...]] = {
    "parade-transformer": ("PARADE Transf-RAND-L2", "PARADE-Transformer"),
    "maxp": ("ELECTRA-MaxP",),
    "k-max": ("Birch",),
    "rm3": ("BM25+RM3",),
    "rm3-description": ("BM25+RM3",),
    "bm25-description": ("BM25",),
}
_SIZES: Mapping[str, str] = {  # PARADE's Table 9 names its one ranker's backbones
    "bert-large": "BERT-Large, 24 layers of 1024",
    "bert-base": "BERT-Base, 12 layers of 768",
    "bert-l10-h768": "BERT, 10 layers of 768",
    "bert-l8-h768": "BERT, 8 layers of 768",
    "bert-medium": "BERT-Medium, 8 layers of 512",
    "bert-small": "BERT-Small, 4 layers of 512",
    "bert-mini": "BERT-Mini, 4 layers of 256",
    "bert-l2-h512": "BERT, 2 layers of 512",
    "bert-tiny": "BERT-Tiny, 2 layers of 128",
}
_BACKBONES = re.compile(r"\((BERT|ELECTRA|DEBERTA|Longformer|Big-Bird|JINA|MOSAIC|TinyLLAMA|E5-4K)\)")
_REFERENCES: Mapping[str, tuple[str, ...]] = {
    "retriever": ("Retriever",),
    "random": ("Random shuffling of top-100",),
}


class Printed(NamedTuple):
    """A row and column of ours, and what a paper has in the same place."""

    table: PaperTable
    row: Row
    column: Column
    system: str
    paper_column: PaperColumn
    theirs: float
    their_gain: float | None  # over what plays the part of our baseline and has the same backbone, in percent


def papers_beside(reading: Reading) -> dict[str, Table]:
    """A table for each paper's table that the experiment names and that has at least one of its systems, by name."""
    tables = {}
    for paper in reading.result.about.get("papers", ()):
        for number in paper.get("tables", ()):
            found = list(printed(paper_table(f"{paper['key']}/{number}"), reading))
            if found:
                tables[f"{paper['key']}, Table {number}"] = _table(found, reading)
    return tables


def printed(table: PaperTable, reading: Reading) -> Iterator[Printed]:
    """Every number of a paper's table that has a counterpart among the experiment's."""
    for column in reading.columns:
        theirs = _column(table, column)
        if theirs is None:
            continue
        for row in reading.rows:
            system = _system(table, row, column.stage, chunk_length(reading))
            value = None if system is None else _value(table, system, theirs)
            if system is not None and value is not None and (row, column) in reading.places:
                gain = _gain(table, reading, row, column, theirs)
                yield Printed(table, row, column, system.system, theirs, value, gain)


def _gain(table: PaperTable, reading: Reading, row: Row, column: Column, theirs: PaperColumn) -> float | None:
    """The paper's gain over what plays the part of our baseline, or of de-biased training over the other one."""
    length = chunk_length(reading)
    mine = _system(table, row, column.stage, length)
    base, stage = (row, "") if _debiased(column.stage) else (reading.own.get(row), column.stage)
    other = None if base is None else _system(table, base, stage, length)
    if mine is None or other is None or mine == other or _backbone(mine) != _backbone(other):
        return None
    value, reference = _value(table, mine, theirs), _value(table, other, theirs)
    return None if value is None or not reference else 100 * (value / reference - 1)


def _table(found: list[Printed], reading: Reading) -> Table:
    paper = found[0].table
    rows = tuple(
        (
            Cell(one.row.name),
            Cell(reading.heading(one.column)),
            Cell(f"{reading.places[one.row, one.column].mean:.3f}"),
            Cell(_percent(_our_gain(reading, one))),
            Cell(one.system),
            Cell(str(one.paper_column)),
            Cell(f"{one.theirs:.3f}"),
            Cell(_percent(one.their_gain)),
        )
        for one in found
    )
    other_data = [one for one in found if one.column.scored_on in STANDS_FOR]
    notes = [f"{paper.title}: {paper.citation.rstrip('.')}, Table {paper.number}; theirs as printed."]
    if "a" in reading.baselines:
        notes.append(
            f"Both columns of gains are over {reading.baselines['a']}, whatever the paper's own were over; none is "
            f"given over a row of another backbone."
        )
    if any(_debiased(one.column.stage) for one in found):
        notes.append("Gains of de-biased training are over the same ranker's first training.")
    if other_data:
        notes.append("Other data and another encoder: compare the signs of the gains, not the numbers.")
    headings = ("system", "column", "ours", "our gain", "theirs is", "their column", "theirs", "their gain")
    return Table(headings, rows, tuple(notes))


def _our_gain(reading: Reading, one: Printed) -> float | None:
    if _debiased(one.column.stage):
        estimates = (c.estimate for c in reading.changes if (c.row, c.after) == (one.row, one.column))
        estimate = next(estimates, None)
    else:
        estimate = reading.against.get((one.row, one.column), {}).get("a")
    return None if estimate is None else estimate.relative


def _debiased(stage: str) -> bool:
    return "debias" in _fold(stage)


def _backbone(system: PaperRow) -> str:
    found = _BACKBONES.search(system.system)
    return found[1] if found else "BERT"


def _percent(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.1f}%"


def _column(table: PaperTable, column: Column) -> PaperColumn | None:
    """The paper's column of the same collection and training; a tuned ranker elsewhere is a reverse transfer."""
    stage = _trained_as(column.stage)
    part = STANDS_FOR.get(column.scored_on, column.scored_on)
    names = [f"{part}/{stage}", *([part] if stage != "fine-tuned" else [])]
    return next((c for n in names if (c := PaperColumn(n, column.measure)) in table.columns), None)


def _trained_as(stage: str) -> str:
    """The papers' word for a training: whatever it began with, it ended with fine-tuning or it did not.

    >>> [_trained_as(stage) for stage in ("tuned", "debiased-tuned", "debiased", "original", "msmarco")]
    ['fine-tuned', 'fine-tuned', 'zero-shot', 'zero-shot', 'msmarco']
    """
    if re.search(r"(^|-)(fine)?tuned$", stage):
        return "fine-tuned"
    return "zero-shot" if _debiased(stage) or stage == "original" else stage


def _system(table: PaperTable, row: Row, stage: str, chunk_tokens: int) -> PaperRow | None:
    """The paper's row for a system: its own backbone's if there is one, else that of BERT."""
    known = {_fold(each.system): each for each in table.rows}
    ends = [", de-biased"] if _debiased(stage) else ["", f", {stage}"]
    if row.ranker == "maxp" and "passage-level" not in stage:
        ends = [" (e2e)", *ends]  # trained on whole documents, where a table has MaxP both ways
    point = _point(row, chunk_tokens)
    ranker = row.ranker.removesuffix(ENSEMBLE)
    names = (ranker, *_RANKERS.get(ranker, ()), *_REFERENCES.get(row.reference, ()))
    tried = [f"{name}{b}" for name in names for b in (f" ({row.backbone})", "", " (BERT)", " (ELECTRA)")]
    tried += [_SIZES.get(row.backbone, "")] if row.ranker == "parade-transformer" else []
    tried += [row.backbone] if row.ranker == "longp" else []
    return next((known[at] for name in tried for end in ends if (at := _fold(f"{name}{point}{end}")) in known), None)


def _point(row: Row, chunk_tokens: int) -> str:
    """How the papers name a setting of a sweep in a system's name."""
    points = dict(row.settings)
    mixed = "Ensemble" if row.ranker.endswith(ENSEMBLE) else ""
    chunks = points.get("max_chunks")
    tokens = points.get("max_tokens")
    if chunks is None and isinstance(tokens, int) and tokens % chunk_tokens == 0:
        chunks = tokens // chunk_tokens
    if chunks is not None and not row.reference:
        return f" ({chunks} chunk{'' if chunks == 1 else 's'})"
    if "retriever" in points and not row.reference:
        first = str(points["retriever"])
        return f" ({', '.join(filter(None, (_RANKERS.get(first, (first,))[0], mixed)))})"
    if {"window_tokens", "window_stride"} <= points.keys():
        return f", window {points['window_tokens']}, stride {points['window_stride']}"
    return f" ({mixed})" if mixed else ""


def _value(table: PaperTable, system: PaperRow, column: PaperColumn) -> float | None:
    return system.values[table.columns.index(column)]


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.casefold())


def chunk_length(reading: Reading) -> int:
    """Length of the chunks in which the experiment reads, which are the papers' 477 tokens unless it says otherwise."""
    reading_settings = reading.result.about.get("settings", {}).get("reading", {})
    return int(reading_settings.get("chunk_tokens", 477))
