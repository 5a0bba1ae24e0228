"""Audits, probes and hardening of rankers that ask a paid chat model: price, account and budget."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from longrank.audit.card import read_card
from longrank.cli.main import app
from longrank.core.errors import BudgetSpent, SettingsError

pytestmark = pytest.mark.skipif(find_spec("openai") is None, reason="the extra 'llm' is not installed")

SMALL = ["--queries", "8", "--slots", "3", "--lengths", "192", "--distractors", "4"]
LISTS = 3 + 2 + 2 + 1  # of a query: one for each slot, alone and absent, two reversed, and one again
ASKED, AGAIN = 8 * LISTS, 8


@pytest.fixture
def ranker(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """RankGPT over a model whose every call costs a dollar; yes-no.toml is another ranker over it."""
    monkeypatch.chdir(tmp_path)
    prices = {"models": {"mine": {"per_million_in": 1000, "per_million_out": 0}}, "date": "today"}
    Path("prices.json").write_text(json.dumps(prices))
    chat = f'{{ name = "openai", params = {{ model = "mine", base_url = "{url}", prices = "prices.json" }} }}'
    for file, name in (("gpt.toml", "rankgpt"), ("yes-no.toml", "chat-yes-no")):
        Path(file).write_text(f'name = "{name}"\nparams = {{ tokenizer = "words", chat = {chat} }}\n')
    return "gpt.toml"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_price_is_said_before_and_the_account_after_and_only_what_must_be_asked_again_is_paid_twice(
    ranker: str, asked: list[str], tmp_path: Path, secret: str
) -> None:
    first = run("audit", ranker, *SMALL, "--listwise", "--out", "one", "--cache", "replies")
    assert first.exit_code == 1, first.output  # a model that leaves every list as it was cannot be audited
    assert re.search(rf"estimate: the whole audit takes at most about {ASKED} calls, .*prices of today", first.output)
    assert f"account: {ASKED} calls, {ASKED * 1000:,} tokens in, {ASKED * 10} out, ${ASKED}.0000" in first.output
    assert len(asked) == ASKED
    assert read_card(Path("one/card.json")).problems == {}
    second = run("audit", ranker, *SMALL, "--listwise", "--out", "two", "--cache", "replies")
    assert f"account: {AGAIN} calls" in second.output
    assert len(asked) == ASKED + AGAIN
    assert Path("one/card.json").read_bytes() == Path("two/card.json").read_bytes()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_text(errors="ignore")]


def test_the_price_is_said_without_a_key(ranker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    text = re.sub(r'base_url = "[^"]*", ', "", Path(ranker).read_text())
    Path(ranker).write_text(text)  # the provider's own address, which needs a key
    refused = run("audit", ranker, *SMALL, "--listwise")
    assert "set the environment variable OPENAI_API_KEY" in str(refused.exception)
    assert "estimate: the whole audit takes at most about" in refused.output


def test_a_spent_budget_stops_the_audit_and_a_larger_one_goes_on_where_it_was(ranker: str, asked: list[str]) -> None:
    stopped = run("audit", ranker, *SMALL, "--listwise", "--out", "one", "--budget", "$12")
    assert stopped.exit_code == 1, stopped.output
    assert read_card(Path("one/card.json")).outcome == "not auditable"
    before = len(asked)
    assert 0 < before <= 12
    done = run("audit", ranker, *SMALL, "--listwise", "--out", "one", "--budget", "$100")
    assert read_card(Path("one/card.json")).queries_answered == 8, done.output
    assert f"account of all runs: {len(asked)} calls" in done.output
    assert len(asked) <= ASKED + AGAIN  # only a list that was to be asked anew when the money ended is paid twice
    assert json.loads(Path("one/timings.json").read_text())["paid"]["calls"] == len(asked)


def test_a_budget_of_documents_holds_for_chat_models_too(ranker: str, asked: list[str]) -> None:
    stopped = run("audit", ranker, *SMALL, "--listwise", "--out", "one", "--budget", "100")
    assert stopped.exit_code == 1
    assert "the budget of 100 documents is used up" in stopped.output
    assert len(asked) == 2 * LISTS  # 8 lists of 5 documents a query


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--price", "3"), "paid by the token"),
        (("--cache", "prices.json"), "kept in a folder"),
        (("--budget", "$many"), "dollars such as '$5'"),
        (("--budget", "$inf"), "dollars such as '$5'"),
    ],
)
def test_options_that_do_not_fit_a_chat_model_are_refused_before_anything_is_asked(
    ranker: str, asked: list[str], options: tuple[str, ...], says: str
) -> None:
    refused = run("audit", ranker, *SMALL, "--listwise", *options)
    assert isinstance(refused.exception, SettingsError)
    assert says in str(refused.exception)
    assert not asked


def test_prices_are_refused_for_a_ranker_that_is_not_paid_by_the_token(ranker: str) -> None:
    refused = run("audit", "minilm", *SMALL, "--prices", "prices.json")
    assert "leave it out" in str(refused.exception)


@pytest.mark.usefixtures("ranker")
def test_a_probe_says_what_it_paid_and_stops_at_its_budget(asked: list[str]) -> None:
    done = run("probe", "yes-no.toml", "--longest", "128", "--queries", "1")
    assert done.exit_code == 0, done.output
    assert f"account: {len(asked)} calls" in done.output
    stopped = run("probe", "yes-no.toml", "--longest", "128", "--queries", "1", "--budget", "2.5")
    assert isinstance(stopped.exception, BudgetSpent)
    assert "account: " in stopped.output


@pytest.mark.usefixtures("ranker")
def test_hardening_that_runs_out_of_money_gives_no_advice_and_no_ranker() -> None:
    stopped = run("harden", "yes-no.toml", *SMALL, "--out", "hard", "--budget", "600")
    assert stopped.exit_code == 1, stopped.output
    assert "No advice can be given" in stopped.output
    assert not Path("hard/hardened.toml").exists()
