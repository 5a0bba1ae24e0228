"""Chat models of Anthropic's Messages API."""

from collections.abc import Sequence
from typing import Any

from longrank.chat.messages import Message, Reply
from longrank.chat.remote import NO_KEY, client_package, guarded, key_from_environment
from longrank.core.addresses import shown_address
from longrank.core.errors import ChatBusy

_HOME = "https://api.anthropic.com"


class AnthropicChat:
    """A model of Anthropic; the key comes from the environment variable ``key_variable``.

    ``temperature=None`` leaves it to the model: newer ones accept none. Log-probabilities are not offered.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_variable: str = "ANTHROPIC_API_KEY",
        temperature: float | None = None,
        timeout_seconds: float = 120.0,
    ) -> None:
        package = client_package("anthropic")
        self._key = key_from_environment(key_variable, otherwise=None if base_url is None else NO_KEY)
        self._server = f"{model} at {shown_address(base_url or _HOME)}"
        self._client: Any = guarded(
            lambda: package.Anthropic(
                api_key=self._key.get_secret_value(),
                base_url=base_url or _HOME,
                timeout=timeout_seconds,
                max_retries=0,
            ),
            key=self._key,
            server=self._server,
        )
        self._fixed: dict[str, Any] = {"model": model}
        if temperature is not None:
            self._fixed["extra_body"] = {"temperature": temperature}  # not every version of the package names it

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """One message, not streamed; system turns go where this API wants them."""
        system = "\n\n".join(m.text for m in messages if m.role == "system")
        asked = {
            **self._fixed,
            **({"system": system} if system else {}),
            "max_tokens": max_tokens,
            "messages": [{"role": m.role, "content": m.text} for m in messages if m.role != "system"],
        }
        found = guarded(lambda: self._client.messages.create(**asked), key=self._key, server=self._server)
        try:
            text = "".join(block.text for block in found.content if block.type == "text")
            return Reply(text, int(found.usage.input_tokens), int(found.usage.output_tokens))
        except (AttributeError, TypeError, ValueError):
            pass
        raise ChatBusy(f"{self._server} answered with something that is no message")
