"""The README of a published ranker: what it reads, how it was measured, how to load it; nothing that is not known."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from longrank.core.settings import Settings

Form = Literal["ranker", "classifier"]


class Measure(Settings):
    """One mean over queries with its 95% interval, named as ir-measures names it."""

    measure: str
    dataset: str
    value: float
    low: float
    high: float
    queries: int
    baseline: str = ""


class AuditNote(Settings):
    """What ``longrank audit`` found, in its own words."""

    outcome: str
    sentence: str
    queries: int
    lengths: tuple[int, ...] = ()
    data: str = ""


class ModelCard(Settings):
    """What only the maker of a ranker knows; whatever is left out has no section in the README."""

    title: str = ""
    summary: str = ""
    license: str = ""
    language: str = ""
    base_model: str = ""
    datasets: tuple[str, ...] = ()
    training: str = ""
    measures: tuple[Measure, ...] = ()
    audit: AuditNote | None = None
    limits: str = ""
    citation: str = ""


@dataclass(frozen=True)
class Reading:
    """What the ranker itself says about how it reads: it is not left to the maker's memory."""

    ranker: str
    splitter: Mapping[str, Any]
    layout: Mapping[str, Any]
    aggregator: Mapping[str, Any]
    row_tokens: int
    trained: bool


def readme(card: ModelCard, reading: Reading, *, form: Form = "ranker", repo_id: str = "") -> str:
    """The whole Markdown file, front matter first; ``repo_id`` stands in the lines that load it."""
    sections = [
        ("How it reads", _reads(reading, form)),
        ("How to load it", _loads(reading, form, repo_id or "path/to/this/folder")),
        ("Measures", _measured(card.measures)),
        ("Does it read the whole document?", _audited(card.audit)),
        ("Training data", _trained_on(card)),
        ("Limits", card.limits),
        ("Citation", card.citation),
    ]
    title = card.title or reading.ranker
    body = [f"# {title}", card.summary, *(f"## {name}\n\n{text}" for name, text in sections if text)]
    return f"---\n{_front_matter(card, title, form)}---\n\n" + "\n\n".join(part for part in body if part) + "\n"


def _front_matter(card: ModelCard, title: str, form: Form) -> str:
    facts: dict[str, Any] = {
        "library_name": "longrank" if form == "ranker" else "sentence-transformers",
        "pipeline_tag": "text-ranking",
        "tags": ["longrank", "reranker", "long-documents", *(["cross-encoder"] if form == "classifier" else [])],
        "license": card.license,
        "language": card.language,
        "base_model": card.base_model,
        "datasets": list(card.datasets),
    }
    if card.measures:
        facts["model-index"] = [{"name": title, "results": list(map(_result, card.measures))}]
    # every value is JSON, which YAML contains
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in facts.items() if value)


def _result(found: Measure) -> dict[str, Any]:
    return {
        "task": {"type": "text-ranking", "name": "Reranking"},
        "dataset": {"type": found.dataset, "name": found.dataset},
        "metrics": [{"type": found.measure, "name": f"{found.measure}, {_interval(found)}", "value": found.value}],
    }


def _interval(found: Measure) -> str:
    return f"95% interval {found.low:.3f} to {found.high:.3f}, {found.queries} queries"


def _reads(reading: Reading, form: Form) -> str:
    lines = [
        f"- pieces: {_part(reading.splitter)}",
        f"- query and piece: {_part(reading.layout)}",
        f"- one score from the pieces: {_part(reading.aggregator)}",
        f"- longest input of the model: {reading.row_tokens} tokens",
    ]
    if not reading.trained:
        lines.append("- **the head was never trained: its order means nothing**")
    text = "\n".join(lines)
    if form == "ranker":
        return text
    return (
        f"{text}\n\nThis folder is a plain sequence classifier: it scores one query with one piece of text, and gives "
        "the ranker's own score where query and text fit into one piece. Longer text is cut by whatever loads it; "
        "`longrank` splits it and combines the scores. Scores are logits, not probabilities."
    )


def _part(part: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in part.items() if name != "name" and value is not None)
    return f"`{part['name']}`" + (f" ({given})" if given else "")


def _loads(reading: Reading, form: Form, place: str) -> str:
    ours = ["from longrank.rankers.publishing import from_pretrained", "", f'ranker = from_pretrained("{place}")']
    if form == "classifier":
        how = 'read="firstp"'
        if "stride" in reading.splitter:
            how = f'read="maxp", size={reading.splitter["size"]}, stride={reading.splitter["stride"]}'
        load = f'ranker = cross_encoder("{place}", {how})'
        ours = ["from longrank.rankers.cross_encoder import cross_encoder", "", load]
    code = _python(*ours, 'ranker.rank("a query", ["a long document", "another"])')
    if form == "ranker":
        return code
    plain = _python(
        "from sentence_transformers import CrossEncoder",
        "",
        f'model = CrossEncoder("{place}")',
        'model.predict([("a query", "a piece of text")])',
    )
    return f"In longrank, as the ranker reads:\n\n{code}\n\nAs a plain cross-encoder:\n\n{plain}"


def _python(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```"])


def _measured(measures: tuple[Measure, ...]) -> str:
    if not measures:
        return ""
    compared = any(found.baseline for found in measures)
    head = ["data", "measure", "mean", "95% interval", "queries", *["compared with"] * compared]
    rows = [head, ["---"] * len(head)]
    for found in measures:
        interval = f"{found.low:.3f} to {found.high:.3f}"
        cells = [found.dataset, found.measure, f"{found.value:.3f}", interval, str(found.queries)]
        rows.append([*cells, *[found.baseline] * compared])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _audited(audit: AuditNote | None) -> str:
    if audit is None:
        return ""
    at = f", lengths {', '.join(f'{length:,}' for length in audit.lengths)} tokens" if audit.lengths else ""
    data = f" on {audit.data}" if audit.data else ""
    return f"**{audit.outcome}.** {audit.sentence}\n\nBy `longrank audit`{data}: {audit.queries} queries{at}."


def _trained_on(card: ModelCard) -> str:
    return "\n\n".join(_parts(card))


def _parts(card: ModelCard) -> Iterator[str]:
    if card.datasets:
        yield "\n".join(f"- {name}" for name in card.datasets)
    if card.training:
        yield card.training
