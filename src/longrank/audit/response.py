"""What a ranker answers to a design: reciprocal ranks and margins by query, length and slot, kept on disk as they come.

A planted document is ranked among the distractors, one at a time; the orders of its ties are averaged. Every distinct
document of a query is scored once, in one call. A query whose answer cannot be used is counted with its reason and
asked again when the audit is run again; nothing is ever filled in for it.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longrank.audit.design import AuditDesign, LengthProbe, Probe
from longrank.audit.settings import AuditSettings
from longrank.core.contracts import Ranker
from longrank.core.errors import BadScore, BudgetSpent, DataError
from longrank.core.fingerprint import fingerprint
from longrank.core.progress import Meter
from longrank.core.types import Document, Query, Scores

Floats = NDArray[np.float64]

PATIENCE = 5  # queries that fail one after the other before the audit gives up
_RULE = {"ties": "averaged over their orders"}  # by which answers were made: those of another are not gone on with
_RERUN_TOLERANCE = 1e-3  # in standard deviations of the distractors' scores; float32 arithmetic stays far below


_again: ContextVar[bool] = ContextVar("asking again", default=False)


@dataclass(frozen=True, slots=True)
class LengthResponse:
    """Reciprocal ranks at one length: evidence at each slot, alone, absent, and first and last of reversed documents.

    ``margins`` are the planted documents' distances from the mean distractor, in standard deviations of these.
    """

    length: int
    planted: tuple[float, ...]
    margins: tuple[float, ...]
    isolated: float
    absent: float
    reversed_ends: tuple[float, float]


@dataclass(frozen=True, slots=True)
class QueryResponse:
    """All answers to one query; ``rerun`` is the greatest change of a score asked twice, in distractors' deviations."""

    query_id: str
    by_length: tuple[LengthResponse, ...]
    rerun: float
    cut_documents: int = 0

    @property
    def stable(self) -> bool:
        """Whether the same input got the same score twice."""
        return self.rerun <= _RERUN_TOLERANCE


@dataclass(frozen=True)
class Responses:
    """The answers of a whole audit, in the order of the design, and what went wrong by kind.

    ``fresh`` and ``seconds`` count what this process asked, not what was found on disk; they belong to no card.
    """

    records: tuple[QueryResponse, ...]
    asked: int
    problems: Mapping[str, int] = field(default_factory=dict)
    stopped: str = ""
    fresh: int = 0
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every query of the design was answered."""
        return len(self.records) == self.asked

    def planted(self, length: int) -> Floats:
        """Reciprocal ranks [queries, slots]."""
        return np.array([_at(record, length).planted for record in self.records])

    def margins(self, length: int) -> Floats:
        """Margins [queries, slots]."""
        return np.array([_at(record, length).margins for record in self.records])

    def isolated(self, length: int) -> Floats:
        """Reciprocal ranks of the relevant passage alone [queries]."""
        return np.array([_at(record, length).isolated for record in self.records])

    def absent(self, length: int) -> Floats:
        """Reciprocal ranks of one more distractor [queries]."""
        return np.array([_at(record, length).absent for record in self.records])

    def reversed_ends(self, length: int) -> Floats:
        """Reciprocal ranks with evidence first and last of reversed documents [queries, 2]."""
        return np.array([_at(record, length).reversed_ends for record in self.records])


def reciprocal_rank(score: float, others: Sequence[float]) -> float:
    """Reciprocal rank of a score among others, compared as float32, averaged over the orders of its ties.

    So the mean over exchangeable documents is that of chance, whatever their ties.

    >>> reciprocal_rank(2.0, [3.0, 2.0, 1.0])  # second or third: (1/2 + 1/3) / 2
    0.41666666666666663
    """
    own, rest = np.float32(score), np.asarray(others, dtype=np.float32)
    above, tied = np.count_nonzero(rest > own), np.count_nonzero(rest == own)
    return float(np.mean(1 / np.arange(above + 1, above + tied + 2)))


def margin(score: float, others: Sequence[float]) -> float:
    """Distance from the mean of the others in their standard deviations; 0 if they are all the same."""
    rest = np.asarray(others, dtype=np.float64)
    spread = float(rest.std(ddof=1))
    return float((score - rest.mean()) / spread) if spread > 0 else 0.0


def checked_scores(raw: Any, expected: int) -> Scores:
    """The scores of a reply from anyone's ranker, refused unless they are so many finite numbers."""
    try:
        values = list(raw.values if isinstance(raw, Scores) else raw)
    except TypeError:
        raise BadScore(f"no scores: a {type(raw).__name__} came back, a list of numbers was expected") from None
    if len(values) != expected:
        raise BadScore(f"wrong number of scores: {len(values)} for {expected} documents")
    numbers = []
    for value in values:
        if isinstance(value, str | bytes | bool) or value is None:
            raise BadScore(f"not a number: a score is {value!r}")
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            raise BadScore(f"not a number: a score is of type {type(value).__name__}") from None
    if not all(map(math.isfinite, numbers)):
        raise BadScore("not finite: a score is NaN or infinite")
    return raw._replace(values=numbers) if isinstance(raw, Scores) else Scores(numbers)


