import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.corpora.checking import FolderReport, check_folder


def lines(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A folder without a fault."""
    folder = tmp_path / "sound"
    lines(folder / "documents.jsonl", {"id": "a", "text": "a red fox"}, {"id": "b", "text": "a dog"})
    lines(folder / "queries.jsonl", {"id": "q1", "text": "fox"}, {"id": "q2", "text": "dog"})
    (folder / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 2\nq2 0 a 0\n")
    span = {"query_id": "q1", "document_id": "a", "start": 6, "stop": 9, "unit": "characters", "source": "me"}
    lines(folder / "spans.jsonl", span)
    (folder / "splits.json").write_text('{"train": ["q1"], "test": ["q2"]}')
    (folder / "candidates").mkdir()
    (folder / "candidates" / "bm25.trec").write_text("q1 Q0 a 1 2.0 bm25\nq2 Q0 b 1 1.0 bm25\n")
    return folder


def messages(report: FolderReport, level: str) -> str:
    return "\n".join(f"{one.file}: {one.message}" for one in report.findings if one.level == level)


def test_a_sound_folder_has_no_findings_and_says_what_it_holds(sound: Path) -> None:
    report = check_folder(sound)
    assert report.findings == ()
    assert report.contents == {
        "documents.jsonl": "2 documents, 14 characters, the longest 9",
        "queries.jsonl": "2 queries",
        "qrels.txt": "3 judgements of 2 queries, 2 relevant",
        "spans.jsonl": "1 span in 1 pair",
        "splits.json": "train 1, test 1",
        "bm25.trec": "run 'bm25': 2 queries",
    }
    assert str(report).splitlines()[-1] == "0 errors, 0 warnings"


def test_a_saved_toy_world_has_no_errors(tmp_path: Path) -> None:
    from longrank.corpora.catalog.folder import save_collection
    from longrank.testing import small_toy_world

    save_collection(small_toy_world(queries=6).far, tmp_path / "toy")
    assert check_folder(tmp_path / "toy").errors == 0


def test_faults_of_documents_are_all_found_at_once(sound: Path) -> None:
    rows = [("a", "a red fox"), ("a", "another"), ("b", "a dog"), ("c c", "a dog"), ("d", " \n"), ("e", "")]
    lines(sound / "documents.jsonl", *({"id": name, "text": text} for name, text in rows))
    report = check_folder(sound)
    assert "ids that occur more than once: 1 ('a')" in messages(report, "error")
    assert "ids with white space, which run files cannot hold: 1 ('c c')" in messages(report, "error")
    assert "documents without text: 2 ('d', 'e')" in messages(report, "warning")
    assert "documents with the same text as another one: 1" in messages(report, "warning")


def test_a_bad_line_is_told_with_its_number_and_the_other_files_are_checked_still(sound: Path) -> None:
    with (sound / "documents.jsonl").open("a") as stream:
        stream.write('{"id": "c"\n')
    (sound / "splits.json").write_text('{"train": ["q1", "q2"], "test": ["q2", "q9"]}')
    found = messages(check_folder(sound), "error")
    assert "documents.jsonl: line 3: not JSON" in found
    assert "queries in 'train' and in 'test': 1 ('q2')" in found
    assert "ids of split 'test' that are no query of the collection: 1 ('q9')" in found


BAD_JSONL = '{"id": "x"\n{"id": 7, "text": "seven"}\n'


@pytest.mark.parametrize(
    ("file", "bad", "reasons"),
    [
        ("documents.jsonl", BAD_JSONL, ["not JSON", "'id' must be a string"]),
        ("queries.jsonl", BAD_JSONL, ["not JSON", "'id' must be a string"]),
        ("spans.jsonl", BAD_JSONL, ["not JSON", "'query_id' must be a string"]),
        ("qrels.txt", "q1 0 a\nq9 0 b 0.5\n", ["3 columns", "grade '0.5'"]),
        ("candidates/bm25.trec", "q1 Q0 b 1\nq1 Q0 b 2 nan bm25\n", ["4 columns", "score 'nan'"]),
    ],
)
def test_every_bad_line_is_told_and_the_sound_lines_behind_it_are_read(
    sound: Path, file: str, bad: str, reasons: list[str]
) -> None:
    without = check_folder(sound).contents
    (sound / file).write_text(bad + (sound / file).read_text())
    report = check_folder(sound)
    assert report.contents == without
    assert [(one.level, one.file) for one in report.findings] == [("error", Path(file).name)] * 2
    for number, (finding, reason) in enumerate(zip(report.findings, reasons, strict=True), start=1):
        assert finding.message.startswith(f"line {number}: {reason}")


def test_pairs_that_occur_twice_and_foreign_tags_are_all_told(sound: Path) -> None:
    with (sound / "qrels.txt").open("a") as stream:
        stream.write("q1 0 a 1\nq2 0 b 2\n")
    with (sound / "candidates" / "bm25.trec").open("a") as stream:
        stream.write("q1 Q0 a 2 1.0 bm25\nq2 Q0 a 2 0.5 dense\n")
    assert messages(check_folder(sound), "error").splitlines() == [
        "qrels.txt: line 4: document 'a' occurs twice for query 'q1'; keep one of the lines",
        "qrels.txt: line 5: document 'b' occurs twice for query 'q2'; keep one of the lines",
        "bm25.trec: line 3: document 'a' occurs twice for query 'q1'; keep one of the lines",
        "bm25.trec: line 4: tag 'dense' after 'bm25': a run file holds one run; split it by its last column",
    ]


def test_a_bad_line_hides_none_of_what_comes_behind_it_in_any_format(tmp_path: Path) -> None:
    beir, tsv, flex = tmp_path / "beir", tmp_path / "tsv", tmp_path / "flex"
    lines(beir / "corpus.jsonl", {"_id": "a"}, {"_id": "a", "text": "one"})
    lines(beir / "queries.jsonl", {"text": "?"}, {"_id": "q", "text": "two"})
    (beir / "qrels").mkdir()
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\nq\ta\t1\n")
    tsv.mkdir()
    (tsv / "documents.tsv").write_text("a\na\tone\n")
    (tsv / "queries.tsv").write_text("\tone\nq\ttwo\n")
    lines(flex / "AnswerFields.jsonl", {"DOCNO": "a"}, {"DOCNO": "a", "text_raw": "one"})
    lines(flex / "QuestionFields.jsonl", {"DOCNO": "q"}, {"DOCNO": "q", "text_raw": "two"})
    bad = {name: [one for one in check_folder(tmp_path / name).findings if one.level == "error"] for name in FORMATS}
    assert {name: [one.message.partition(":")[0] for one in found] for name, found in bad.items()} == FORMATS
    assert "1 document," in check_folder(tsv).contents["documents.tsv"]


FORMATS = {"beir": ["line 1", "line 1", "line 2"], "tsv": ["line 1", "line 1"], "flex": ["line 1", "line 1"]}


def test_a_run_that_is_not_there_is_told_as_such_and_not_as_a_bad_line(sound: Path) -> None:
    report = check_folder(sound, runs=[sound / "gone.trec", sound / "candidates"])
    assert [(one.file, one.message) for one in report.findings] == [
        ("gone.trec", f"no file {sound / 'gone.trec'}"),
        ("candidates", "Is a directory"),
    ]


def test_of_very_many_bad_lines_the_first_are_told_and_the_rest_counted(sound: Path) -> None:
    with (sound / "documents.jsonl").open("a") as stream:
        stream.write("not json\n" * 1_234)
    told = [one.message for one in check_folder(sound).findings if one.file == "documents.jsonl"]
    assert [message.partition(":")[0] for message in told[:-1]] == [f"line {number}" for number in range(3, 13)]
    assert told[-1] == "bad lines besides these 10: 1,224"


def test_ids_that_lead_nowhere_are_found_in_judgements_and_runs(sound: Path, tmp_path: Path) -> None:
    (sound / "qrels.txt").write_text("q1 0 gone 1\nq2 0 b 1\nq2 0 lost 1\nq9 0 a 1\n")
    run = tmp_path / "other.trec"
    run.write_text("q1 Q0 a 1 2.0 x\nq7 Q0 z 1 1.0 x\n")
    report = check_folder(sound, runs=[run])
    errors, warnings = messages(report, "error"), messages(report, "warning")
    assert "qrels: queries whose relevant documents are all missing from the collection: 1 ('q1')" in errors
    assert "other.trec: queries that are not in the collection: 1 ('q7')" in errors
    assert "other.trec: documents that are not in the collection: 1 ('z')" in errors
    assert "qrels.txt: judged queries that are not in the collection: 1 ('q9')" in warnings
    assert "qrels.txt: judged documents that are not in the collection: 2 ('gone', 'lost')" in warnings
    assert "other.trec: judged queries without a document in it: 1 ('q2')" in warnings


def test_a_run_with_a_document_twice_is_an_error(sound: Path, tmp_path: Path) -> None:
    run = tmp_path / "twice.trec"
    run.write_text("q1 Q0 a 1 2.0 x\nq1 Q0 a 2 1.0 x\n")
    assert "occurs twice" in messages(check_folder(sound, runs=[run]), "error")


def test_spans_that_do_not_point_into_their_text_are_errors(sound: Path) -> None:
    def span(document: str, start: int, stop: int, unit: str = "characters") -> dict[str, object]:
        tokenizer = None if unit == "characters" else "words-v1"
        row = {"query_id": "q1", "document_id": document, "start": start, "stop": stop, "unit": unit, "source": "me"}
        return {**row, "tokenizer": tokenizer}

    # 'a red fox' has nine characters
    rows = [span("a", 6, 10), span("a", 5, 9), span("a", 12, 15, "tokens"), span("z", 0, 1), span("a", 3, 3)]
    lines(sound / "spans.jsonl", *rows, span("b", 0, 1))
    report = check_folder(sound)
    errors, warnings = messages(report, "error"), messages(report, "warning")
    assert "spans that end behind their text (counted in bytes, or in another text?): 2 ('q1 in a 6-10'" in errors
    assert "spans of a document that is not in the collection: 1 ('q1 in z 0-1')" in errors
    assert "empty spans: 1 ('q1 in a 3-3')" in warnings
    assert "not judged relevant to their query: 2 ('q1 in z 0-1', 'q1 in b 0-1')" in warnings


def test_splits_of_a_beir_folder_may_not_share_queries(tmp_path: Path) -> None:
    lines(tmp_path / "corpus.jsonl", {"_id": "a", "title": "", "text": "a red fox"})
    asked = [{"_id": "q1", "text": "fox"}, {"_id": "q2", "text": "red"}, {"_id": "q3", "text": " Fox "}]
    lines(tmp_path / "queries.jsonl", *asked)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\ta\t1\n")
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\ta\t1\nq3\ta\t1\n")
    report = check_folder(tmp_path)
    assert "queries in 'test' and in 'train': 1 ('q2')" in messages(report, "error")
    assert "queries of 'train' that read like one of 'test': 1 ('q1')" in messages(report, "warning")


@pytest.mark.parametrize("text", ["[1, 2]", "{", '{"train": "q1"}', '{"train": [1]}'])
def test_a_split_file_of_another_shape_is_an_error(text: str, sound: Path) -> None:
    (sound / "splits.json").write_text(text)
    report = check_folder(sound)
    assert report.errors == 1
    assert "splits.json" in messages(report, "error")


def test_a_folder_that_is_no_collection_is_one_error(tmp_path: Path) -> None:
    assert "exactly one is needed" in messages(check_folder(tmp_path), "error")
    assert "no folder" in messages(check_folder(tmp_path / "nowhere"), "error")


def test_a_folder_without_queries_or_judgements_is_allowed_and_told(tmp_path: Path) -> None:
    lines(tmp_path / "documents.jsonl", {"id": "a", "text": "a red fox"})
    report = check_folder(tmp_path)
    assert report.errors == 0
    assert "nothing can be asked" in messages(report, "warning")
    assert "no judgements" in messages(report, "warning")


def test_the_command_exits_with_1_only_on_errors(sound: Path, tmp_path: Path) -> None:
    good = CliRunner().invoke(app, ["check", str(sound)])
    assert (good.exit_code, good.output.splitlines()[0]) == (0, "sound (jsonl)")
    (sound / "queries.jsonl").write_text("")
    bad = CliRunner().invoke(app, ["check", str(sound), "--run", str(tmp_path / "none.trec")])
    assert bad.exit_code == 1
    assert "error: queries.jsonl: there is no query in it" in bad.output
    assert "error: none.trec: no file" in bad.output
