"""Figures as SVG text fit for a page: ink in the page's colour, ids that cannot clash, no link that leaves it."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from longrank.core.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#010203"  # drawn as this, written as currentColor: text and axes then follow the page
FIRST, SECOND = (
    "#d2553f",
    "#3f7fc9",
)  # at least 3:1 against the white and against the dark page, apart for the colour-blind
LINES = (FIRST, SECOND, "#7d5fb2", "#2f8f6b", "#b8860b")
MARKS = "os^Dv"  # lines can be told apart without colour

_STYLE = {
    "svg.hashsalt": "longrank",
    "svg.fonttype": "none",  # letters stay text: selectable, small, in the page's font
    "text.parse_math": False,  # a '$' in a name is a '$'
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.hspace": 0.06,
    **dict.fromkeys(["text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"], INK),
}
_PAGE_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_GREY = "#7a7f87"  # the ink of a figure opened on its own, legible on white and on black
_ACTIVE = {"script", "foreignObject", "iframe", "animate", "set", "a"}


@contextmanager
def drawing(width: float, height: float) -> Iterator["Figure"]:
    """An empty figure of so many inches in the house style, to be filled and given to ``to_svg`` inside the block."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # the reader's font draws the letters, so a glyph that the measuring font lacks is no loss
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield Figure(figsize=(width, height), layout="constrained")


def look(number: int) -> tuple[str, str]:
    """Colour and mark of a line by its number from 0; those of 25 lines differ.

    >>> look(0), look(5)
    (('#d2553f', 'o'), ('#d2553f', 's'))
    """
    return LINES[number % len(LINES)], MARKS[(number + number // len(LINES)) % len(MARKS)]


def to_svg(figure: "Figure") -> str:
    """The figure as one ``<svg>`` element: the same bytes for the same drawing, on a transparent ground."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)  # would reach the whole page
    svg = re.sub(r"font-family: [^;\"]*|'DejaVu Sans'(, sans-serif)?", _font, svg)
    svg = svg.replace("<svg ", f'<svg color="{_GREY}" stroke-linejoin="round" ', 1)
    return re.sub(r"[ \t]+$", "", svg.replace(INK, "currentColor"), flags=re.MULTILINE).strip()


def inline(svg: str, *, prefix: str, title: str, description: str) -> str:
    """The SVG ready to be put into a page: labelled for those who cannot see it, every id under ``prefix``.

    >>> inline('<svg><path id="a"/><use href="#a"/></svg>', prefix="f1", title="Bars", description="a < b")
    ... # doctest: +NORMALIZE_WHITESPACE
    '<svg role="img" aria-labelledby="f1-title" aria-describedby="f1-desc"><title id="f1-title">Bars</title><desc
    id="f1-desc">a &lt; b</desc><path id="f1-a"/><use href="#f1-a"/></svg>'
    """
    check_inert(svg)
    body = re.sub(r"(\sid=[\"']|href=[\"']#|url\(#)", rf"\g<1>{prefix}-", svg.strip())
    opening, rest = re.fullmatch(r"(<svg\b[^>]*?)\s*>(.*)", body, flags=re.DOTALL).groups()  # type: ignore[union-attr]
    opening = re.sub(r"\s(role|aria-\w+)=(\"[^\"]*\"|'[^']*')", "", opening)
    labels = f'role="img" aria-labelledby="{prefix}-title" aria-describedby="{prefix}-desc"'
    words = f'<title id="{prefix}-title">{escape(title)}</title><desc id="{prefix}-desc">{escape(description)}</desc>'
    return f"{opening} {labels}>{words}{rest}"


def check_inert(svg: str) -> None:
    """Refuse what is not one plain ``<svg>`` element, or could run code or ask for anything outside itself."""
    text = svg.strip()
    if not text.startswith("<svg") or not text.endswith("</svg>") or "<!" in text:
        raise DataError(f"a figure must be one <svg> element without declarations, this begins {text[:40]!r}")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"a figure's SVG is not well-formed XML: {error}") from None
    for element in root.iter():
        name = _local(element.tag)
        if name in _ACTIVE:
            raise DataError(f"a figure's SVG holds <{name}>; only still drawings can stand in a page")
        for key, value in (*element.attrib.items(), ("text", (element.text or "") if name == "style" else "")):
            if _local(key).startswith("on") or _leaves(_local(key), value):
                raise DataError(
                    f"a figure's SVG has {_local(key)}={value[:40]!r}; it must refer to nothing outside itself"
                )


def _font(match: re.Match[str]) -> str:
    return f"font-family: {_PAGE_FONT}" if match.group().startswith("font-family") else _PAGE_FONT


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _leaves(key: str, value: str) -> bool:
    outside = re.search(r"url\(\s*[\"']?(?!#)|@import", value)
    return outside is not None or (key in {"href", "src"} and not value.startswith(("#", "data:image/")))
