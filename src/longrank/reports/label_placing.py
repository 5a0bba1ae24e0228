"""Places for the labels of points so that none covers another, a point or a line; greedy, hence the same every time."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_GAP = 3.0  # between a point's mark and its label, and about its radius
_RINGS = range(16, 400, 8)  # distances at which a label needs a line to its point
_ANGLES = 16
_BESIDE = ((1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))


class At(NamedTuple):
    """A place, upwards from the lower left corner."""

    x: float
    y: float


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: "Box") -> bool:
        """Whether they share more than an edge.

        >>> Box(0, 0, 2, 2).meets(Box(1, 1, 3, 3)), Box(0, 0, 2, 2).meets(Box(2, 0, 3, 1))
        (True, False)
        """
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.top <= other.bottom or other.top <= self.bottom)

    def within(self, other: "Box") -> bool:
        """Whether the other holds it whole."""
        low = other.left <= self.left and other.bottom <= self.bottom
        return low and self.right <= other.right and self.top <= other.top

    def nearest(self, point: At) -> At:
        """The place of the box that is nearest to a point."""
        return At(min(max(point.x, self.left), self.right), min(max(point.y, self.bottom), self.top))


class Label(NamedTuple):
    """Where a label goes; ``leader`` is the end of a line from its point, None if it stands beside it."""

    box: Box
    leader: At | None


class _Line(NamedTuple):
    start: At
    stop: At

    def crosses(self, box: Box) -> bool:
        """Whether a part of the line lies inside: what is left of it after a cut at each side (Liang and Barsky)."""
        first, last = 0.0, 1.0
        for side in (0, 1):
            begin, move = self.start[side], self.stop[side] - self.start[side]
            low, high = box[side], box[side + 2]
            if move == 0:
                if not low < begin < high:
                    return False
                continue
            ends = sorted(((low - begin) / move, (high - begin) / move))
            first, last = max(first, ends[0]), min(last, ends[1])
        return first < last


def place_labels(
    points: Sequence[At], sizes: Sequence[tuple[float, float]], *, area: Box, taken: Sequence[Box] = ()
) -> list[Label] | None:
    """A place inside ``area`` for each label (width, height), in the order of the points; None if one has no room.

    Labels keep clear of one another, of every point and of the boxes ``taken``; of lines too where there is such a
    place.

    >>> (label,) = place_labels([At(50, 50)], [(20, 10)], area=Box(0, 0, 100, 100))
    >>> label.box
    Box(left=53.0, bottom=53.0, right=73.0, top=63.0)
    """
    marks = {Box(p.x - _GAP, p.y - _GAP, p.x + _GAP, p.y + _GAP) for p in points}
    labels: list[Label] = []
    lines: list[_Line] = []
    for point, size in zip(points, sizes, strict=True):
        boxes = [label.box for label in labels]
        free = (
            label
            for label in _candidates(point, size)
            if label.box.within(area) and not any(label.box.meets(box) for box in (*marks, *taken, *boxes))
        )
        chosen = _clearest(free, point, boxes, lines)
        if chosen is None:
            return None
        labels.append(chosen)
        if chosen.leader is not None:
            lines.append(_Line(point, chosen.leader))
    return labels


def _clearest(free: Iterator[Label], point: At, boxes: Sequence[Box], lines: Sequence[_Line]) -> Label | None:
    """The first label that no line crosses and whose own line crosses none; if there is none, the first."""
    first = None
    for label in free:
        own = [_Line(point, label.leader)] if label.leader is not None else []
        crossed = any(line.crosses(label.box) for line in lines) or any(o.crosses(box) for o in own for box in boxes)
        if not crossed:
            return label
        first = first or label
    return first


def _candidates(point: At, size: tuple[float, float]) -> Iterator[Label]:
    """Beside the point, the upper right first, then on ever wider rings with a line."""
    width, height = size
    for right, up in _BESIDE:
        centre = At(point.x + right * (_GAP + width / 2), point.y + up * (_GAP + height / 2))
        yield Label(_around(centre, size), None)
    for radius in _RINGS:
        for step in range(_ANGLES):
            angle = 2 * math.pi * (step + 0.5) / _ANGLES
            x, y = math.cos(angle), math.sin(angle)
            away = At(point.x + x * radius + math.copysign(width / 2, x), point.y + y * radius)
            box = _around(away, size)
            yield Label(box, box.nearest(point))


def _around(centre: At, size: tuple[float, float]) -> Box:
    width, height = size
    return Box(centre.x - width / 2, centre.y - height / 2, centre.x + width / 2, centre.y + height / 2)
