"""``longrank demo``: the papers' finding, from nothing, on two CPU cores."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="See that everything runs: an encoder from scratch, with no time to learn.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for data, models, runs and the page.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of data, weights and training.")] = 0,
) -> None:
    """Train four rankers where evidence comes early, test them where it comes late, and show what happens.

    About 25 minutes on two cores; --quick takes three or four, and its rows stay near random order.
    Interrupted, it goes on where it was.
    """
    import os
    from time import perf_counter

    from rich.console import Console
    from rich.table import Table

    from longrank.experiments.demo import Demo, DemoSettings, quick_settings
    from longrank.reports.demo import COLUMNS, reading, settings_line, table_rows, write_demo_page

    began = perf_counter()
    settings = quick_settings() if quick else DemoSettings()
    settings = settings.model_copy(update={"seed": seed, "toy": settings.toy.model_copy(update={"seed": seed})})
    typer.echo("making the toy world: toy (evidence early) and toy-far (evidence late)")
    result = Demo(settings, out, typer.echo, workers=min(2, os.cpu_count() or 1)).run()
    page = out / ("demo-quick.html" if quick else "demo.html")
    write_demo_page(page, result)

    table = Table(title="Does the ranker read to the end?")
    for number, heading in enumerate(COLUMNS):
        table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=True)
    for row in table_rows(result):
        table.add_row(*row)
    Console(width=max(Console().width, 96)).print(table)
    typer.echo(settings_line(result))
    for sentence in reading(result):
        typer.echo(f"- {sentence}")
    typer.echo(f"{perf_counter() - began:.0f} seconds. The page: {page}")
