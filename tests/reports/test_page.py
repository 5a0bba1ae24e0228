"""The report page, read back with the standard HTML parser and, where it is installed, with a real browser."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.errors import DataError
from longrank.reports.page import (
    Cell,
    Column,
    Figure,
    Folded,
    Section,
    Statement,
    Table,
    Value,
    render_page,
    write_page,
)
from longrank.reports.plots import Interval, PositionSample, TransferBar, position_histograms, transfer_bars
from longrank.reports.svg import FIRST, SECOND

SVG = '<svg xmlns="http://www.w3.org/2000/svg"><path id="a" d="M 0 0"/><use href="#a" clip-path="url(#a)"/></svg>'
BARS = (
    TransferBar("firstp", Interval(0.182, 0.131, 0.236), Interval(0.176, 0.127, 0.229)),
    TransferBar("maxp", Interval(0.611, 0.522, 0.700), Interval(0.662, 0.577, 0.744)),
    TransferBar("parade-attn", Interval(0.574, 0.481, 0.664), Interval(0.671, 0.588, 0.752)),
    TransferBar("parade-transformer", Interval(0.297, 0.221, 0.378), Interval(0.655, 0.569, 0.739)),
)


class Reader(HTMLParser):
    """Start tags with attributes, the text inside each open tag, and table cells by row."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in {"meta", "link", "img", "br"}:
            self._open.append(tag)
            self.texts.append((tag, ""))
        if tag == "tr":
            self.rows.append([])
        elif tag in {"th", "td"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.append((self._open[-1], data))
        if {"th", "td"} & set(self._open):
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def words(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag and text.strip()]


def render(*sections: Section) -> str:
    return render_page(title="Demo", lead="What was done.", sections=sections, footer="seed 0")


def demo_sections() -> list[Section]:
    """Made-up results in the shape of the demo's: four rankers, early evidence (toy) and late (toy-far)."""
    rng = np.random.default_rng(7)
    lengths, far_lengths = rng.integers(60, 900, size=300), rng.integers(190, 620, size=300)
    early, far = rng.integers(0, 59, size=300), rng.integers(128, far_lengths - 40)
    samples = {
        "toy": PositionSample(early.tolist(), lengths.tolist()),
        "toy-far": PositionSample(far.tolist(), far_lengths.tolist()),
    }
    columns = [
        Column("ranker"),
        Column("toy RR", best="highest"),
        Column("toy-far RR, zero-shot", best="highest"),
        Column("toy-far RR, fine-tuned", best="highest"),
        Column("ms per document", decimals=1, best="lowest"),
    ]
    rows = [
        [bar.name, on_toy, Cell(bar.zero_shot.mean, detail="0.1–0.9"), Cell(bar.tuned.mean, detail="0.1–0.9"), cost]
        for bar, on_toy, cost in zip(BARS, (0.702, 0.715, 0.715, 0.709), (4.1, None, 12.2, 11.9), strict=True)
    ]
    bars = transfer_bars(BARS, levels={"BM25": 0.3, "random order": 0.18}, measure="RR on toy-far")
    return [
        Section("Results", ["Four rankers.", Table(columns, rows, caption="Reciprocal rank over 60 queries.")]),
        Section("Positions", [Figure(position_histograms(samples), caption="Starts and lengths.", alt="Early, late.")]),
        Section("Transfer", ["Dashed: random.", Figure(bars, caption="Two bars a ranker.", alt="MaxP stays ahead.")]),
    ]


@pytest.fixture(scope="module")
def demo() -> str:
    return render_page(title="Demo", lead="Made up.", sections=demo_sections(), footer="seed 0")


def test_a_page_asks_for_nothing_outside_itself(demo: str) -> None:
    for tag, attributes in Reader(demo).tags:
        for key, value in attributes.items():
            if key in {"src", "href", "xlink:href", "srcset", "action", "data", "poster"}:
                assert value.startswith(("#", "data:")), f"<{tag} {key}={value!r}>"
            elif not key.startswith("xmlns"):
                assert "//" not in value, f"<{tag} {key}={value!r}>"
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*[\"']?([^)]*)", demo))
    assert "@import" not in demo
    assert "default-src 'none'" in demo


def test_headings_follow_the_sections(demo: str) -> None:
    page = Reader(demo)
    assert page.words("h1") == ["Demo"]
    assert page.words("h2") == ["Results", "Positions", "Transfer"]
    assert page.all("html") == [{"lang": "en"}]


