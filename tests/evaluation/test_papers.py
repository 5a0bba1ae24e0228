import itertools
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import BadScore, DuplicateId, UnknownName
from longrank.evaluation.papers import (
    Column,
    Interval,
    PaperTable,
    Printed,
    beside,
    disagreements,
    gain_checks,
    gain_interval,
    misprints,
    paper_claims,
    paper_table,
    paper_tables,
)

DEV = Column("msmarco-dev", "RR")
ZERO_SHOT = Column("far-relevant/zero-shot", "RR")
FINE_TUNED = Column("far-relevant/fine-tuned", "RR")
POOLED = Column("trec-dl-2019-2021", "nDCG@10")
TITLE = Column("robust04-title", "nDCG@20")
DESCRIPTION = Column("robust04-description", "nDCG@20")
PAGE = Path(__file__).parents[2] / "docs" / "papers.md"

NUMBERS = {
    "positional-bias": range(1, 12),
    "long-document-models": range(1, 9),
    "parade": range(1, 13),
    "appendix-training-and-results": range(1, 4),
    "appendix-positions": range(1, 4),
}


def value(table: str, system: str, column: tuple[str, str]) -> float | None:
    found = paper_table(table).cell(system, column).value
    return None if found is None else float(found)


def test_every_table_of_the_five_papers_is_there() -> None:
    assert [table.name for table in paper_tables()] == [f"{paper}/{n}" for paper in NUMBERS for n in NUMBERS[paper]]


@pytest.mark.parametrize("table", paper_tables(), ids=lambda table: table.name)
def test_a_table_is_a_full_grid_whose_names_and_letters_are_explained(table: PaperTable) -> None:
    systems = [row.system for row in table.rows]
    assert len(set(systems)) == len(systems) > 0
    assert len(set(table.columns)) == len(table.columns) > 0
    assert table.title and table.citation
    for row in table.rows:
        assert len(row.cells) == len(row.values) == len(row.gains) == len(row.letters) == len(table.columns)
        assert any(cell.value or cell.unread for cell in row.cells)
        assert row.baseline is None or row.baseline in systems
        assert row.baseline is not None or not any(row.gains)
        assert all(set(cell.letters) <= set(table.marks) for cell in row.cells)


@pytest.mark.parametrize("table", paper_tables(), ids=lambda table: table.name)
def test_measures_of_effectiveness_lie_between_0_and_1(table: PaperTable) -> None:
    measures = re.compile(r"(RR|AP|P|R|nDCG|ERR|nERR|Q)(@\d+)?")
    for row in table.rows:
        for column, found in zip(table.columns, row.values, strict=True):
            if measures.fullmatch(column.measure) and found is not None:
                assert 0 < found < 1, (row.system, column)


@pytest.mark.parametrize(
    ("system", "printed"),
    [
        ("FirstP (BERT)", 0.394),
        ("AvgP", 0.389),
        ("MaxP", 0.392),
        ("SumP", 0.390),
        ("CEDR-KNRM", 0.379),
        ("CEDR-PACRR", 0.395),
        ("CEDR-DRMM", 0.385),
        ("Neural Model 1", 0.398),
        ("PARADE Attn", 0.416),
        ("PARADE Avg", 0.392),
        ("PARADE Max", 0.405),
        ("PARADE Transf-RAND-L2", 0.419),
        ("PARADE Transf-PRETR-L6", 0.402),
        ("PARADE Transf-PRETR-LATEIR-L6", 0.398),
        ("LongP (Longformer)", 0.412),
        ("LongP (Big-Bird)", 0.397),
        ("LongP (JINA)", 0.416),
        ("LongP (MOSAIC)", 0.421),
        ("LongP (TinyLLAMA)", 0.402),
    ],
)
def test_reciprocal_ranks_on_ms_marco_dev_are_the_known_ones(system: str, printed: float) -> None:
    assert value("positional-bias/7", system, DEV) == printed


