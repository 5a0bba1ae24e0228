"""Chat models by name, as settings and experiments ask for them."""

from collections.abc import Sequence
from pathlib import Path

from longrank.chat.connecting import ChatSettings, connect
from longrank.chat.messages import ChatModel
from longrank.chat.scripted import ScriptedChat
from longrank.core.registry import Registry
from longrank.core.settings import parse_settings
from longrank.core.types import Spec

CHATS: Registry[ChatModel] = Registry("chat model")
MONEY = ("cache", "budget", "prices")


def without_money(chat: Spec) -> Spec:
    """What shapes a chat model's answers: its spec without budget, prices and cache."""
    return Spec(chat.name, {name: value for name, value in chat.params.items() if name not in MONEY})


@CHATS.add("openai")
def openai(
    model: str,
    *,
    base_url: str | None = None,
    temperature: float | str | None = None,
    top_logprobs: int = 0,
    cache: str | None = None,
    budget: float | None = None,
    prices: str | None = None,
) -> ChatModel:
    """A model of any server that speaks OpenAI's dialect; the key comes from OPENAI_API_KEY."""
    table = {"model": model, "base_url": base_url, "temperature": temperature, "top_logprobs": top_logprobs}
    settings = parse_settings(ChatSettings, {"provider": "openai", **table}, source="chat model 'openai'")
    return connect(settings, cache=_path(cache), budget=budget, prices=_path(prices)).chat


@CHATS.add("anthropic")
def anthropic(
    model: str,
    *,
    base_url: str | None = None,
    temperature: float | str | None = None,
    cache: str | None = None,
    budget: float | None = None,
    prices: str | None = None,
) -> ChatModel:
    """A model of Anthropic; the key comes from ANTHROPIC_API_KEY."""
    table = {"model": model, "base_url": base_url, "temperature": temperature}
    settings = parse_settings(ChatSettings, {"provider": "anthropic", **table}, source="chat model 'anthropic'")
    return connect(settings, cache=_path(cache), budget=budget, prices=_path(prices)).chat


@CHATS.add("scripted")
def scripted(replies: Sequence[str]) -> ChatModel:
    """Replies used up in order, for dry runs."""
    return ScriptedChat(replies)


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)