@contextmanager
def asking_again() -> Iterator[None]:
    """Whatever is asked inside is a re-run, which no memory may answer."""
    token = _again.set(True)
    try:
        yield
    finally:
        _again.reset(token)


def asked_again() -> bool:
    """Whether the question under way is a re-run."""
    return _again.get()


def ask(ranker: Ranker, probe: Probe, *, listwise: bool = False) -> QueryResponse:
    """A ranker's answers to one probe.

    A listwise ranker is asked once for each list, because its scores hold only within it; any other ranker once for all
    distinct documents, and once more for the two that show whether it repeats itself.
    """
    if listwise:
        return _ask_lists(ranker, probe)
    unique = {document.text: document for document in probe.documents}
    scores = checked_scores(ranker.score(probe.query, list(unique.values())), len(unique))
    known = dict(zip(unique, scores.values, strict=True))
    by_length = []
    for at in probe.by_length:
        others = [known[document.text] for document in at.distractors]
        ranks = {d.id: reciprocal_rank(known[d.text], others) for d in _targets(probe, at)}
        margins = tuple(margin(known[d.text], others) for d in at.planted)
        by_length.append(_length_response(probe, at, ranks, margins))
    ends = [probe.by_length[-1].planted[0], probe.by_length[-1].planted[-1]]
    with asking_again():
        again = checked_scores(ranker.score(probe.query, ends), 2)
    change = max(abs(known[d.text] - score) for d, score in zip(ends, again.values, strict=True))
    return QueryResponse(probe.query.id, tuple(by_length), _in_deviations(change, others), scores.cut_documents)


def _ask_lists(ranker: Ranker, probe: Probe) -> QueryResponse:
    by_length, rerun, cut = [], 0.0, 0
    for at in probe.by_length:
        ranks, margins = {}, []
        for place, target in enumerate(_targets(probe, at)):
            # the target stands in the middle of the list: a listwise ranker may prefer the ends
            half = len(at.distractors) // 2
            documents = [*at.distractors[:half], target, *at.distractors[half:]]
            scores = checked_scores(ranker.score(probe.query, documents), len(documents))
            others = scores.values[:half] + scores.values[half + 1 :]
            ranks[target.id] = reciprocal_rank(scores.values[half], others)
            cut += scores.cut_documents
            if place < len(at.planted):
                margins.append(margin(scores.values[half], others))
            if place == 0:
                with asking_again():
                    again = checked_scores(ranker.score(probe.query, documents), len(documents))
                change = max(abs(a - b) for a, b in zip(scores.values, again.values, strict=True))
                rerun = max(rerun, _in_deviations(change, others))
        by_length.append(_length_response(probe, at, ranks, tuple(margins)))
    return QueryResponse(probe.query.id, tuple(by_length), rerun, cut)


