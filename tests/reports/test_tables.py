"""Tables in every format, read back by their own rules."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from longrank.core.errors import DataError
from longrank.core.types import Qrels, Run
from longrank.evaluation import Comparison, Evaluation, PerQuery, compare, evaluate_run
from longrank.reports import tables
from longrank.reports.tables import Cell, Table


def system(mean: float, seed: int) -> PerQuery:
    rng = np.random.default_rng(seed)
    return {name: {f"q{i}": float(v) for i, v in enumerate(rng.normal(mean, 0.05, 40))} for name in ("nDCG@10", "RR_x")}


@pytest.fixture
def comparison() -> Comparison:
    lacking = {name: dict(list(row.items())[:-1]) for name, row in system(0.5, 3).items()}
    systems: dict[str, list[PerQuery]] = {
        "FirstP": [system(0.5, 1)],
        "Max&P": [system(0.6, 2), system(0.6, 4)],
        "Avg|P_50%": [lacking],
    }
    return compare(systems, baseline="FirstP", rng=np.random.default_rng(0))


@pytest.fixture
def evaluations() -> list[Evaluation]:
    qrels = Qrels({"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"b": 1}})
    runs = [
        Run("one", {"q1": {"a": 1.0}, "q9": {"a": 1.0}}),
        Run("two", {"q1": {"b": 2.0, "a": 1.0}, "q2": {"a": 1.0}}),
    ]
    return [evaluate_run(run, qrels, ["RR", "P@1"]) for run in runs]


def parse_latex(text: str) -> tuple[str, list[list[str]], str]:
    """Column types, cells and caption of one table; environments must nest and braces must balance."""
    stack: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    bare = re.sub(r"\\[{}\\]", "", text)
    assert bare.count("{") == bare.count("}")
    found = re.search(r"\\begin\{tabular\}\{(\w+)\}\n(.*?)\\end\{tabular\}\n\\caption\{(.*)\}\n", text, re.DOTALL)
    assert found is not None
    types, body, caption = found.groups()
    assert re.findall(r"\\(toprule|midrule|bottomrule)", body) == ["toprule", "midrule", "bottomrule"]
    rows = [line.removesuffix(r" \\") for line in body.splitlines() if line.endswith(r"\\")]
    return types, [re.split(r"(?<!\\)&", row) for row in rows], caption


def test_latex_has_as_many_cells_as_columns_and_marks_best_and_significance(comparison: Comparison) -> None:
    types, rows, caption = parse_latex(tables.to_latex(tables.comparison_table(comparison)))
    assert types == "lrrr"
    assert [len(row) for row in rows] == [4, 4, 4, 4]
    assert rows[2][0].strip() == r"Max\&P"
    assert re.fullmatch(r" \\textbf\{0\.\d{4}\}\$\^\{a\}\$ \(\+\d+\.\d\\%\) ", rows[2][1])
    assert rows[3][0].strip() == r"Avg\textbar{}P\_50\%"
    assert not re.search(r"(?<!\\)[&%#_]", caption)


def test_a_label_and_odd_letters_survive_latex() -> None:
    table = Table(("a~b", "c^2"), ((Cell("x\\y{z}"), Cell("1")), (Cell("*best"), Cell("2"))), ("100% of #1",))
    text = tables.to_latex(table, label="tab:x")
    assert r"a\textasciitilde{}b & c\textasciicircum{}2 \\" in text
    assert r"x\textbackslash{}y\{z\} & 1 \\" in text
    assert r"{*}best & 2 \\" in text, "the line break before it would take a bare star for its own"
    assert r"\label{tab:x}" in text


def grid(rows: int, columns: int, width: int = 5) -> Table:
    """A table of so many rows and columns, its cells as wide as asked for."""
    cells = tuple(Cell("[x]" if not at else "1" * width, "a" if at else "") for at in range(columns))
    return Table(tuple(f"c{at}" for at in range(columns)), (cells,) * rows, ("Means & 95% intervals.",))


SHAPES = {
    "small": grid(3, 3),
    "wide": grid(3, 4, 20),
    "wider": grid(3, 9, 20),
    "long": grid(60, 3),
    "long and wide": grid(60, 9, 20),
}


def test_many_rows_become_a_longtable_whose_head_is_repeated_and_whose_caption_names_it() -> None:
    text = tables.to_latex(SHAPES["long"], label="tab:x", heading="What seeds change")
    assert r"\begin{table}" not in text
    head = "c0 & c1 & c2 \\\\\n\\midrule\n\\end"
    assert (text.count(head + "firsthead"), text.count(head + "head")) == (1, 1)
    assert r"\caption{\textbf{What seeds change.} Means \& 95\% intervals.}" in text
    assert text.index(r"\label{tab:x}") < text.index(r"\endfirsthead")


def test_a_table_too_wide_for_the_page_is_shrunk_and_turned_if_that_made_it_small_and_others_need_booktabs_alone() -> (
    None
):
    written = {name: tables.to_latex(table) for name, table in SHAPES.items()}
    assert [name for name, text in written.items() if "resizebox" in text] == ["wide", "wider"]
    assert [name for name, text in written.items() if "landscape" in text] == ["wider", "long and wide"]


def test_gains_stand_below_the_numbers_of_a_table_that_is_turned_and_beside_them_in_others() -> None:
    def written(columns: int) -> str:
        row = (Cell("maxp"), *[Cell("0.312", "a", "+5.1%", best=True)] * columns)
        return tables.to_latex(Table(("system", *["RR"] * columns), (row,), ()))

    assert r"\textbf{0.312}$^{a}$ (+5.1\%)" in written(2)
    assert r"{\scriptsize (+5.1\%)}\end{tabular}" in written(9)
    assert "scriptsize" not in written(2)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_row_of_every_shape_has_as_many_cells_as_columns_and_braces_balance(shape: str) -> None:
    table = SHAPES[shape]
    text = tables.to_latex(table, label="tab:x", heading="A & B")
    environments = re.findall(r"\\(begin|end)\{(\w+)\}", text)
    assert [name for kind, name in environments if kind == "begin"] == [
        name for kind, name in reversed(environments) if kind == "end"
    ]
    bare = re.sub(r"\\[{}\\]", "", text)
    assert bare.count("{") == bare.count("}")
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(table.headings)}
    assert sum(line.startswith("{[}x] &") for line in lines) == len(table.rows)


def test_latex_compiles_where_an_engine_is_installed(tmp_path: Path) -> None:
    engine = next(filter(None, map(shutil.which, ("pdflatex", "lualatex", "xelatex", "tectonic"))), None)
    if engine is None:
        pytest.skip("no LaTeX engine is installed to compile the tables with")
    body = "\n".join(tables.to_latex(table, label=f"tab:{name}", heading="A & B") for name, table in SHAPES.items())
    text = f"\\documentclass{{article}}\n{tables.LATEX_NEEDS}\n\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "tables.tex").write_text(text, encoding="utf-8")
    flags = [] if engine.endswith("tectonic") else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run([engine, *flags, "tables.tex"], cwd=tmp_path, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "tables.pdf").is_file()


@pytest.mark.parametrize("write", [tables.to_text, tables.to_markdown, tables.to_latex])
def test_every_table_states_test_queries_seeds_and_dropped(comparison: Comparison, write: object) -> None:
    assert callable(write)
    text = write(tables.comparison_table(comparison)).replace("\\", "")
    for part in (
        "two-sided paired t-test",
        "Holm's correction",
        "thresholds: nDCG@10 0.05",
        "Queries: nDCG@10 39",
        "FirstP 1, Max&P 2",
        "lacks them: 1 of nDCG@10, 1 of RR_x",
        "a = FirstP",
    ):
        assert part in text


def test_the_permutation_test_tells_its_draws() -> None:
    systems = {"a": [system(0.5, 1)], "b": [system(0.5, 2)]}
    result = compare(systems, baseline="a", rng=np.random.default_rng(0), test="permutation", draws=199)
    assert "sign-flip permutation test of 199 draws" in tables.comparison_notes(result)[0]


def test_markdown_rows_have_as_many_cells_as_the_head(comparison: Comparison) -> None:
    lines = [
        line for line in tables.to_markdown(tables.comparison_table(comparison)).splitlines() if line.startswith("|")
    ]
    assert [len(re.split(r"(?<!\\)\|", line)) - 2 for line in lines] == [4] * 5
    assert lines[0] == r"| system | nDCG@10 | RR\_x | average gain |"
    assert "<sup>a</sup>" in lines[3]
    assert "**0." in lines[3]


def test_text_marks_the_best_and_raises_letters(comparison: Comparison) -> None:
    lines = tables.to_text(tables.comparison_table(comparison)).splitlines()
    best = next(line for line in lines if line.startswith("Max&P"))
    assert re.search(r"\*0\.\d{4}ᵃ \(\+\d", best)
    assert not any(line.endswith(" ") for line in lines)


def test_differences_stand_with_interval_and_corrected_p_and_the_test_is_named(comparison: Comparison) -> None:
    text = tables.to_text(tables.differences_table(comparison))
    tested = comparison.gains["Avg|P_50%", "nDCG@10"]
    row = next(line for line in text.splitlines() if line.startswith("Avg|P_50%") and "nDCG@10" in line)
    assert row.split()[:3] == ["Avg|P_50%", "FirstP", "nDCG@10"]
    interval = f"[{tested.interval.low:+.3f}, {tested.interval.high:+.3f}]"
    assert row.split(maxsplit=3)[3].split("  ")[0] == f"{tested.difference:+.3f} {interval}"
    assert row.split()[-1] == f"{tested.corrected_p:.3f}"
    assert "difference [95% interval]" in text
    assert "two-sided paired t-test, Holm's correction" in text


def test_an_uncorrected_p_is_not_called_corrected() -> None:
    systems = {"a": [system(0.5, 1)], "b": [system(0.5, 2)]}
    result = compare(systems, baseline="a", rng=np.random.default_rng(0), correction="none")
    table = tables.differences_table(result)
    assert table.headings[-1] == "p"
    assert "no correction" in table.notes[0]


def test_no_number_is_lost_in_a_narrow_terminal(comparison: Comparison) -> None:
    stream = io.StringIO()
    Console(file=stream, width=40).print(tables.to_rich(tables.comparison_table(comparison)))
    for place in comparison.gains.values():
        assert f"{place.mean:.4f}" in stream.getvalue()
    assert "…" not in stream.getvalue()


def test_comparison_csv_has_a_line_for_each_test_and_for_the_baseline(comparison: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(tables.comparison_csv(comparison))))
    assert len(rows) == 6
    mine = next(row for row in rows if (row["system"], row["measure"]) == ("Max&P", "RR_x"))
    estimate = comparison.gains["Max&P", "RR_x"]
    assert float(mine["p"]) == estimate.p
    assert (mine["test"], mine["seeds"], mine["queries"], mine["dropped_queries"]) == ("t", "2", "39", "1")
    assert (mine["losses"], mine["significant"]) == (str(estimate.effect.losses), "True")
    baseline = next(row for row in rows if row["system"] == "FirstP")
    assert (baseline["p"], baseline["test"]) == ("", "t")


def test_comparison_json_holds_per_query_values_and_settings(comparison: Comparison) -> None:
    data = json.loads(tables.comparison_json(comparison))
    assert data["test"] == "two-sided paired t-test"
    assert data["dropped_queries"] == {"nDCG@10": 1, "RR_x": 1}
    values = data["per_query"]["Max&P"]["RR_x"].values()
    assert data["means"]["Max&P"]["RR_x"] == pytest.approx(sum(values) / 39)
    assert data["estimates"][0]["interval"].keys() == {"low", "high"}


def test_an_effect_without_spread_is_null_in_json() -> None:
    old, new = ({"RR": {"a": base, "b": base}} for base in (0.25, 0.5))
    result = compare({"old": [old], "new": [new]}, baseline="old", rng=np.random.default_rng(0))
    assert json.loads(tables.comparison_json(result))["estimates"][0]["effect"]["standardized"] is None


def test_evaluations_say_what_was_left_out(evaluations: list[Evaluation]) -> None:
    table = tables.evaluation_table(evaluations)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["one", "1.0000", "1.0000"],
        ["two", "0.7500", "0.5000"],
    ]
    assert table.notes[1] == (
        "one: 1 queries; 1 queries without judgements skipped; 2 judged queries missing from the run not counted."
    )
    rows = list(csv.DictReader(io.StringIO(tables.evaluation_csv(evaluations))))
    assert rows[0]["unjudged_queries_skipped"] == "1"
    assert rows[0]["missing_queries_are"] == "skip"
    data = json.loads(tables.evaluation_json(evaluations))
    assert data[1]["values"]["RR"] == {"q1": 0.5, "q2": 1.0}


def test_per_query_tables_have_a_row_a_query(evaluations: list[Evaluation]) -> None:
    rows = tables.per_query_table(evaluations).rows
    assert [[cell.text for cell in row] for row in rows][1] == ["two", "q1", "0.5000", "0.0000"]
    assert tables.per_query_csv(evaluations).splitlines()[-1] == "two,P@1,q2,1.0"


def test_a_table_of_nothing_is_refused() -> None:
    with pytest.raises(DataError, match="at least one"):
        tables.evaluation_table([])
