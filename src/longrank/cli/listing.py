"""``longrank list``: what can be named in a spec."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from longrank.core.registry import Entry


class Kind(StrEnum):
    """What can be listed."""

    rankers = "rankers"
    backbones = "backbones"
    losses = "losses"


def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.rankers) -> None:
    """Show what can be named: rankers, backbones or losses, with paper and parameters."""
    import inspect

    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "what it does", "paper", "parameters"):
        table.add_column(heading, no_wrap=heading == "name")
    for entry in _registry(kind):
        known = inspect.signature(entry.make).parameters.values()
        shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in known)
        table.add_row(entry.name, entry.summary, entry.paper, shown)
    Console().print(table)


def _registry(kind: Kind) -> "Iterable[Entry[Any]]":
    if kind is Kind.rankers:
        from longrank.rankers.zoo import RANKERS

        return RANKERS
    if kind is Kind.backbones:
        from longrank.encoders.registry import BACKBONES

        return BACKBONES
    from longrank.training.registry import LOSSES

    return LOSSES
