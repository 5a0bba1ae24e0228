"""One experiment's report as Markdown, LaTeX and a self-contained page; the same records give the same bytes."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from longrank.core.disk import write_atomic
from longrank.core.errors import DataError, SettingsError
from longrank.experiments.records import read_result
from longrank.reports.experiment_audits import audits_table
from longrank.reports.experiment_figures import costs_table, figure_sections
from longrank.reports.experiment_found import found_table
from longrank.reports.experiment_papers import papers_beside
from longrank.reports.experiment_positions import positions_beside, positions_table
from longrank.reports.experiment_reading import Reading, read_experiment
from longrank.reports.experiment_tables import (
    changes_table,
    on_page,
    parameters_table,
    results_table,
    seeds_table,
    sizes_table,
)
from longrank.reports.experiment_takeaway import what_it_shows
from longrank.reports.page import Folded, Section, Statement, render_page
from longrank.reports.tables import Table, escape_markdown, to_latex, to_markdown

NAMES: Mapping[str, str] = {"html": "report.html", "md": "report.md", "latex": "report.tex"}
_COSTS = "Gain against cost"
_CHANGES = "One training against another"
_AUDITS = "Do the rankers read to the end?"
_PLACES = "Where relevance sits"
_FOUND = "Which first stage found the relevant documents"
# table -> the figures above it
_DRAWN = {_CHANGES: "Before and after", _AUDITS: "By position", _COSTS: _COSTS, _PLACES: _PLACES, _FOUND: _FOUND}


def write_reports(
    folder: Path, *, formats: Sequence[str] = tuple(NAMES), baseline: str | None = None
) -> dict[str, Path]:
    """Write the reports of the experiment whose records are in ``folder`` beside them; gives their paths.

    ``baseline`` is the label of the ranker that gains refer to, FirstP unless said otherwise.
    """
    unknown = next((name for name in formats if name not in NAMES), None)
    if unknown is not None:
        raise SettingsError(f"no report format {unknown!r}; known: {', '.join(NAMES)}")
    result = read_result(folder)
    if not result.cells:
        raise DataError(f"{folder} holds no finished cell, so there is nothing to report; run the experiment first")
    reading = read_experiment(result, baseline=baseline)
    paths = {name: folder / NAMES[name] for name in formats}
    for name, path in paths.items():
        write_atomic(path, render(reading, name))
    return paths


def render(reading: Reading, name: str) -> str:
    """The report in one format."""
    makers = {"html": report_page, "md": report_markdown, "latex": report_latex}
    return makers[name](reading)


def report_tables(reading: Reading) -> dict[str, Table]:
    """Every table the records allow, by heading."""
    papers = papers_beside(reading) | positions_beside(reading)
    found: dict[str, Table | None] = {
        "Results": results_table(reading) if reading.rows else None,
        _COSTS: costs_table(reading),
        _CHANGES: changes_table(reading) if reading.changes else None,
        _AUDITS: audits_table(reading.result),
        "What seeds change": seeds_table(reading),
        _FOUND: found_table(reading),
        _PLACES: positions_table(reading),
        **{f"Beside the papers: {name}": table for name, table in papers.items()},
        "Parameters": parameters_table(reading),
        "Collections": sizes_table(reading),
    }
    return {heading: table for heading, table in found.items() if table is not None}


def report_markdown(reading: Reading) -> str:
    """The report in GitHub's Markdown: words and tables; figures are the page's."""
    about = str(reading.result.about.get("about", "")).strip()
    lines = [f"# {escape_markdown(title(reading))}", "", *([escape_markdown(about), ""] if about else [])]
    shown = what_it_shows(reading)
    if shown:
        lines += ["## What this shows", "", *(line for part in shown for line in _listed(part)), ""]
    for heading, table in report_tables(reading).items():
        lines += [f"## {heading}", "", to_markdown(table)]
    return "\n".join([*lines, _footer(reading)]) + "\n"


def _listed(part: str | Statement | Folded) -> list[str]:
    if isinstance(part, Folded):
        return [
            "",
            f"### {escape_markdown(part.summary)}",
            "",
            *(line for each in part.parts for line in _listed(each)),
        ]
    if isinstance(part, str):
        return [f"- {escape_markdown(part)}"]
    points = [f"  - {escape_markdown(point)}" for point in part.points]
    return [f"- **{escape_markdown(part.head)}**", *points]


def report_latex(reading: Reading) -> str:
    r"""The tables as LaTeX for ``\usepackage{booktabs}``, each with a label made of the title."""
    slug = re.sub(r"[^a-z0-9]+", "-", title(reading).casefold()).strip("-")
    tables = report_tables(reading).values()
    parts = [to_latex(table, label=f"tab:{slug}-{number}") for number, table in enumerate(tables, start=1)]
    return "\n".join([f"% {title(reading)}", f"% {_footer(reading)}", *parts])


def report_page(reading: Reading) -> str:
    """The report as one HTML page that needs nothing else."""
    sections = [Section("What this shows", what_it_shows(reading))]
    figures = {section.heading: section for section in figure_sections(reading)}
    for heading, table in report_tables(reading).items():
        drawn = figures.pop(_DRAWN.get(heading, ""), None)
        sections.append(
            Section(heading, [*(drawn.parts if drawn else ()), on_page(table, caption=" ".join(table.notes))])
        )
        if heading == "Results" and "Sensitivity" in figures:
            sections.append(figures.pop("Sensitivity"))
    return render_page(
        title=title(reading),
        lead=str(reading.result.about.get("about", "")).strip() or _made_of(reading),
        sections=[section for section in (*sections, *figures.values()) if section.parts],
        footer=_footer(reading),
    )


def title(reading: Reading) -> str:
    """The experiment's."""
    return str(reading.result.about.get("title", "Experiment"))


def _made_of(reading: Reading) -> str:
    if not reading.rows:
        return "Facts about collections."
    return f"{len(reading.rows)} systems in {len(reading.columns)} columns."


def _footer(reading: Reading) -> str:
    about = reading.result.about
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    seeds = sorted({int(cell.labels["seed"]) for cell in reading.result.cells if "seed" in cell.labels} - {-1})
    size = f"Size: {about['size']}" if "size" in about else ""
    sown = f"seeds {', '.join(map(str, seeds))}" if seeds else ""
    return "; ".join(part for part in (size, sown, versions) if part) + "."
