"""Rankers that ask a chat model, from the command line, against a server on loopback that knows the right order."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from longrank.cli.main import app
from longrank.core.errors import BudgetSpent, MissingExtra, ModelError, SettingsError
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import read_run
from longrank.rankers.ready import READY

needs_openai = pytest.mark.skipif(find_spec("openai") is None, reason="the extra 'llm' is not installed")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Two queries and 25 documents whose grade stands in front and whose evidence stands behind 30 other words."""
    texts = {f"d{n:02}": f"grade {n} " + "filler " * 30 + "evidence" for n in range(25)}
    documents = {name: Document(name, text) for name, text in texts.items()}
    queries = {name: Query(name, f"which one {name}") for name in ("q1", "q2")}
    end = len(texts["d24"])
    spans = [GoldSpan("q1", "d24", CharSpan(end - 8, end), "hand")]
    qrels = Qrels({name: {"d24": 1} for name in queries})
    save_collection(Collection("c", documents, queries, qrels, spans), tmp_path / "c")
    lines = [f"{q} Q0 {name} {n + 1} {99 - n} bm25\n" for q in queries for n, name in enumerate(texts)]
    (tmp_path / "bm25.trec").write_text("".join(lines))
    return tmp_path


def rerank(world: Path, ranker: str | Path, *options: object, out: str = "out.trec") -> Result:
    words = ["rerank", ranker, world / "c", "--candidates", world / "bm25.trec", "--out", world / out, *options]
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf"])
def test_a_budget_of_no_dollars_is_refused_and_the_help_promises_none(world: Path, budget: str) -> None:
    refused = rerank(world, "rankgpt", "--chat", "openai:gpt-4o-mini", "--budget", budget)
    assert refused.exit_code == 2
    assert "Invalid value for '--budget'" in refused.stderr
    assert "[x>=0]" not in CliRunner().invoke(app, ["rerank", "--help"]).stdout


@needs_openai
def test_a_chat_ranker_says_its_price_before_and_its_account_after_and_asks_nothing_twice(
    world: Path, url: str, asked: list[str], secret: str
) -> None:
    options = ("--chat", "openai:gpt-4o-mini", "--base-url", url, "--set", "tokenizer=words", "--budget", "1")
    first = rerank(world, "rankgpt", *options)
    assert first.exit_code == 0, first.output
    # 25 candidates take 1 + ceil(5 / 10) = 2 prompts for each of two queries
    assert re.search(
        r"estimate: at most about 4 calls, [\d,]+ tokens in, .*\$0\.\d+; prices of \d{4}-\d\d", first.output
    )
    # 4 calls of 1,000 and 10 tokens at $0.15 and $0.60 a million
    assert "account: 4 calls, 4,000 tokens in, 40 out, $0.0006" in first.output
    run = read_run(world / "out.trec")
    best = [f"d{n:02}" for n in range(24, 14, -1)]  # the ten that two windows of twenty bring to the top
    assert run.ranking("q1")[:10] == run.ranking("q2")[:10] == best
    assert secret not in first.output

    again = rerank(world, "rankgpt", *options, out="again.trec")
    assert "estimate: at most about 0 calls" in again.output
    assert "account: 0 calls" in again.output
    assert len(asked) == 4
    assert read_run(world / "again.trec").scores == run.scores
    kept = list((world / "c" / ".longrank" / "replies").rglob("*.json"))
    assert len(kept) == 4
    assert not [path for path in kept if secret in path.read_text()]


@needs_openai
@pytest.mark.parametrize(("shown", "found"), [(10, "0 of 1 pairs"), (0, "1 of 1 pairs")])
def test_whether_the_evidence_reached_the_prompts_is_said(world: Path, url: str, shown: int, found: str) -> None:
    options = ("--chat", "openai:gpt-4o-mini", "--base-url", url, "--set", "tokenizer=words")
    result = rerank(world, "rankgpt", *options, "--set", f"document_tokens={shown}")
    assert f"evidence shown whole for {found}" in result.output
    assert ("cut: 50 documents" in result.output) is (shown == 10)


