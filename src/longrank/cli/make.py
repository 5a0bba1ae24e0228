"""``longrank make``: collections whose relevant positions are known, and training data without position bias."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

make_app = typer.Typer(help="Make collections with known positions, and de-biased training data.", no_args_is_help=True)


class FolderFormat(StrEnum):
    """Files a collection is written as."""

    jsonl = "jsonl"
    beir = "beir"
    flexneuart = "flexneuart"


class ToyScale(StrEnum):
    """Lengths of documents: those of the papers, or a quarter of them."""

    laptop = "laptop"
    paper = "paper"


Out = Annotated[Path, typer.Option("--out", help="Folder to write; an earlier one made here is replaced.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same bytes.")]
OutFormat = Annotated[FolderFormat, typer.Option("--format", help="Files to write.")]


@make_app.command("toy")
def toy(
    *,
    out: Out,
    scale: Annotated[ToyScale, typer.Option("--scale", help="Lengths: laptop, or the papers'.")] = ToyScale.laptop,
    passages: Annotated[int | None, typer.Option("--passages", help="Passages of the encyclopedia.")] = None,
    train: Annotated[int, typer.Option("--train", min=0, help="Training queries.")] = 1_600,
    dev: Annotated[int, typer.Option("--dev", min=0, help="Validation queries.")] = 100,
    test: Annotated[int, typer.Option("--test", min=0, help="Test queries.")] = 200,
    seed: Seed = 0,
    folder_format: OutFormat = FolderFormat.jsonl,
) -> None:
    """Make the toy world: toy/ (evidence mostly first) and toy-far/ (evidence far behind), of the same passages.

    longrank make toy --out toy-world --test 200 --train 1600
    """
    from longrank.core.settings import parse_settings
    from longrank.synthetic.toy import ToySettings, make_toy
    from longrank.synthetic.writing import write_toy

    table = {
        "seed": seed,
        "scale": scale.value,
        "train": train,
        "dev": dev,
        "test": test,
        "passages": passages,
    }
    settings = parse_settings(ToySettings, table, source="longrank make toy")
    world = make_toy(settings)
    write_toy(world, out, settings=settings, format=folder_format.value)
    typer.echo(f"{out}: toy and toy-far, {len(world.toy.documents)} documents each, and evidence.jsonl")
