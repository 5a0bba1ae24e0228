"""Evaluations and comparisons as tables: terminal, Markdown, LaTeX, CSV, JSON. Each says how its numbers were made."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from longrank.core.errors import DataError
from longrank.evaluation.comparison import Comparison, Estimate
from longrank.evaluation.measures import Evaluation
from longrank.evaluation.significance import CORRECTION_NAMES, TEST_NAMES

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LATEX_NEEDS = r"\usepackage{booktabs,longtable,graphicx,pdflscape}"
_FLOAT_ROWS = 30  # more would not fit a page
_LINE_LETTERS = 60  # more would not fit a line of an article
_TURNED_LETTERS = 80  # more would be too small to read on an upright page
RAISED = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
_LATEX = {char: f"\\{char}" for char in "&%$#_{}"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}  # other signs in TeX's old fonts
_LATEX |= {char: f"{{{char}}}" for char in "[*"}  # at a row's start they would be arguments of the line break before


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table, before any markup."""

    text: str
    letters: str = ""  # superscript: baselines it differs from
    gain: str = ""  # in percent of the first baseline
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Headings, rows of cells (the first is a name) and the sentences that belong below."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]


def evaluation_table(evaluations: Sequence[Evaluation]) -> Table:
    """Means of several runs, a row each."""
    measures = _shared_measures(evaluations)
    rows = [(Cell(e.run), *(Cell(f"{e.means[name]:.4f}") for name in measures)) for e in evaluations]
    notes = [f"{e.run}: {'; '.join(e.notes)}." for e in evaluations]
    warning = uneven_queries(evaluations)
    return Table(("run", *measures), tuple(rows), ("Means over queries.", *notes, *([warning] if warning else [])))


def uneven_queries(evaluations: Sequence[Evaluation]) -> str:
    """Why the means of these runs cannot be set side by side; empty where all are means of the same queries."""
    name = _shared_measures(evaluations)[0]
    rows = [set(e.values[name]) for e in evaluations]
    if all(row == rows[0] for row in rows):
        return ""
    common = len(set.intersection(*rows))
    return (
        "Warning: these are means over different queries, so they cannot be set against each other; all runs have "
        f"{common} of {len(set.union(*rows))} queries. `longrank compare` takes only the queries that all have."
    )


def per_query_table(evaluations: Sequence[Evaluation]) -> Table:
    """Values of several runs, a row for each run and query."""
    measures = _shared_measures(evaluations)
    rows = tuple(
        (Cell(e.run), Cell(query_id), *(Cell(f"{e.values[name][query_id]:.4f}") for name in measures))
        for e in evaluations
        for query_id in e.values[measures[0]]
    )
    return Table(("run", "query", *measures), rows, evaluation_table(evaluations).notes)


def comparison_table(comparison: Comparison) -> Table:
    """Means with superscripts, relative gains and the average gain, a row a system, the best of a column marked."""
    averages = len(comparison.columns) > 1
    rows = []
    for system in comparison.systems:
        cells = [_mean_cell(comparison, system, column) for column in comparison.columns]
        if averages:
            cells.append(Cell(_percent(comparison.average_gain(system))))
        rows.append((Cell(system), *cells))
    headings = ("system", *comparison.columns, *(["average gain"] if averages else []))
    return Table(headings, tuple(rows), comparison_notes(comparison))


def comparison_notes(comparison: Comparison) -> tuple[str, ...]:
    """How the numbers of a comparison were made, in sentences."""
    bars = {e.measure: e.alpha for e in comparison.estimates}
    letters = ", ".join(f"{line.letter} = {line.label}" for line in comparison.baselines)
    drawn = f" of {comparison.draws} draws" if comparison.test == "permutation" else ""
    thresholds = ", ".join(f"{column} {bar:g}" for column, bar in bars.items())
    seeds = ", ".join(f"{system} {count}" for system, count in comparison.seeds.items())
    dropped = [f"{count} of {column}" for column, count in comparison.dropped.items() if count]
    return (
        f"Superscripts mark a significant difference from {letters}: {TEST_NAMES[comparison.test]}{drawn} over "
        f"queries, {CORRECTION_NAMES[comparison.correction]} within a column; thresholds: {thresholds}.",
        f"In brackets: gain over {comparison.baselines[0].letter} in percent; the average gain is their mean. "
        "The best of a column is bold, in plain text starred.",
        "Queries: " + ", ".join(f"{c} {comparison.queries(c)}" for c in comparison.columns) + ".",
        f"Seeds, averaged by query before the test: {seeds}.",
        f"Queries dropped because a system or seed lacks them: {', '.join(dropped) or 'none'}.",
    )


