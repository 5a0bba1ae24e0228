"""From responses to a verdict: robust, biased, inconclusive, or not auditable.

Robust is earned by equivalence, never by the absence of a significant test; biased needs both a significant test and a
size beyond the tolerance. What a ranker could use at all, the usable signal G, is the reciprocal rank of the relevant
passage alone less that of one more distractor; shares are shares of G.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from longrank.audit import estimates
from longrank.audit.estimates import Band, Estimate, Floats, Measured, Psi, WorstSlot
from longrank.audit.response import Responses
from longrank.audit.settings import AuditSettings
from longrank.core.seeds import generator
from longrank.evaluation.significance import holm, sign_flip

ALPHA = 0.05
_POWER_FACTOR = 7.85  # (1.96 + 0.84)^2: 80% power at the 5% level


class Outcome(StrEnum):
    """What an audit concludes."""

    robust = "robust"
    biased = "biased"
    inconclusive = "inconclusive"
    not_auditable = "not auditable"


@dataclass(frozen=True)
class LengthFindings:
    """Everything estimated at one length; ``corrected`` are Holm's p-values of trend, bend and PSI over all lengths.

    ``deviation`` is the 90% simultaneous band of each slot against the mean of all slots, ``dilution`` what length
    costs when the evidence stands first, ``primacy`` what moving it from first to last costs, ``reversed_primacy`` the
    same among the same fillers in reverse order.
    """

    length: int
    curve: Band
    margins: tuple[float, ...]
    deviation: Band
    isolated: float
    absent: Estimate
    signal: Estimate
    dilution: Estimate
    primacy: Estimate
    reversed_primacy: Estimate
    share_lost: Estimate | None
    trend: Measured
    bend: Measured
    page: Measured
    positional_deviation: float
    psi: Psi
    worst: WorstSlot | None
    corrected: tuple[float, float, float]
    outcome: Outcome
    queries_needed: int | None


@dataclass(frozen=True)
class Findings:
    """The verdict with what it rests on."""

    outcome: Outcome
    reason: str
    queries: int
    tolerance: float
    by_length: tuple[LengthFindings, ...]
    length_slope: Estimate | None = None
    length_slope_p: float | None = None
    interaction: Measured | None = None
    unstable_queries: int = 0
    greatest_rerun: float = 0.0

    @property
    def queries_needed(self) -> int | None:
        """Queries that would settle an inconclusive audit; None where no number of them is expected to."""
        if self.outcome is not Outcome.inconclusive or self.too_far_off:
            return None
        return max((found.queries_needed for found in self.by_length if found.queries_needed), default=None)

    @property
    def too_far_off(self) -> tuple[LengthFindings, ...]:
        """Lengths at which a place is so far off the average that no number of queries will show the ranker robust."""
        return tuple(
            found for found in self.by_length if found.outcome is Outcome.inconclusive and found.queries_needed is None
        )

    @property
    def lost(self) -> Estimate | None:
        """Share of the usable signal lost at the worst slot of the worst length."""
        known = [found.worst.lost for found in self.by_length if found.worst is not None]
        return max(known, key=lambda lost: lost.value) if known else None


def judge(responses: Responses, settings: AuditSettings) -> Findings:
    """The findings of an audit; incomplete responses get no verdict."""
    tolerance = settings.epsilon(len(responses.records))
    if not responses.complete:
        reason = missing_reason(responses)
        return Findings(Outcome.not_auditable, reason, len(responses.records), tolerance, ())
    found = [_at_length(responses, length, settings) for length in settings.lengths]
    corrected = holm([p for one in found for p in (one.trend.p, one.bend.p, one.psi.p)])
    found = [
        _settled(
            replace(one, corrected=(corrected[3 * n], corrected[3 * n + 1], corrected[3 * n + 2])), responses, tolerance
        )
        for n, one in enumerate(found)
    ]
    outcome = _overall([one.outcome for one in found])
    findings = Findings(
        outcome,
        "",
        len(responses.records),
        tolerance,
        tuple(found),
        unstable_queries=sum(not record.stable for record in responses.records),
        greatest_rerun=max(record.rerun for record in responses.records),
    )
    findings = replace(findings, reason=_reason(findings))
    return _with_lengths(findings, responses, settings) if len(settings.lengths) > 1 else findings


def expected_absent(distractors: int) -> float:
    """Mean reciprocal rank of a document that is like the distractors: H(C + 1) / (C + 1).

    >>> round(expected_absent(20), 4)
    0.1736
    """
    return sum(1 / rank for rank in range(1, distractors + 2)) / (distractors + 1)


def missing_reason(responses: Responses) -> str:
    """Why there is no verdict on incomplete responses."""
    counts = ", ".join(f"{kind} ({count})" for kind, count in sorted(responses.problems.items()))
    said = f" Problems: {counts}." if counts else ""
    stopped = f" It was stopped: {responses.stopped}." if responses.stopped else ""
    return (
        f"{len(responses.records)} of {responses.asked} queries were answered, and none may be missing.{said}{stopped}"
    )


def _at_length(responses: Responses, length: int, settings: AuditSettings) -> LengthFindings:
    table, draws = responses.planted(length), settings.draws
    isolated, absent, ends = responses.isolated(length), responses.absent(length), responses.reversed_ends(length)
    fewer = max(99, draws // 5)
    rng = generator(f"audit/estimates/{length}", settings.seed)
    signal = estimates.mean_estimate(isolated - absent, rng=rng, draws=draws)
    auditable = signal.low > 0
    first_minus_last = table[:, 0] - table[:, -1]
    return LengthFindings(
        length=length,
        curve=estimates.simultaneous_band(table, level=0.95, rng=rng, draws=fewer),
        margins=tuple(float(value) for value in responses.margins(length).mean(axis=0)),
        deviation=estimates.simultaneous_band(estimates.centred(table), level=0.90, rng=rng, draws=fewer),
        isolated=float(isolated.mean()),
        absent=estimates.mean_estimate(absent, rng=rng, draws=draws),
        signal=signal,
        dilution=estimates.mean_estimate(isolated - table[:, 0], rng=rng, draws=draws),
        primacy=estimates.mean_estimate(first_minus_last, rng=rng, draws=draws),
        reversed_primacy=estimates.mean_estimate(ends[:, 0] - ends[:, 1], rng=rng, draws=draws),
        share_lost=_share(first_minus_last, isolated - absent, rng, draws) if auditable else None,
        trend=estimates.contrast(table, 1, rng=rng, draws=draws),
        bend=estimates.contrast(table, 2, rng=rng, draws=draws),
        page=estimates.page_trend(table),
        positional_deviation=estimates.positional_deviation(table),
        psi=estimates.position_sensitivity(table, rng=rng, draws=fewer),
        worst=estimates.worst_slot(table, isolated - absent, rng=rng, draws=fewer) if auditable else None,
        corrected=(1.0, 1.0, 1.0),
        outcome=Outcome.inconclusive if auditable else Outcome.not_auditable,
        queries_needed=None,
    )


def _share(above: Floats, below: Floats, rng: np.random.Generator, draws: int) -> Estimate:
    if not above.any():
        return Estimate(0.0, 0.0, 0.0)
    return estimates.ratio_estimate(above, below, rng=rng, draws=draws)


def _settled(found: LengthFindings, responses: Responses, tolerance: float) -> LengthFindings:
    """The findings with their outcome, and the queries needed where it is open."""
    if found.outcome is Outcome.not_auditable:
        return found
    allowed = tolerance * found.signal.value
    size = max(abs(found.primacy.value), found.positional_deviation)
    # a proven effect beyond the tolerance is never called robust, even where each slot is near the mean of all
    if min(found.corrected) < ALPHA and size > allowed:
        return replace(found, outcome=Outcome.biased)
    if max(np.abs(found.deviation.low).max(), np.abs(found.deviation.high).max()) <= allowed:
        return replace(found, outcome=Outcome.robust)
    return replace(found, queries_needed=_needed(found, responses, allowed))


def _needed(found: LengthFindings, responses: Responses, allowed: float) -> int | None:
    """Queries at which first against last would be told apart and the band would fit, at least half as many again.

    None where a hundred times as many would not make it fit: a slot that is surely off the mean of all is about as far
    off as the tolerance, or farther.
    """
    table, queries = responses.planted(found.length), len(responses.records)
    spread = float((table[:, 0] - table[:, -1]).std(ddof=1))
    off, reach = np.abs(found.deviation.mean), (found.deviation.high - found.deviation.low) / 2
    room = allowed - np.where(off > reach, off, 0.0)  # a slot whose band holds the mean may be off by chance
    if (reach >= 10 * room).any():
        return None
    by_band = queries * float((reach / room).max()) ** 2
    return math.ceil(max(_POWER_FACTOR * spread**2 / allowed**2, by_band, 1.5 * queries))


def _overall(outcomes: Sequence[Outcome]) -> Outcome:
    if Outcome.biased in outcomes:
        return Outcome.biased
    if all(outcome is Outcome.not_auditable for outcome in outcomes):
        return Outcome.not_auditable
    return Outcome.robust if all(outcome is Outcome.robust for outcome in outcomes) else Outcome.inconclusive


def _with_lengths(findings: Findings, responses: Responses, settings: AuditSettings) -> Findings:
    """The findings with the cost of a doubling of length, and its change of the trend over slots."""
    rng = generator("audit/lengths", settings.seed)
    tables = [responses.planted(length) for length in settings.lengths]
    levels = estimates.slope(np.stack([table.mean(axis=1) for table in tables], axis=1), settings.lengths)
    weights = estimates.contrast_weights(settings.slots, 1)
    trends = estimates.slope(
        np.stack([estimates.centred(table) @ weights for table in tables], axis=1), settings.lengths
    )
    return replace(
        findings,
        length_slope=estimates.mean_estimate(levels, rng=rng, draws=settings.draws),
        length_slope_p=sign_flip(levels, rng=rng, draws=settings.draws),
        interaction=Measured(float(trends.mean()), sign_flip(trends, rng=rng, draws=settings.draws)),
    )


def _reason(findings: Findings) -> str:
    """The verdict in a sentence for someone who reads no statistics."""
    if findings.outcome is Outcome.not_auditable:
        return (
            "The relevant passage alone is not ranked above an irrelevant document, so there is no signal that "
            "position could cost. Is this the right ranker for these texts?"
        )
    if findings.outcome is Outcome.robust:
        kept = f"Wherever the relevant passage stands, the ranker's quality is {_near(findings)}"
        apart = f"the best and the worst differ by {2 * findings.tolerance:.0%} of the usable signal at most"
        return f"{kept}, so that {apart}. {_dilution_sentence(findings)}".rstrip()
    if findings.outcome is Outcome.inconclusive:
        return _open_sentence(findings)
    worst = max(
        (found for found in findings.by_length if found.outcome is Outcome.biased and found.worst is not None),
        key=lambda found: found.worst.lost.value if found.worst else 0.0,
    )
    return _bias_sentence(worst)


def _open_sentence(findings: Findings) -> str:
    if findings.too_far_off:
        found = findings.too_far_off[0]
        off = np.abs(found.deviation.mean) / found.signal.value
        return (
            f"{findings.queries} queries do not prove a bias, and more are not expected to show that every place is "
            f"{_near(findings)}: in documents of {found.length} tokens slot {off.argmax() + 1} of {len(off)} is "
            f"{off.max():.0%} off it."
        )
    if findings.queries_needed is not None:
        return (
            f"{findings.queries} queries cannot tell whether every place is {_near(findings)}: about "
            f"{findings.queries_needed} are needed."
        )
    mute = [str(found.length) for found in findings.by_length if found.outcome is Outcome.not_auditable]
    return (
        f"Among documents of {' and '.join(mute)} tokens the relevant passage alone is not ranked above an irrelevant "
        f"document, so nothing can be said of them; at the other lengths every place is {_near(findings)}."
    )


def _near(findings: Findings) -> str:
    return f"within {findings.tolerance:.0%} of the average place"


def _dilution_sentence(findings: Findings) -> str:
    """What length alone costs where that is more than position may; flat does not mean that the passage is found."""
    thinned = [f for f in findings.by_length if f.dilution.low > findings.tolerance * f.signal.value]
    if not thinned:
        return ""
    most = max(thinned, key=lambda found: found.dilution.value / found.signal.value)
    share = min(1.0, most.dilution.value / most.signal.value)
    return (
        f"Length does cost: {share:.0%} of the usable signal is lost when the passage stands in a document of "
        f"{most.length} tokens and not alone."
    )


def _bias_sentence(found: LengthFindings) -> str:
    if found.worst is None:
        return ""
    lost, slots = found.worst.lost, len(found.curve.mean)
    share = "all" if lost.value >= 1 else f"{lost.value:.0%}"
    return (
        f"In documents of {found.length} tokens the ranker loses {share} of the usable signal (95% interval "
        f"{_interval_words(lost)}) when the relevant passage stands at slot "
        f"{found.worst.slot + 1} of {slots} and not at slot {found.worst.best + 1}{_why_all(found, found.worst)}."
    )


def _why_all(found: LengthFindings, worst: WorstSlot) -> str:
    """How a gap between two slots can exceed that between the passage alone and none, where it does."""
    if worst.lost.value < 1:
        return ""
    if found.curve.mean[worst.slot] < found.absent.value:
        return ": there its document ranks below chance"
    return f": at slot {worst.best + 1} its document ranks above the passage alone"


def _interval_words(share: Estimate) -> str:
    if share.low > 1:
        return "over 100%"
    return f"{share.low:.0%} to {'over 100%' if share.high > 1 else f'{share.high:.0%}'}"
