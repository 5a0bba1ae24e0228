"""``longrank explain``: which part of a document made its score."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from longrank.cli.models import DeviceOption, RemoteCodeOption


def explain(
    ranker: Annotated[str, typer.Argument(help="A checkpoint folder, or the folder of a cross-encoder.")],
    document: Annotated[Path, typer.Argument(help="Text file; - reads standard input.", allow_dash=True)],
    *,
    query: Annotated[str, typer.Option("--query", help="What is looked for.")],
    device: DeviceOption = "cpu",
    remote_code: RemoteCodeOption = None,
) -> None:
    """Show what each chunk of a document adds to its score, and the best passage with its characters."""
    from rich.console import Console
    from rich.table import Table

    from longrank.core.errors import ModelError
    from longrank.rankers.loading import load
    from longrank.rankers.neural import NeuralRanker

    text = read_text(document)
    model = load(ranker, device=device, remote_code=remote_code)
    if not isinstance(model, NeuralRanker):
        raise ModelError(
            f"{ranker} has no aggregator that could be asked for the share of a chunk: explain a checkpoint or a "
            f"cross-encoder"
        )
    found = model.explain(query, text)
    table = Table(box=None, pad_edge=False)
    for heading in ("characters", found.method, "begins"):
        table.add_column(heading, justify="right" if heading == found.method else "left")
    for chunk in found.chunks:
        start, stop = chunk.chars.start, chunk.chars.stop
        table.add_row(f"{start}-{stop}", f"{chunk.value:+.4f}", text[start:stop][:60].replace("\n", " "))
    Console(markup=False, emoji=False).print(table)  # brackets in a text are the text's own
    best = found.best
    typer.echo(f"score {found.score:.4f}; best: characters {best.start}-{best.stop}")
    if found.cut_tokens:
        typer.echo(f"cut: {found.cut_tokens} tokens were not read")
    if found.cut_query_tokens:
        typer.echo(f"cut: {found.cut_query_tokens} tokens of the query were not read")


def read_text(path: Path) -> str:
    """The text of a file, plain or compressed; of standard input for '-'."""
    from longrank.corpora.formats.files import decode_line, numbered_bytes

    lines = enumerate(sys.stdin.buffer, start=1) if str(path) == "-" else numbered_bytes(path)
    return "\n".join(decode_line(line, path, number) for number, line in lines)