def differences_table(comparison: Comparison) -> Table:
    """Each system against each baseline in each column: difference, its interval and p, a row a test."""
    headings = ("system", "against", "measure", f"difference [{comparison.level:.0%} interval]")
    rows = tuple(
        (Cell(e.system), Cell(e.baseline), Cell(e.measure), Cell(signed(e)), Cell(short_p(e.corrected_p)))
        for e in comparison.estimates
    )
    notes = (
        f"Difference of means with its BCa bootstrap interval over queries ({comparison.draws} draws); p of the "
        f"{TEST_NAMES[comparison.test]}, {CORRECTION_NAMES[comparison.correction]}.",
    )
    return Table((*headings, "p" if comparison.correction == "none" else "corrected p"), rows, notes)


def signed(estimate: Estimate) -> str:
    """A difference and its interval.

    >>> from longrank.evaluation.significance import Effect, Interval
    >>> tested = (Interval(0.02, 0.17), Effect(1, 1, 1, 1, 1), 0, 0, 0.05)
    >>> signed(Estimate("maxp", "RR", "firstp", "a", 9, 0.5, 0.4, *tested))
    '+0.100 [+0.020, +0.170]'
    """
    return f"{estimate.difference:+.3f} [{estimate.interval.low:+.3f}, {estimate.interval.high:+.3f}]"


def short_p(value: float) -> str:
    """A p-value to three digits.

    >>> short_p(0.0412), short_p(2e-9)
    ('0.041', '<0.001')
    """
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def to_rich(table: Table) -> "RichTable":
    """A table for a terminal, the best values in bold, wide cells on two lines; the notes are left to the caller."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, heading in enumerate(table.headings):
        grid.add_column(Text(heading), justify="right" if place else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(_plain(cell), style="bold" if cell.best else "") for cell in row))
    return grid


def to_text(table: Table) -> str:
    """The same as plain text, a '*' before the best values, the notes below."""
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=10_000, color_system=None).print(to_rich(table))
    lines = [line.rstrip() for line in stream.getvalue().strip("\n").splitlines()]
    return "\n".join([*lines, "", *table.notes]) + "\n"


def to_markdown(table: Table) -> str:
    """A table in GitHub's Markdown, the notes below."""
    head = [escape_markdown(heading) for heading in table.headings]
    rule = [":---", *(["---:"] * (len(head) - 1))]
    lines = [
        f"| {' | '.join(row)} |" for row in (head, rule, *([_markdown_cell(c) for c in row] for row in table.rows))
    ]
    return "\n".join([*lines, "", *(escape_markdown(note) + "  " for note in table.notes)]) + "\n"


def to_latex(table: Table, *, label: str = "", heading: str = "") -> str:
    """A float, or for many rows a ``longtable`` over several pages; heading and notes become the caption."""
    title = rf"\textbf{{{_latex(heading)}.}} " if heading else ""
    caption = rf"\caption{{{title}{_latex(' '.join(table.notes))}}}"
    named = [rf"\label{{{label}}}"] if label else []
    types = f"{{l{'r' * (len(table.headings) - 1)}}}"
    head = [r"\toprule", " & ".join(map(_latex, table.headings)) + r" \\", r"\midrule"]
    letters = _letters(table)
    turned = letters > _TURNED_LETTERS
    rows = [" & ".join(_latex_cell(cell, stacked=turned) for cell in row) + r" \\" for row in table.rows]
    if len(rows) > _FLOAT_ROWS:
        top = [caption, *named, r"\\", *head, r"\endfirsthead", *head, r"\endhead", r"\bottomrule", r"\endfoot"]
        small = r"\begingroup\footnotesize\setlength{\tabcolsep}{4pt}"
        body = [small, rf"\begin{{longtable}}{types}", *top, *rows, r"\end{longtable}", r"\endgroup"]
    else:
        grid = [rf"\begin{{tabular}}{types}", *head, *rows, r"\bottomrule", r"\end{tabular}"]
        if letters > _LINE_LETTERS:
            grid = [r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%", *grid, "}"]
        body = [r"\begin{table}", r"\centering", *grid, caption, *named, r"\end{table}"]
    return "\n".join([r"\begin{landscape}", *body, r"\end{landscape}"] if turned else body) + "\n"


def _letters(table: Table) -> int:
    """How many letters a line of it has, a space between the columns."""
    rows = [table.headings, *([_plain(cell) for cell in row] for row in table.rows)]
    return sum(max(map(len, column)) + 1 for column in zip(*rows, strict=True))


def evaluation_csv(evaluations: Sequence[Evaluation]) -> str:
    """A line for each run and measure."""
    heads = ["run", "measure", "mean", "queries", "unjudged_queries_skipped", "missing_queries", "missing_queries_are"]
    return _csv(
        heads,
        [
            [e.run, name, mean, e.queries, len(e.unjudged_queries), len(e.missing_queries), e.missing]
            for e in evaluations
            for name, mean in e.means.items()
        ],
    )


