"""One experiment's report as Markdown, LaTeX and a self-contained page; the same records give the same bytes."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from longrank.core.disk import write_atomic
from longrank.core.errors import DataError, SettingsError
from longrank.experiments.records import read_result
from longrank.reports.experiment_audits import audits_table
from longrank.reports.experiment_figures import costs_table, figure_sections
from longrank.reports.experiment_found import found_table
from longrank.reports.experiment_paper_tables import papers_beside
from longrank.reports.experiment_positions import positions_beside, positions_table
from longrank.reports.experiment_reading import Reading, read_experiment
from longrank.reports.experiment_sizes import sizes_beside
from longrank.reports.experiment_tables import (
    changes_table,
    on_page,
    parameters_table,
    results_table,
    seeds_table,
    sizes_table,
)
from longrank.reports.experiment_takeaway import what_it_shows
from longrank.reports.experiment_transfer import transfer_beside
from longrank.reports.page import Figure, Folded, Part, Section, Statement, render_page
from longrank.reports.tables import LATEX_NEEDS, Table, escape_markdown, to_latex, to_markdown

NAMES: Mapping[str, str] = {"html": "report.html", "md": "report.md", "latex": "report.tex"}
FIGURES = "figures"  # folder of the drawings that the Markdown shows
_COSTS = "Gain against cost"
_CHANGES = "One training against another"
_AUDITS = "Do the rankers read to the end?"
_PLACES = "Where relevance sits"
_FOUND = "Which first stage found the relevant documents"
# table -> the figures above it
_DRAWN = {_CHANGES: "Before and after", _AUDITS: "By position", _COSTS: _COSTS, _PLACES: _PLACES, _FOUND: _FOUND}


class Chapter(NamedTuple):
    """A heading with figures and, but for sweeps, the table they belong to; its figures' files by name."""

    heading: str
    figures: Sequence[Part]
    table: Table | None

    @property
    def files(self) -> dict[str, Figure]:
        """Figures that the same experiment draws the same: run-times never are."""
        drawn = [] if self.heading == _COSTS else [part for part in self.figures if isinstance(part, Figure)]
        return {f"{_slug(self.heading)}-{number}.svg": figure for number, figure in enumerate(drawn, start=1)}


def write_reports(
    folder: Path, *, formats: Sequence[str] = tuple(NAMES), baseline: str | None = None
) -> dict[str, Path]:
    """Write the reports of the experiment whose records are in ``folder`` beside them; gives their paths.

    ``baseline`` is the label of the ranker that gains refer to; by default the file's, else FirstP. The figures of the
    Markdown are files of their own, in ``figures``.
    """
    unknown = next((name for name in formats if name not in NAMES), None)
    if unknown is not None:
        raise SettingsError(f"no report format {unknown!r}; known: {', '.join(NAMES)}")
    result = read_result(folder)
    if not result.cells:
        raise DataError(f"{folder} holds no finished cell, so there is nothing to report; run the experiment first")
    try:
        reading = read_experiment(result, baseline=baseline)
        chapters = report_chapters(reading)
        pages = {folder / NAMES[name]: _MAKERS[name](reading, chapters) for name in formats}
    except (KeyError, TypeError, ValueError) as error:
        lack = f"{type(error).__name__}: {error}"
        raise DataError(
            f"the cells of {folder} lack a label or fact, or one is damaged ({lack}): run it again"
        ) from error
    for path, page in pages.items():
        write_atomic(path, page)
    if "md" in formats:
        for chapter in chapters:
            for name, figure in chapter.files.items():
                write_atomic(folder / FIGURES / name, figure.svg + "\n")
    return dict(zip(formats, pages, strict=True))


def render(reading: Reading, name: str) -> str:
    """The report in one format."""
    return _MAKERS[name](reading, report_chapters(reading))


def report_chapters(reading: Reading) -> list[Chapter]:
    """Every table and figure the records allow, in reading order."""
    figures = {section.heading: section.parts for section in figure_sections(reading)}
    chapters = []
    for heading, table in report_tables(reading).items():
        chapters.append(Chapter(heading, figures.pop(_DRAWN.get(heading, ""), ()), table))
        if heading == "Results" and "Sensitivity" in figures:
            chapters.append(Chapter("Sensitivity", figures.pop("Sensitivity"), None))
    return [*chapters, *(Chapter(heading, parts, None) for heading, parts in figures.items())]


def report_tables(reading: Reading) -> dict[str, Table]:
    """Every table the records allow, by heading."""
    papers = papers_beside(reading) | sizes_beside(reading) | positions_beside(reading) | transfer_beside(reading)
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


def report_markdown(reading: Reading, chapters: Sequence[Chapter]) -> str:
    """The report in GitHub's Markdown: words, tables, and figures as files beside it."""
    about = str(reading.result.about.get("about", "")).strip()
    lines = [f"# {escape_markdown(title(reading))}", "", *([escape_markdown(about), ""] if about else [])]
    shown = what_it_shows(reading)
    if shown:
        lines += ["## What this shows", "", *(line for part in shown for line in _listed(part)), ""]
    for chapter in chapters:
        body = [*_pictures(chapter), *([to_markdown(chapter.table)] if chapter.table else [])]
        lines += [f"## {chapter.heading}", "", *body] if body else []
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


def _pictures(chapter: Chapter) -> list[str]:
    """Each figure and its caption."""
    pictures = [
        (f"![{escape_markdown(figure.alt)}]({FIGURES}/{name})", "", escape_markdown(figure.caption), "")
        for name, figure in chapter.files.items()
    ]
    words = [(escape_markdown(part), "") for part in chapter.figures if isinstance(part, str)]
    return [line for lines in (*pictures, *words) for line in lines]


def report_latex(reading: Reading, chapters: Sequence[Chapter]) -> str:
    """The tables as LaTeX, each captioned with its heading and labelled by the title."""
    slug = _slug(title(reading))
    tables = [chapter for chapter in chapters if chapter.table is not None]
    parts = [
        to_latex(chapter.table, label=f"tab:{slug}-{number}", heading=chapter.heading)
        for number, chapter in enumerate(tables, start=1)
        if chapter.table is not None
    ]
    return "\n".join([f"% {title(reading)}", f"% {_footer(reading)}", f"% {LATEX_NEEDS}", *parts])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")


def report_page(reading: Reading, chapters: Sequence[Chapter]) -> str:
    """The report as one HTML page that needs nothing else."""
    sections = [Section("What this shows", what_it_shows(reading))]
    for chapter in chapters:
        tables = [on_page(chapter.table, caption=" ".join(chapter.table.notes))] if chapter.table else []
        sections.append(Section(chapter.heading, [*chapter.figures, *tables]))
    return render_page(
        title=title(reading),
        lead=str(reading.result.about.get("about", "")).strip() or _made_of(reading),
        sections=[section for section in sections if section.parts],
        footer=_footer(reading),
    )


_MAKERS = {"html": report_page, "md": report_markdown, "latex": report_latex}


def title(reading: Reading) -> str:
    """The experiment's, on one line: a second one would leave a heading or a LaTeX comment."""
    return " ".join(str(reading.result.about.get("title", "Experiment")).split())


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
