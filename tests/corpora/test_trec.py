import gzip
import math
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.core.errors import BadLine, BadScore, DataError, DuplicateId
from longrank.core.types import Qrels, Run, RunNotes
from longrank.corpora.formats.trec import read_qrels, read_run, write_qrels, write_run

LARGEST = float(np.finfo(np.float32).max)
words = st.text(st.characters(exclude_characters=" \t\n\r\x0b\x0c#\ufeff", codec="utf-8"), min_size=1, max_size=6)
# few distinct values, so that ties are the rule
scores = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-9, -2.5, 1e-45]) | st.floats(-1e30, 1e30)
runs = st.dictionaries(words, st.dictionaries(words, scores, min_size=1, max_size=8), max_size=4)
endings = st.sampled_from(["", ".gz", ".bz2"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trec")


def lines(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@given(rows=runs, name=words, ending=endings)
def test_reading_a_written_run_gives_the_same_rankings(
    folder: Path, rows: dict[str, dict[str, float]], name: str, ending: str
) -> None:
    run, path = Run(name, rows), folder / f"any.run{ending}"
    write_run(path, run)
    back = read_run(path)
    assert list(back) == list(run)
    assert [back.ranking(query_id) for query_id in back] == [run.ranking(query_id) for query_id in run]
    assert back.name == name or not rows
    write_run(path, back)
    assert read_run(path) == back  # a second round changes not even the scores


def test_the_largest_float32_survives(tmp_path: Path) -> None:
    run = Run("r", {"q": {"a": LARGEST, "b": LARGEST, "c": -LARGEST}})
    write_run(tmp_path / "r", run)
    assert read_run(tmp_path / "r").ranking("q") == ["b", "a", "c"]


@given(rows=runs)
def test_written_scores_fall_strictly_in_single_precision(folder: Path, rows: dict[str, dict[str, float]]) -> None:
    write_run(folder / "falling.run", Run("r", rows))
    for row in read_run(folder / "falling.run").scores.values():
        values = np.fromiter(row.values(), dtype=np.float32)
        assert (values[1:] < values[:-1]).all()


def test_a_tie_is_lowered_to_the_next_float32_by_falling_id(tmp_path: Path) -> None:
    write_run(tmp_path / "r", Run("bm25", {"q": {"a": 1.0, "b": 1.0, "c": 2.0}}))
    # float32 just below 1 is 1 - 2**-24 = 0.999999940395..., nine digits: 0.99999994
    assert (tmp_path / "r").read_text() == "q Q0 c 1 2 bm25\nq Q0 b 2 1 bm25\nq Q0 a 3 0.99999994 bm25\n"


def test_an_independent_evaluator_ranks_the_written_file_as_we_do(tmp_path: Path) -> None:
    run = Run("r", {"q": {"d9": 0.1, "d10": 0.1, "d8": 0.1, "d1": 0.1 + 1e-12}})
    write_run(tmp_path / "r.run", run)
    theirs = [hit.doc_id for hit in ir_measures.read_trec_run(str(tmp_path / "r.run"))]
    assert theirs == run.ranking("q") == ["d9", "d8", "d10", "d1"]


def test_spaces_tabs_and_windows_line_ends_part_the_columns_but_a_no_break_space_does_not(tmp_path: Path) -> None:
    path = lines(tmp_path / "r", "\ufeffq1\tQ0\td\u00a01\t1\t2.5\ttag\r\n\n q1  Q0 d2 2 -1e-3 tag\n")
    assert read_run(path) == Run("tag", {"q1": {"d\u00a01": 2.5, "d2": -0.001}})


def test_comments_are_passed_over_and_an_empty_run_is_named_by_its_file(tmp_path: Path) -> None:
    assert read_run(lines(tmp_path / "mine.run.txt", "# nothing\n")) == Run("mine", {})


def test_metadata_is_a_comment_block_and_the_notes_come_back(tmp_path: Path) -> None:
    run = Run("r", {"q": {"d": 1.0}}, RunNotes(3, 40, ("q7",)))
    metadata = {"tag": "r", "method": {"automatic": True, "k 1": [0.9, 0.4]}, "empty": {}}
    write_run(tmp_path / "r.run", run, metadata=metadata)
    assert read_run(tmp_path / "r.run") == run
    head = (tmp_path / "r.run").read_text().splitlines()[:7]
    assert head == [
        "# ir_metadata.start",
        '# tag: "r"',
        "# method:",
        "#   automatic: true",
        '#   "k 1": [0.9, 0.4]',
        "# empty: {}",
        "# ir_metadata.end",
    ]


def test_cut_queries_are_noted_where_there_are_any_and_other_files_stay_as_they_were(tmp_path: Path) -> None:
    for tokens in (0, 7):
        run = Run("r", {"q": {"d": 1.0}}, RunNotes(3, 40, cut_query_tokens=tokens))
        write_run(tmp_path / "r.run", run, metadata={})
        assert ("cut_query_tokens" in (tmp_path / "r.run").read_text()) is (tokens > 0)
        assert read_run(tmp_path / "r.run") == run


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("q Q0 d2 2 1.0", "5 columns where 6 are needed: qid Q0 docid rank score tag"),
        ("q Q0 d 2 2 1.0 t", "7 columns"),
        ("q Q0 d2 2 nan t", "score 'nan' is not a finite number"),
        ("q Q0 d2 2 -inf t", "score '-inf'"),
        ("q Q0 d2 2 1e39 t", "fits float32"),
        ("q Q0 d2 2 1_0 t", "score '1_0'"),
        ("q Q0 d2 2 high t", "score 'high'"),
        ("q Q0 d2 2 1.0 u", "tag 'u' after 't': a run file holds one run"),
    ],
)
def test_a_bad_line_of_a_run_names_file_line_and_reason(tmp_path: Path, bad: str, reason: str) -> None:
    path = lines(tmp_path / "bad.run", f"# a comment\nq Q0 d1 1 3 t\n{bad}\n")
    with pytest.raises(BadLine) as caught:
        read_run(path)
    assert (caught.value.path, caught.value.line) == (path, 3)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_document_twice_in_a_query_is_refused_but_not_in_two_queries(tmp_path: Path) -> None:
    assert len(read_run(lines(tmp_path / "good", "q1 Q0 d 1 2 t\nq2 Q0 d 1 2 t\n"))) == 2
    with pytest.raises(DuplicateId, match="line 3: document 'd' occurs twice for query 'q1'"):
        read_run(lines(tmp_path / "bad", "q1 Q0 d 1 2 t\nq2 Q0 d 1 2 t\nq1 Q0 d 2 1 t\n"))


def test_what_is_not_utf8_or_is_cut_short_is_a_bad_line(tmp_path: Path) -> None:
    (tmp_path / "latin.run").write_bytes("q Q0 d 1 2 t\nq Q0 é 2 1 t\n".encode("latin-1"))
    with pytest.raises(BadLine, match=r"latin\.run, line 2: byte 6 is not UTF-8"):
        read_run(tmp_path / "latin.run")
    whole = gzip.compress(b"".join(b"q Q0 d%d 1 %d t\n" % (i, -i) for i in range(5000)))
    (tmp_path / "cut.run.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadLine, match="damaged or cut short"):
        read_run(tmp_path / "cut.run.gz")
    with pytest.raises(DataError, match="no file"):
        read_run(tmp_path / "absent.run")


@pytest.mark.parametrize(
    "run",
    [
        Run("two words", {"q": {"d": 1.0}}),
        Run("", {"q": {"d": 1.0}}),
        Run("r", {"q 1": {"d": 1.0}}),
        Run("r", {"#q": {"d": 1.0}}),
        Run("r", {"q": {"d\t1": 1.0}}),
        Run("r", {"\ufeffq": {"d": 1.0}}),
        Run("r", {"q": {"\ud800": 1.0}}),
        Run("r", {"q": {"d": 1e39}}),
        Run("r", {"q": {"d": -LARGEST, "e": -LARGEST}}),
    ],
)
def test_what_the_format_cannot_hold_is_refused_and_leaves_the_old_file(tmp_path: Path, run: Run) -> None:
    path = lines(tmp_path / "r.run", "old")
    with pytest.raises((DataError, BadScore)):
        write_run(path, run)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.run"]


def test_the_same_run_gives_the_same_compressed_bytes_under_any_name(tmp_path: Path) -> None:
    run = Run("r", {"q": {"d": math.pi}})
    for name in ("a.gz", "b.gz"):
        write_run(tmp_path / name, run)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"q Q0 d 1 3.14159274 r\n"


@given(
    grades=st.dictionaries(words, st.dictionaries(words, st.integers(-2, 4), min_size=1), max_size=4), ending=endings
)
def test_reading_written_judgements_is_the_identity(
    folder: Path, grades: dict[str, dict[str, int]], ending: str
) -> None:
    write_qrels(folder / f"qrels{ending}", Qrels(grades))
    back = read_qrels(folder / f"qrels{ending}")
    assert back == Qrels(grades)
    assert list(back) == list(grades)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("q 0 d2", "3 columns where 4 are needed: qid 0 docid grade"),
        ("q 0 d2 1 512", "5 columns"),
        ("q 0 d2 1.0", "grade '1.0' is not a whole number"),
        ("q 0 d2 1_0", "grade '1_0'"),
        ("q 0 d2 ²", "grade '²'"),
    ],
)
def test_a_bad_judgement_names_file_line_and_reason(tmp_path: Path, bad: str, reason: str) -> None:
    with pytest.raises(BadLine, match="line 2") as caught:
        read_qrels(lines(tmp_path / "qrels.txt", f"q 0 d1 -1\n{bad}\n"))
    assert reason in caught.value.reason


def test_a_judgement_that_is_not_utf8_is_a_bad_line_even_in_the_column_that_nobody_reads(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_bytes("q 0 d 1\nq é d2 1\n".encode("latin-1"))
    with pytest.raises(BadLine, match=r"qrels\.txt, line 2: byte 3 is not UTF-8"):
        read_qrels(tmp_path / "qrels.txt")


def test_a_pair_judged_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DuplicateId, match="line 2"):
        read_qrels(lines(tmp_path / "qrels.txt", "q 0 d 1\nq Q0 d 1\n"))


GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "golden"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the shared golden runs are not here")
def test_a_published_run_keeps_its_rankings_through_reading_and_writing(tmp_path: Path) -> None:
    run = read_run(GOLDEN / "trec-dl-2019.retriever.run.bz2")
    assert run.scores
    write_run(tmp_path / "again.run.gz", run)
    again = read_run(tmp_path / "again.run.gz")
    assert {query_id: again.ranking(query_id) for query_id in again} == {q: run.ranking(q) for q in run}
    assert len(read_qrels(GOLDEN / "trec-dl-2019.qrels")) == 43
