"""``longrank rerank`` with rankers that are not ours, the one that ``longrank harden`` recommends above all."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from longrank.cli.main import app
from longrank.core.errors import DataError, LongrankError, MissingExtra, ModelError, SettingsError, TruncatedInput
from longrank.core.types import Collection, Document, Qrels, Query, Run
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import read_run, write_run

MODULE = """
from longrank.audit.planted import Windowed, WordMatch
from longrank.core.types import Document, Query

bag = WordMatch.fitted(["the of a in is was who what when where " * 30, "plain words"])

def first(query, texts):
    return Windowed(bag, 100).score(Query("q", query), [Document("d", text) for text in texts]).values
"""
LATE, NONE = "plain " * 300 + "lighthouse", "plain " * 300


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a ranker that reads 100 words, and documents of which one holds the answer at its end."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short_sighted.py").write_text(MODULE)
    documents = {"none": Document("none", NONE), "late": Document("late", LATE)}
    collection = Collection("c", documents, {"q": Query("q", "lighthouse")}, Qrels({"q": {"late": 1}}))
    save_collection(collection, tmp_path / "c")
    write_run(tmp_path / "bm25.trec", Run("bm25", {"q": {"none": 2.0, "late": 1.0}}))
    return tmp_path


def rerank(ranker: str, *options: str) -> Result:
    arguments = [ranker, "c", "--candidates", "bm25.trec", "--out", "out.trec", *options]
    return CliRunner().invoke(app, ["rerank", *arguments])


@pytest.mark.parametrize(
    ("ranker", "value", "said"),
    [
        ("embedding --set backbone=minilm", "reading=nope", "reading is 'first' or 'long'"),
        ("embedding --set backbone=minilm", "size=abc", "size is a whole number, not 'abc'"),
        ("embedding --set backbone=minilm", "size=1.5", "size is a whole number, not 1.5"),
        ("embedding --set backbone=minilm", "size=true", "size is a whole number, not True"),
        ("embedding --set backbone=minilm", "tokens=x", "tokens is a whole number, or left out, not 'x'"),
        ("embedding --set backbone=minilm", "query_prefix=5", "query_prefix is text, not 5"),
        ("embedding", "backbone.nmae=tiny", "a spec is a table with a name and params"),
        ("rankgpt --chat openai:any", "window=-1", "rankgpt: window: Input should be greater than or equal to 2"),
        ("rankgpt --chat openai:any", "step=0", "rankgpt: step: Input should be greater than or equal to 1"),
        ("rankgpt --chat openai:any", "step=50", "rankgpt: windows of 20 that move by 50 do not overlap"),
        ("rankgpt --chat openai:any", "window=many", "window is a whole number, not 'many'"),
    ],
)
def test_a_parameter_of_the_wrong_kind_is_refused_in_words(folder: Path, ranker: str, value: str, said: str) -> None:
    name, *options = ranker.split()
    refused = rerank(name, *options, "--set", value).exception
    assert isinstance(refused, SettingsError)
    assert said in str(refused)


def test_the_hardened_ranker_finds_what_the_bare_one_cannot_see(folder: Path) -> None:
    small = ["--queries", "12", "--slots", "3", "--lengths", "256", "--tolerance", "0.4"]
    hardened = CliRunner().invoke(app, ["harden", "short_sighted:first", *small])
    assert hardened.exit_code == 0, hardened.output
    assert 'wrapper = "chunk-max"' in (folder / "hardened/hardened.toml").read_text()

    assert rerank("short_sighted:first").exit_code == 0
    assert read_run(folder / "out.trec").ranking("q") == ["none", "late"]  # both score 0; ties keep ids falling
    done = rerank("hardened/hardened.toml")
    assert done.exit_code == 0, done.output
    assert read_run(folder / "out.trec").ranking("q") == ["late", "none"]


FAULTY = """
def raising(query, texts):
    raise KeyError("no GPU today")

def few(query, texts):
    return [1.0]

def words(query, texts):
    return ["good" for _ in texts]
"""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("raising", "ranker 'faulty:raising' failed at query 'q' with KeyError: 'no GPU today'"),
        ("few", "ranker 'faulty:few' gave 1 scores for the 2 documents of query 'q'"),
        ("words", "ranker 'faulty:words' gave a score that is no number for query 'q'"),
    ],
)
def test_a_persons_function_that_fails_is_named_with_the_query_and_what_it_said(
    folder: Path, function: str, said: str
) -> None:
    (folder / "faulty.py").write_text(FAULTY)
    failed = rerank(f"faulty:{function}").exception
    assert isinstance(failed, LongrankError)
    assert str(failed).startswith(said)
    assert not (folder / "out.trec").exists()
    assert isinstance(failed.__cause__, KeyError) == (function == "raising")


def test_a_run_without_candidates_is_refused(folder: Path) -> None:
    (folder / "bm25.trec").write_text("")
    refused = rerank("short_sighted:first")
    assert isinstance(refused.exception, DataError)
    assert "bm25.trec holds no candidate" in str(refused.exception)
    assert not (folder / "out.trec").exists()


def test_an_onnx_folder_is_run_as_onnx_though_its_config_names_a_classifier(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longrank.rankers.foreign.find_spec", lambda name: None)
    (folder / "exported").mkdir()
    (folder / "exported" / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    (folder / "exported" / "model.onnx").write_bytes(b"")
    assert isinstance(rerank("exported").exception, MissingExtra)


def test_options_for_checkpoints_are_refused_for_other_rankers(folder: Path) -> None:
    for option in (["--runtime", "int8"], ["--token-cache", "cache"], ["--remote-code", "name@version"]):
        refused = rerank("short_sighted:first", *option)
        assert isinstance(refused.exception, ModelError)
        assert option[0] in str(refused.exception)
    assert not (folder / "out.trec").exists()


def test_strict_writes_nothing_where_anyones_ranker_cuts(folder: Path) -> None:
    (folder / "sliced.toml").write_text(
        """
name = "embedding"
params = { backbone = { name = "tiny", params = { dim = 24, vocabulary = 997 } }, reading = "first", tokens = 50 }
"""
    )
    refused = rerank("sliced.toml", "--strict")
    assert isinstance(refused.exception, TruncatedInput)
    assert not (folder / "out.trec").exists()
    assert "cut: 2 documents" in rerank("sliced.toml").output


def test_what_is_cropped_of_queries_is_told_or_refused(folder: Path) -> None:
    (folder / "curt.toml").write_text(
        """
name = "embedding"
[params]
backbone = { name = "tiny", params = { dim = 24, vocabulary = 997 } }
query_prefix = "look for "
query_tokens = 1
"""
    )
    assert "cut: 2 tokens of queries were not read" in rerank("curt.toml").output
    (folder / "out.trec").unlink()
    assert isinstance(rerank("curt.toml", "--strict").exception, TruncatedInput)
    assert not (folder / "out.trec").exists()


def test_a_hardened_file_with_a_wrong_key_says_which(folder: Path) -> None:
    (folder / "bad.toml").write_text('ranker = "short_sighted:first"\nwraper = "chunk-max"\n')
    assert "wraper" in str(rerank("bad.toml").exception)
    assert "missing.toml" in str(rerank("missing.toml").exception)
