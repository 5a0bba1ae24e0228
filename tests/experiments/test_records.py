"""Records on disk: read after write is the identity, and equal inputs give equal bytes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import BadLine, DataError
from longrank.experiments.records import CellResult, ExperimentResult, by_system, read_result, write_result

label = st.one_of(st.text(max_size=8), st.integers(-3, 9), st.booleans())
values = st.dictionaries(
    st.sampled_from(["RR", "nDCG@10"]), st.dictionaries(st.sampled_from("abc"), st.floats(0, 1)), max_size=2
)


def cell(seed: int, **more: str) -> CellResult:
    row = {"q1": 0.5, "q2": 1.0 / (seed + 1)}
    return CellResult({"ranker": "maxp", "seed": seed, **more}, {"RR": row}, {"queries": 2}, {"train": 1.5})


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from(["x", "y"]), label, min_size=1), values), max_size=4))
def test_reading_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    cells: list[tuple[dict[str, str | int | bool], dict[str, dict[str, float]]]],
) -> None:
    unique = {json.dumps(labels, sort_keys=True): (labels, row) for labels, row in cells}
    kept = tuple(CellResult(labels, {k: r for k, r in row.items() if r}) for labels, row in unique.values())
    folder = tmp_path_factory.mktemp("records")
    write_result(folder, ExperimentResult({"title": "é"}, kept))
    found = read_result(folder)
    assert found.about == {"title": "é"}
    assert [(c.labels, c.values) for c in found.cells] == [(c.labels, c.values) for c in kept]


def test_the_password_of_a_chat_server_is_not_written(tmp_path: Path) -> None:
    chat = {"name": "openai", "params": {"model": "m", "base_url": "https://me:SECRET@host/v1"}}
    write_result(tmp_path, ExperimentResult({"title": "t", "settings": {"rankers": [{"chat": chat}]}}, ()))
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "https://host/v1" in text
    assert "SECRET" not in text


def test_times_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    write_result(tmp_path, ExperimentResult({}, (cell(0),)))
    assert "1.5" not in (tmp_path / "records.jsonl").read_text() + (tmp_path / "cells.jsonl").read_text()
    assert read_result(tmp_path).cells[0].seconds == {"train": 1.5}


def test_a_line_holds_all_measures_of_a_query(tmp_path: Path) -> None:
    both = CellResult({"ranker": "a"}, {"RR": {"q": 1.0}, "AP": {"q": 0.5, "p": 0.25}})
    write_result(tmp_path, ExperimentResult({}, (both,)))
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert lines[0] == {"cell": {"ranker": "a"}, "query_id": "q", "measures": {"RR": 1.0, "AP": 0.5}}
    assert lines[1]["measures"] == {"AP": 0.25}


def test_cells_are_found_by_their_labels() -> None:
    result = ExperimentResult({}, (cell(0), cell(1), cell(0, stage="tuned")))
    assert len(result.where(seed=0)) == 2
    assert len(result.where(seed=0, stage="tuned")) == 1
    assert result.distinct("seed") == (0, 1)
    assert result.distinct("stage") == ("tuned",)


def test_seeds_of_a_system_come_together() -> None:
    systems = by_system([cell(0), cell(1)], name=("ranker",))
    assert [row["RR"]["q2"] for row in systems["maxp"]] == [1.0, 0.5]


def test_a_folder_without_an_experiment_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`longrank run FILE.toml` makes one"):
        read_result(tmp_path)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    write_result(tmp_path, ExperimentResult({}, (cell(0),)))
    (tmp_path / "records.jsonl").write_text('{"cell": 3}\n')
    with pytest.raises(BadLine, match="'cell' must be an object, got 3"):
        read_result(tmp_path)
