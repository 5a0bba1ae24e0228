"""``longrank expand``: the queries that documents may answer, written by a local model."""

from pathlib import Path
from typing import Annotated

import typer

from longrank.cli.models import DeviceOption


def expand(
    collection: Annotated[Path, typer.Argument(help="Folder of the collection whose documents are read.")],
    *,
    model: Annotated[Path, typer.Option(help="Folder of a seq2seq model of transformers, such as a doc2query T5.")],
    out: Annotated[Path, typer.Option(help="File of predictions to write (docid, tab, text).", dir_okay=False)],
    queries: Annotated[int, typer.Option(min=1, help="Queries a segment.")] = 5,
    segment_words: Annotated[int, typer.Option(min=1, help="Words a segment: long documents are read whole.")] = 200,
    new_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a query at most.")] = 64,
    seed: Annotated[int, typer.Option(help="Another seed draws other queries.")] = 0,
    device: DeviceOption = "cpu",
) -> None:
    """Write the queries that each document may answer, for `longrank retrieve --predictions`.

    A command that was stopped goes on where it was when it is given again.
    """
    from longrank.corpora.catalog.folder import load_folder
    from longrank.retrieval.expansion import GenerationSettings, QueryGenerator, write_resumably

    loaded = load_folder(collection)
    settings = GenerationSettings(queries_per_segment=queries, segment_words=segment_words, new_tokens=new_tokens)
    generator = QueryGenerator.load(model, settings, device=device)
    written = write_resumably(out, generator, loaded.documents.values(), seed=seed)
    before = f"; {written.found} of them were left by an earlier run" if written.found else ""
    typer.echo(f"{out}: {queries} queries a segment for {written.documents} documents{before}")