def collect(
    design: AuditDesign,
    ranker: Ranker,
    *,
    name: str,
    identity: str = "",
    journal: Path | None = None,
    listwise: bool = False,
    budget: int | None = None,
    announce: Callable[[str], None] | None = None,
) -> Responses:
    """Answers to the whole design; those in the journal are not asked for again.

    ``identity`` is whatever changes when the ranker does: a journal of another one is refused.
    Stops early when the next query would score more than ``budget`` documents in this process, when the ranker says
    that its own budget is spent, or after a few failures in a row; ``stopped`` then says so. ``announce`` is told how
    many answers were found in the journal, and a few times how long the rest will take.
    """
    whole = fingerprint("audit-1", design.fingerprint, name, identity, listwise)
    done = {} if journal is None else read_journal(journal, whole)
    if done and announce is not None:
        found = f"{len(done)} of {len(design.queries)} queries were answered by an earlier run"
        announce(f"{found}; remove {journal} to ask them again")
    problems: Counter[str] = Counter()
    spent, in_a_row, stopped, started = 0, 0, "", time.perf_counter()
    cost = cost_per_query(design.settings, listwise=listwise)
    asked, known, missing = 0, len(done), len(design.queries) - len(done)
    milestones = {1, missing // 4, missing // 2, 3 * missing // 4}
    with Meter(f"auditing {name}", total=len(design.queries), done=len(done)) as meter:
        for query in _missing(design.queries, done):
            if budget is not None and spent + cost > budget:
                stopped = f"the budget of {budget} documents is used up; run it again to go on"
                break
            if in_a_row == PATIENCE:
                stopped = f"given up after {PATIENCE} failures in a row"
                break
            spent += cost
            try:
                done[query.id] = ask(ranker, design.probe(query), listwise=listwise)
            except DataError as error:
                if not isinstance(error, BadScore):
                    raise
                problems[str(error).partition(":")[0]] += 1
                in_a_row += 1
            except BudgetSpent as error:  # what it has cost so far belongs to no card
                stopped = "the next call might go over the budget; run it again to go on"
                if announce is not None:
                    announce(str(error))
                break
            except Exception as error:  # anyone's code: whatever it raises is counted, not passed on
                problems[f"{type(error).__name__}: {error}"[:200]] += 1
                in_a_row += 1
            else:
                in_a_row = 0
                if journal is not None:
                    _append(journal, asdict(done[query.id]))
            meter.advance()
            asked += 1
            if announce is not None and asked in milestones:
                announce(_time_left(time.perf_counter() - started, asked, missing - asked))
    records = tuple(done[query.id] for query in design.queries if query.id in done)
    seconds = time.perf_counter() - started
    return Responses(records, len(design.queries), dict(problems), stopped, len(done) - known, seconds)


def cost_per_query(settings: AuditSettings, *, listwise: bool = False) -> int:
    """Documents scored for a query, the re-run included."""
    if not listwise:
        return settings.documents_per_query + 2
    return naive_cost(settings) + len(settings.lengths) * (settings.distractors + 1)


def naive_cost(settings: AuditSettings) -> int:
    """Documents scored for a query if each target brought its own copy of the distractors."""
    targets = settings.slots + 4  # at every slot, isolated, absent and two reversed
    return len(settings.lengths) * targets * (settings.distractors + 1)


def read_journal(path: Path, identity: str) -> dict[str, QueryResponse]:
    """Answers kept by an earlier run of the same audit; a last line that was not finished is cut off."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, {"audit": identity, **_RULE})
        return {}
    text = path.read_text(encoding="utf-8")
    whole, _, torn = text.rpartition("\n")
    if torn:
        path.write_text(whole + "\n" if whole else "", encoding="utf-8")
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); remove it to start the audit again") from None
    if not lines or (len(lines) == 1 and "audit" in lines[0]):  # nothing was answered yet
        path.write_text("", encoding="utf-8")
        _append(path, {"audit": identity, **_RULE})
        return {}
    if "audit" in lines[0] and not _RULE.items() <= lines[0].items():
        raise DataError(
            f"{path} holds answers of another version of longrank, which ranked ties otherwise: choose another --out "
            "folder, or remove the file; scores kept by --cache stay of use"
        )
    if lines[0].get("audit") != identity:
        raise DataError(
            f"{path} holds answers of an audit of another ranker, data or settings: choose another --out folder, or "
            "remove the file"
        )
    return {record.query_id: record for record in map(_record, lines[1:])}


def _time_left(seconds: float, done: int, left: int) -> str:
    """How long the rest takes if it goes on as it went."""
    expected = seconds / done * left
    size = f"{expected / 60:.0f} min" if expected >= 90 else f"{expected:.0f} s"
    return f"{done} queries in {seconds:.0f} s, {left} to go: about {size} left"


def _append(path: Path, line: Mapping[str, object]) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def _record(line: dict[str, Any]) -> QueryResponse:
    by_length = tuple(
        LengthResponse(
            at["length"],
            tuple(at["planted"]),
            tuple(at["margins"]),
            at["isolated"],
            at["absent"],
            (at["reversed_ends"][0], at["reversed_ends"][1]),
        )
        for at in line["by_length"]
    )
    return QueryResponse(line["query_id"], by_length, line["rerun"], line["cut_documents"])


def _missing(queries: Sequence[Query], done: Mapping[str, QueryResponse]) -> Iterator[Query]:
    return (query for query in queries if query.id not in done)


def _targets(probe: Probe, at: LengthProbe) -> list[Document]:
    return [*at.planted, probe.isolated, at.absent, *at.reversed_ends]


def _length_response(
    probe: Probe, at: LengthProbe, ranks: Mapping[str, float], margins: tuple[float, ...]
) -> LengthResponse:
    first, last = at.reversed_ends
    return LengthResponse(
        at.length,
        tuple(ranks[document.id] for document in at.planted),
        margins,
        ranks[probe.isolated.id],
        ranks[at.absent.id],
        (ranks[first.id], ranks[last.id]),
    )


def _in_deviations(change: float, others: Sequence[float]) -> float:
    if change == 0:
        return 0.0
    spread = float(np.std(others, ddof=1))
    return float(change / spread) if spread > 0 else float("inf")


def _at(record: QueryResponse, length: int) -> LengthResponse:
    return next(response for response in record.by_length if response.length == length)
