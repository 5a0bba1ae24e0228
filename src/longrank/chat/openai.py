"""Chat models behind any server that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, OpenRouter and others."""

from collections.abc import Mapping, Sequence
from typing import Any

from longrank.chat.messages import Message, Reply
from longrank.chat.remote import NO_KEY, client_package, guarded, key_from_environment
from longrank.core.addresses import shown_address
from longrank.core.errors import ChatBusy, SettingsError

_HOME = "https://api.openai.com/v1"
_MOST_LOGPROBS = 20


class OpenAIChat:
    """A model of an OpenAI-compatible server; the key comes from the environment variable ``key_variable``.

    A server at another ``base_url`` may need no key. ``temperature=None`` leaves it to the model: some accept none.
    With ``top_logprobs`` the reply carries the log-probabilities of that many candidates for its first token.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_variable: str = "OPENAI_API_KEY",
        temperature: float | None = 0.0,
        top_logprobs: int = 0,
        timeout_seconds: float = 120.0,
    ) -> None:
        if not 0 <= top_logprobs <= _MOST_LOGPROBS:
            raise SettingsError(f"top_logprobs must lie between 0 and {_MOST_LOGPROBS}, got {top_logprobs}")
        package = client_package("openai")
        self._key = key_from_environment(key_variable, otherwise=None if base_url is None else NO_KEY)
        self._server = f"{model} at {shown_address(base_url or _HOME)}"
        self._client: Any = guarded(
            # retries are ours, and the base URL is always given: no variable of the package may redirect the text
            lambda: package.OpenAI(
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
            self._fixed["temperature"] = temperature
        if top_logprobs:
            self._fixed |= {"logprobs": True, "top_logprobs": top_logprobs}
        # OpenAI's newer models refuse the old name, other servers may not know the new one
        self._length = "max_completion_tokens" if base_url is None else "max_tokens"

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """One completion, not streamed."""
        asked = {
            **self._fixed,
            self._length: max_tokens,
            "messages": [{"role": m.role, "content": m.text} for m in messages],
        }
        found = guarded(lambda: self._client.chat.completions.create(**asked), key=self._key, server=self._server)
        try:
            choice, usage = found.choices[0], found.usage
            tokens_in, tokens_out = (int(usage.prompt_tokens), int(usage.completion_tokens)) if usage else (0, 0)
            return Reply(choice.message.content or "", tokens_in, tokens_out, _first_token(choice))
        except (AttributeError, IndexError, TypeError, ValueError):
            pass
        raise ChatBusy(f"{self._server} answered with something that is no chat completion")


def _first_token(choice: Any) -> Mapping[str, float] | None:
    """Candidates for the reply's first token; None where the server gives none."""
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    return {str(c.token): float(c.logprob) for c in content[0].top_logprobs} if content else None
