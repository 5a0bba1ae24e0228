"""``longrank evaluate``: run files to measures."""

import dataclasses
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longrank.core.types import Qrels
    from longrank.evaluation.measures import Evaluation
    from longrank.reports.tables import Table


class TableFormat(StrEnum):
    """What a table is written as."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"
    json = "json"


class MissingQueries(StrEnum):
    """What a judged query without results counts as."""

    skip = "skip"
    zero = "zero"


QrelsFile = Annotated[Path, typer.Option("--qrels", help="Judgements: 'qid 0 docid grade', plain or compressed.")]
Measures = Annotated[str, typer.Option("--measures", help="ir-measures names, and ERR, nERR, Q; e.g. 'RR(rel=2)@10'.")]
Missing = Annotated[
    MissingQueries, typer.Option("--missing", help="Judged queries that a run lacks: leave out, or count as 0.")
]
Format = Annotated[TableFormat, typer.Option("--format", help="How to write the table; json holds per-query values.")]

DEFAULT_MEASURES = "nDCG@10 RR AP R@100 Judged@10"


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="TREC run files: 'qid Q0 docid rank score tag'.")],
    *,
    qrels: QrelsFile,
    measures: Measures = DEFAULT_MEASURES,
    per_query: Annotated[bool, typer.Option("--per-query", help="A row for each query in place of means.")] = False,
    missing: Missing = MissingQueries.skip,
    table_format: Format = TableFormat.text,
) -> None:
    """Measure run files against judgements, by trec_eval's rules.

    Gain is linear, a grade above 0 is relevant, ties fall by document id. What was skipped is said below the table.

    longrank evaluate bm25.run.gz maxp.run --qrels qrels.txt --measures "nDCG@10 RR@100"
    """
    from longrank.corpora.formats.trec import read_qrels
    from longrank.reports import tables

    judgements = read_qrels(qrels)
    results = [evaluate_file(run, judgements, measures, missing) for run in runs]
    if table_format in (TableFormat.json, TableFormat.csv) and (warning := tables.uneven_queries(results)):
        typer.echo(warning, err=True)
    if table_format is TableFormat.json:
        typer.echo(tables.evaluation_json(results), nl=False)
    elif table_format is TableFormat.csv:
        typer.echo(tables.per_query_csv(results) if per_query else tables.evaluation_csv(results), nl=False)
    else:
        show(tables.per_query_table(results) if per_query else tables.evaluation_table(results), table_format)


def evaluate_file(path: Path, qrels: "Qrels", measures: str, missing: MissingQueries) -> "Evaluation":
    """Values of one run file; a run none of whose documents is judged is refused, for its ids are likely foreign."""
    from longrank.core.errors import DataError
    from longrank.evaluation.columns import read_columns
    from longrank.evaluation.measures import evaluate_columns
    from longrank.evaluation.names import parse_measures

    names = [measure.name for measure in parse_measures(measures)]
    result = evaluate_columns(read_columns(path), qrels, names, missing=missing.value)
    if not result.judged_documents:
        raise DataError(
            f"{path}: not one retrieved document is judged. Do run and judgements use the same document ids?"
        )
    return dataclasses.replace(result, run=run_label(path))


def run_label(path: Path) -> str:
    """What a run file is called in a table: its name without the endings of run files.

    >>> run_label(Path("out/robust04.maxp.run.gz"))
    'robust04.maxp'
    """
    name = path.name
    while (stem := Path(name)).suffix in {".gz", ".bz2", ".xz", ".run", ".txt", ".trec"}:
        name = stem.stem
    return name


def show(table: "Table", table_format: TableFormat) -> None:
    """Write a table to standard output, with bold type where that is a terminal."""
    from longrank.reports import tables

    if table_format is TableFormat.text and sys.stdout.isatty():
        from rich.console import Console

        Console().print(tables.to_rich(table), *table.notes, sep="\n", highlight=False, markup=False)
        return
    writers = {TableFormat.markdown: tables.to_markdown, TableFormat.latex: tables.to_latex}
    typer.echo(writers.get(table_format, tables.to_text)(table), nl=False)
