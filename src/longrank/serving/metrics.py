"""Counts of what the server does, in Prometheus' text form."""

import threading
from collections.abc import Mapping

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_HELP = {
    "longrank_requests_total": ("counter", "Requests answered, by path and status."),
    "longrank_request_seconds": ("histogram", "Time from the first byte of a request to its answer."),
    "longrank_documents_total": ("counter", "Documents scored."),
    "longrank_tokens_total": ("counter", "Tokens read for answered requests."),
    "longrank_cut_documents_total": ("counter", "Documents that were not read to the end."),
    "longrank_cut_tokens_total": ("counter", "Tokens that were not read."),
    "longrank_cut_query_tokens_total": ("counter", "Tokens of queries that were not read."),
    "longrank_cancelled_total": ("counter", "Requests whose client left before the answer."),
    "longrank_turns_total": ("counter", "Turns of the model."),
    "longrank_rows_total": ("counter", "Rows (chunks, or documents where a ranker is asked whole) run."),
    "longrank_model_seconds_total": ("counter", "Time the model was at work."),
    "longrank_requests_now": ("gauge", "Requests being worked on."),
    "longrank_held_bytes": ("gauge", "Bytes of request bodies held."),
}

Labels = tuple[tuple[str, str], ...]


class Meters:
    """Counters that any thread may raise.

    >>> meters = Meters()
    >>> meters.add("longrank_documents_total", 3)
    >>> [line for line in meters.text({}).splitlines() if line.startswith("longrank_documents")]
    ['longrank_documents_total 3']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {}
        self._seconds: dict[str, list[float]] = {}

    def add(self, name: str, value: float = 1, **labels: str) -> None:
        """Raise a counter."""
        with self._lock:
            row = self._values.setdefault(name, {})
            key = tuple(sorted(labels.items()))
            row[key] = row.get(key, 0) + value

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer and its time."""
        self.add("longrank_requests_total", path=path, status=str(status))
        with self._lock:
            row = self._seconds.setdefault(path, [0.0] * (len(_SECONDS) + 2))
            for place, bound in enumerate(_SECONDS):
                row[place] += seconds <= bound
            row[-2] += 1
            row[-1] += seconds

    def turn(self, rows: int, tokens: int, seconds: float) -> None:
        """Count a turn of the model; its tokens are counted with the request that they belong to."""
        self.add("longrank_turns_total")
        self.add("longrank_rows_total", rows)
        self.add("longrank_model_seconds_total", seconds)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of them, one line a value."""
        lines: list[str] = []
        with self._lock:
            for name, (kind, help_text) in _HELP.items():
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
                if kind == "histogram":
                    lines += self._histogram(name)
                elif kind == "gauge":
                    lines.append(f"{name} {gauges.get(name, 0):g}")
                else:
                    found = self._values.get(name, {} if name == "longrank_requests_total" else {(): 0})
                    lines += [f"{name}{_braces(labels)} {_number(value)}" for labels, value in sorted(found.items())]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        lines = []
        for path, row in sorted(self._seconds.items()):
            bounds = [*(f"{bound:g}" for bound in _SECONDS), "+Inf"]
            lines += [
                f"{name}_bucket{_braces((('path', path), ('le', bound)))} {count:g}"
                for bound, count in zip(bounds, row[:-1], strict=True)
            ]
            label = _braces((("path", path),))
            lines += [f"{name}_sum{label} {row[-1]:.6f}", f"{name}_count{label} {row[-2]:g}"]
        return lines


def _braces(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6f}"