def test_every_figure_is_labelled_and_no_id_clashes_even_when_a_figure_comes_twice() -> None:
    figure = Figure(SVG, caption="Bars", alt="One bar.")
    html = render(Section("One", [figure, figure]), Section("Two", [figure, *demo_sections()[1].parts]))
    page = Reader(html)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = set(re.findall(r"href=\"#([^\"]+)", html)) | set(re.findall(r"url\(#([^)]+)", html))
    assert references and references <= set(ids)
    assert len(page.all("svg")) == 4
    for attributes in page.all("svg"):
        assert attributes["role"] == "img"
        assert {attributes["aria-labelledby"], attributes["aria-describedby"]} <= set(ids)
    assert page.words("title") == ["Demo", "Bars", "Bars", "Bars", "Starts and lengths."]
    assert page.words("desc") == ["One bar."] * 3 + ["Early, late."]


def test_table_cells_are_complete_and_rows_and_columns_have_headers(demo: str) -> None:
    page = Reader(demo)
    assert page.rows[0] == [
        "ranker", "toy RR", "toy-far RR, zero-shot", "toy-far RR, fine-tuned", "ms per document",
    ]  # fmt: skip
    assert page.rows[1] == ["firstp", "0.702", "0.182 0.1–0.9", "0.176 0.1–0.9", "4.1 (best)"]
    assert page.rows[2] == ["maxp", "0.715 (best)", "0.611 (best) 0.1–0.9", "0.662 0.1–0.9", "–"]
    assert [attributes["scope"] for attributes in page.all("th")] == ["col"] * 5 + ["row"] * 4
    assert "best" in page.rows[3][1], "a tie as shown is a tie"


def test_numbers_that_look_the_same_are_marked_the_same() -> None:
    columns = [Column("system"), Column("up", decimals=2, best="highest"), Column("down", best="lowest"), Column("n")]
    rows: list[list[str | int | float | None]] = [["a", 0.501, 3, 1200], ["b", 0.499, 2, None], ["c", 0.48, None, 7]]
    page = Reader(render(Section("S", [Table(columns, rows, caption="T")])))
    assert page.rows[1:] == [
        ["a", "0.50 (best)", "3", "1,200"],  # 0.501 and 0.499 are both shown as 0.50
        ["b", "0.50 (best)", "2 (best)", "–"],
        ["c", "0.48", "–", "7"],
    ]
    keys = [attributes["data-key"] for attributes in page.all("td")]
    assert keys == ["0.501", "3", "1200", "0.499", "2", "", "0.48", "", "7"]


def test_hostile_text_is_shown_and_never_run() -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;{{ 7 * 7 }}"
    table = Table([Column(evil), Column("x")], [[evil, Cell(1.0, shown=evil, detail=evil)]], caption=evil)
    bar = TransferBar(evil, Interval(0.2, 0.1, 0.3), Interval(0.2, 0.1, 0.3))
    bars = transfer_bars([bar], levels={evil: 0.1}, measure=evil)
    section = Section(evil, [evil, table, Figure(bars, caption=evil, alt=evil)])
    page = Reader(render_page(title=evil, lead=evil, sections=[section], footer=evil))
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
    shown = [tag for tag, text in page.texts if text.strip() == evil]
    in_page = ["title", "h1", "p", "h2", "p", "figcaption", "th", "th", "td", "small", "figcaption", "p"]
    in_drawing = ["title", "desc", "text", "text"]  # the ranker's name is wrapped, so it is not whole
    assert sorted(shown) == sorted(in_page + in_drawing)


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1))
def test_any_text_comes_back_as_it_was_given(text: str) -> None:
    page = Reader(render(Section("S", [Table([Column("a")], [[text]], caption="c")])))
    assert page.rows == [["a"], [text]]
    assert page.all("th")[1]["data-key"] == text


def test_the_same_content_gives_the_same_bytes(demo: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page.html"
    write_page(path, title="Demo", lead="Made up.", sections=demo_sections(), footer="seed 0")
    assert path.read_bytes() == demo.encode()
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Table([Column("a")], [["x", 1.0]], caption="T"), "row 1 has 2 cells"),
        (lambda: Table([Column("RR")], [[0.1], [float("nan")]], caption="T"), "'RR' of row 2 is nan"),
        (lambda: Table([Column("RR")], [[Cell(float("inf"))]], caption="T"), "give None if unknown"),
        (lambda: Figure(SVG, caption="c", alt=" "), "alt text"),
        (lambda: Figure("<div></div>", caption="c", alt="a"), "one <svg> element"),
        (lambda: Figure("<svg><g></svg>", caption="c", alt="a"), "not well-formed"),
        (lambda: Figure("<svg><script>1</script></svg>", caption="c", alt="a"), "<script>"),
        (lambda: Figure('<svg onload="f()"></svg>', caption="c", alt="a"), "onload"),
        (lambda: Figure('<svg><image href="http://x/y.png"/></svg>', caption="c", alt="a"), "outside itself"),
        (lambda: Figure("<svg><style>@import 'x'</style></svg>", caption="c", alt="a"), "outside itself"),
        (lambda: Figure('<svg><g style="fill: url(http://x#y)"/></svg>', caption="c", alt="a"), "outside itself"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_reason(make: Callable[[], object], words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)):
        make()


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_enough_in_light_dark_and_print(demo: str) -> None:
    themes = [
        dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", demo, re.DOTALL)
    ]
    assert len(themes) == 3
    for theme in themes:
        for ground in (theme["paper"], theme["panel"]):
            assert min(contrast(theme[ink], ground) for ink in ("ink", "muted", "accent")) >= 4.5  # WCAG AA, text
        assert min(contrast(color, theme["paper"]) for color in (FIRST, SECOND)) >= 3  # WCAG AA, graphics


