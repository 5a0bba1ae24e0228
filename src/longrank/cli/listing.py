"""``longrank list``: what can be named in a spec."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from longrank.core.registry import Entry
    from longrank.rankers.neural import NeuralRanker


class Kind(StrEnum):
    """What can be listed."""

    rankers = "rankers"
    backbones = "backbones"
    losses = "losses"


def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")] = Kind.rankers,
    *,
    backbone: Annotated[
        str | None,
        typer.Option(help="Rankers only: show their parts and sizes over 'tiny', 'minilm' or the model in a folder."),
    ] = None,
) -> None:
    """Show what can be named: rankers, backbones or losses, with paper and parameters."""
    import inspect

    from longrank.core.errors import SettingsError

    if backbone is not None:
        if kind is not Kind.rankers:
            raise SettingsError(f"--backbone is for rankers, not for {kind.value}")
        _show(("name", "paper", "splitter", "aggregator", "needs", "weights"), _parts(backbone))
        return
    rows = []
    for entry in _registry(kind):
        known = inspect.signature(entry.make).parameters.values()
        shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in known)
        rows.append((entry.name, entry.summary, entry.paper, shown))
    _show(("name", "what it does", "paper", "parameters"), rows)


def _show(headings: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=heading in {"name", "weights"})
    for row in rows:
        table.add_row(*row)
    Console(markup=False, emoji=False).print(table)


def _parts(name: str) -> list[tuple[str, ...]]:
    """What each ranker is made of over one backbone; of what does not fit, the reason."""
    from longrank.core.errors import LongrankError
    from longrank.core.types import Spec
    from longrank.encoders.registry import BACKBONES
    from longrank.rankers.zoo import RANKERS

    model = BACKBONES.build(Spec("pretrained", {"model": name}) if Path(name).is_dir() else Spec(name))
    rows: list[tuple[str, ...]] = []
    for entry in RANKERS:
        try:
            rows.append((entry.name, entry.paper, *_described(entry.make(model))))
        except LongrankError as error:
            rows.append((entry.name, entry.paper, str(error), "", "", ""))
    return rows


def _described(ranker: "NeuralRanker") -> tuple[str, str, str, str]:
    needs: Any = ranker.aggregator.needs
    reads = ", ".join(str(flag.name).lower() for flag in type(needs) if flag in needs)
    weights = sum(parameter.numel() for parameter in ranker.parameters())
    return str(ranker.splitter), type(ranker.aggregator).__name__, reads, f"{weights:,}"


def _registry(kind: Kind) -> "Iterable[Entry[Any]]":
    if kind is Kind.rankers:
        from longrank.rankers.ready import READY
        from longrank.rankers.zoo import RANKERS

        return [*RANKERS, *READY]
    if kind is Kind.backbones:
        from longrank.encoders.registry import BACKBONES

        return BACKBONES
    from longrank.training.registry import LOSSES

    return LOSSES
