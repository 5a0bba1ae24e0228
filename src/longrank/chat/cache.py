"""Replies kept on disk, named by a hash of everything that shaped them: a killed job asks nothing twice."""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from longrank.chat.messages import ChatModel, Message, Reply
from longrank.core.disk import write_atomic
from longrank.core.fingerprint import fingerprint, plain


class CachedChat:
    """A chat model whose replies are read from ``folder`` when model, parameters and messages are the same.

    Only finished replies are kept: a call that raised is asked again. ``parameters`` are the ones the inner model
    was built with (temperature and the like); they take part in the name, they are not passed on. A question asked by
    several threads at once is put to the model once.

    >>> from tempfile import TemporaryDirectory
    >>> from longrank.chat.scripted import ScriptedChat
    >>> with TemporaryDirectory() as folder:
    ...     chat = CachedChat(ScriptedChat(["four"]), Path(folder), model="toy")
    ...     [chat.reply([Message("user", "2 + 2?")], max_tokens=5).cached for _ in range(2)]
    [False, True]
    """

    def __init__(
        self, chat: ChatModel, folder: Path, *, model: str, parameters: Mapping[str, Any] | None = None
    ) -> None:
        self._chat = chat
        self._folder = folder
        self._identity = {"model": model, "parameters": plain(parameters or {})}
        self._guard = threading.Lock()
        self._busy: WeakValueDictionary[Path, _Turn] = WeakValueDictionary()

    @property
    def identity(self) -> str:
        """Changes with the model and its parameters."""
        return fingerprint(self._identity)

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        """The reply on disk, or a fresh one that is then written there."""
        path = self._path(messages, max_tokens)
        with self._guard:
            turn = self._busy.setdefault(path, _Turn())
        with turn.lock:
            known = _read(path)
            if known is not None:
                return known
            fresh = self._chat.reply(messages, max_tokens=max_tokens)
            _write(path, fresh)
        return fresh

    def known(self, messages: Sequence[Message], *, max_tokens: int) -> Reply | None:
        """The reply on disk, None if there is none; the model is not asked."""
        return _read(self._path(messages, max_tokens))

    def _path(self, messages: Sequence[Message], max_tokens: int) -> Path:
        identity = {**self._identity, "messages": [[m.role, m.text] for m in messages], "max_tokens": max_tokens}
        text = json.dumps(identity, sort_keys=True)
        name = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return self._folder / name[:2] / f"{name}.json"


class _Turn:
    """One question under way; forgotten when the last thread that waits for it is served."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def _write(path: Path, fresh: Reply) -> None:
    kept = {
        "text": fresh.text,
        "tokens_in": fresh.tokens_in,
        "tokens_out": fresh.tokens_out,
        "logprobs": None if fresh.logprobs is None else dict(fresh.logprobs),
    }
    write_atomic(path, json.dumps(kept))


def _read(path: Path) -> Reply | None:
    """The reply in a file; a missing or damaged file is no reply, so it is asked for again."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Reply(
            str(kept["text"]), int(kept["tokens_in"]), int(kept["tokens_out"]), kept.get("logprobs"), cached=True
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
