"""Addresses fit to be shown: what may be a password or a key is left out."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_PLAIN_HOST = re.compile(r"([^/?#@:]*|\[[^]@]*])(:\d*)?([/?#]|$)")
_SECRET = re.compile(
    r"(key|token|secret|pass|passwd|password|passphrase|pwd|auth|authorization|bearer|jwt|sas|sig|signature|"
    r"credentials?|user|username|login)$|^code$",
    re.IGNORECASE,
)
_LONGEST_SHOWN = 19  # characters of a value that is not a model's name: any longer one may be a key


def shown_address(name: str, *, longest: int = _LONGEST_SHOWN) -> str:
    """An address without user, password, fragment and such query values as may be keys; any other text as it is.

    Values of more than ``longest`` characters are left out whatever they are called: one may be a key.

    >>> shown_address("https://me:pass@host:8080/v2/rerank?model=rerank-v3.5&api_key=abc&top=5#x")
    'https://host:8080/v2/rerank?model=rerank-v3.5&top=5'
    >>> shown_address("models/maxp")
    'models/maxp'
    """
    scheme, mark, rest = name.partition("://")
    if not mark:
        return name
    if not _PLAIN_HOST.match(rest):
        rest = rest.rpartition("@")[2]  # the last one: a password may hold a slash, though it should not
    place, _, query = rest.partition("#")[0].partition("?")
    kept = "&".join(part for part in query.split("&") if part and not _may_be_secret(part, longest))
    return f"{scheme}://{place}{'?' if kept else ''}{kept}"


def shown_values(value: Any) -> Any:
    """A JSON value with every address in it fit to be shown.

    >>> shown_values({"chat": {"model": "m", "base_url": "http://me:pass@host/v1"}})
    {'chat': {'model': 'm', 'base_url': 'http://host/v1'}}
    """
    if isinstance(value, str):
        return shown_address(value) if re.match(r"[a-z][a-z0-9+.-]*://(\S+$|.*@)", value, re.IGNORECASE) else value
    if isinstance(value, Mapping):
        return {key: shown_values(item) for key, item in value.items()}
    return [shown_values(item) for item in value] if isinstance(value, list | tuple) else value


def _may_be_secret(part: str, longest: int) -> bool:
    name, sign, value = map(unquote, part.partition("="))
    return bool(_SECRET.search(name)) or (name != "model" and len(value if sign else name) > longest)
