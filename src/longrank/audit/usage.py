"""What an audit cost: calls, texts, tokens and time, against a design that scores every list anew."""

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from longrank.audit.design import AuditDesign, Probe
from longrank.audit.response import naive_cost
from longrank.chat.cost import Account
from longrank.core.contracts import Ranker, Tokenizer
from longrank.core.disk import write_atomic
from longrank.core.types import Document, Query, Scores

TIMINGS = "timings.json"
_SAMPLED = 3  # queries whose lists are counted to know what the naive design would read


@dataclass
class Usage:
    """Counts of what a model was given and the seconds it took; texts are documents, or chunks where those are scored.

    ``retried`` counts requests that a busy service had to be sent again, by its answer.

    >>> Usage(1, 10, 500, 2.0) + Usage(1, 10, 500, 1.0)
    Usage(calls=2, texts=20, tokens=1000, seconds=3.0, retried=Counter())
    """

    calls: int = 0
    texts: int = 0
    tokens: int = 0
    seconds: float = 0.0
    retried: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            self.calls + other.calls,
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.seconds + other.seconds,
            self.retried + other.retried,
        )


@dataclass(frozen=True)
class Metered:
    """A ranker whose use is counted; a call that fails counts too, it may have been paid for."""

    ranker: Ranker
    tokenizer: Tokenizer
    usage: Usage = field(default_factory=Usage)

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """What the ranker answers."""
        self.usage.calls += 1
        self.usage.texts += len(documents)
        self.usage.tokens += sum(len(self.tokenizer.tokenize(document.text)) for document in documents)
        began = time.perf_counter()
        try:
            return self.ranker.score(query, documents)
        finally:
            self.usage.seconds += time.perf_counter() - began
            self.usage.retried = Counter(getattr(self.ranker, "retried", {}))


def naive_tokens(design: AuditDesign, *, queries: int) -> int:
    """Tokens of so many queries' documents if every target had its own copy of the distractors; from a few queries."""
    sample = design.queries[:_SAMPLED]
    counted = sum(_tokens_of_lists(design.probe(query), design.tokenizer) for query in sample)
    return round(counted / max(1, len(sample)) * queries)


def timings(usage: Usage, design: AuditDesign, *, queries: int) -> dict[str, Any]:
    """The timings of the queries that were answered with this usage; shares are None before anything was asked."""
    naive = naive_tokens(design, queries=queries)
    return {
        "audit": design.fingerprint,
        "queries": queries,
        **vars(usage) | {"retried": dict(usage.retried)},
        "milliseconds_per_text": round(1000 * usage.seconds / usage.texts, 3) if usage.texts else None,
        "seconds_per_1000_tokens": _significant(1000 * usage.seconds / usage.tokens) if usage.tokens else None,
        "naive_documents": naive_cost(design.settings) * queries,
        "naive_tokens": naive,
        "times_fewer_tokens": round(naive / usage.tokens, 2) if usage.tokens else None,
    }


def write_timings(path: Path, usage: Usage, design: AuditDesign, *, queries: int) -> dict[str, Any]:
    """Write the timings, added to those of earlier runs of the same audit, and give them back.

    ``queries`` are those that this run answered: what a killed run scored is in no file, and must not look saved.
    """
    known = _earlier(path, design)
    facts = timings(usage + _usage(known), design, queries=queries + known.get("queries", 0))
    if "paid" in known:
        facts["paid"] = known["paid"]
    write_atomic(path, json.dumps(facts, indent=1) + "\n")
    return facts


def write_paid(path: Path, design: AuditDesign, paid: Account) -> Account:
    """Add what a chat model was paid to the timings, and give what all runs of the same audit have paid."""
    known = _earlier(path, design)
    total = paid + _account(known)
    if paid.calls:
        facts = {"audit": design.fingerprint, **known, "paid": asdict(total)}
        write_atomic(path, json.dumps(facts, indent=1) + "\n")
    return total


def read_latency(folder: Path) -> float | None:
    """Seconds for 1,000 tokens from the timings in a card's folder; None where they are not known."""
    try:
        found = json.loads((folder / TIMINGS).read_text(encoding="utf-8"))["seconds_per_1000_tokens"]
        return None if found is None else float(found)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def latency_words(seconds: float) -> str:
    """Seconds to three significant digits, whatever their size.

    >>> latency_words(0.0000281), latency_words(0.25), latency_words(12.3)
    ('0.0000281', '0.250', '12.3')
    """
    return f"{seconds:.{_decimals(seconds)}f}"


def _significant(value: float) -> float:
    return round(value, _decimals(value))


def _decimals(value: float) -> int:
    """Decimals of three significant digits."""
    return max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0


def _earlier(path: Path, design: AuditDesign) -> dict[str, Any]:
    """The facts of earlier runs of this audit, none if there were none."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return dict(facts) if facts["audit"] == design.fingerprint else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _usage(facts: Mapping[str, Any]) -> Usage:
    try:
        asked = (facts["calls"], facts["texts"], facts["tokens"], facts["seconds"])
        return Usage(*asked, Counter(facts.get("retried", {})))
    except KeyError:
        return Usage()


def _account(facts: Mapping[str, Any]) -> Account:
    try:
        return Account(**facts["paid"])
    except (KeyError, TypeError):
        return Account()


def _tokens_of_lists(probe: Probe, tokenizer: Tokenizer) -> int:
    def tokens(documents: Sequence[Document]) -> int:
        return sum(len(tokenizer.tokenize(document.text)) for document in documents)

    total = 0
    for at in probe.by_length:
        targets = [*at.planted, probe.isolated, at.absent, *at.reversed_ends]
        total += tokens(targets) + len(targets) * tokens(at.distractors)
    return total
