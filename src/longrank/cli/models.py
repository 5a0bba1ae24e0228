"""Options of every command that runs a model, and what a paid one costs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from longrank.core.types import GoldSpan, Run, Spec
    from longrank.rankers.listwise import ListwiseCall
    from longrank.rankers.paid import PaidRanker
    from longrank.rankers.ranking import TextRanker

DeviceOption = Annotated[str, typer.Option("--device", help="Where the model computes: cpu, cuda, cuda:1 or mps.")]
RemoteCodeOption = Annotated[
    str | None,
    typer.Option("--remote-code", metavar="NAME@VERSION", help="Python code of the model's own that may run."),
]
ParamsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Parameter of a ranker given by name; repeatable."),
]
ChatOption = Annotated[
    str | None, typer.Option("--chat", metavar="PROVIDER:MODEL", help="Chat model, e.g. openai:gpt-4o-mini.")
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", help="Chat: another server that speaks the provider's dialect.")
]
BudgetOption = Annotated[
    float | None, typer.Option("--budget", min=0, help="Chat: stop before more dollars than this are spent.")
]
PricesOption = Annotated[Path | None, typer.Option("--prices", help="Chat: JSON file with prices of your own.")]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", help="Chat: folder of replies; kept in the collection if not given.", file_okay=False),
]


def named_ranker(
    name: str, params: list[str] | None, *, chat: str | None = None, base_url: str | None = None
) -> "Spec | None":
    """The spec of a ranker that needs no training and was given by name or TOML file; None for any other."""
    from longrank.core.errors import SettingsError
    from longrank.core.settings import apply_overrides
    from longrank.core.types import Spec
    from longrank.rankers.loading import named_spec

    if name.endswith(".toml") and _hardened(Path(name)):
        return None
    given: Mapping[str, Any] = {**apply_overrides({}, params or []), **({} if chat is None else {"chat": chat})}
    spec = named_spec(name, given)
    if spec is None:
        if given or base_url is not None:
            raise SettingsError(f"--set, --chat and --base-url are for rankers given by name, and {name!r} is none")
        return None
    asked = spec.params.get("chat")
    if base_url is None:
        return spec
    if not isinstance(asked, Spec):
        raise SettingsError("--base-url is the address of a chat model: name one with --chat")
    return Spec(spec.name, {**spec.params, "chat": Spec(asked.name, {**asked.params, "base_url": base_url})})


def paid_ranker(
    spec: "Spec | None", *, cache: Path | None, budget: float | None, prices: Path | None, home: Path
) -> "PaidRanker | None":
    """The ranker of a spec if it asks a paid chat model; its replies are kept below ``home`` or in ``cache``."""
    from longrank.core.errors import SettingsError
    from longrank.rankers.paid import paid

    found = None
    if spec is not None:
        found = paid(spec, cache=cache, budget=budget, prices=prices)
    if found is None:
        if cache is not None or budget is not None or prices is not None:
            raise SettingsError("--cache, --budget and --prices are for rankers that ask a chat model: leave them out")
        return None
    return found if found.cache is not None else replace(found, cache=home / ".longrank" / "replies")


def paid_run(ranker: "PaidRanker", job: "Callable[[TextRanker], Run]", *, spans: "Iterable[GoldSpan]") -> "Run":
    """A run of a ranker that asks a chat model: its price is said before, its account after, whatever happens."""
    from longrank.rankers.listwise import ListwiseRanker, visibility

    expected = ranker.estimate(job)
    as_of = f"; prices of {ranker.price_list.date}, check them" if ranker.price_list.date else ""
    typer.echo(f"estimate: at most about {expected}{as_of}", err=True)
    model, account = ranker.connected()
    calls: list[ListwiseCall] = []
    if isinstance(model, ListwiseRanker):
        model = model.watched(spans, calls.append)
    try:
        run = job(model)
    finally:
        typer.echo(f"account: {account()}", err=True)
    if calls:
        typer.echo(str(visibility(calls)))
    return run


def _hardened(path: Path) -> bool:
    """Whether a file is what ``longrank harden`` writes, which names another ranker."""
    import tomllib

    try:
        return "ranker" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
