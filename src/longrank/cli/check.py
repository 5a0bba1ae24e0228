"""``longrank check``: is a collection fit for use?"""

from pathlib import Path
from typing import Annotated

import typer


def check(
    collection: Annotated[Path, typer.Argument(help="Folder of the collection.")],
    *,
    run: Annotated[list[Path] | None, typer.Option("--run", help="Run file to check too; may be repeated.")] = None,
) -> None:
    """Look through a collection before anything long starts: formats, ids, judgements, spans, splits, candidates.

    Every problem is listed at once: of a file's bad lines the first ten by number and reason, the rest counted. The
    exit code is 1 if there are errors; warnings are what real collections have and their owner should know about.

    longrank check my-collection --run bm25.trec
    """
    from longrank.corpora.checking import check_folder

    report = check_folder(collection, runs=run or ())
    typer.echo(str(report))
    if report.errors:
        raise typer.Exit(1)
