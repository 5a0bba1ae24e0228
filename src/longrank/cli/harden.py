"""``longrank harden``: the cheapest way to make a ranker read to the end."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.audit import (
    DataFolder,
    Distractors,
    FailIfLost,
    Lengths,
    Queries,
    Quick,
    RankerName,
    Seed,
    Slots,
    Tolerance,
    finish,
    make_settings,
    outcome_word,
    prepare,
    say_cost,
)
from longrank.cli.given import number_or_inf
from longrank.cli.models import (
    BudgetOption,
    DeviceOption,
    PricesOption,
    RepliesOption,
    accounted,
    audited_ranker,
    chat_spec,
    paid_ranker,
)
from longrank.cli.profile import TokenizerName, TokenizerOption, make_tokenizer

if TYPE_CHECKING:
    from longrank.audit.card import Card
    from longrank.audit.harden import Hardened


def harden(
    ranker: RankerName,
    *,
    data: DataFolder = None,
    queries: Queries = None,
    slots: Slots = None,
    lengths: Lengths = None,
    distractors: Distractors = None,
    quick: Quick = False,
    tolerance: Tolerance = None,
    seed: Seed = 0,
    device: DeviceOption = "cpu",
    tokenizer: TokenizerOption = TokenizerName.words,
    out: Annotated[Path, typer.Option("--out", help="Folder of cards, answers and hardened.toml.")] = Path("hardened"),
    most_cost: Annotated[
        float,
        typer.Option(
            "--most-cost",
            min=1,
            callback=number_or_inf,
            help="Skip wrappers that read more than so many times the words; inf skips none.",
        ),
    ] = 8.0,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    cache: RepliesOption = None,
    fail_if_lost: FailIfLost = None,
) -> None:
    """Probe and audit a ranker, then find the cheapest wrapper that lets it read documents to the end.

    Writes a card for every variant that was tried, and hardened.toml with the one to use. --fail-if-lost judges the
    ranker as it is.

    longrank harden my-checkpoint --data my-collection --fail-if-lost 0.10
    """
    from longrank.audit.card import window_card
    from longrank.audit.harden import harden as run_harden
    from longrank.audit.harden import write_config
    from longrank.core.errors import SettingsError
    from longrank.rankers.adapters import as_audited, identity, orders_lists, ranker_label
    from longrank.reports.board import write_board
    from longrank.reports.card import window_words

    sizes = {"queries": queries, "slots": slots, "distractors": distractors}
    settings = make_settings(sizes, lengths, quick=quick, tolerance=tolerance, seed=seed)
    paying = paid_ranker(chat_spec(ranker), cache=cache, budget=budget, prices=prices, home=out)
    if orders_lists(ranker):
        raise SettingsError(
            f"{ranker} orders lists, and wrappers are for rankers that score single documents: audit it with --listwise"
        )
    scorer, account = audited_ranker(ranker, paying, device=device)  # first: it may be misspelt
    design, collection = prepare(data, settings, make_tokenizer(tokenizer))
    say_cost(design, listwise=False, price=None)
    typer.echo("Each wrapper that is tried scores as many documents, by parts that were not scored before.", err=True)
    with accounted(account):
        result = run_harden(
            scorer,
            design,
            name=ranker,
            identity=identity(ranker),
            collection=collection,
            most_cost=most_cost,
            folder=out / "responses" / ranker_label(ranker).replace("/", "-"),
        )
    typer.echo(window_words(window_card(result.window)))
    ceiling = _ceiling(result)
    if ceiling:
        typer.echo(ceiling)
    cards = _write_cards(result, out)
    window = window_words(window_card(result.window))
    write_board(out / "board.html", cards, notes=[note for note in (result.advice, window, ceiling) if note])
    if result.unsettled:
        typer.echo(f"{result.advice} See {out / 'board.html'}.")
        raise typer.Exit(1)
    if result.chosen is None:
        typer.echo(f"{result.advice} See {out / 'board.html'}.")
    else:
        write_config(replace(result, ranker=as_audited(ranker)), out / "hardened.toml")
        typer.echo(f"{result.advice} See {out / 'board.html'}; the ranker to use is in {out / 'hardened.toml'}.")
    finish(cards[0], fail_if_lost)


def _ceiling(result: "Hardened") -> str:
    if result.visible is None:
        return ""
    seen = result.visible.located.value
    return f"Of the collection's relevant pairs, {seen:.0%} have evidence that begins inside this window."


def _write_cards(result: "Hardened", out: Path) -> "list[Card]":
    """Cards of all variants that were tried, the bare ranker's first, each written and shown in a line."""
    from longrank.audit.card import make_card, write_card
    from longrank.reports.card import shown, write_card_page

    _remove_earlier(out)
    cards = []
    for trial in result.trials:
        label = "bare" if trial.wrapper is None else trial.wrapper.name
        card = make_card(trial.audit, result.window if trial.wrapper is None else None)
        cards.append(card)
        write_card(card, out / f"{label}.json")
        write_card_page(out / f"{label}.html", card)
        lost = f"lost at the worst slot {shown(card.lost)}"
        typer.echo(f"{label}: {outcome_word(trial.audit)}, {lost}, words x {trial.cost:.1f}")
    return cards


def _remove_earlier(out: Path) -> None:
    """Remove what an earlier hardening wrote: its advice and wrappers need not be those of this one."""
    from longrank.audit.wrappers import WRAPPERS

    labels = ("bare", *(entry.name for entry in WRAPPERS))
    cards = [f"{label}.{kind}" for label in labels for kind in ("json", "html")]
    for name in ("hardened.toml", *cards):
        (out / name).unlink(missing_ok=True)
