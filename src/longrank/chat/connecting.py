"""A chat model as jobs use it: patient, counted, kept within a budget, and with its replies on disk."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from longrank.chat.anthropic import AnthropicChat
from longrank.chat.cache import CachedChat
from longrank.chat.cost import MeteredChat, Price, Rehearsal, load_prices
from longrank.chat.messages import ChatModel
from longrank.chat.openai import OpenAIChat
from longrank.chat.patience import Patience, PatientChat
from longrank.core.errors import SettingsError
from longrank.core.settings import Settings


class ChatSettings(Settings):
    """Which model answers, and how it is asked; keys are not settings, they stay in the environment.

    The temperature is 0 for OpenAI's dialect and not sent to Anthropic, unless it is given; ``"unsent"`` sends none.
    """

    provider: Literal["openai", "anthropic"]
    model: str
    base_url: str | None = None
    temperature: float | Literal["unsent"] | None = None
    top_logprobs: int = 0
    timeout_seconds: float = 120.0
    patience: Patience = Patience()

    @property
    def sent_temperature(self) -> float | None:
        """The temperature that goes to the server, None if none does."""
        if self.temperature is None:
            return 0.0 if self.provider == "openai" else None
        return None if self.temperature == "unsent" else self.temperature

    @property
    def shaping(self) -> dict[str, Any]:
        """What can change a reply: part of its name in the cache."""
        return {
            "provider": self.provider,
            "base_url": self.base_url,
            "temperature": self.sent_temperature,
            "top_logprobs": self.top_logprobs,
        }


@dataclass(frozen=True)
class Connection:
    """A chat model and the meter that counts what it really asked."""

    chat: ChatModel
    meter: MeteredChat


def connect(
    settings: ChatSettings, *, cache: Path | None, budget: float | None = None, prices: Path | None = None
) -> Connection:
    """The model of the settings; replies already in ``cache`` are free, and ``budget`` is in dollars."""
    price = load_prices(prices).find(settings.model)
    if budget is not None and price is None:
        raise SettingsError(
            f"a budget needs a price, and no price file lists {settings.model!r}: name a JSON file such as "
            f'{{"models": {{"{settings.model}": {{"per_million_in": 1.0, "per_million_out": 4.0}}}}}}'
        )
    meter = MeteredChat(PatientChat(_client(settings), settings.patience), price=price, budget=budget)
    return Connection(_cached(meter, settings, cache) if cache else meter, meter)


def rehearse(settings: ChatSettings, *, cache: Path | None, prices: Path | None = None) -> Rehearsal:
    """A stand-in for the model that asks nobody and adds up what the job would cost beyond what is in the cache."""
    price: Price | None = load_prices(prices).find(settings.model)
    return Rehearsal(price, known=_cached(Rehearsal(), settings, cache) if cache else None)


def _cached(chat: ChatModel, settings: ChatSettings, folder: Path) -> CachedChat:
    return CachedChat(chat, folder, model=settings.model, parameters=settings.shaping)


def _client(settings: ChatSettings) -> ChatModel:
    if settings.provider == "anthropic":
        if settings.top_logprobs:
            raise SettingsError("anthropic offers no log-probabilities: leave top_logprobs at 0")
        return AnthropicChat(
            settings.model,
            base_url=settings.base_url,
            temperature=settings.sent_temperature,
            timeout_seconds=settings.timeout_seconds,
        )
    return OpenAIChat(
        settings.model,
        base_url=settings.base_url,
        temperature=settings.sent_temperature,
        top_logprobs=settings.top_logprobs,
        timeout_seconds=settings.timeout_seconds,
    )
