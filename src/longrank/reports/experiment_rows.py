"""The rows and columns of an experiment's grid, and which row is compared with which."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from longrank.core.errors import UnknownName
from longrank.experiments.records import ExperimentResult

Setting = str | int | float | bool


class Row(NamedTuple):
    """A system; ``settings`` are the labels a sweep gave it.

    ``reference`` is "retriever", "random" or "perfect" for what is only there to be compared with.
    """

    system: str
    ranker: str
    backbone: str
    settings: tuple[tuple[str, Setting], ...] = ()
    reference: str = ""

    @property
    def name(self) -> str:
        """The system and its settings."""
        return " ".join([self.system, *(f"{label}={value}" for label, value in self.settings)])


Rows = tuple[Row, ...]


class Column(NamedTuple):
    """Where, after which training, and by which measure."""

    scored_on: str
    stage: str
    measure: str


def baselines_of(
    rows: Sequence[Row], wanted: str | None, result: ExperimentResult
) -> dict[str, tuple[str, dict[Row, Rows]]]:
    """Letter -> label, and the baselines of each row that has one: several where collections have their own."""
    systems = [row for row in rows if not row.reference]
    tables: list[tuple[str, dict[Row, Rows]]] = []
    if systems:
        label, own = _own(systems, wanted, _usual(result))
        named = {} if wanted else _named(systems, result)
        label = ", or ".join([label, *dict.fromkeys(other.system for other in named.values())])
        tables.append((label, {row: (other,) for row, other in {**own, **named}.items()}))
    for kind in ("retriever", "random"):
        of = {r: tuple(o for o in rows if o.reference == kind and o.settings == r.settings) for r in systems}
        of = {row: others for row, others in of.items() if others}
        if of:
            tables.append((" or ".join(dict.fromkeys(o.system for others in of.values() for o in others)), of))
    return dict(zip("abc", tables, strict=False))


def _same_point(row: Row, other: Row) -> bool:
    return (row.backbone, row.settings) == (other.backbone, other.settings)


def _meets(row: Row, other: Row) -> bool:
    """Whether a row can be compared with another: one that is never trained has no backbone, and meets them all."""
    return _same_point(row, other if other.backbone else other._replace(backbone=row.backbone))


def _own(rows: Sequence[Row], wanted: str | None, usual: Sequence[str]) -> tuple[str, dict[Row, Row]]:
    known = dict.fromkeys(row.ranker for row in rows)
    if wanted is not None and wanted not in known:
        raise UnknownName(f"no ranker {wanted!r} to compare with; the experiment has {', '.join(known)}")
    chosen = wanted or next((label for label in usual if label in known), None)
    if chosen is not None:
        of = {
            row: other
            for row in rows
            for other in rows
            if other.ranker == chosen and _meets(row, other) and row != other
        }
        return (_own_words(chosen, tuple(of.values())), of)
    if len({row.settings for row in rows}) > 1:
        first = {(row.ranker, row.backbone): row for row in reversed(rows)}
        own = {row: first[row.ranker, row.backbone] for row in rows}
        return ("the first setting of the same ranker", {row: other for row, other in own.items() if row != other})
    return (rows[0].name, dict.fromkeys(rows[1:], rows[0]))


def _own_words(ranker: str, met: Sequence[Row]) -> str:
    """How a ranker is called whose rows others meet in their own backbone and sweep point."""
    shared = ["backbone"] if len({row.backbone for row in met}) > 1 else []
    shared += ["settings"] if len({row.settings for row in met}) > 1 else []
    return f"{ranker} of the same {' and '.join(shared)}" if shared else ranker


def _named(rows: Sequence[Row], result: ExperimentResult) -> dict[Row, Row]:
    """The baselines that the file gives to untrained rankers."""
    names = {str(entry.get("label")): entry.get("baseline") for entry in _tables(result, "untrained")}
    return {
        row: other
        for row in rows
        for other in rows
        if other.ranker == names.get(row.ranker) and _same_point(row, other)
    }


def _usual(result: ExperimentResult) -> list[str]:
    """Labels of the rankers that gains refer to, the first that was scored: the file's choice, then FirstP."""
    named = result.about.get("settings", {}).get("gains_over")
    first_p = [str(each.get("label", "firstp")) for each in _tables(result, "rankers") if each.get("name") == "firstp"]
    return [*([str(named)] if named else []), *first_p[:1], "firstp"]


def _tables(result: ExperimentResult, key: str) -> list[Mapping[str, Any]]:
    return [entry for entry in result.about.get("settings", {}).get(key, ()) if isinstance(entry, Mapping)]