@pytest.mark.parametrize(
    ("system", "zero_shot", "fine_tuned"),
    [
        ("Retriever", 0.207, 0.207),
        ("MaxP", 0.297, 0.328),
        ("PARADE Attn", 0.300, 0.337),
        ("PARADE Transf-RAND-L2 (ELECTRA)", 0.229, 0.432),
        ("LongP (Longformer)", 0.233, 0.399),
        ("CEDR-KNRM", 0.055, 0.382),
        ("FirstP (BERT)", 0.016, 0.090),
    ],
)
def test_reciprocal_ranks_on_far_relevant_are_the_known_ones(system: str, zero_shot: float, fine_tuned: float) -> None:
    assert value("positional-bias/4", system, ZERO_SHOT) == zero_shot
    assert value("positional-bias/4", system, FINE_TUNED) == fine_tuned


def test_cells_of_the_other_papers_sit_in_their_columns() -> None:
    assert value("parade/2", "PARADE-Transformer", ("robust04-title", "AP")) == 0.3803
    assert value("parade/3", "PARADE-CNN", ("gov2-description", "nDCG@20")) == 0.6169
    assert value("parade/5", "d_d2q_duo", ("trec-dl-2020", "AP")) == 0.542
    assert value("parade/6", "PARADE-Transformer", ("ntcir-www-3", "nERR@10")) == 0.8090
    assert value("parade/9", "BERT-Tiny, 2 layers of 128", ("model", "parameters")) == 5e6
    assert value("long-document-models/4", "PARADE Transf-RAND-L3", DESCRIPTION) == 0.411
    assert value("appendix-training-and-results/3", "LongP (MOSAIC)", ("robust04-description", "AP")) == 0.350
    assert value("appendix-positions/2", "chunk 1", ("msmarco-dev", "first relevant passage ends (%)")) == 71.0


def test_a_cell_keeps_value_gain_and_letters_apart() -> None:
    cell = paper_table("positional-bias/4").cell("AvgP", FINE_TUNED)
    assert (cell.value, cell.gain, cell.letters) == (Printed(Decimal("0.365")), Printed(Decimal("+11.4")), "ab")


def test_what_could_not_be_read_is_recorded_and_not_guessed() -> None:
    unread = {
        (table.name, row.system, column)
        for table in paper_tables()
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell.unread and cell.value is None
    }
    assert unread == {
        ("positional-bias/4", "SumP", FINE_TUNED),
        ("positional-bias/4", "CEDR-DRMM", FINE_TUNED),
        ("positional-bias/4", "PARADE Transf-RAND-L2", FINE_TUNED),
        ("positional-bias/4", "PARADE Transf-PRETR-L6", FINE_TUNED),
        ("positional-bias/4", "PARADE Transf-PRETR-LATEIR-L6", FINE_TUNED),
        ("positional-bias/4", "LongP (Big-Bird)", FINE_TUNED),
        ("positional-bias/4", "LongP (E5-4K)", ZERO_SHOT),
        ("positional-bias/6", "PARADE Attn (1 chunk)", DEV),
        ("positional-bias/6", "PARADE Attn (2 chunks)", DEV),
        ("positional-bias/6", "PARADE Attn (6 chunks)", DEV),
    }
    assert all(paper_table(name).notes for name, _, _ in unread)


def test_tables_printed_twice_agree_cell_by_cell() -> None:
    twins = [
        ("appendix-training-and-results/2", "positional-bias/7"),
        ("appendix-training-and-results/3", "positional-bias/8"),
    ]
    for first, second in twins:
        assert paper_table(first).columns == paper_table(second).columns
        for row in paper_table(first).rows:
            other = paper_table(second).row(row.system)
            assert (row.values, row.gains, row.letters) == (other.values, other.gains, other.letters)


def test_the_two_yearly_tables_share_sixteen_rows() -> None:
    first, second = paper_table("long-document-models/4"), paper_table("appendix-positions/3")
    others = {row.system: row for row in second.rows}
    assert sum(others.get(row.system) == row for row in first.rows) == 16