@needs_openai
def test_a_spent_budget_stops_and_a_larger_one_goes_on(world: Path, url: str, asked: list[str]) -> None:
    prices = world / "prices.json"
    prices.write_text('{"models": {"mine": {"per_million_in": 1000, "per_million_out": 0}}, "date": "today"}')
    options = ("--chat", "openai:mine", "--base-url", url, "--set", "tokenizer=words", "--prices", prices)
    stopped = rerank(world, "rankgpt", *options, "--budget", "2.9")  # a call costs $1, and at most nearly $2
    assert isinstance(stopped.exception, BudgetSpent)
    assert "prices of today" in stopped.output
    assert "account: " in stopped.output
    assert not (world / "out.trec").exists()
    before = len(asked)
    assert 0 < before < 4
    went_on = rerank(world, "rankgpt", *options, "--budget", "50")
    assert went_on.exit_code == 0, went_on.output
    assert len(asked) == 4
    assert f"account: {4 - before} calls" in went_on.output


@needs_openai
def test_a_ranker_may_stand_in_a_file_with_its_chat_model(world: Path, url: str, asked: list[str]) -> None:
    (world / "yes-no.toml").write_text(
        f'name = "chat-yes-no"\n[params]\ntokenizer = "words"\n'
        f'chat = {{ name = "openai", params = {{ model = "gpt-4o", base_url = "{url}" }} }}\n'
    )
    result = rerank(world, world / "yes-no.toml", "--cache", world / "kept", "--depth", "25")
    assert result.exit_code == 0, result.output
    assert "account: 50 calls" in result.output
    assert set(read_run(world / "out.trec").ranking("q1")[:4]) == {"d21", "d22", "d23", "d24"}
    assert len(list((world / "kept").rglob("*.json"))) == 50


def test_rankers_that_need_no_training_are_given_by_name(world: Path) -> None:
    result = rerank(world, "embedding", "--set", "backbone=minilm", "--set", "reading=first", "--set", "tokens=8")
    assert result.exit_code == 0, result.output
    assert "cut: 50 documents" in result.output
    strict = rerank(world, "embedding", "--set", "backbone=minilm", "--set", "reading=first", "--strict")
    assert strict.exit_code == 0  # 477 tokens are read, and the documents have about 34


@pytest.mark.parametrize(
    ("ranker", "options", "says", "kind"),
    [
        ("rankgpt", (), "needs chat", SettingsError),
        ("rankgpt", ("--chat", "gpt-4o"), "'provider:model'", SettingsError),
        ("maxp", (), "has to be trained first", ModelError),
        ("rankgpt", ("--set", "windoww=3", "--chat", "openai:gpt-4o"), "Did you mean 'window'", SettingsError),
        ("embedding", ("--set", "backbone=minilm", "--budget", "5"), "that ask a chat model", SettingsError),
        ("minilm", ("--chat", "openai:gpt-4o"), "'minilm' is none", SettingsError),
        ("rankgpt", ("--chat", "openai:unknown-model", "--budget", "5"), "a budget needs a price", SettingsError),
        ("rankgpt", ("--chat", "openai:gpt-4o", "--device", "mps"), "for local models", SettingsError),
        ("none.toml", (), "no file none.toml", SettingsError),
    ],
)
def test_options_that_do_not_fit_the_ranker_are_refused(
    world: Path, ranker: str, options: tuple[str, ...], says: str, kind: type[Exception]
) -> None:
    error = rerank(world, ranker, *options, *(("--set", "tokenizer=words") if ranker == "rankgpt" else ())).exception
    assert isinstance(error, kind | MissingExtra), error
    assert says in str(error) or isinstance(error, MissingExtra)


def test_list_shows_the_rankers_that_need_no_training_too() -> None:
    shown = CliRunner().invoke(app, ["list", "rankers"], env={"COLUMNS": "250"}).output
    assert {"rankgpt", "chat-yes-no", "e5-4k", "embedding", "query-likelihood", "mono-t5"} <= {e.name for e in READY}
    assert not [entry.name for entry in READY if entry.name not in shown]
    assert "A chat model orders windows of documents" in shown


def test_a_name_a_spec_and_a_file_load_the_same_ranker(tmp_path: Path) -> None:
    import longrank

    params: dict[str, Any] = {"backbone": "minilm", "reading": "first", "tokens": 20}
    path = tmp_path / "first.toml"
    path.write_text('name = "embedding"\n[params]\nbackbone = "minilm"\nreading = "first"\ntokens = 20\n')
    texts = ["a bridge of steel", "a red boat", "filler " * 60]
    found = [longrank.load(given).rank("bridge", texts) for given in (longrank.Spec("embedding", params), path)]
    assert found[0] == found[1]
    assert found[0][0].text == "a bridge of steel"
