"""The audit card: one JSON file that says what was asked, what came out and what follows; the same audit, same bytes.

Timings are no part of it. ``docs/audit.md`` describes the fields; ``card_schema`` gives them as a JSON schema.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from longrank import __version__
from longrank.audit.estimates import Band, Estimate, Measured, Psi
from longrank.audit.response import cost_per_query, naive_cost
from longrank.audit.run import Audit
from longrank.audit.verdict import LengthFindings, Outcome, expected_absent
from longrank.audit.window import Window
from longrank.core.disk import write_atomic
from longrank.core.errors import DataError
from longrank.core.settings import Settings

VERSION = 1
_DIGITS = 6


class Interval(Settings):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


class Statistic(Settings):
    """A value, its p-value, and Holm's over all tests of the audit that decide the verdict."""

    value: float
    p: float
    holm_p: float | None = None


class Curve(Settings):
    """Values by slot with the ends of a simultaneous band."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class Sensitivity(Settings):
    """The position sensitivity index: raw, less its mean under permuted slots, and its p-values."""

    raw: float
    adjusted: float
    p: float
    holm_p: float


class LengthCard(Settings):
    """One length; slots count from 1. Shares are of the usable signal."""

    tokens: int
    outcome: Outcome
    queries_needed: int | None
    curve: Curve
    margins: tuple[float, ...]
    deviation_90: Curve
    isolated: float
    absent: Interval
    absent_expected: float
    usable_signal: Interval
    dilution: Interval
    primacy: Interval
    primacy_reversed: Interval
    primacy_share: Interval | None
    trend: Statistic
    bend: Statistic
    page: Statistic
    positional_deviation: float
    psi: Sensitivity
    worst_slot: int | None
    best_slot: int | None
    worst_slot_lost: Interval | None


class WindowCard(Settings):
    """What the probe found out about how much is read; sizes are None where nothing was cut."""

    words: int | None
    characters: int | None
    tokens: int | None
    tokenizer: str
    cut: str
    gives_way: str
    query_cut: bool
    query_words: int
    combines: str
    noise: float
    agreeing: int
    asked: int
    documents: int
    longest: int


class DesignCard(Settings):
    """What the ranker was asked: ``fingerprint`` changes with any text or setting."""

    data: str
    fingerprint: str
    queries: int
    queries_left_out: Mapping[str, int]
    slots: int
    lengths: tuple[int, ...]
    distractors: int
    tokenizer: str
    seed: int
    draws: int
    tolerance: float
    listwise: bool
    documents_scored: int
    documents_naive: int


class Card(Settings):
    """A whole audit; ``version`` is that of this layout."""

    version: Literal[1] = 1
    longrank: str
    ranker: str
    outcome: Outcome
    sentence: str
    queries_answered: int
    queries_needed: int | None
    lost: Interval | None
    design: DesignCard
    lengths: tuple[LengthCard, ...]
    length_slope: Interval | None
    length_slope_p: float | None
    length_by_slot: Statistic | None
    problems: Mapping[str, int]
    unstable_queries: int
    greatest_rerun: float | None
    window: WindowCard | None = None


def make_card(audit: Audit, window: Window | None = None) -> Card:
    """The card of an audit, with the window if it was probed; numbers rounded to six digits."""
    found, settings, design = audit.findings, audit.design.settings, audit.design
    cost = cost_per_query(settings, listwise=audit.listwise)
    return Card(
        longrank=__version__,
        ranker=audit.ranker,
        outcome=found.outcome,
        sentence=found.reason,
        queries_answered=found.queries,
        queries_needed=found.queries_needed,
        lost=_interval(found.lost),
        design=DesignCard(
            data=design.source.name,
            fingerprint=design.fingerprint,
            queries=len(design.queries),
            queries_left_out=dict(design.source.left_out),
            slots=settings.slots,
            lengths=settings.lengths,
            distractors=settings.distractors,
            tokenizer=design.tokenizer.name,
            seed=settings.seed,
            draws=settings.draws,
            tolerance=found.tolerance,
            listwise=audit.listwise,
            documents_scored=cost * found.queries,
            documents_naive=naive_cost(settings) * found.queries,
        ),
        lengths=tuple(_length_card(one, settings.distractors) for one in found.by_length),
        length_slope=_interval(found.length_slope),
        length_slope_p=None if found.length_slope_p is None else _round(found.length_slope_p),
        length_by_slot=None if found.interaction is None else _test(found.interaction),
        problems=dict(sorted(audit.responses.problems.items())),
        unstable_queries=found.unstable_queries,
        greatest_rerun=_round(found.greatest_rerun) if math.isfinite(found.greatest_rerun) else None,
        window=None if window is None else window_card(window),
    )


def window_card(window: Window) -> WindowCard:
    """The probe's result as it stands in a card."""
    return WindowCard(**{**dataclasses.asdict(window), "noise": _round(window.noise)})


