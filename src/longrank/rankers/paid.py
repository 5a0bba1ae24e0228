"""Rankers that ask a paid chat model: what a job would cost, the ranker within its budget, and its account."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from longrank.chat.connecting import ChatSettings, connect, rehearse
from longrank.chat.cost import Account, PriceList, load_prices
from longrank.chat.messages import ChatModel
from longrank.chat.registry import MONEY, without_money
from longrank.core.settings import parse_settings
from longrank.core.types import Spec
from longrank.rankers.ranking import TextRanker
from longrank.rankers.ready import build_ready


@dataclass(frozen=True)
class PaidRanker:
    """A ranker of ``READY`` over a chat model behind a price; nothing is asked before ``connected``."""

    spec: Spec
    settings: ChatSettings
    cache: Path | None = None
    budget: float | None = None
    prices: Path | None = None

    def estimate(self, job: Callable[[TextRanker], object]) -> Account:
        """What the job would cost beyond the replies in the cache, at most or nearly so; nobody is asked."""
        rehearsal = rehearse(self.settings, cache=self.cache, prices=self.prices)
        job(self._over(rehearsal))
        return rehearsal.account

    def connected(self) -> "tuple[TextRanker, Callable[[], Account]]":
        """The ranker over the real model, and a function that says what was asked so far."""
        connection = connect(self.settings, cache=self.cache, budget=self.budget, prices=self.prices)
        return self._over(connection.chat), lambda: connection.meter.account

    @property
    def price_list(self) -> PriceList:
        """The prices that the account is made with."""
        return load_prices(self.prices)

    def _over(self, chat: ChatModel) -> TextRanker:
        return cast(TextRanker, build_ready(Spec(self.spec.name, {**self.spec.params, "chat": chat})))


def paid(
    spec: Spec, *, cache: Path | None = None, budget: float | None = None, prices: Path | None = None
) -> PaidRanker | None:
    """A spec's ranker with its costs under control; None if it asks no chat model that has a price.

    What is given here goes before what the spec says of cache, budget and prices.
    """
    chat = spec.params.get("chat")
    if not isinstance(chat, Spec) or chat.name not in ("openai", "anthropic"):
        return None
    shaping = without_money(chat).params
    settings = parse_settings(ChatSettings, {"provider": chat.name, **shaping}, source=f"chat model {chat.name!r}")
    own = {name: chat.params.get(name) for name in MONEY}
    return PaidRanker(
        spec,
        settings,
        cache=cache or (Path(own["cache"]) if own["cache"] else None),
        budget=budget if budget is not None else own["budget"],
        prices=prices or (Path(own["prices"]) if own["prices"] else None),
    )