def per_query_csv(evaluations: Sequence[Evaluation]) -> str:
    """A line for each run, measure and query."""
    rows = [[e.run, m, q, v] for e in evaluations for m, row in e.values.items() for q, v in row.items()]
    return _csv(["run", "measure", "query", "value"], rows)


def comparison_csv(comparison: Comparison) -> str:
    """A line for each system, measure and baseline, and one without a baseline for a system that has none."""
    heads = ["system", "measure", "mean", "queries", "dropped_queries", "seeds", "letter", "baseline", "baseline_mean"]
    heads += ["difference", "low", "high", "level", "gain_percent", "effect", "wins", "ties", "losses"]
    heads += ["p", "corrected_p", "alpha", "significant", "test", "correction"]
    rows: list[list[object]] = []
    for system in comparison.systems:
        for c in comparison.columns:
            lead = [system, c, comparison.mean(system, c), comparison.queries(c), comparison.dropped[c]]
            lead.append(comparison.seeds[system])
            rows += [[*lead, *tested] for tested in _tests(comparison, system, c)]
    return _csv(heads, rows)


def evaluation_json(evaluations: Sequence[Evaluation]) -> str:
    """Means, per-query values and what was left out."""
    return _json([{**asdict(e), "means": e.means, "queries": e.queries} for e in evaluations])


def comparison_json(comparison: Comparison) -> str:
    """Everything: settings, tests, means and the per-query values they come from."""
    return _json(
        {
            "test": TEST_NAMES[comparison.test],
            "correction": CORRECTION_NAMES[comparison.correction],
            "interval_level": comparison.level,
            "draws": comparison.draws,
            "baselines": [asdict(line) for line in comparison.baselines],
            "queries": {column: comparison.queries(column) for column in comparison.columns},
            "dropped_queries": comparison.dropped,
            "seeds": comparison.seeds,
            "means": {s: {c: comparison.mean(s, c) for c in comparison.columns} for s in comparison.systems},
            "average_gain_percent": {s: comparison.average_gain(s) for s in comparison.systems},
            "estimates": [
                asdict(e)
                | {"interval": e.interval._asdict(), "effect": e.effect._asdict()}
                | {"difference": e.difference, "gain_percent": e.relative, "significant": e.significant}
                for e in comparison.estimates
            ],
            "per_query": comparison.values,
        }
    )


def _shared_measures(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    if not evaluations:
        raise DataError("a table needs at least one evaluated run")
    return tuple(name for name in evaluations[0].values if all(name in e.values for e in evaluations))


def _mean_cell(comparison: Comparison, system: str, column: str) -> Cell:
    estimate = comparison.gains.get((system, column))
    return Cell(
        f"{comparison.mean(system, column):.4f}",
        comparison.letters(system, column),
        _percent(estimate.relative) if estimate else "",
        system in comparison.best(column),
    )


def _tests(comparison: Comparison, system: str, column: str) -> list[list[object]]:
    end: list[object] = [comparison.test, comparison.correction]
    rows: list[list[object]] = []
    for e in comparison.estimates:
        if (e.system, e.measure) == (system, column):
            row = [e.letter, e.baseline, e.baseline_mean, e.difference, *e.interval, comparison.level, e.relative]
            row += [e.effect.standardized, e.effect.wins, e.effect.ties, e.effect.losses]
            rows.append([*row, e.p, e.corrected_p, e.alpha, e.significant, *end])
    return rows or [[""] * 16 + end]


def _percent(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.1f}%"


def _plain(cell: Cell) -> str:
    raised = cell.letters.translate(RAISED)
    star = "*" if cell.best else ""
    return f"{star}{cell.text}{raised}" + (f" ({cell.gain})" if cell.gain else "")


def escape_markdown(text: str) -> str:
    """The text with what Markdown would take as markup escaped."""
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)


def _markdown_cell(cell: Cell) -> str:
    text = f"**{escape_markdown(cell.text)}**" if cell.best else escape_markdown(cell.text)
    raised = f"<sup>{cell.letters}</sup>" if cell.letters else ""
    return text + raised + (f" ({cell.gain})" if cell.gain else "")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)


def _latex_cell(cell: Cell, *, stacked: bool) -> str:
    text = rf"\textbf{{{_latex(cell.text)}}}" if cell.best else _latex(cell.text)
    raised = f"$^{{{cell.letters}}}$" if cell.letters else ""
    if not cell.gain:
        return text + raised
    gain = f"({_latex(cell.gain)})"
    if not stacked:
        return f"{text}{raised} {gain}"
    return rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{text}{raised}\\[-2pt]{{\scriptsize {gain}}}\end{{tabular}}"


def _csv(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([heads, *rows])
    return stream.getvalue()


def _json(value: Any) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The value with infinities (an effect without spread) as None, which JSON can hold."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