def card_json(card: Card) -> str:
    """The card as text: sorted keys, the same bytes for the same audit."""
    return json.dumps(card.model_dump(mode="json"), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_card(card: Card, path: Path) -> None:
    """Write the card whole or not at all."""
    write_atomic(path, card_json(card))


def read_card(path: Path) -> Card:
    """The card in a file; ``read_card`` after ``write_card`` is the identity."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(table, dict) or table.get("version") != VERSION:
            raise DataError(f"{path} is not an audit card of version {VERSION}; was it written by longrank audit?")
        return Card.model_validate(table)
    except FileNotFoundError:
        raise DataError(f"no card {path}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{path} is not a whole audit card: {where}: {first['msg']}") from None
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None


def card_schema() -> dict[str, Any]:
    """The JSON schema of a card."""
    return Card.model_json_schema()


def _length_card(found: LengthFindings, distractors: int) -> LengthCard:
    trend, bend, psi = found.corrected
    worst = found.worst
    return LengthCard(
        tokens=found.length,
        outcome=found.outcome,
        queries_needed=found.queries_needed,
        curve=_curve(found.curve),
        margins=tuple(_round(value) for value in found.margins),
        deviation_90=_curve(found.deviation),
        isolated=_round(found.isolated),
        absent=_sure_interval(found.absent),
        absent_expected=_round(expected_absent(distractors)),
        usable_signal=_sure_interval(found.signal),
        dilution=_sure_interval(found.dilution),
        primacy=_sure_interval(found.primacy),
        primacy_reversed=_sure_interval(found.reversed_primacy),
        primacy_share=_interval(found.share_lost),
        trend=_test(found.trend, trend),
        bend=_test(found.bend, bend),
        page=_test(found.page),
        positional_deviation=_round(found.positional_deviation),
        psi=_sensitivity(found.psi, psi),
        worst_slot=None if worst is None else worst.slot + 1,
        best_slot=None if worst is None else worst.best + 1,
        worst_slot_lost=None if worst is None else _sure_interval(worst.lost),
    )


def _curve(band: Band) -> Curve:
    mean, low, high = (tuple(_round(value) for value in row.tolist()) for row in band)
    return Curve(mean=mean, low=low, high=high)


def _interval(estimate: Estimate | None) -> Interval | None:
    return None if estimate is None else _sure_interval(estimate)


def _sure_interval(estimate: Estimate) -> Interval:
    return Interval(value=_round(estimate.value), low=_round(estimate.low), high=_round(estimate.high))


def _test(tested: Measured, holm_p: float | None = None) -> Statistic:
    return Statistic(value=_round(tested.value), p=_round(tested.p), holm_p=None if holm_p is None else _round(holm_p))


def _sensitivity(psi: Psi, holm_p: float) -> Sensitivity:
    return Sensitivity(raw=_round(psi.raw), adjusted=_round(psi.adjusted), p=_round(psi.p), holm_p=_round(holm_p))


def _round(value: float) -> float:
    return round(value, _DIGITS) + 0.0  # no negative zero
