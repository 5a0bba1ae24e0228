"""``longrank compare``: systems, each of one or more runs, against baselines."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.evaluate import (
    DEFAULT_MEASURES,
    Format,
    Measures,
    Missing,
    MissingQueries,
    QrelsFile,
    TableFormat,
    evaluate_file,
    run_label,
    show,
)
from longrank.cli.given import finite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longrank.evaluation.comparison import Comparison
    from longrank.evaluation.measures import PerQuery


class PairedTest(StrEnum):
    """Paired tests."""

    t = "t"
    permutation = "permutation"
    wilcoxon = "wilcoxon"


class CorrectionName(StrEnum):
    """Corrections for several tests."""

    none = "none"
    holm = "holm"
    benjamini_hochberg = "benjamini-hochberg"


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="SYSTEM...",
            help="A run file, or NAME=RUN,RUN for one run a seed; RUN+RUN joins the folds of one seed.",
        ),
    ],
    *,
    qrels: QrelsFile,
    baseline: Annotated[
        list[str] | None, typer.Option("--baseline", help="A system to compare with; repeatable.")
    ] = None,
    own: Annotated[
        list[str] | None, typer.Option("--own", help="SYSTEM=BASELINE: a system's own FirstP; repeatable.")
    ] = None,
    measures: Measures = DEFAULT_MEASURES,
    test: Annotated[PairedTest, typer.Option("--test", help="Paired test over queries.")] = PairedTest.t,
    correction: Annotated[
        CorrectionName, typer.Option("--correction", help="For the systems tested in one column; the papers use none.")
    ] = CorrectionName.holm,
    collection: Annotated[
        str, typer.Option("--collection", help="Its name sets the threshold: .01 for MS MARCO dev, .05 for TREC DL.")
    ] = "",
    paper: Annotated[
        str | None,
        typer.Option(
            "--paper", help="A paper's table, e.g. positional-bias/1: its numbers for --collection beside yours."
        ),
    ] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", callback=finite, help="The threshold itself.")] = None,
    draws: Annotated[int, typer.Option("--draws", help="Draws of the permutation test and the bootstrap.")] = 9999,
    seed: Annotated[int, typer.Option("--seed", help="Seed of these draws.")] = 0,
    missing: Missing = MissingQueries.skip,
    table_format: Format = TableFormat.text,
) -> None:
    """Compare systems with baselines: gains, intervals and tests over queries.

    Values are averaged over seeds by query before they are tested. Letters mark baselines a system differs from; the
    second table has each difference, its interval and corrected p.

    longrank compare firstp=f0.run,f1.run maxp=m0.run,m1.run --baseline firstp --qrels qrels.txt --measures "nDCG@10 RR"
    """
    from longrank.core.seeds import generator
    from longrank.evaluation.comparison import check_names
    from longrank.evaluation.comparison import compare as compare_systems
    from longrank.evaluation.significance import threshold

    if paper is not None:
        refuse_paper(paper, systems, measures, collection, table_format)
    files, owned = system_files(systems), own_baselines(own or [])
    check_names(list(files), baseline or [], owned)
    result = compare_systems(
        read_systems(files, qrels, measures, missing),
        baseline=baseline or [],
        own=owned,
        rng=generator("compare", seed),
        test=test.value,
        correction=correction.value,
        alpha=threshold(collection) if alpha is None else alpha,
        draws=draws,
    )
    write_comparison(result, table_format)
    if paper is not None:
        from longrank.reports.paper_table import beside_paper

        show(beside_paper(paper, result, collection=collection), table_format)


def refuse_paper(paper: str, systems: list[str], measures: str, collection: str, table_format: TableFormat) -> None:
    """Say what is wrong with ``--paper``, before a run is read."""
    from longrank.core.errors import SettingsError
    from longrank.evaluation.names import parse_measures
    from longrank.reports.paper_table import check_paper

    if table_format in (TableFormat.csv, TableFormat.json):
        raise SettingsError(
            f"--paper makes a second table, which {table_format} has no place for; leave one of them out"
        )
    names = [measure.name for measure in parse_measures(measures)]
    check_paper(paper, systems=[named_files(text)[0] for text in systems], measures=names, collection=collection)


def own_baselines(pairs: list[str]) -> dict[str, str]:
    """System -> baseline out of SYSTEM=BASELINE arguments."""
    from longrank.core.errors import SettingsError

    own = dict(pair.partition("=")[::2] for pair in pairs)
    if not all(own) or not all(own.values()):
        raise SettingsError("--own is written SYSTEM=BASELINE, for example --own maxp=firstp")
    if len(own) < len(set(pairs)):
        raise SettingsError(f"a system has one baseline of its own, and --own names two of one: {', '.join(pairs)}")
    return own


def write_comparison(result: "Comparison", table_format: TableFormat) -> None:
    """Write a comparison to standard output."""
    from longrank.reports import tables

    if table_format is TableFormat.json:
        typer.echo(tables.comparison_json(result), nl=False)
    elif table_format is TableFormat.csv:
        typer.echo(tables.comparison_csv(result), nl=False)
    else:
        show(tables.comparison_table(result), table_format)
        typer.echo()
        show(tables.differences_table(result), table_format)


def system_files(systems: list[str]) -> dict[str, list[list[str]]]:
    """Files (folds of each seed) of each system, by its name."""
    from longrank.core.errors import DataError

    found: dict[str, list[list[str]]] = {}
    for name, files in map(named_files, systems):
        if name in found:
            raise DataError(f"two systems are named {name!r}; write NAME=RUN,RUN for the seeds of one system")
        found[name] = files
    return found


def read_systems(
    systems: "Mapping[str, list[list[str]]]", qrels: Path, measures: str, missing: MissingQueries
) -> "dict[str, list[PerQuery]]":
    """Per-query values of each system, one a seed, with folds pooled."""
    from longrank.corpora.formats.trec import read_qrels
    from longrank.evaluation.pooling import pool

    judgements = read_qrels(qrels)
    values: dict[str, list[PerQuery]] = {}
    for name, files in systems.items():
        seeds = [[evaluate_file(Path(fold), judgements, measures, missing) for fold in seed] for seed in files]
        values[name] = [pool([fold.values for fold in seed]) for seed in seeds]
    return values


def named_files(text: str) -> tuple[str, list[list[str]]]:
    """Name and files (folds of each seed) of one SYSTEM argument.

    >>> named_files("maxp=a.run,b1.run+b2.run"), named_files("out/maxp.run.gz")
    (('maxp', [['a.run'], ['b1.run', 'b2.run']]), ('maxp', [['out/maxp.run.gz']]))
    """
    from longrank.core.errors import SettingsError

    name, sign, files = text.partition("=")
    if not sign or "/" in name:
        return run_label(Path(text)), [[text]]
    folds = [seed.split("+") for seed in files.split(",")]
    if not name or not all(map(all, folds)):
        raise SettingsError(f"{text!r} lacks a name or a file; a system is a run file, or NAME=RUN,RUN")
    return name, folds
