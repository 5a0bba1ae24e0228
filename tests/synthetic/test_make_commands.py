"""The commands, run as a person would."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from longrank.cli.make import make_app
from longrank.core.errors import MissingExtra, SettingsError
from longrank.core.types import Collection, Document, Qrels, Query
from longrank.corpora.catalog.folder import load_folder, save_collection
from longrank.corpora.formats import trec
from longrank.corpora.splits import read_split, write_splits

app = typer.Typer()
app.add_typer(make_app, name="make")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["make", *map(str, arguments)], catch_exceptions=False)


def call(*arguments: str | Path) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    documents = {f"p{i}": Document(f"p{i}", " ".join([f"w{i}"] * (5 + i % 7))) for i in range(300)}
    queries = {f"q{i}": Query(f"q{i}", f"w{i}") for i in range(40)}
    qrels = Qrels({f"q{i}": {f"p{i}": 1} for i in range(40)})
    save_collection(Collection("passages", documents, queries, qrels), tmp_path / "passages")
    return tmp_path / "passages"


def test_the_toy_world_is_written_with_splits_and_evidence(tmp_path: Path) -> None:
    try:
        call("toy", "--out", tmp_path / "world", "--train", "6", "--dev", "2", "--test", "3")
    except MissingExtra as error:
        pytest.skip(str(error))
    for name in ("toy", "toy-far"):
        loaded = load_folder(tmp_path / "world" / name)
        assert len(loaded.documents) == 11
        assert len(read_split(tmp_path / "world" / name, "train")) == 6
    rows = [json.loads(line) for line in (tmp_path / "world" / "evidence.jsonl").read_text().splitlines()]
    far = load_folder(tmp_path / "world" / "toy-far")
    for row in rows:
        (document_id,) = far.qrels.relevant(row["query_id"])
        assert row["text"] in far.documents[document_id].text
        assert not any(negative == row["text"] for negative in row["negatives"])


def test_far_relevant_is_made_from_a_folder_and_the_papers_policy_is_flagged(passages: Path, tmp_path: Path) -> None:
    small = ("--boundary", "60", "--max-tokens", "150", "--tokenizer", "words", "--licence", "CC0", "--check")
    result = run("far-relevant", passages, "--out", tmp_path / "far", "--test", "10", *small)
    assert result.exit_code == 3
    assert "LEAK  position alone" in result.output
    made = load_folder(tmp_path / "far")
    assert len(made.documents) == 40
    assert len(read_split(tmp_path / "far", "test")) == 10
    assert json.loads((tmp_path / "far" / "origin.json").read_text())["licence"] == "CC0"


def test_a_uniform_policy_with_distractors_found_by_bm25_passes_the_check(passages: Path, tmp_path: Path) -> None:
    options = ("--policy", "uniform", "--length", "100", "--distractors", "4", "--distractor-kind", "bm25")
    output = call("far-relevant", passages, "--out", tmp_path / "far", *options, "--tokenizer", "words", "--check")
    assert "LEAK" not in output
    assert len(load_folder(tmp_path / "far").documents) == 200


def test_passages_that_other_splits_judge_relevant_are_kept_out_of_the_filler(passages: Path, tmp_path: Path) -> None:
    trec.write_qrels(tmp_path / "other.txt", Qrels({"x": {f"p{i}": 1 for i in range(100, 300)}}))
    options = ("--boundary", "30", "--max-tokens", "90", "--tokenizer", "words")
    call("far-relevant", passages, "--out", tmp_path / "far", "--reserve", tmp_path / "other.txt", *options)
    held = {word for one in load_folder(tmp_path / "far").documents.values() for word in one.text.split()}
    assert held <= {f"w{i}" for i in range(100)}


def test_counterfactuals_are_written_for_every_slot(passages: Path, tmp_path: Path) -> None:
    call(
        "counterfactual",
        passages,
        "--out",
        tmp_path / "moved",
        "--slots",
        "4",
        "--length",
        "90",
        "--tokenizer",
        "words",
    )
    made = load_folder(tmp_path / "moved")
    assert made.qrels.relevant("q3") == {f"q3_p3_s{k}" for k in range(4)}


def test_training_documents_are_debiased_and_other_splits_left_out(passages: Path, tmp_path: Path) -> None:
    write_splits(passages, {"train": tuple(f"q{i}" for i in range(30)), "test": tuple(f"q{i}" for i in range(30, 40))})
    call("debiased", passages, "--out", tmp_path / "shuffled")
    made = load_folder(tmp_path / "shuffled")
    assert set(made.queries) == {f"q{i}" for i in range(30)}
    assert len(made.documents) == 300


def test_settings_that_cannot_be_met_are_explained(passages: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="leaves no room"):
        run("far-relevant", passages, "--out", tmp_path / "far", "--boundary", "90", "--max-tokens", "80")
