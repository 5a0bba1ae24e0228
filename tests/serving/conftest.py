"""A real server on a free port of this machine."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import pytest

from longrank.core.contracts import Ranker
from longrank.core.settings import parse_settings
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.serving.desk import Desk
from longrank.serving.launch import listen, make_server
from longrank.serving.logs import LOGGER, JsonLines
from longrank.serving.settings import ServeSettings
from longrank.testing import tiny_spec


@dataclass
class Running:
    """A server that runs: where it is, what it wrote, how it is told to stop."""

    url: str
    port: int
    desk: Desk
    stop: Callable[[], None]
    stream: StringIO = field(default_factory=StringIO)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@contextmanager
def running(ranker: Ranker, *, token: str | None = None, **changes: Any) -> Iterator[Running]:
    """A server for the time of a block."""
    pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    settings = parse_settings(ServeSettings, {"ranker": "tiny", "port": 0, **changes}, source="test")
    server, desk = make_server(ranker, settings, token=token)
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    with listen(settings) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.005)

        def stop() -> None:
            server.should_exit = True
            thread.join(30)
            desk.worker.stop()

        try:
            yield Running(f"http://127.0.0.1:{port}", port, desk, stop, stream)
        finally:
            stop()
            LOGGER.removeHandler(handler)


Serving = Callable[..., AbstractContextManager[Running]]


@pytest.fixture(scope="session")
def serving() -> Serving:
    """``running``, for tests that want a server of their own."""
    return running


@pytest.fixture(scope="session")
def tiny() -> NeuralRanker:
    """MaxP over windows of 40 words every 30, the first 200 words; untrained."""
    return build_ranker(tiny_spec("maxp", size=40, stride=30, max_tokens=200)).eval()


@pytest.fixture(scope="module")
def server(tiny: NeuralRanker) -> Iterator[Running]:
    """A server of the tiny ranker."""
    with running(tiny) as found:
        yield found
