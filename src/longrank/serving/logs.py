"""One line of JSON an event, without texts, queries, keys or the words of unexpected errors."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

LOGGER = logging.getLogger("longrank.serve")


class JsonLines(logging.Formatter):
    """Time, level and event, and the fields given as ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; of an exception the kind and the place, since its words may quote a text."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage().partition("\n")[0] if record.name == LOGGER.name else _server_event(record),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1] is not None:
            line.update(failure(record.exc_info[1]))
        return json.dumps(line)


def failure(error: BaseException) -> dict[str, str]:
    """Kind and place of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return {"error": type(error).__name__, "at": at}


def log_to(stream: TextIO | None = None) -> None:
    """Send our events and the web server's to a stream, standard error unless given, as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name in (LOGGER.name, "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.setLevel(logging.INFO)
        logger.propagate = name == "uvicorn.error"


def _server_event(record: logging.LogRecord) -> str:
    """The web server's own words, as long as they carry no values from requests."""
    return (
        record.getMessage().partition("\n")[0] if record.levelno <= logging.INFO else str(record.msg).partition("\n")[0]
    )
