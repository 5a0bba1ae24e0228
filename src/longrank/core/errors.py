"""Every exception that longrank raises on purpose.

LongrankError
├── DataError                 a file or value that cannot be used as data
│   ├── BadLine               one line of a file; carries path, line number and reason
│   ├── DuplicateId           an id that must be unique occurs twice
│   ├── BadScore              NaN or infinite where a score must be finite
│   ├── BadSpan               negative, reversed or empty where it must not be
│   ├── SpanOutsideDocument   a span past the end of its text, often another tokenizer's
│   ├── StaleIndex            an index made from other documents or settings than those at hand
│   └── UnknownDocument       a run or span names a document (or query) the collection does not have
├── UnknownName               a registry miss; suggests the nearest names
├── SettingsError             a TOML file, an override or a parameter that does not fit
├── MissingExtra              an optional dependency is not installed; says how to get it
├── TruncatedInput            text would be cut although strict reading was asked for
├── ModelError                weights, vocabulary or architecture that cannot be used as asked
│   └── CheckpointError       a saved ranker that is damaged, foreign or of another version
├── ChatError                 a chat model that did not answer: no connection, time out, refused
│   └── ChatBusy              one that may answer if asked again: rate limit, server error, time-out
├── ServiceError              a scoring service that did not answer, or not as its dialect says
├── BudgetSpent               a job of paid calls that reached the limit it was given
└── TrainingError             training that cannot start or must stop
"""

from pathlib import Path


class LongrankError(Exception):
    """Root of every exception raised on purpose; its text is one sentence for a person."""


class DataError(LongrankError):
    """Data that cannot be used as it is."""


class BadLine(DataError):
    """A line of a file that cannot be read."""

    def __init__(self, path: Path | str, line: int, reason: str) -> None:
        super().__init__(f"{path}, line {line}: {reason}")
        self.path, self.line, self.reason = Path(path), line, reason


class DuplicateId(DataError):
    """An id that must be unique occurs twice."""


class BadScore(DataError):
    """A score that is not finite."""


class BadSpan(DataError):
    """A span that is negative, reversed or otherwise impossible."""


class SpanOutsideDocument(DataError):
    """A span that does not fit into its document."""


class StaleIndex(DataError):
    """An index that was made from other documents or settings."""


class UnknownDocument(DataError):
    """A document or query id that the collection does not have."""


class UnknownName(LongrankError):
    """A name that a registry does not hold."""


class SettingsError(LongrankError):
    """Settings that are misspelt, of the wrong type, or contradict each other."""


class MissingExtra(LongrankError):
    """An optional dependency is needed and absent."""

    def __init__(self, package: str, extra: str, *, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package!r}: pip install 'longrank[{extra}]'")


class TruncatedInput(LongrankError):
    """Text would be cut although strict reading was asked for."""


class ModelError(LongrankError):
    """A model that cannot be used as asked."""


class CheckpointError(ModelError):
    """A saved ranker that cannot be trusted or understood."""


class ChatError(LongrankError):
    """A chat model that did not answer."""


class ChatBusy(ChatError):
    """A chat model that may answer if asked again; ``retry_after`` is the wait in seconds it asked for."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class BudgetSpent(LongrankError):
    """A job of paid calls that reached its limit; not a ``ChatError``, so that nobody takes it for a missing reply."""


class ServiceError(LongrankError):
    """A scoring service that did not answer as it should."""


class TrainingError(LongrankError):
    """Training that cannot start or must stop."""
