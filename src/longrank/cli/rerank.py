"""``longrank rerank``: a ranker orders the candidates of a run anew."""

from pathlib import Path
from typing import Annotated

import typer


def rerank(
    ranker: Annotated[str, typer.Argument(help="A checkpoint folder, or 'minilm'.")],
    collection: Annotated[
        Path, typer.Argument(help="Folder with documents and queries.", exists=True, file_okay=False)
    ],
    *,
    candidates: Annotated[Path, typer.Option("--candidates", help="TREC run with the candidates.", exists=True)],
    out: Annotated[Path, typer.Option("--out", help="TREC run to write.")],
    depth: Annotated[int, typer.Option(min=1, help="Candidates a query that are scored.")] = 100,
    split: Annotated[str | None, typer.Option(help="Only the queries of this split (splits.json).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail rather than cut a document.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    untrained: Annotated[bool, typer.Option("--untrained", help="Allow a ranker that was never trained.")] = False,
) -> None:
    """Score the top candidates of every query with a ranker and write the new run; what was cut is reported."""
    from longrank.core.errors import ModelError
    from longrank.corpora.catalog.folder import load_folder
    from longrank.corpora.formats.trec import read_run, write_run
    from longrank.corpora.splits import read_split
    from longrank.rankers.loading import load
    from longrank.rankers.neural import NeuralRanker
    from longrank.rankers.rerank import rerank as rerank_run

    model = load(ranker).to(device)
    if isinstance(model, NeuralRanker):
        model.strict = strict
        if not model.trained and not untrained:
            raise ModelError(f"{ranker} was never trained: its order means nothing (--untrained scores with it anyway)")
    run = rerank_run(
        model,
        read_run(candidates),
        load_folder(collection),
        depth=depth,
        query_ids=None if split is None else read_split(collection, split),
        name=Path(ranker).name,
    )
    write_run(out, run)
    typer.echo(f"{len(run)} queries, {sum(len(row) for row in run.scores.values())} documents -> {out}")
    if run.notes.cut_documents:
        typer.echo(f"cut: {run.notes.cut_documents} documents were not read to the end ({run.notes.cut_tokens} tokens)")
