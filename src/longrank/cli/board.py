"""``longrank board``: many audit cards on one page."""

from pathlib import Path
from typing import Annotated

import typer


def board(
    cards: Annotated[list[Path], typer.Argument(help="Card files written by longrank audit.")],
    *,
    out: Annotated[Path, typer.Option("--out", help="The page to write.", dir_okay=False)] = Path("board.html"),
) -> None:
    """Compare audited rankers on one sortable page; a timings.json beside a card gives its latency.

    longrank board audits/*/card.json --out board.html
    """
    from longrank.audit.card import read_card
    from longrank.audit.usage import read_latency
    from longrank.reports.board import write_board

    rows = write_board(
        out, [read_card(path) for path in cards], latencies=[read_latency(path.parent) for path in cards]
    )
    typer.echo(f"Board of {rows} {'card' if rows == 1 else 'cards'}: {out}")
