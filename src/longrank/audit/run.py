"""One call from a ranker to its audit."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from longrank.audit.design import AuditDesign
from longrank.audit.response import Responses, collect
from longrank.audit.verdict import Findings, judge
from longrank.core.contracts import Ranker


@dataclass(frozen=True)
class Audit:
    """A design, what the ranker answered, and what follows from it."""

    ranker: str
    design: AuditDesign
    listwise: bool
    responses: Responses
    findings: Findings


def audit(
    ranker: Ranker,
    design: AuditDesign,
    *,
    name: str,
    identity: str = "",
    journal: Path | None = None,
    listwise: bool = False,
    budget: int | None = None,
    announce: Callable[[str], None] | None = None,
) -> Audit:
    """The audit of a ranker; with a journal it can be interrupted at any point and goes on where it was.

    ``identity`` should change when the ranker's weights or code do, so that no answer of an older one is taken over.

    >>> from longrank.audit.design import make_design
    >>> from longrank.audit.settings import AuditSettings
    >>> from longrank.audit.planted import WordMatch
    >>> from longrank.audit.sources import toy_source
    >>> source = toy_source(12)
    >>> design = make_design(source, AuditSettings(queries=12, slots=3, lengths=(192,), draws=199))
    >>> bag_of_words = WordMatch.fitted(filler.text for filler in source.filler)
    >>> audit(bag_of_words, design, name="bag of words").findings.outcome.value
    'robust'
    """
    responses = collect(
        design,
        ranker,
        name=name,
        identity=identity,
        journal=journal,
        listwise=listwise,
        budget=budget,
        announce=announce,
    )
    return Audit(name, design, listwise, responses, judge(responses, design.settings))
