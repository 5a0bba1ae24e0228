"""Options of every command that runs a model, and what a paid one costs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longrank.cli.given import above_zero

if TYPE_CHECKING:
    from longrank.chat.cost import Account
    from longrank.core.contracts import Ranker
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
    float | None,
    typer.Option("--budget", callback=above_zero, help="Chat: stop before more dollars than this are spent."),
]
PricesOption = Annotated[Path | None, typer.Option("--prices", help="Chat: JSON file with prices of your own.")]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", help="Chat: folder of replies; kept in the collection if not given.", file_okay=False),
]
RepliesOption = Annotated[
    Path | None, typer.Option("--cache", help="Chat: folder of replies; none is paid for twice.", file_okay=False)
]


def named_ranker(
    name: str, params: list[str] | None, *, chat: str | None = None, base_url: str | None = None
) -> "Spec | None":
    """The spec of a ranker that needs no training and was given by name or TOML file; None for any other."""
    from longrank.core.addresses import shown_address
    from longrank.core.errors import SettingsError
    from longrank.core.settings import apply_overrides
    from longrank.core.types import Spec
    from longrank.rankers.loading import named_spec

    if _hardened(name) is not None:
        return None
    given: Mapping[str, Any] = {**apply_overrides({}, params or []), **({} if chat is None else {"chat": chat})}
    spec = named_spec(name, given)
    if spec is None:
        if given or base_url is not None:
            raise SettingsError(
                f"--set, --chat and --base-url are for rankers given by name, and {shown_address(name)!r} is none"
            )
        return None
    asked = spec.params.get("chat")
    if base_url is None:
        return spec
    if not isinstance(asked, Spec):
        raise SettingsError("--base-url is the address of a chat model: name one with --chat")
    return Spec(spec.name, {**spec.params, "chat": Spec(asked.name, {**asked.params, "base_url": base_url})})


def paid_ranker(
    spec: "Spec | None", *, cache: Path | None, budget: float | None, prices: Path | None, home: Path | None
) -> "PaidRanker | None":
    """The ranker of a spec if it asks a paid chat model; its replies are kept in ``cache``, else below ``home``."""
    from longrank.core.errors import SettingsError
    from longrank.rankers.paid import paid

    found = None
    if spec is not None:
        found = paid(spec, cache=cache, budget=budget, prices=prices)
    if found is None:
        if cache is not None or budget is not None or prices is not None:
            raise SettingsError("--cache, --budget and --prices are for rankers that ask a chat model: leave them out")
        return None
    if found.cache is not None or home is None:
        return found
    return replace(found, cache=home / ".longrank" / "replies")


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
    with accounted(account):
        run = job(model)
    if calls:
        typer.echo(str(visibility(calls)))
    return run


@contextmanager
def accounted(
    account: "Callable[[], Account] | None", keep: "Callable[[Account], Account] | None" = None
) -> Iterator[None]:
    """Say after the block, whatever happens in it, what was paid; ``keep`` notes it and gives what all runs paid."""
    try:
        yield
    finally:
        if account is not None:
            paid = account()
            typer.echo(f"account: {paid}", err=True)
            if keep is not None and (total := keep(paid)) != paid:
                typer.echo(f"account of all runs: {total}", err=True)


def chat_spec(name: str) -> "Spec | None":
    """The spec of a ranker that asks a paid chat model, also if a file of ``longrank harden`` names it; else None."""
    from longrank.rankers.paid import paid

    inner = _hardened(name)
    if inner is not None:
        return chat_spec(inner)
    spec = named_ranker(name, None)
    return None if spec is None or paid(spec) is None else spec


def audited_ranker(
    name: str, paying: "PaidRanker | None", *, device: str, around: "Callable[[Ranker], Ranker] | None" = None
) -> "tuple[Ranker, Callable[[], Account] | None]":
    """A ranker as audits ask it and, of a paid chat model, its account; ``around`` goes inside a hardened wrapper.

    What an audit asks a chat model again is not answered from the replies that are kept.
    """
    from longrank.audit.memory import RememberedReplies
    from longrank.chat.connecting import connect
    from longrank.core.types import Spec
    from longrank.rankers.adapters import resolve
    from longrank.rankers.loading import on_device
    from longrank.rankers.ready import build_ready

    if paying is None:
        return resolve(name, device=device, around=around), None
    connection = connect(paying.settings, cache=paying.cache, budget=paying.budget, prices=paying.prices)
    kept, fresh = (
        build_ready(Spec(paying.spec.name, {**paying.spec.params, "chat": chat}))
        for chat in (connection.chat, connection.meter)
    )
    asked: Ranker = on_device(RememberedReplies(kept, fresh), device)
    return in_wrappers(name, asked if around is None else around(asked)), lambda: connection.meter.account


def in_wrappers(name: str, ranker: "Ranker") -> "Ranker":
    """A ranker inside whatever a file of ``longrank harden`` puts around it; as it is under any other name."""
    from longrank.audit.harden import load_hardened

    if _hardened(name) is None:
        return ranker
    return load_hardened(Path(name), lambda inner: in_wrappers(inner, ranker))


def _hardened(name: str) -> str | None:
    """The ranker that a file of ``longrank harden`` names; None for any other name."""
    import tomllib

    if not name.endswith(".toml"):
        return None
    try:
        inner = tomllib.loads(Path(name).read_text(encoding="utf-8")).get("ranker")
    except (OSError, ValueError):
        return None
    return None if inner is None else str(inner)
