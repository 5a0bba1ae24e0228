"""The columnar reader: the same run as the line-by-line reader, and errors that name the line."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.core.errors import BadLine, DataError, DuplicateId
from longrank.core.types import Qrels
from longrank.corpora.formats.trec import read_run
from longrank.evaluation import columns as columns_module
from longrank.evaluation import evaluate_columns, evaluate_run, read_columns
from longrank.evaluation.blocks import PADDING, keys_of, read_scores

PLAIN = "q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1.5 t\nq2 Q0 d1 1 0.25 t\n"


def written(folder: Path, text: str, name: str = "a.run") -> Path:
    path = folder / name
    path.write_bytes(text.encode("utf-8"))
    return path


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.rstrip("\n"),
        PLAIN.replace(" ", "\t"),
        PLAIN.replace(" ", "  "),
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        "# ir_metadata.start\n# six words in a comment line\n" + PLAIN + "\n\n",
        "  " + PLAIN.replace("\nq2", "\n   \n q2"),
        "q1 Q0 d1 1 2.5 t\nq2 Q0 d1 1 0.25 t\nq1 Q0 d2 2 1.5 t\n",  # queries not together
        "q1 Q0 d2 2 1.5 t\nq1 Q0 d1 1 2.5 t\nq2 Q0 d1 1 0.25 t\n",  # scores rising
    ],
)
def test_layouts_that_trec_eval_reads_give_one_run(text: str, tmp_path: Path) -> None:
    run = read_columns(written(tmp_path, text)).to_run()
    assert run.name == "t"
    assert run.scores == {"q1": {"d1": 2.5, "d2": 1.5}, "q2": {"d1": 0.25}}


@pytest.mark.parametrize(("ending", "opener"), [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_compressed_files_are_read(ending: str, opener: Callable[..., object], tmp_path: Path) -> None:
    path = tmp_path / f"a.run{ending}"
    with opener(path, "wb") as stream:  # type: ignore[attr-defined]
        stream.write(PLAIN.encode())
    assert len(read_columns(path)) == 3


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text("qé1", min_size=1, max_size=20),
        st.dictionaries(st.text("aZ9-é", min_size=1, max_size=30), st.floats(-1e30, 1e30, width=64), min_size=1),
        min_size=1,
    ),
    st.integers(40, 400),
)
def test_it_reads_what_the_line_reader_reads_at_any_block_size(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[str, dict[str, float]], block: int
) -> None:
    lines = [f"{q} Q0 {d} 0 {score!r} t\n" for q, row in scores.items() for d, score in row.items()]
    path = written(tmp_path_factory.mktemp("runs"), "".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_BLOCK_BYTES", block)
        columns = read_columns(path)
    run = read_run(path)
    assert {q: columns.ranking(q) for q in columns.query_ids} == {q: run.ranking(q) for q in run}
    read = columns.to_run().scores
    assert all(read[q][d] == float(np.float32(score)) for q, row in scores.items() for d, score in row.items())


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.floats(-3e38, 3e38, width=64).map(repr),
        st.decimals(-(10**6), 10**6, places=6).map(str),
        st.from_regex(r"[+-]?[0-9]{1,12}\.?[0-9]{0,12}", fullmatch=True),
        st.from_regex(r"[0-9]{1,3}\.[0-9]{0,3}[eE][+-]?[0-2]?[0-9]", fullmatch=True),
    )
)
def test_scores_round_like_pythons_float(text: str) -> None:
    data = np.frombuffer(text.encode() + bytes(PADDING), dtype=np.uint8)
    places = np.array([0]), np.array([len(text)])
    value = read_scores(data, *places, path=Path("a"), lines=np.array([1]))[0]
    assert value == np.float32(float(text))


def test_a_key_depends_on_its_own_bytes_only() -> None:
    text = np.frombuffer(b"d1" + b"a-name-of-more-than-eight-bytes" + bytes(PADDING), dtype=np.uint8)
    starts, stops = np.array([0, 2]), np.array([2, 33])
    together = keys_of(text, starts, stops)
    alone = [int(keys_of(text, starts[i : i + 1], stops[i : i + 1])[0]) for i in (0, 1)]
    assert together.tolist() == alone


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("q2 Q0 d1 1 0.25", "5 columns where 6 are needed"),
        ("q2 Q0 d1 with space 1 0.25 t", "8 columns where 6 are needed"),
        ("q2 Q0 d1 1 nan t", "'nan' is not a finite number"),
        ("q2 Q0 d1 1 -inf t", "not a finite number"),
        ("q2 Q0 d1 1 1e39 t", "fits float32"),
        ("q2 Q0 d1 1 1_0 t", "not a finite number"),
        ("q2 Q0 d1 1 first t", "'first' is not a finite number"),
        ("q2 Q0 d1 1 1.2.3 t", "not a finite number"),
        ("q2 Q0 d1 1 - t", "not a finite number"),
        ("q2 Q0 d1 1 0.25 other", "tag 'other' after 't'"),
    ],
)
def test_a_bad_line_is_named_by_number_and_reason(line: str, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"# a comment\n{PLAIN}{line}\nq3 Q0 d 1 1 t\n")
    with pytest.raises(BadLine) as caught:
        read_columns(path)
    assert caught.value.line == 5
    assert reason in caught.value.reason


def test_a_comment_may_be_of_any_encoding_and_a_line_behind_it_may_not(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b"q1 Q0 d1 1 2.0 a\n# caf\xe9\nq1 Q0 d2 2 1.0 a\n")
    assert read_columns(path).to_run() == read_run(path)
    path.write_bytes(path.read_bytes() + b"q1 Q0 d\xe9 3 0.5 a\n")
    with pytest.raises(BadLine) as caught:
        read_columns(path)
    assert caught.value.line == 4


@pytest.mark.parametrize("place", range(6))
def test_a_column_that_is_not_utf8_is_a_bad_line_in_whatever_block_it_stands(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "_BLOCK_BYTES", 40)
    path = tmp_path / "latin.run"
    fields = ["q3", "Q0", "d1", "1", "0.25", "t"]
    fields[place] += "é"
    path.write_bytes(f"# a comment\n{PLAIN}{' '.join(fields)}\n".encode("latin-1"))
    with pytest.raises(BadLine, match="is not UTF-8") as caught:
        read_columns(path)
    assert (caught.value.path, caught.value.line) == (path, 5)


def test_a_document_twice_for_a_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DuplicateId, match="'d1' occurs twice for query 'q1'"):
        read_columns(written(tmp_path, PLAIN + "q1 Q0 d1 3 0.5 t\n"))


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a comment\n"])
def test_a_file_without_rows_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no line of a run"):
        read_columns(written(tmp_path, text))


def test_a_file_that_is_absent_or_damaged_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read the run file"):
        read_columns(tmp_path / "absent.run")
    with pytest.raises(DataError, match="cannot read the run file"):
        read_columns(written(tmp_path, "not compressed", "a.run.gz"))


@pytest.mark.parametrize("tied", [3, 40, 200])
def test_long_ties_fall_by_document_id(tied: int, tmp_path: Path) -> None:
    # all scores equal: the relevant d1 stands behind every greater id, and ids of other lengths sort as text
    ids = [f"d{i}" for i in range(1, tied + 1)]
    path = written(tmp_path, "".join(f"q Q0 {d} 1 1.0 t\n" for d in ids))
    place = sorted(ids, reverse=True).index("d1") + 1
    assert evaluate_columns(read_columns(path), Qrels({"q": {"d1": 1}}), ["RR"]).means["RR"] == 1 / place


def test_two_ids_with_one_key_are_told_apart_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        columns_module,
        "keys_of",
        lambda text, starts, stops: (stops - starts).astype(np.uint64),  # only the length
    )
    # query ids of different lengths, since they too are told apart by key
    path = written(tmp_path, "q1 Q0 a 1 3 t\nq1 Q0 b 2 2 t\nq1 Q0 c 3 1 t\nq22 Q0 b 1 1 t\n")
    columns = read_columns(path)
    qrels = Qrels({"q1": {"b": 1, "c": 2, "z": 1}, "q22": {"a": 1}})
    assert (
        evaluate_columns(columns, qrels, ["RR", "AP"]).values
        == evaluate_run(columns.to_run(), qrels, ["RR", "AP"]).values
    )