@pytest.mark.parametrize("name", ["long-document-models/4", "appendix-positions/3"])
def test_pooled_trec_dl_is_the_mean_over_145_queries(name: str) -> None:
    # 43, 45 and 57 queries; a swapped column or digit in any of the four would leave the range.
    for row in paper_table(name).rows:
        years = [cell.value.unrounded for cell in row.cells[1:4] if cell.value]
        pooled = row.cells[4].value
        assert pooled is not None
        low, high = (
            sum(n * end for n, end in zip((43, 45, 57), ends, strict=True)) / 145 for ends in zip(*years, strict=True)
        )
        assert Interval(low, high).meets(pooled.unrounded), row.system


def test_shares_of_positions_add_up_to_100_within_rounding() -> None:
    # Seven shares printed to 0.1 can be off by 7 * 0.05 = 0.35 together.
    for name in ("long-document-models/6", "appendix-positions/2"):
        for shares in zip(*(row.values for row in paper_table(name).rows), strict=True):
            assert sum(share or 0 for share in shares) == pytest.approx(100, abs=0.35)


def test_unrounded_values_of_a_printed_number() -> None:
    # 0.40 has two digits, so 0.395 to 0.405; 0.5 million has one, so 450,000 to 550,000.
    assert Printed(Decimal("0.40")).unrounded == Interval(Fraction("0.395"), Fraction("0.405"))
    documents = paper_table("positional-bias/9").cell("Robust04", ("documents", "count")).value
    assert documents is not None
    assert documents.unrounded == Interval(Fraction(450_000), Fraction(550_000))


def test_the_gain_interval_by_hand() -> None:
    # 0.2 (0.15 to 0.25) over 0.1 (0.05 to 0.15): least 0.15 / 0.15 - 1 = 0 %, most 0.25 / 0.05 - 1 = 400 %.
    assert gain_interval(Printed(Decimal("0.2")), Printed(Decimal("0.1"))) == Interval(Fraction(0), Fraction(400))


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_a_gain_computed_before_rounding_is_never_a_misprint(new: float, old: float) -> None:
    gain = 100 * (new / old - 1)
    allowed = gain_interval(Printed(Decimal(f"{new:.3f}")), Printed(Decimal(f"{old:.3f}")))
    assert allowed.meets(Printed(Decimal(f"{gain:+.1f}")).unrounded)


def test_every_printed_gain_is_computed_again() -> None:
    printed = {
        (table.name, row.system, column)
        for table in paper_tables()
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell.gain is not None and not cell.gain.restored
    }
    checked = {(check.place, check.system, check.column) for check in gain_checks()}
    assert printed - checked == {
        ("positional-bias/4", "PARADE Transf-PRETR-LATEIR-L6", FINE_TUNED)
    }  # its value is lost
    averages = {check.system for check in gain_checks() if check.column is None}
    assert averages == {row.system for row in paper_table("positional-bias/1").rows if row.average_gain}
    assert len(averages) == 24
    assert len(paper_claims()) == 10


def test_an_average_gain_is_the_mean_of_the_columns_by_hand() -> None:
    # PARADE Attn: 0.416/0.394, 0.652/0.632, 0.503/0.475, 0.556/0.527 are +5.58, +3.16, +5.89, +5.50: mean +5.03.
    check = next(c for c in gain_checks() if c.system == "PARADE Attn" and c.column is None)
    assert check.printed == Printed(Decimal("+5.0"))
    assert float(sum(check.allowed) / 2) == pytest.approx(5.03, abs=0.01)
    assert check.agrees


def test_the_known_misprint_is_the_only_one() -> None:
    # 0.477 over 0.449: at most 0.4775 / 0.4485 - 1 = 6.466 %, and 6.6 needs 6.55; the table itself prints +6.2.
    (found,) = misprints()
    assert (found.place, found.system, found.column) == (
        "positional-bias, section A.4.1",
        "MaxP, Zhang et al. 2021",
        TITLE,
    )
    assert str(found).endswith("printed +6.6 %, possible +6.01 to +6.47 %")


