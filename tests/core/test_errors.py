"""The drawing of the exceptions."""

import re

from longrank.core import errors
from longrank.core.errors import LongrankError

LINE = re.compile(r"^(?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(\s{2,}\S.*)?$")


def drawn() -> dict[str, str]:
    """Each exception of the drawing and the one above it."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines()[2:]:
        found = LINE.match(line)
        if found:
            depth = len(found["branch"]) // 4
            parents[found["name"]] = above[depth - 1] if depth else "Exception"
            above[depth:] = [found["name"]]
    return parents


def test_the_drawing_shows_every_exception_under_its_parent() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LongrankError)]
    assert drawn() == {kind.__name__: kind.__base__.__name__ for kind in kinds if kind.__base__}
