"""Whether a judge's grade depends on where in a piece the answer stands, or on how long the piece is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import NamedTuple

from longrank.core.contracts import Tokenizer
from longrank.core.errors import DataError, SettingsError
from longrank.core.progress import track
from longrank.core.types import Query
from longrank.positions.chance import Interval, clustered_mean
from longrank.positions.judging import ChunkJudge, JudgeTally

PLACES = (0.0, 0.5, 1.0)
LENGTHS = (64, 128, 256)


class AuditCase(NamedTuple):
    """A query, a text that answers it, and text that does not: the answer is planted into the latter."""

    query: Query
    answer: str
    filler: str


@dataclass(frozen=True)
class JudgeAudit:
    """Mean grades by place and length, and two differences within cases, with intervals over queries.

    The place effect is the grade with the answer at the end minus that at the beginning: an unbiased judge has none.
    The length effect is the longest piece minus the shortest; below 0 it may be a judge who minds what else is there,
    as the scale asks, and moves profiles only if pieces differ in length.
    """

    means: Mapping[tuple[float, int], float]
    place_effect: Interval
    length_effect: Interval
    cases: int
    left_out: int
    tally: JudgeTally

    def sentence(self) -> str:
        """One sentence: whether place and length sway the judge."""
        verdicts = [
            f"{name} {'sways' if effect.excludes_zero else 'does not visibly sway'} it ({effect})"
            for name, effect in (("the answer's place", self.place_effect), ("the piece's length", self.length_effect))
        ]
        return (
            f"Judge on {self.cases} planted answers: {' and '.join(verdicts)}, in grades of 0 to 3, 95% intervals over "
            f"queries; {self.left_out} cases were left out because a reply was missing or unreadable."
        )


def audit_judge(
    judge: ChunkJudge,
    cases: Sequence[AuditCase],
    *,
    places: Sequence[float] = PLACES,
    lengths: Sequence[int] = LENGTHS,
    resamples: int = 2000,
    seed: int = 0,
) -> JudgeAudit:
    """Every case judged with its answer at every place of pieces of every length (tokens of the judge's tokenizer).

    A place is the share of the filler that comes before the answer. A case with a missing grade is left out whole, so
    that all means are over the same cases.
    """
    if len(set(places)) < 2 or len(set(lengths)) < 2 or not all(0 <= place <= 1 for place in places):
        raise SettingsError(f"an audit needs two places in [0, 1] and two lengths, got {places} and {lengths}")
    cells = list(product(sorted(places), sorted(lengths)))
    kept: list[tuple[AuditCase, dict[tuple[float, int], int]]] = []
    tally = JudgeTally()
    for case in track(cases, "auditing the judge", total=len(cases)):
        grades: dict[tuple[float, int], int] = {}
        for place, length in cells:
            graded = judge.grade(case.query, planted_piece(case, judge.tokenizer, place=place, tokens=length))
            tally += graded.tally
            if graded.grade is not None:
                grades[place, length] = graded.grade
        if len(grades) == len(cells):
            kept.append((case, grades))
    if not kept:
        raise DataError(f"none of {len(cases)} cases has all its grades: the judge cannot be audited")
    clusters = [case.query.id for case, _ in kept]
    ends, sizes = (min(places), max(places)), (min(lengths), max(lengths))
    by_place = [fmean(grades[ends[1], n] - grades[ends[0], n] for n in lengths) for _, grades in kept]
    by_length = [fmean(grades[at, sizes[1]] - grades[at, sizes[0]] for at in places) for _, grades in kept]
    return JudgeAudit(
        {cell: fmean(grades[cell] for _, grades in kept) for cell in cells},
        clustered_mean(by_place, clusters, resamples=resamples, seed=seed),
        clustered_mean(by_length, clusters, resamples=resamples, seed=seed),
        len(kept),
        len(cases) - len(kept),
        tally,
    )


def planted_piece(case: AuditCase, tokenizer: Tokenizer, *, place: float, tokens: int) -> str:
    """The answer with so much of the filler's beginning around it that the piece has ``tokens`` tokens.

    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> case = AuditCase(Query("q", "who?"), "Ada did.", "one two three four five six")
    >>> planted_piece(case, WordTokenizer(), place=0.5, tokens=7)
    'one two Ada did. three four'
    """
    filler = tokenizer.tokenize(case.filler)
    wanted = max(0, tokens - len(tokenizer.tokenize(case.answer)))
    if wanted > len(filler):
        raise DataError(
            f"the filler of query {case.query.id!r} has {len(filler)} tokens, a piece of {tokens} needs {wanted}"
        )
    if not wanted:
        return case.answer
    before = round(place * wanted)
    middle = int(filler.char_starts[before]) if before < len(filler) else len(case.filler)
    parts = (case.filler[:middle], case.answer, case.filler[middle : int(filler.char_stops[wanted - 1])])
    return " ".join(part.strip() for part in parts if part.strip())
