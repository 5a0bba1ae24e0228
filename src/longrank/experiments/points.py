"""The steps of a sweep, called by the values that set them apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from longrank.experiments.step import Cell, Step, needed_steps

Point = tuple[Mapping[str, Any], Sequence[Cell]]  # the swept values, and the cells they give


def named_by_point(points: Sequence[Point]) -> list[Cell]:
    """The cells of all points; a step that not all of them need has the values that those who do have in common.

    Only labels change: a step is the same, whatever it is called.
    """
    needed: dict[str, list[Mapping[str, Any]]] = {}
    for values, cells in points:
        for step in needed_steps(cells):
            needed.setdefault(step.fingerprint, []).append(values)
    swept = _differing([values for values, _ in points])
    known: dict[str, Step] = {}

    def named(step: Step) -> Step:
        if step.fingerprint not in known:
            at = needed[step.fingerprint]
            apart = [f"{name}={at[0][name]}" for name in swept - _differing(at) if name in at[0]]
            inputs = {role: named(inner) for role, inner in step.inputs.items()}
            known[step.fingerprint] = replace(step, label=", ".join([step.label, *sorted(apart)]), inputs=inputs)
        return known[step.fingerprint]

    every = [cell for _, cells in points for cell in cells]
    return [_with_steps(cell, named) for cell in every] if swept else every


def _differing(points: Iterable[Mapping[str, Any]]) -> set[str]:
    """Labels that do not have one value at all of the points."""
    known = list(points)
    return {name for values in known for name in values if any(other.get(name) != values[name] for other in known)}


def _with_steps(cell: Cell, named: Callable[[Step], Step]) -> Cell:
    collection = None if cell.collection is None else named(cell.collection)
    results, trained = (tuple(map(named, steps)) for steps in (cell.results, cell.trained))
    return replace(cell, results=results, collection=collection, trained=trained)
