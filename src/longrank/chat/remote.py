"""What the clients of all providers share: packages found late, keys kept out of sight, failures told apart."""

import os
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from pydantic import SecretStr

from longrank.core.errors import ChatBusy, ChatError, MissingExtra

T = TypeVar("T")

_PASSING = frozenset({408, 409, 425, 429})  # and every 5xx: the same request may succeed later
_LONGEST_REASON = 300
NO_KEY = "no-key-was-given"  # what servers without keys are sent: blotted out of errors too, so no common word


def client_package(name: str) -> ModuleType:
    """The provider's package, if the extra ``llm`` is installed."""
    try:
        return import_module(name)
    except ImportError:
        pass
    raise MissingExtra(name, "llm", purpose=f"a chat model of the {name} kind")


def key_from_environment(variable: str, *, otherwise: str | None = None) -> SecretStr:
    """The key in an environment variable, in a wrapper that never shows it; else ``otherwise``, else an error."""
    found = os.environ.get(variable, "").strip() or otherwise
    if found is None:
        raise ChatError(f"no key: set the environment variable {variable}. Keys are read from nowhere else")
    return SecretStr(found)


def guarded(send: Callable[[], T], *, key: SecretStr, server: str) -> T:
    """What ``send`` returns; a failure becomes a ChatError that holds neither the key nor the request it stood in."""
    try:
        return send()
    except Exception as error:  # the packages raise their own types, httpx's, and plain ValueErrors
        failure = _failure(error, key=key, server=server)
    # raised out here, so that the original with its request headers is not kept as the context
    raise failure


def _failure(error: Exception, *, key: SecretStr, server: str) -> ChatError:
    status = getattr(error, "status_code", None)
    what = f"answered with status {status}" if status else "did not answer"
    reason = redacted(f"{type(error).__name__}: {error}", key)[:_LONGEST_REASON]
    message = f"{server} {what} ({reason})"
    if not _may_pass(error, status):
        return ChatError(message)
    return ChatBusy(message, retry_after=_retry_after(error))


def _may_pass(error: Exception, status: object) -> bool:
    if getattr(error, "code", None) == "insufficient_quota":  # status 429, but waiting does not fill an account
        return False
    if isinstance(status, int) and status >= 400:
        return status in _PASSING or status >= 500
    # no status: the connection broke, or what came was no JSON; a TypeError is a call that can never work
    return not isinstance(error, TypeError)


def _retry_after(error: Exception) -> float | None:
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None


def redacted(text: str, key: SecretStr) -> str:
    """The text with the key blotted out: some servers repeat it in their error messages."""
    secret = key.get_secret_value()
    return text.replace(secret, "***") if secret else text
