"""From settings to a listening server."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from longrank.audit.harden import build_wrapper
from longrank.core.addresses import shown_address
from longrank.core.contracts import Ranker
from longrank.core.errors import MissingExtra, ModelError, SettingsError
from longrank.core.types import Spec
from longrank.serving.logs import LOGGER, log_to
from longrank.serving.settings import TOKEN_VARIABLE, ServeSettings

if TYPE_CHECKING:
    import uvicorn

    from longrank.serving.desk import Desk

_LOCAL = frozenset({"127.0.0.1", "::1", "localhost"})


def load_ranker(settings: ServeSettings) -> Ranker:
    """The ranker that the settings name, on its device, in its runtime and its wrapper.

    A cross-encoder's folder is read to the end of a document, unless a wrapper is to do that.
    """
    from longrank.rankers.adapters import resolve
    from longrank.rankers.embedding import EmbeddingRanker
    from longrank.rankers.neural import NeuralRanker
    from longrank.rankers.runtimes import with_runtime

    ranker = resolve(settings.ranker, device=settings.device, whole=settings.wrapper is None)
    if isinstance(ranker, NeuralRanker) and not ranker.trained and not settings.untrained:
        raise ModelError(
            f"{settings.ranker} was never trained: its order means nothing (untrained=true serves it anyway)"
        )
    if isinstance(ranker, NeuralRanker | EmbeddingRanker):
        ranker = with_runtime(ranker, settings.runtime)
    elif settings.runtime != "fp32":
        raise SettingsError(
            f"runtime {settings.runtime!r} is for models that longrank runs itself, and "
            f"{shown_address(settings.ranker)!r} is none; a cross-encoder is one as 'firstp:FOLDER' or 'maxp:FOLDER'"
        )
    return ranker if settings.wrapper is None else build_wrapper(ranker, Spec(settings.wrapper, settings.params))


def make_server(ranker: Ranker, settings: ServeSettings, *, token: str | None = None) -> "tuple[uvicorn.Server, Desk]":
    """A server that is not listening yet, and its desk; ``Worker.stop`` ends the model's thread."""
    try:
        import fastapi  # noqa: F401
        import uvicorn
    except ImportError:
        raise MissingExtra("fastapi and uvicorn", "serve", purpose="longrank serve") from None
    from longrank.serving.app import make_app
    from longrank.serving.desk import make_desk
    from longrank.serving.readers import reader_of

    # packed batches hardly ever have the same shape twice: kernels kept for each would only fill the memory
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
    reader = reader_of(ranker, batch_tokens=settings.batch_tokens, listwise=settings.listwise)
    desk = make_desk(reader, settings, token=token)
    config = uvicorn.Config(
        make_app(desk),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=int(max(1, settings.stop_seconds)),
    )
    return uvicorn.Server(config), desk


def listen(settings: ServeSettings) -> socket.socket:
    """A socket bound to host and port; a client that stops reading is dropped, where the system can do that."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # the protocol must be named: asyncio sends small replies without delay only where it reads TCP
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(settings.send_seconds * 1000))
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise SettingsError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}") from None
    return listening


def token_from_environment() -> str | None:
    """The token that requests must carry, None if the variable is not set; an empty one is a mistake."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given is not None and not given.strip():
        raise SettingsError(f"{TOKEN_VARIABLE} is set and empty: give it a token, or unset it to let everybody in")
    return None if given is None else given.strip()


def serve(settings: ServeSettings) -> None:
    """Serve until a signal to stop; what was accepted by then is finished."""
    token = token_from_environment()
    log_to()
    server, desk = make_server(load_ranker(settings), settings, token=token)
    with listen(settings) as listening:
        host, port = listening.getsockname()[:2]
        fields = {"url": f"http://{host}:{port}/", "model": desk.model, "token": token is not None}
        LOGGER.info("listening", extra={"fields": fields})
        if token is None and settings.host not in _LOCAL:
            LOGGER.warning(f"anybody who reaches this host may use the server: set {TOKEN_VARIABLE}")
        with _signals_ignored():  # the web server handles them, and raises them again when it is done
            server.run(sockets=[listening])
    desk.worker.stop()
    LOGGER.info("stopped")


@contextmanager
def _signals_ignored() -> Iterator[None]:
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
