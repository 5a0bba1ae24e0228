"""The papers' numbers about positions beside those of a small made-up result."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from longrank.evaluation.papers import paper_statements
from longrank.experiments.records import CellResult, ExperimentResult
from longrank.reports.experiment import render
from longrank.reports.experiment_positions import positions_beside, positions_table
from longrank.reports.experiment_reading import Reading, read_experiment

SIX = {"key": "long-document-models", "tables": [6]}


def positions(collection: str, places: Sequence[tuple[int, int, int]], *, pairs: int, passages: int = 1) -> CellResult:
    """A cell of recorded positions: start, stop and length of each located pair."""
    named = {f"q{n} d{n}": place for n, place in enumerate(places)}
    values = {
        name: {pair: float(place[at]) for pair, place in named.items()}
        for at, name in enumerate(("start", "stop", "length"))
    }
    values["passages"] = dict.fromkeys(named, float(passages))
    return CellResult({"collection": collection, "what": "positions"}, values, {"tokenizer": "bert", "pairs": pairs})


def read(*cells: CellResult, papers: Sequence[Mapping[str, Any]] = (), chunk: int = 100, **settings: Any) -> Reading:
    settings |= {"reading": {"chunk_tokens": chunk}}
    return read_experiment(ExperimentResult({"title": "Places", "papers": papers, "settings": settings}, cells))


# chunks of 100: starts in 1, 1, 1 and 3; ends in 1, 1 (its last token is 99), 2 and far behind
TOY = positions("toy", [(0, 40, 300), (60, 100, 300), (90, 130, 300), (250, 999, 1000)], pairs=5)
FAR = positions("toy-far", [(130, 150, 320), (200, 230, 330)], pairs=2, passages=3)


def rows_of(reading: Reading, name: str) -> list[list[str]]:
    return [[cell.text for cell in row] for row in positions_beside(reading)[name].rows]


def test_shares_by_chunk_stand_beside_those_that_the_paper_printed() -> None:
    reading = read(TOY, FAR, papers=[SIX])
    rows = rows_of(reading, "long-document-models, Table 6")
    # Table 6: chunk 1 starts 85.9% and ends 71.0%, later chunks 0.1% and 2.5%
    assert rows[0] == ["chunk 1", "75.0%", "85.9%", "50.0%", "71.0%"]
    assert rows[1] == ["chunk 2", "0.0%", "9.1%", "25.0%", "14.9%"]
    assert rows[2] == ["chunk 3", "25.0%", "2.6%", "0.0%", "6.1%"]
    assert rows[-1] == ["later chunks", "0.0%", "0.1%", "25.0%", "2.5%"]
    table = positions_beside(reading)["long-document-models, Table 6"]
    assert table.headings[:3] == ("first relevant passage", "toy, starts", "msmarco-dev, starts (theirs)")
    notes = " ".join(table.notes)
    assert "arXiv:2207.01262, Table 6; theirs as printed." in notes
    assert "Our chunks have 100 tokens, theirs 477." in notes
    assert "4 of 5 relevant pairs in toy" in notes and "toy-far" not in notes
    assert "Evidence in toy was placed after the papers' numbers, so agreement is no finding." in notes


def test_the_real_collection_in_the_papers_chunks_needs_no_caution() -> None:
    dev = positions("msmarco-dev", [(0, 477, 900), (477, 500, 900)], pairs=2)
    (table, _) = positions_beside(read(dev, papers=[SIX], chunk=477)).values()
    assert [cell.text for cell in table.rows[0]] == ["chunk 1", "50.0%", "85.9%", "50.0%", "71.0%"]
    assert not any("no finding" in note or "Our chunks" in note for note in table.notes)


def test_documents_by_number_of_passages_stand_beside_parade_table_11() -> None:
    train = positions("msmarco-train", [(0, 9, 90)], pairs=1, passages=2)
    rows = rows_of(read(TOY, FAR, train, papers=[{"key": "parade", "tables": [11]}]), "parade, Table 11")
    # theirs: MS MARCO train 99, 100 and 0%, dev 98, 100 and 0%; each has its own column of ours
    assert rows == [
        ["one", "0.0%", "99%", "100.0%", "98%"],
        ["one or two", "100.0%", "100%", "100.0%", "100%"],
        ["three or more", "0.0%", "0%", "0.0%", "0%"],
    ]


def test_what_only_the_text_says_is_quoted_beside_figures_that_print_no_number() -> None:
    rows = rows_of(read(TOY, FAR, papers=[{"key": "positional-bias", "figures": [7]}]), _TEXT)
    assert rows == [
        ["toy", "located (%)", "80.0%", "msmarco-dev", "about 85% of the queries"],
        ["toy-far", "earliest start (tokens)", "130", "far-relevant", "did not start before token 512"],
        ["toy-far", "longest document (tokens)", "330", "far-relevant", "at most 1431 tokens"],
    ]


_TEXT = "positional-bias, text about positions"


@pytest.mark.parametrize("papers", [[], [{"key": "positional-bias", "tables": [1, 4], "figures": [2]}]])
def test_a_paper_is_shown_only_where_the_experiment_names_its_table(papers: Sequence[Mapping[str, Any]]) -> None:
    reading = read(TOY, papers=papers)
    assert positions_beside(reading) == {}
    table = positions_table(reading)
    assert table is not None
    assert [cell.text for cell in table.rows[0]] == [
        "toy",
        "5",
        "80.0%",
        "75",
        "115",
        "300",
        "75.0%",
        "50.0%",
        "100.0%",
    ]


def test_nothing_located_is_no_row_and_no_error() -> None:
    nothing = CellResult({"collection": "toy", "what": "positions"}, {}, {"tokenizer": "bert", "pairs": 3})
    reading = read(nothing, papers=[SIX])
    assert positions_table(reading) is None
    assert positions_beside(reading) == {}


@pytest.mark.parametrize("name", ["md", "html", "latex"])
def test_every_format_of_the_report_shows_ours_and_theirs(name: str) -> None:
    report = render(read(TOY, FAR, papers=[SIX]), name).replace("\\%", "%")
    for shown in ("85.9%", "75.0%", "about 85% of the passages", "msmarco-dev"):
        assert shown in report
    if name != "latex":
        assert "Beside the papers: long-document-models, Table 6" in report


def test_the_figure_draws_the_edge_that_the_file_asks_for() -> None:
    ends = positions("toy", [(0, 40, 300), (60, 100, 300), (90, 130, 300)], pairs=3)
    page = render(read(ends, positions={"collections": ["toy"], "edge": "end"}), "html")
    assert "End of the first relevant passage against document length" in page
    assert "toy: 3 of 3 relevant pairs located, median end 100, median length 300 tokens" in page
    assert "end of the relevant passage" in page  # the legend
    unasked = render(read(ends, positions={"collections": ["toy"]}), "html")
    assert "Start of the first relevant passage" in unasked and "median start 60" in unasked


def test_statements_are_quoted_with_their_section() -> None:
    told = {(one.paper, one.section, one.column.measure, float(one.printed)) for one in paper_statements()}
    assert ("positional-bias", "B.4", "located (%)", 85.0) in told
    assert all(str(one.printed.digits) in one.words and one.citation for one in paper_statements())