def test_what_is_folded_opens_under_its_line_and_is_escaped_like_the_rest() -> None:
    folded = Folded("In detail", ["Below <firstp>.", Statement("On toy", ["Above."])])
    assert (
        "<details>\n<summary>In detail</summary>\n<p>Below &lt;firstp&gt;.</p>\n"
        '<p class="head">On toy</p>\n<ul>\n<li>Above.</li>\n</ul>\n</details>\n'
    ) in render(Section("Words", [folded]))


PROBE = """<script>
const buttons = document.querySelectorAll("th button");
const column = (at) => [...document.querySelectorAll("tbody tr")].map((row) => row.cells[at].dataset.key).join(" ");
const sorted = () => document.querySelector("th[aria-sort]").getAttribute("aria-sort");
const seen = [];
for (const at of [4, 4, 0]) { buttons[at].focus(); buttons[at].click(); seen.push(sorted() + ": " + column(at)); }
seen.push("focus kept: " + (document.activeElement === buttons[0]));
seen.push("marked: " + document.querySelectorAll("th[aria-sort]").length);
seen.push("overflow: " + (document.documentElement.scrollWidth > window.innerWidth));
document.body.dataset.seen = seen.join("; ");
</script></body>"""

QUIET = (
    "--headless",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium is installed to open the page in")

    def run(html: str, *flags: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [program, *QUIET, profile, "--enable-logging=stderr", *flags, path.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    yield run
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)


def test_a_browser_shows_the_page_without_complaint(
    browse: Callable[..., subprocess.CompletedProcess[str]], demo: str, tmp_path: Path
) -> None:
    broken = demo.replace("<footer>", '<footer><img alt="" src="https://example.org/x.png"><script>f()</script>')
    assert "CONSOLE" in browse(broken, "--dump-dom").stderr, "a fault must be noticed for silence to mean anything"
    picture = tmp_path / "page.png"
    assert "CONSOLE" not in browse(demo, "--window-size=390,1600", f"--screenshot={picture}").stderr
    assert picture.stat().st_size > 20_000


def test_headings_sort_the_table_and_the_phone_page_does_not_scroll_sideways(
    browse: Callable[..., subprocess.CompletedProcess[str]], demo: str
) -> None:
    free = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", demo)
    dom = browse(free.replace("</body>", PROBE), "--window-size=390,844", "--dump-dom").stdout
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found is not None
    assert found.group(1).split("; ") == [
        "descending: 12.2 11.9 4.1 ",  # the unknown stays last either way
        "ascending: 4.1 11.9 12.2 ",
        "ascending: firstp maxp parade-attn parade-transformer",
        "focus kept: true",
        "marked: 1",
        "overflow: false",
    ]


CUT = """<script>
const cut = [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth);
document.body.dataset.cut = cut.length;
</script></body>"""


def test_a_table_of_ten_columns_fits_a_laptop(
    browse: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    names = ["system", "where", "training", "mean", "against", "its mean", "difference", "corrected p", "significant",
             "queries"]  # fmt: skip
    interval = Cell(-0.051, detail="[-0.076, -0.031]")
    row: list[Value | Cell] = [
        "parade-transformer",
        "nq-early RR",
        "debiased",
        0.225,
        "zero-shot",
        0.277,
        interval,
        0.001,
        "yes",
        300,
    ]
    table = Table([Column(name) for name in names], [row], caption="Ten columns")
    html = render(Section("Wide", [table]))
    free = re.sub(r"script-src '[^']*'", "script-src 'unsafe-inline'", html).replace("</body>", CUT)
    assert 'data-cut="0"' in browse(free, "--window-size=1280,800", "--dump-dom").stdout
