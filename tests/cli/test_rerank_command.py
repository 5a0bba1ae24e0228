"""``longrank rerank`` with rankers that are not ours, the one that ``longrank harden`` recommends above all."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from longrank.cli.main import app
from longrank.core.errors import DataError, ModelError, TruncatedInput
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


def test_a_run_without_candidates_is_refused(folder: Path) -> None:
    (folder / "bm25.trec").write_text("")
    refused = rerank("short_sighted:first")
    assert isinstance(refused.exception, DataError)
    assert "bm25.trec holds no candidate" in str(refused.exception)
    assert not (folder / "out.trec").exists()


def test_options_for_checkpoints_are_refused_for_other_rankers(folder: Path) -> None:
    for option in (["--runtime", "int8"], ["--token-cache", "cache"]):
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
