"""``longrank pseudo-label``: training judgements from what a retriever puts first."""

from pathlib import Path
from typing import Annotated

import typer

from longrank.cli.given import given_options


def pseudo_label(
    context: typer.Context,
    collection: Annotated[Path, typer.Argument(help="Folder of the collection whose queries are labelled.")],
    *,
    out: Annotated[Path, typer.Option(help="Judgements file to write (TREC format).", dir_okay=False)],
    run: Annotated[Path | None, typer.Option(help="Take the labels from this run instead of BM25.")] = None,
    positives: Annotated[int, typer.Option(min=1, help="Best documents taken as relevant.")] = 1,
    k1: Annotated[float, typer.Option(help="BM25: how soon repeated terms stop counting.")] = 1.2,
    b: Annotated[float, typer.Option(help="BM25: how much length counts against a document, 0 to 1.")] = 0.75,
    rm3: Annotated[bool, typer.Option("--rm3", help="BM25 with feedback.")] = False,
    split: Annotated[
        str | None, typer.Option(help="Whose queries are labelled; train, or all where there are no splits.")
    ] = None,
) -> None:
    """Write each query's best documents as relevant, for training without judges."""
    from longrank.cli.retrieve import open_index
    from longrank.core.errors import DataError, SettingsError
    from longrank.corpora.catalog.folder import check_run, load_folder
    from longrank.corpora.formats.trec import read_run, write_qrels
    from longrank.corpora.splits import FILE, only_split
    from longrank.retrieval.fusion import select
    from longrank.retrieval.index import BM25Settings
    from longrank.retrieval.pseudo_labels import pseudo_labels
    from longrank.retrieval.rm3 import RM3

    if run is not None and (unused := given_options(context, ["k1", "b", "rm3"])):
        raise SettingsError(f"{', '.join(unused)} is for BM25, and --run takes the labels of a run: leave one out")
    whole = load_folder(collection, split=split or "train")
    loaded = only_split(whole, collection, split or ("train" if (collection / FILE).is_file() else None))
    if run is None:
        bm25 = open_index(loaded, collection, BM25Settings(k1=k1, b=b))
        retriever = RM3(bm25) if rm3 else bm25
        found = retriever.retrieve(loaded.queries.values(), depth=positives)
    else:
        given = read_run(run)
        check_run(given, whole)
        found = select(given, loaded.queries)
    labels = pseudo_labels(found, positives=positives)
    if not len(labels):
        raise DataError(
            f"none of {len(loaded.queries)} queries has a document in {found.name}: nothing can be labelled"
        )
    write_qrels(out, labels)
    typer.echo(f"{out}: {len(labels)} of {len(loaded.queries)} queries labelled by {found.name}")
