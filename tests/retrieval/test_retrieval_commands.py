"""The commands, run as a person would."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from longrank.cli.fuse import fuse
from longrank.cli.pseudo_label import pseudo_label
from longrank.cli.retrieve import retrieve
from longrank.core.errors import DataError, SettingsError, StaleIndex, UnknownName
from longrank.core.types import Document, Qrels, Query, Run
from longrank.corpora.formats import beir, jsonl, trec
from longrank.corpora.splits import write_splits

app = typer.Typer()
app.command("retrieve")(retrieve)
app.command("fuse")(fuse)
app.command("pseudo-label")(pseudo_label)


def call(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "collection"
    place.mkdir()
    documents = [
        Document("long", "fox fox " + "word " * 40),
        Document("short", "fox den"),
        Document("owl", "owl den den"),
        *(Document(f"filler{i}", f"pond number{i}") for i in range(30)),
    ]
    jsonl.write_documents(place / "documents.jsonl", documents)
    jsonl.write_queries(place / "queries.jsonl", [Query("q1", "fox"), Query("q2", "zebra")])
    trec.write_qrels(place / "qrels.txt", Qrels({"q1": {"short": 1}}))
    return place


def test_a_run_is_written_and_the_index_kept(folder: Path, tmp_path: Path) -> None:
    output = call("retrieve", folder, "--out", tmp_path / "run.trec", "--depth", "5")
    assert trec.read_run(tmp_path / "run.trec").ranking("q1") == ["short", "long"]
    assert "1 queries" in output and "1 queries share no term" in output
    (index,) = (folder / ".longrank").glob("bm25-*")
    stamp = (index / "longrank.json").stat().st_mtime_ns
    call("retrieve", folder, "--out", tmp_path / "run.trec", "--k1", "0.9", "--b", "0")
    assert (index / "longrank.json").stat().st_mtime_ns == stamp
    assert trec.read_run(tmp_path / "run.trec").ranking("q1") == ["long", "short"]


def test_changed_documents_are_refused_until_the_index_is_rebuilt(folder: Path, tmp_path: Path) -> None:
    call("retrieve", folder, "--out", tmp_path / "run.trec")
    jsonl.write_documents(folder / "documents.jsonl", [Document("new", "fox")])
    with pytest.raises(StaleIndex):
        call("retrieve", folder, "--out", tmp_path / "run.trec")
    call("retrieve", folder, "--out", tmp_path / "run.trec", "--rebuild")
    assert trec.read_run(tmp_path / "run.trec").ranking("q1") == ["new"]


def test_feedback_is_explained(folder: Path, tmp_path: Path) -> None:
    output = call("retrieve", folder, "--out", tmp_path / "run.trec", "--rm3", "--explain", "--feedback-documents", "1")
    assert "q1: fox 0.7500, den 0.2500" in output
    assert "q2: no term that a document has" in output
    assert "owl" in trec.read_run(tmp_path / "run.trec").scores["q1"]


def test_parameters_are_tuned_by_a_measure(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("longrank.evaluation.measures")
    output = call("retrieve", folder, "--out", tmp_path / "run.trec", "--tune", "RR@10", "--b", "0")
    assert "on 1 queries" in output and "look too good" in output
    assert trec.read_run(tmp_path / "run.trec").ranking("q1")[0] == "short"


def test_a_split_of_any_collection_is_retrieved_alone(folder: Path, tmp_path: Path) -> None:
    jsonl.write_queries(folder / "queries.jsonl", [Query("q1", "fox"), Query("q2", "owl")])
    run = tmp_path / "run.trec"
    with pytest.raises(DataError, match=r"has no splits\.json"):
        call("retrieve", folder, "--out", run, "--split", "test")
    write_splits(folder, {"train": ("q1",), "test": ("q2",), "other": ("q9",)})
    call("retrieve", folder, "--out", run, "--split", "test", "--tune", "RR@10")  # tuned on train all the same
    assert list(trec.read_run(run)) == ["q2"]
    call("retrieve", folder, "--out", run)
    assert list(trec.read_run(run)) == ["q1", "q2"]
    with pytest.raises(DataError, match="no split 'nonsense'; it has train, test"):
        call("retrieve", folder, "--out", run, "--split", "nonsense")
    with pytest.raises(DataError, match=r"'other' of .* names no query"):
        call("retrieve", folder, "--out", run, "--split", "other")


def test_a_split_of_a_beir_folder_is_that_of_its_judgements(tmp_path: Path) -> None:
    beir.write_corpus(tmp_path / "corpus.jsonl", [Document("short", "fox den"), Document("owl", "owl pond")])
    beir.write_queries(tmp_path / "queries.jsonl", [Query("q1", "fox"), Query("q2", "owl")])
    with pytest.raises(DataError, match=r"has no splits\.json"):  # no judgements yet, so no splits
        call("retrieve", tmp_path, "--out", tmp_path / "run.trec", "--split", "train")
    beir.write_qrels(tmp_path / "qrels" / "test.tsv", Qrels({"q2": {"owl": 1}}))
    beir.write_qrels(tmp_path / "qrels" / "train.tsv", Qrels({"q1": {"short": 1}}))
    for options, found in (([], ["q2"]), (["--split", "train"], ["q1"])):
        call("retrieve", tmp_path, "--out", tmp_path / "run.trec", *options)
        assert list(trec.read_run(tmp_path / "run.trec")) == found
    call("pseudo-label", tmp_path, "--out", tmp_path / "labels.txt")
    assert list(trec.read_qrels(tmp_path / "labels.txt")) == ["q1"]


def test_a_search_for_nothing_or_in_nothing_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "queries.jsonl").unlink()
    with pytest.raises(DataError, match=r"no queries: put them into queries\.jsonl"):
        call("retrieve", folder, "--out", tmp_path / "run.trec")
    (folder / "documents.jsonl").write_text("")
    with pytest.raises(DataError, match="holds no document"):
        call("retrieve", folder, "--out", tmp_path / "run.trec")
    assert not (tmp_path / "run.trec").exists()


@pytest.mark.parametrize("method", ["bm25", "rm3", "dense", "hybrid"])
def test_queries_that_are_all_empty_are_refused(folder: Path, tmp_path: Path, method: str) -> None:
    jsonl.write_queries(folder / "queries.jsonl", [Query("q1", ""), Query("q2", " \n")])
    with pytest.raises(DataError, match=r"all 2 queries asked for are empty.*nothing to search with.*queries\.jsonl"):
        call("retrieve", folder, "--out", tmp_path / "run.trec", "--method", method)
    assert not (tmp_path / "run.trec").exists()


def test_an_empty_query_among_others_is_left_out_and_told(folder: Path, tmp_path: Path) -> None:
    jsonl.write_queries(folder / "queries.jsonl", [Query("q1", "fox"), Query("blank", "  ")])
    output = call("retrieve", folder, "--out", tmp_path / "run.trec")
    assert "left out: 1 of 2 queries are empty (blank)" in output
    assert list(trec.read_run(tmp_path / "run.trec")) == ["q1"]


def test_queries_of_which_none_finds_anything_are_refused(folder: Path, tmp_path: Path) -> None:
    jsonl.write_queries(folder / "queries.jsonl", [Query("q1", "???"), Query("q2", "zebra")])
    with pytest.raises(DataError, match="none of 2 queries shares a term with any document"):
        call("retrieve", folder, "--out", tmp_path / "run.trec")
    with pytest.raises(DataError, match="none of 2 queries has a document in bm25"):
        call("pseudo-label", folder, "--out", tmp_path / "labels.txt")
    assert not list(tmp_path.glob("*.t*"))


def test_a_measure_to_tune_by_is_read_before_the_index_is_built(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="nDCG@10"):
        call("retrieve", folder, "--out", tmp_path / "run.trec", "--tune", "nDGC@10")
    assert not (folder / ".longrank").exists()
    assert "on 1 queries" in call("retrieve", folder, "--out", tmp_path / "run.trec", "--tune", " RR@10")


@pytest.mark.parametrize(("option", "method"), [("--original-weight", "rm3"), ("--bm25-weight", "hybrid")])
def test_a_weight_that_is_no_number_is_refused(folder: Path, option: str, method: str) -> None:
    given = ["retrieve", str(folder), "--out", "run.trec", "--method", method, option, "nan"]
    refused = CliRunner().invoke(app, given)
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}'" in refused.stderr


def test_options_of_bm25_are_refused_where_labels_come_from_a_run(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--k1, --rm3 is for BM25, and --run takes the labels"):
        call("pseudo-label", folder, "--out", tmp_path / "labels.txt", "--run", "r.trec", "--rm3", "--k1", "2")


def test_queries_to_tune_on_are_refused_where_nothing_is_tuned(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--train names the queries that --tune"):
        call("retrieve", folder, "--out", tmp_path / "run.trec", "--train", tmp_path / "nosuch")


def test_predicted_queries_are_indexed(folder: Path, tmp_path: Path) -> None:
    predictions = tmp_path / "predictions.tsv"
    predictions.write_text("owl\twhich zebra\n", encoding="utf-8")
    call("retrieve", folder, "--out", tmp_path / "run.trec", "--predictions", predictions)
    assert trec.read_run(tmp_path / "run.trec").ranking("q2") == ["owl"]


def test_runs_are_fused_by_weights_or_ranks(tmp_path: Path) -> None:
    one, two = tmp_path / "one.trec", tmp_path / "two.trec"
    trec.write_run(one, Run("one", {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}))
    trec.write_run(two, Run("two", {"q": {"c": 9.0, "b": 5.0, "a": 1.0}}))
    call("fuse", one, two, "--out", tmp_path / "fused.trec", "--weights", "0.9,0.1")
    assert trec.read_run(tmp_path / "fused.trec").ranking("q") == ["a", "b", "c"]
    call("fuse", one, two, "--out", tmp_path / "fused.trec", "--method", "rrf", "--depth", "1")
    assert len(trec.read_run(tmp_path / "fused.trec").scores["q"]) == 1


def test_fusion_weights_are_tuned(tmp_path: Path) -> None:
    pytest.importorskip("longrank.evaluation.measures")
    queries = [f"q{i}" for i in range(4)]
    one, two, qrels = tmp_path / "one.trec", tmp_path / "two.trec", tmp_path / "qrels.txt"
    trec.write_run(one, Run("one", {q: {"a": 3.0, "b": 2.0} for q in queries}))
    trec.write_run(two, Run("two", {q: {"b": 9.0, "a": 1.0} for q in queries}))
    trec.write_qrels(qrels, Qrels({q: {"b": 1} for q in queries}))
    tuning = ("--tune", "RR", "--qrels", qrels)
    assert "RR 1.0000" in call("fuse", one, two, "--out", tmp_path / "f.trec", *tuning)
    assert "over 2 folds" in call("fuse", one, two, "--out", tmp_path / "f.trec", *tuning, "--folds", "2")
    assert trec.read_run(tmp_path / "f.trec").ranking("q3") == ["b", "a"]


def test_queries_without_judgements_are_fused_by_folds_too(tmp_path: Path) -> None:
    one, two, qrels = tmp_path / "one.trec", tmp_path / "two.trec", tmp_path / "qrels.txt"
    queries = [f"q{i}" for i in range(5)]
    trec.write_run(one, Run("one", {q: {"a": 3.0, "b": 2.0} for q in queries}))
    trec.write_run(two, Run("two", {q: {"b": 9.0, "a": 1.0} for q in queries}))
    trec.write_qrels(qrels, Qrels({q: {"b": 1} for q in queries[:4]}))
    tuning = ("--tune", "RR", "--qrels", qrels, "--folds")
    output = call("fuse", one, two, "--out", tmp_path / "f.trec", *tuning, "2")
    assert "4 queries" in output and "1 queries without judgements" in output
    assert trec.read_run(tmp_path / "f.trec").ranking("q4") == ["b", "a"]
    with pytest.raises(SettingsError, match="5 folds need as many judged queries, and the runs have 4"):
        call("fuse", one, two, "--out", tmp_path / "f.trec", *tuning, "5")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--weights", "much"],
        ["--weights", "0,0"],
        ["--weights", "nan,1"],
        ["--tune", "RR"],
        ["--qrels", "nosuch.txt"],
        ["--method", "rrf", "--weights", "1,2"],
        ["--method", "rrf", "--scale", "min-max"],
        ["--folds", "3"],
    ],
)
def test_contradictory_fusion_options_are_refused(tmp_path: Path, wrong: list[str]) -> None:
    one = tmp_path / "one.trec"
    trec.write_run(one, Run("one", {"q": {"a": 3.0}}))
    with pytest.raises(SettingsError):
        call("fuse", one, one, "--out", tmp_path / "f.trec", *wrong)


def test_a_run_without_lines_is_not_fused(tmp_path: Path) -> None:
    one, empty = tmp_path / "one.trec", tmp_path / "empty.trec"
    trec.write_run(one, Run("one", {"q": {"a": 3.0}}))
    empty.write_text("")
    with pytest.raises(DataError, match=r"empty\.trec holds no line"):
        call("fuse", one, empty, "--out", tmp_path / "f.trec")
    assert not (tmp_path / "f.trec").exists()


def test_the_first_document_becomes_the_label(folder: Path, tmp_path: Path) -> None:
    output = call("pseudo-label", folder, "--out", tmp_path / "qrels.txt")
    assert trec.read_qrels(tmp_path / "qrels.txt").grades == {"q1": {"short": 1}}
    assert "1 of 2 queries" in output


def test_labels_may_come_from_a_run(folder: Path, tmp_path: Path) -> None:
    trec.write_run(tmp_path / "run.trec", Run("mine", {"q2": {"owl": 1.0, "long": 0.5}}))
    call("pseudo-label", folder, "--out", tmp_path / "qrels.txt", "--run", tmp_path / "run.trec", "--positives", "2")
    assert trec.read_qrels(tmp_path / "qrels.txt").grades == {"q2": {"owl": 1, "long": 1}}


def test_only_training_queries_are_labelled_where_a_collection_has_splits(folder: Path, tmp_path: Path) -> None:
    jsonl.write_queries(folder / "queries.jsonl", [Query("q1", "fox"), Query("q2", "owl")])
    write_splits(folder, {"train": ("q1",), "test": ("q2",)})
    trec.write_run(tmp_path / "run.trec", Run("mine", {"q1": {"long": 1.0}, "q2": {"owl": 1.0}}))
    for options, labelled in (([], "q1"), (["--run", tmp_path / "run.trec"], "q1"), (["--split", "test"], "q2")):
        output = call("pseudo-label", folder, "--out", tmp_path / "qrels.txt", *options)
        assert list(trec.read_qrels(tmp_path / "qrels.txt")) == [labelled]
        assert "1 of 1 queries" in output
    with pytest.raises(DataError, match="no split 'dev'"):
        call("pseudo-label", folder, "--out", tmp_path / "qrels.txt", "--split", "dev")
