"""What calls cost: estimated before a job, counted during it, and stopped at a limit."""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path

from pydantic import Field

from longrank.chat.cache import CachedChat
from longrank.chat.messages import ChatModel, Message, Reply
from longrank.core.errors import BudgetSpent, SettingsError
from longrank.core.settings import Settings, parse_settings

SHIPPED_PRICES = Path(__file__).with_name("prices.json")
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")  # what providers hang behind a model's name
_BYTES_PER_TOKEN = 3  # English has about four: a limit must hold for text that divides worse
_TOKENS_PER_TURN = 8


class Price(Settings):
    """US dollars per million tokens."""

    per_million_in: float = Field(ge=0)
    per_million_out: float = Field(ge=0)

    def dollars(self, tokens_in: int, tokens_out: int) -> float:
        """Price of so many tokens.

        >>> Price(per_million_in=0.15, per_million_out=0.60).dollars(2_000_000, 10_000)
        0.306
        """
        return (tokens_in * self.per_million_in + tokens_out * self.per_million_out) / 1e6


class PriceList(Settings):
    """A price file: prices by model, when they were listed, and a note on where they are from."""

    models: Mapping[str, Price]
    date: str = ""
    note: str = ""

    def find(self, model: str) -> Price | None:
        """The price of a model; a dated snapshot has the price of its model if it has none of its own."""
        return self.models.get(model) or self.models.get(_SNAPSHOT.sub("", model))


def load_prices(path: Path | None = None) -> PriceList:
    """The shipped prices, with those of a JSON file of the same form put over them."""
    shipped = _read(SHIPPED_PRICES)
    if path is None:
        return shipped
    own = _read(path)
    return PriceList(models={**shipped.models, **own.models}, date=own.date, note=own.note)


def _read(path: Path) -> PriceList:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"no price file {path}") from None
    except ValueError as error:
        raise SettingsError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: a price file is an object with 'models'")
    return parse_settings(PriceList, table, source=str(path))


@dataclass(frozen=True)
class Account:
    """Calls, their tokens and their price; without a known price the dollars are None."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float | None = 0.0

    def __add__(self, other: "Account") -> "Account":
        unknown = self.dollars is None or other.dollars is None
        return Account(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            None if unknown else (self.dollars or 0.0) + (other.dollars or 0.0),
        )

    def __str__(self) -> str:
        price = "price unknown" if self.dollars is None else f"${self.dollars:.4f}"
        return f"{self.calls:,} calls, {self.tokens_in:,} tokens in, {self.tokens_out:,} out, {price}"


def bounded_tokens(messages: Sequence[Message]) -> int:
    """More tokens than a prompt will have in most languages, counted without the model's tokenizer.

    >>> bounded_tokens([Message("user", "What was the bridge painted with?")])
    19
    """
    return sum(ceil(len(m.text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN) + _TOKENS_PER_TURN for m in messages)


class MeteredChat:
    """A chat model whose calls are counted, and refused once they might pass ``budget`` dollars.

    A call is made only if the money left covers its prompt and the longest reply, those of calls under way included.
    That much is charged where the reply does not tell its tokens. Put it inside ``CachedChat``: replies from disk
    are free.
    """

    def __init__(self, chat: ChatModel, *, price: Price | None = None, budget: float | None = None) -> None:
        if budget is not None and price is None:
            raise SettingsError("a budget needs the model's price: add the model to a price file, or set no budget")
        if budget is not None and not 0 < budget < inf:  # neither would NaN be reached
            raise SettingsError(f"a budget is more than 0 dollars, got {budget}; without a limit set none")
        self._chat, self._price, self._budget = chat, price, budget
        self._guard = threading.Lock()
        self._under_way = 0.0
        self._account = Account(dollars=0.0 if price else None)

    @property
    def account(self) -> Account:
        """What was asked so far; calls that failed brought no tokens and are not counted."""
        return self._account

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """The inner model's reply, or BudgetSpent before anything is asked."""
        bound = (bounded_tokens(messages), max_tokens)
        most = self._price.dollars(*bound) if self._price else 0.0
        self._reserve(most)
        try:
            reply = self._chat.reply(messages, max_tokens=max_tokens)
        except BaseException:
            self._settle(most, Account(dollars=0.0 if self._price else None))
            raise
        used = (reply.tokens_in, reply.tokens_out) if reply.tokens_in else bound
        self._settle(most, Account(1, *used, self._price.dollars(*used) if self._price else None))
        return reply

    def _reserve(self, most: float) -> None:
        with self._guard:
            spent = self._account.dollars or 0.0
            if self._budget is not None and spent + self._under_way + most > self._budget:
                raise BudgetSpent(
                    f"the next call may cost ${most:.4f}, and of the budget of ${self._budget:.2f} are spent or under "
                    f"way ${spent + self._under_way:.4f} ({self._account}). With a cache the job goes on from here: "
                    f"run it again with a larger budget"
                )
            self._under_way += most

    def _settle(self, most: float, used: Account) -> None:
        with self._guard:
            self._under_way -= most
            self._account += used


class Rehearsal:
    """A chat model that asks nobody: build a ranker or judge with it, run the job, and read ``account``.

    Every reply is empty and counted with its full length, so the account is an upper bound for calls whose prompts do
    not depend on earlier replies, and near it for the others. What ``known`` has on disk is answered from there, free.

    >>> rehearsal = Rehearsal(Price(per_million_in=1, per_million_out=2))
    >>> _ = rehearsal.reply([Message("user", "What was the bridge painted with?")], max_tokens=100)
    >>> print(rehearsal.account)
    1 calls, 19 tokens in, 100 out, $0.0002
    """

    def __init__(self, price: Price | None = None, *, known: CachedChat | None = None) -> None:
        self._price, self._known = price, known
        self._guard = threading.Lock()
        self.account = Account(dollars=0.0 if price else None)

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """An empty reply, or the one on disk."""
        found = self._known.known(messages, max_tokens=max_tokens) if self._known else None
        if found is not None:
            return found
        tokens_in = bounded_tokens(messages)
        dollars = self._price.dollars(tokens_in, max_tokens) if self._price else None
        with self._guard:
            self.account += Account(1, tokens_in, max_tokens, dollars)
        return Reply("", tokens_in, max_tokens)