def test_values_that_one_paper_prints_differently_are_known() -> None:
    found = {(d.tables, d.system, d.column.measure, *(str(v.digits) for v in d.values)) for d in disagreements()}
    assert found == {
        (("parade/2", "parade/8"), "PARADE-Transformer", "nDCG@20", "0.5659", "0.565"),
        (("parade/7", "parade/8"), "PARADE-Transformer", "nDCG@20", "0.5659", "0.565"),
        (("parade/2", "parade/12"), "BM25+RM3", "P@20", "0.3974", "0.3821"),
        (("parade/2", "parade/12"), "BM25+RM3", "nDCG@20", "0.4514", "0.4407"),
    }


def test_an_unknown_table_suggests_one() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'positional-bias/4'"):
        paper_table("positionalbias/4")
    with pytest.raises(UnknownName, match=r"positional-bias has the tables 1, .*11"):
        paper_table("positional-bias/12")
    with pytest.raises(UnknownName, match="The papers are positional-bias"):
        paper_table("")


def test_an_unknown_system_or_column_suggests_one() -> None:
    table = paper_table("positional-bias/1")
    with pytest.raises(UnknownName, match="Did you mean 'PARADE Attn'"):
        table.row("PARADE Atn")
    with pytest.raises(UnknownName, match="It has msmarco-dev RR, trec-dl"):
        table.cell("MaxP", ("msmarco-dev", "RR@10"))


def test_beside_gives_every_cell_and_places_ours_by_loose_spelling() -> None:
    table = paper_table("positional-bias/1")
    rows = beside(table, {("parade-attn", DEV): 0.420, ("firstp", DEV): 0.39, ("MaxP (ELECTRA)", POOLED): 0.66})
    assert [(row.system, row.column) for row in rows] == list(
        itertools.product([row.system for row in table.rows], table.columns)
    )
    ours = {(row.system, row.column): row for row in rows if row.ours is not None}
    assert set(ours) == {("PARADE Attn", DEV), ("FirstP (BERT)", DEV), ("MaxP (ELECTRA)", POOLED)}
    assert ours["PARADE Attn", DEV].difference == pytest.approx(0.004)
    assert ours["FirstP (BERT)", DEV].ours_as == "firstp"


def test_beside_has_no_difference_where_the_paper_has_no_value() -> None:
    rows = beside(paper_table("positional-bias/4"), {("sump", FINE_TUNED): 0.3})
    (row,) = (row for row in rows if row.ours is not None)
    assert (row.theirs, row.difference) == (None, None)


def test_beside_refuses_what_it_cannot_place() -> None:
    table = paper_table("positional-bias/1")
    with pytest.raises(UnknownName, match="Did you mean 'PARADE Attn'"):
        beside(table, {("parade-atn", DEV): 0.4})
    with pytest.raises(UnknownName, match="no column 'msmarco-dev AP'"):
        beside(table, {("maxp", ("msmarco-dev", "AP")): 0.4})
    with pytest.raises(DuplicateId, match="both stand for 'MaxP'"):
        beside(table, {("maxp", DEV): 0.4, ("MaxP", DEV): 0.5})
    with pytest.raises(BadScore, match="nan"):
        beside(table, {("maxp", DEV): float("nan")})


def test_the_page_lists_every_table_and_every_misprint() -> None:
    page = PAGE.read_text(encoding="utf-8")
    listed = [line for line in page.splitlines() if re.match(r"\| `[a-z-]+/\d+` \|", line)]
    assert listed == [f"| `{t.name}` | {t.title} | {len(t.rows)} × {len(t.columns)} |" for t in paper_tables()]
    assert all(str(misprint) in page for misprint in misprints())
    assert f"{len(gain_checks())} printed percentages" in page
