"""``longrank report``: an experiment's records as a page, Markdown and LaTeX."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ReportFormat(StrEnum):
    """Formats of a report."""

    html = "html"
    md = "md"
    latex = "latex"


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of an experiment: what longrank run wrote its records to.")],
    *,
    formats: Annotated[
        list[ReportFormat] | None, typer.Option("--format", help="Write only this one; repeatable. All if not given.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", help="Ranker that gains refer to, of the same backbone; the file's choice, else FirstP."
        ),
    ] = None,
) -> None:
    """Write an experiment's tables, figures and what they show.

    Beside the records: report.html (one file, no outside request), report.md with its figures in figures/, and
    report.tex. The same records give the same bytes.

    longrank report results/far-relevant --baseline maxp
    """
    from longrank.reports.experiment import write_reports

    chosen = [each.value for each in formats or list(ReportFormat)]
    for path in write_reports(folder, formats=chosen, baseline=baseline).values():
        typer.echo(f"Report: {path}")
