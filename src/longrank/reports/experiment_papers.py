"""Which row and column of a paper's table each system and column of an experiment corresponds to."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from longrank.evaluation.papers.tables import Column as PaperColumn
from longrank.evaluation.papers.tables import PaperTable
from longrank.evaluation.papers.tables import Row as PaperRow
from longrank.experiments.records import ENSEMBLE
from longrank.reports.experiment_reading import Reading
from longrank.reports.experiment_rows import Column, Row

# a small collection of ours -> the collection of the papers whose part it plays
STANDS_FOR: Mapping[str, str] = {
    "toy": "msmarco-dev",
    "nq-early": "msmarco-dev",
    "toy-few": "robust04-title",
    "toy-far": "far-relevant",
    "nq-far": "far-relevant",
}
_RANKERS: Mapping[str, tuple[str, ...]] = {
    "parade-transformer": ("PARADE Transf-RAND-L2", "PARADE-Transformer"),
    "maxp": ("{backbone}-MaxP",),
    "maxp-e2e": ("{backbone}-MaxP (e2e)",),
    "electra-knrm": ("{backbone}-KNRM",),
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
_BACKBONES = ("bert", "electra", "deberta", "biobert", "longformer", "big-bird", "jina", "mosaic", "tinyllama")
_REFERENCES: Mapping[str, tuple[str, ...]] = {
    "retriever": ("Retriever",),
    "random": ("Random shuffling of top-100",),
}


class Printed(NamedTuple):
    """A row and column of ours, and what a paper has in the same place."""

    row: Row
    column: Column
    system: str
    paper_column: PaperColumn

    @property
    def place(self) -> tuple[Row, Column]:
        """Ours."""
        return self.row, self.column


def printed(table: PaperTable, reading: Reading) -> Iterator[Printed]:
    """Every number of a paper's table that has a counterpart among the experiment's."""
    for row in reading.rows:
        for column in reading.columns:
            system, theirs = _system(table, row, column.stage, chunk_length(reading)), _column(table, row, column)
            if system is None or theirs is None or (row, column) not in reading.places:
                continue
            if table.cell(system.system, theirs).value is not None:
                yield Printed(row, column, system.system, theirs)


def _column(table: PaperTable, row: Row, column: Column) -> PaperColumn | None:
    """The paper's column of the same collection and training; a tuned ranker elsewhere is a reverse transfer."""
    stage = _trained_as(column.stage)
    part = STANDS_FOR.get(column.scored_on, column.scored_on)
    read = dict(row.settings).get("scoring.reading.kept_windows")
    names = [f"{part}/{stage}", f"{part}/{read} passages", *([part] if stage != "fine-tuned" else [])]
    return next((c for n in names if (c := PaperColumn(n, column.measure)) in table.columns), None)


def _trained_as(stage: str) -> str:
    """The papers' word for a training: whatever it began with, it ended with fine-tuning or it did not.

    >>> [_trained_as(stage) for stage in ("tuned", "debiased-tuned", "debiased", "original", "msmarco")]
    ['fine-tuned', 'fine-tuned', 'zero-shot', 'zero-shot', 'msmarco']
    """
    if re.search(r"(^|-)(fine)?tuned$", stage):
        return "fine-tuned"
    return "zero-shot" if _debiased(stage) or stage == "original" else stage


def _debiased(stage: str) -> bool:
    return "debias" in _fold(stage)


def _system(table: PaperTable, row: Row, stage: str, chunk_tokens: int) -> PaperRow | None:
    """The paper's row for a system: that of its backbone, or of any where the paper knows no such backbone."""
    known = {_fold(each.system): each for each in table.rows}
    ends = [", de-biased"] if _debiased(stage) else ["", f", {stage}"]
    point = _point(row, chunk_tokens)
    ranker = row.ranker.removesuffix(ENSEMBLE)
    names = (ranker, *_RANKERS.get(ranker, ()), *_REFERENCES.get(row.reference, ()))
    tried = [one for backbone in _backbones(table, row) for name in names for one in _named(name, backbone)]
    if row.ranker == "parade-transformer":
        read = dict(row.settings).get("reading.kept_windows")
        tried += [_SIZES.get(row.backbone, ""), f"trained on {read} passages"]
    tried += [row.backbone] if row.ranker == "longp" else []
    return next((known[at] for name in tried for end in ends if (at := _fold(f"{name}{point}{end}")) in known), None)


def _backbones(table: PaperTable, row: Row) -> tuple[str, ...]:
    """Those whose rows may stand for ours; the empty one is that which the paper does not name in its rows."""
    unnamed = ("electra", "biobert") if table.paper == "parade" else ("bert",)
    if row.backbone not in _BACKBONES:
        return (row.backbone, "", "bert", "electra", "longformer") if row.backbone else ("",)
    return (row.backbone, "") if row.backbone in unnamed else (row.backbone,)


def _named(name: str, backbone: str) -> list[str]:
    if "{backbone}" in name:
        return [name.format(backbone=backbone)] if backbone else []
    return [f"{name} ({backbone})"] if backbone else [name]


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


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9+]", "", name.casefold())


def chunk_length(reading: Reading) -> int:
    """Length of the chunks in which the experiment reads, which are the papers' 477 tokens unless it says otherwise."""
    reading_settings = reading.result.about.get("settings", {}).get("reading", {})
    return int(reading_settings.get("chunk_tokens", 477))
