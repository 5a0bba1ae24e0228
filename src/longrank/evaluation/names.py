"""Measure names as ir-measures writes them, and the three it lacks or does badly: ERR, nERR and Q."""

import difflib
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from longrank.core.errors import SettingsError, UnknownName
from longrank.evaluation import formulas
from longrank.evaluation.hits import Floats, Hits

_OURS: Mapping[str, tuple[Callable[..., Floats], Mapping[str, type[int] | type[float]]]] = {
    "ERR": (formulas.err, {"max_grade": int}),
    "nERR": (formulas.nerr, {"max_grade": int}),
    "Q": (formulas.q_measure, {"beta": float}),
}
_FORM = re.compile(r"(?P<name>\w+)(?:\((?P<params>[^()]*)\))?(?:@(?P<cutoff>\d+))?")


@dataclass(frozen=True)
class Measure:
    """A parsed name; ``compute`` is None where ir-measures does the work, with ``foreign`` as its measure."""

    name: str
    compute: Callable[[Hits], Floats] | None
    foreign: Any = None


def parse_measure(name: str) -> Measure:
    """The measure of a name: ``nDCG@10``, ``RR(rel=2)@10``, ``ERR(max_grade=3)@20``, ``Q@10`` and all of ir-measures.

    >>> parse_measure("RR(rel=2)@10").name
    'RR(rel=2)@10'
    """
    text = name.strip()
    form = _FORM.fullmatch(text)
    if form and form["name"] in _OURS:
        return Measure(text, _our_measure(text, form))
    foreign = _parse_foreign(text)
    return Measure(text, _from_arrays(foreign), foreign)


def parse_measures(names: str | list[str] | tuple[str, ...]) -> tuple[Measure, ...]:
    """Each measure once, in the order given; a single text is split at spaces and commas outside brackets.

    >>> [measure.name for measure in parse_measures("nDCG@10 RR(rel=2)@10, AP")]
    ['nDCG@10', 'RR(rel=2)@10', 'AP']
    """
    parts = re.split(r"[\s,]+(?![^()]*\))", names.strip()) if isinstance(names, str) else list(names)
    measures = {part.strip(): parse_measure(part) for part in parts if part.strip()}
    if not measures:
        raise SettingsError("no measure was named; try 'nDCG@10 RR AP'")
    return tuple(measures.values())


def _our_measure(text: str, form: re.Match[str]) -> Callable[[Hits], Floats]:
    compute, known = _OURS[form["name"]]
    options: dict[str, int | float] = {}
    for part in filter(None, re.split(r"\s*,\s*", (form["params"] or "").strip())):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in known:
            raise SettingsError(f"measure {text!r} has no parameter {key!r}; known: {', '.join(known)}")
        options[key] = _positive(text, key, value, known[key])
    if form["cutoff"]:
        options["cutoff"] = _positive(text, "the cutoff", form["cutoff"], int)
    return partial(compute, **options)


def _positive(text: str, key: str, value: str, kind: type[int] | type[float]) -> int | float:
    try:
        number = kind(value)
    except ValueError:
        number = 0
    if not 0 < number < 1e9:
        what = "a whole number" if kind is int else "a number"
        raise SettingsError(f"measure {text!r}: {key} must be {what} above 0, got {value!r}")
    return number


def _parse_foreign(text: str) -> Any:
    import ir_measures

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # its parser uses old ast nodes
            measure = ir_measures.parse_measure(text)
        measure.validate_params()
    except NameError:
        known = [*ir_measures.measures.registry, *_OURS]
        head = re.split(r"[@(]", text)[0]
        near = difflib.get_close_matches(head, known, n=1) or _other_case(head, known)
        hint = f" Did you mean {text.replace(head, near[0], 1)!r}?" if near else ""
        raise UnknownName(f"no measure {text!r}.{hint} Names are those of ir-measures, and ERR, nERR, Q") from None
    except (ValueError, AssertionError, TypeError) as error:
        if "cutoff" in str(error) and "@" not in text:
            raise SettingsError(f"measure {text!r} needs a cutoff: write {text}@10") from None
        raise SettingsError(f"measure {text!r} cannot be read ({error}); write it like 'RR(rel=2)@10'") from None
    cutoff = measure.params.get("cutoff")
    if cutoff is not None and cutoff < 1:
        raise SettingsError(f"measure {text!r}: the cutoff must be a whole number above 0")
    return measure


def _other_case(head: str, known: list[str]) -> list[str]:
    return [name for name in known if name.lower() == head.lower()]


def _from_arrays(foreign: Any) -> Callable[[Hits], Floats] | None:
    """Our computation of a measure of ir-measures, None for those and for parameters we leave to it."""
    params = dict(foreign.params)
    cutoff = {"cutoff": params.pop("cutoff")} if "cutoff" in params else {}
    if foreign.NAME == "nDCG":
        exponential = params.pop("dcg", "log2") == "exp-log2"
        return None if params else partial(formulas.ndcg, exponential=exponential, **cutoff)
    if foreign.NAME == "Judged":
        return None if params else partial(formulas.judged, **cutoff)
    binary = {"RR": formulas.reciprocal_rank, "AP": formulas.average_precision}
    cut = {"P": formulas.precision, "R": formulas.recall}
    rel = params.pop("rel", 1)
    if params or rel < 1 or (foreign.NAME in cut and not cutoff):
        return None
    compute: Callable[..., Floats] | None = binary.get(foreign.NAME) or cut.get(foreign.NAME)
    return partial(compute, rel=rel, **cutoff) if compute else None
