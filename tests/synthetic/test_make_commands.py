"""The commands, run as a person would."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner, Result

from longrank.cli.make import make_app
from longrank.core.errors import DataError, MissingExtra, SettingsError, UnknownName
from longrank.core.types import Collection, Document, Qrels, Query
from longrank.corpora.catalog.folder import Format, load_folder, save_collection
from longrank.corpora.formats import beir, trec
from longrank.corpora.splits import read_split, write_splits
from longrank.synthetic import longembed, toy

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


SMALL = ("--boundary", "60", "--max-tokens", "150", "--tokenizer", "words", "--test", "10")


@pytest.mark.parametrize("form", ["beir", "jsonl", "flexneuart"])
@pytest.mark.parametrize("out_form", ["beir", "jsonl", "flexneuart"])
def test_passages_of_every_format_make_the_same_documents(
    passages: Path, tmp_path: Path, form: Format, out_form: str
) -> None:
    source = load_folder(passages)
    save_collection(source, tmp_path / "source", format=form)
    call("far-relevant", passages, "--out", tmp_path / "expected", *SMALL)
    call("far-relevant", tmp_path / "source", "--out", tmp_path / "far", "--format", out_form, *SMALL)
    expected, made = load_folder(tmp_path / "expected"), load_folder(tmp_path / "far")
    assert {d.id: d.text.split() for d in made.documents.values()} == {
        d.id: d.text.split() for d in expected.documents.values()
    }
    judged = read_split(tmp_path / "expected", "test") if out_form == "beir" else expected.queries
    assert made.qrels.grades == {name: expected.qrels.grades[name] for name in judged}
    assert read_split(tmp_path / "far", "test") == read_split(tmp_path / "expected", "test")
    assert len(made.spans) == 40


def test_the_evidence_of_other_splits_of_a_beir_folder_is_no_filler(passages: Path, tmp_path: Path) -> None:
    source = load_folder(passages)
    save_collection(source, tmp_path / "source", format="beir", split="dev")
    beir.write_qrels(tmp_path / "source/qrels/train.tsv", Qrels({"x": {f"p{i}": 1 for i in range(40, 200)}}))
    options = ("--split", "dev", "--boundary", "30", "--max-tokens", "90", "--tokenizer", "words")
    call("far-relevant", tmp_path / "source", "--out", tmp_path / "far", *options)
    held = {word for one in load_folder(tmp_path / "far").documents.values() for word in one.text.split()}
    assert held <= {f"w{i}" for i in (*range(40), *range(200, 300))}
    with pytest.raises(DataError, match="no split 'test'; it has dev, train"):
        run("far-relevant", tmp_path / "source", "--out", tmp_path / "none", "--tokenizer", "words")


class Passage(NamedTuple):
    doc_id: str
    text: str

    def default_text(self) -> str:
        return self.text


def test_passages_of_an_ir_datasets_id_are_counted_onto_disk(passages: Path, tmp_path: Path) -> None:
    ir_datasets = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    formats, local = ir_datasets.formats, ir_datasets.util.LocalDownload
    source = load_folder(passages)
    (tmp_path / "docs.tsv").write_text("".join(f"{d.id}\t{d.text}\n" for d in source.documents.values()))
    (tmp_path / "queries.tsv").write_text("".join(f"{q.id}\t{q.text}\n" for q in source.queries.values()))
    trec.write_qrels(tmp_path / "qrels.txt", source.qrels)
    name = f"longrank-passages-{tmp_path.name}"
    docs = formats.TsvDocs(local(tmp_path / "docs.tsv"), Passage, namespace=name, lang="en")
    queries = formats.TsvQueries(local(tmp_path / "queries.tsv"), namespace=name, lang="en")
    judged = formats.TrecQrels(local(tmp_path / "qrels.txt"), {1: "relevant"})
    ir_datasets.registry.register(name, ir_datasets.Dataset(docs, queries, judged))
    call("far-relevant", passages, "--out", tmp_path / "expected", *SMALL)
    call("far-relevant", name, "--out", tmp_path / "far", *SMALL)
    made, expected = load_folder(tmp_path / "far"), load_folder(tmp_path / "expected")
    assert {d.id: d.text for d in made.documents.values()} == {d.id: d.text for d in expected.documents.values()}
    assert json.loads((tmp_path / "far" / "origin.json").read_text())["source"] == name
    assert (tmp_path / "far.passages" / "texts.bin").is_file()
    again = {d.id: d.text for d in load_folder(tmp_path / "far").documents.values()}
    call("far-relevant", name, "--out", tmp_path / "far", *SMALL)  # what was made here may be made anew
    assert {d.id: d.text for d in load_folder(tmp_path / "far").documents.values()} == again


def test_a_collection_of_no_documents_is_not_written(tmp_path: Path) -> None:
    documents = {"p": Document("p", "a b"), "f": Document("f", "c"), "g": Document("g", "d")}
    few = Collection("few", documents, {"q": Query("q", "a")}, Qrels({"q": {"p": 1}}))
    save_collection(few, tmp_path / "few")
    with pytest.raises(DataError, match="too little filler"):
        run("far-relevant", tmp_path / "few", "--out", tmp_path / "far", "--tokenizer", "words")
    assert not (tmp_path / "far").exists()


def test_a_source_that_is_neither_a_folder_nor_known_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    with pytest.raises(UnknownName, match="no folder no-such-passages, and ir_datasets has no"):
        run("far-relevant", "no-such-passages", "--out", tmp_path / "far")
    with pytest.raises(SettingsError, match="10 test queries"):
        few = Collection(
            "few", {"p": Document("p", "a b"), "f": Document("f", "c")}, {"q": Query("q", "a")}, Qrels({"q": {"p": 1}})
        )
        save_collection(few, tmp_path / "few-passages")
        run("far-relevant", tmp_path / "few-passages", "--out", tmp_path / "far", *SMALL)


def test_the_toy_worlds_passages_are_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = toy.ToySettings(train=20, dev=0, test=5)
    monkeypatch.setattr(toy, "ToySettings", lambda seed: small.model_copy(update={"seed": seed}))
    options = ("--policy", "uniform", "--length", "200", "--distractors", "3", "--tokenizer", "words", "--check")
    try:
        output = call("far-relevant", "toy", "--out", tmp_path / "far", *options)
    except MissingExtra as error:
        pytest.skip(str(error))
    assert "25 queries, 3 other candidates each" in output
    assert len(load_folder(tmp_path / "far").documents) == 100


def test_needle_and_passkey_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = longembed.TaskSettings(lengths=(256, 512), queries=2, documents=3)
    monkeypatch.setattr(longembed, "TaskSettings", lambda seed: small.model_copy(update={"seed": seed}))
    for name in ("needle", "passkey"):
        output = call(name, "--out", tmp_path / name, "--tokenizer", "words")
        assert "6 documents, 4 queries" in output
        assert len(longembed.read_longembed(tmp_path / name).collection.queries) == 4


def test_a_uniform_policy_with_distractors_found_by_bm25_passes_the_check(passages: Path, tmp_path: Path) -> None:
    options = ("--policy", "uniform", "--length", "100", "--distractors", "4", "--distractor-kind", "bm25")
    output = call("far-relevant", passages, "--out", tmp_path / "far", *options, "--tokenizer", "words", "--check")
    assert "LEAK" not in output
    assert len(load_folder(tmp_path / "far").documents) == 200


def test_passages_that_other_splits_judge_relevant_are_kept_out_of_the_filler(passages: Path, tmp_path: Path) -> None:
    trec.write_qrels(tmp_path / "other.txt", Qrels({"x": {f"p{i}": 1 for i in range(100, 300)}}))
    options = ("--boundary", "30", "--max-tokens", "90", "--tokenizer", "words")
    beir.write_qrels(tmp_path / "more.tsv", Qrels({"y": {"p99": 1}}))
    reserve = ("--reserve", tmp_path / "other.txt", "--reserve", tmp_path / "more.tsv")
    call("far-relevant", passages, "--out", tmp_path / "far", *reserve, *options)
    held = {word for one in load_folder(tmp_path / "far").documents.values() for word in one.text.split()}
    assert held <= {f"w{i}" for i in range(99)}


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


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("passages --distractor-kind bm25", "there are none without --distractors"),
        ("toy --distractors 2 --distractor-kind bm25", "the toy world has its own"),
        ("toy --split dev --reserve other.txt", "--reserve, --split is for collections with several splits"),
    ],
)
def test_options_that_would_do_nothing_are_refused(tmp_path: Path, asked: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        run("far-relevant", *asked.split(), "--out", tmp_path / "far")


def test_settings_that_cannot_be_met_are_explained(passages: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="leaves no room"):
        run("far-relevant", passages, "--out", tmp_path / "far", "--boundary", "90", "--max-tokens", "80")
