"""The demo's table, its reading in words, and its page."""

from pathlib import Path

from longrank.experiments.demo import DemoResult, DemoRow, Score
from longrank.reports.page import Cell, Column, Figure, Section, Table, write_page
from longrank.reports.plots import Interval, PositionSample, TransferBar, position_histograms, transfer_bars

COLUMNS = ("ranker", "toy", "toy-far, zero-shot", "toy-far, fine-tuned")


def table_rows(result: DemoResult) -> list[tuple[str, str, str, str]]:
    """The table as text: mean [95% interval] a cell, baselines last."""
    rows = [(row.ranker, shown(row.toy), shown(row.far_zero_shot), shown(row.far_tuned)) for row in result.rows]
    toy, far = result.bm25
    rows.append(("BM25, as retrieved", shown(toy), shown(far), shown(far)))
    for name, (near, late) in (("random order", result.random), ("perfect order", result.ceiling)):
        rows.append((name, f"{near:.3f}", f"{late:.3f}", f"{late:.3f}"))
    return rows


def shown(score: Score) -> str:
    """Mean and interval, such as ``0.812 [0.74, 0.87]``."""
    return f"{score.mean:.3f} [{score.low:.2f}, {score.high:.2f}]"


def reading(result: DemoResult) -> list[str]:
    """What the numbers show, a sentence a ranker, cautious in its words."""
    chance = result.random[1]
    return [_sentence(row, chance) for row in result.rows]


def _sentence(row: DemoRow, chance: float) -> str:
    zero = _against_chance(row.far_zero_shot, chance)
    tuned = _against_chance(row.far_tuned, chance)
    gain = row.far_tuned.mean - row.far_zero_shot.mean
    return (
        f"{row.ranker}: {row.toy.mean:.3f} where evidence comes early, {row.far_zero_shot.mean:.3f} where late "
        f"({zero}), and {row.far_tuned.mean:.3f} after fine-tuning ({tuned}; {gain:+.3f})."
    )


def _against_chance(score: Score, chance: float) -> str:
    if score.low > chance:
        return "above random order"
    return "below random order" if score.high < chance else "not told from random order"


def settings_line(result: DemoResult) -> str:
    """Backbone, number of queries and how intervals were made."""
    return (
        f"Reciprocal rank, {result.queries} test queries, BM25's top {result.depth} reordered, {result.backbone}, "
        f"one seed ({result.seed}), 95% BCa bootstrap intervals over queries."
    )


def write_demo_page(path: Path, result: DemoResult) -> None:
    """One self-contained HTML page with the table and both figures."""
    table = Table(
        columns=[Column("ranker"), *(Column(name, best="highest") for name in COLUMNS[1:])],
        rows=[
            [row.ranker, *(_cell(score) for score in (row.toy, row.far_zero_shot, row.far_tuned))]
            for row in result.rows
        ],
        caption=settings_line(result)
        + f" Random order would give {result.random[1]:.3f} on toy-far and a perfect one {result.ceiling[1]:.3f}.",
    )
    positions = {name: PositionSample(starts, lengths) for name, (starts, lengths) in result.positions.items()}
    bars = [TransferBar(row.ranker, _interval(row.far_zero_shot), _interval(row.far_tuned)) for row in result.rows]
    levels = {"BM25, as retrieved": result.bm25[1].mean, "random order": result.random[1]}
    sections = [
        Section("Which rankers find evidence that comes late?", [table, *reading(result)]),
        Section(
            "Zero-shot against fine-tuned",
            [
                Figure(
                    transfer_bars(bars, levels=levels, measure="RR"),
                    "Reciprocal rank on toy-far before and after fine-tuning there.",
                    "Bars of reciprocal rank for each ranker, zero-shot and fine-tuned, with intervals.",
                )
            ],
        ),
        Section(
            "Where relevance sits",
            [
                Figure(
                    position_histograms(positions),
                    "Start of the relevant passage against the length of its document, in BERT tokens.",
                    "Histograms of relevant positions and document lengths of both collections.",
                )
            ],
        ),
    ]
    lead = (
        "Rankers were trained on documents whose relevant passage comes early, as in real collections, and then tested "
        "on documents whose relevant passage comes late."
    )
    write_page(
        path, title="Does the ranker read to the end?", lead=lead, sections=sections, footer=settings_line(result)
    )


def _cell(score: Score) -> Cell:
    return Cell(score.mean, detail=f"[{score.low:.2f}, {score.high:.2f}]")


def _interval(score: Score) -> Interval:
    return Interval(score.mean, score.low, score.high)
