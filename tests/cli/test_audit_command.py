"""``longrank audit`` for real: on a folder's own texts, with a memory, on a budget, and with a chat model's order."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from longrank.audit.card import read_card
from longrank.cli.audit import allowed_documents, read_budget
from longrank.cli.main import app
from longrank.core.errors import ModelError, SettingsError
from longrank.core.types import Query
from longrank.corpora.catalog.folder import save_collection
from longrank.synthetic.toy import ToySettings, make_toy

MODULE = """
from longrank.audit.planted import Windowed, WordMatch
from longrank.core.types import Document, Query

bag = WordMatch.fitted(["the of a in is was who what when where " * 30, "plain words"])
seen = []

def whole(query, texts):
    seen.append(len(texts))
    return bag.score(Query("q", query), [Document("d", text) for text in texts]).values
"""
SMALL = ["--queries", "8", "--slots", "3", "--lengths", "192"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A working folder with a module of its own name, because Python keeps modules that were imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{request.node.name}.py").write_text(MODULE)
    return tmp_path


def audit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_a_folders_own_texts_are_audited_with_bm25_for_the_hard_passages(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    world = make_toy(ToySettings(train=0, dev=0, test=24))
    save_collection(world.toy, folder / "mine")
    done = audit(f"{request.node.name}:whole", "--data", folder / "mine", *SMALL, "--out", "out")
    assert done.exit_code == 0, done.output
    card = read_card(folder / "out/card.json")
    assert card.outcome == "robust"  # a bag of words does not care where its words stand
    assert card.design.data == world.toy.name
    assert card.queries_answered == 8
    facts = json.loads((folder / "out/timings.json").read_text())
    assert facts["texts"] == 8 * (3 + 2 + 20 + 1 + 1 + 2)
    assert facts["times_fewer_tokens"] > 2
    assert facts["seconds_per_1000_tokens"] >= 0
    assert "times fewer tokens" in " ".join(done.output.split())


def test_fewer_queries_than_asked_for_are_said_before_the_start(folder: Path, request: pytest.FixtureRequest) -> None:
    toy = make_toy(ToySettings(train=0, dev=0, test=12)).toy
    blank = {query_id: Query(query_id, "  ") for query_id in list(toy.queries)[:2]}
    save_collection(replace(toy, queries={**toy.queries, **blank}), folder / "mine")
    options = ["--queries", "500", "--slots", "3", "--lengths", "192", "--out", "out"]
    done = audit(f"{request.node.name}:whole", "--data", folder / "mine", *options)
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("10 queries (500 were asked for; left out: empty query: 2) x 29 documents")


def test_a_wrapped_ranker_is_called_by_its_ranker_and_wrapper(folder: Path, request: pytest.FixtureRequest) -> None:
    wrapper = 'wrapper = "chunk-max"\n\n[params]\nsize = 60\nstride = 30\n'
    (folder / "hardened.toml").write_text(f'ranker = "{request.node.name}:whole"\n{wrapper}')
    assert audit("hardened.toml", *SMALL).exit_code == 0
    card = read_card(folder / f"audits/{request.node.name}-whole-chunk-max/card.json")
    assert card.ranker == f"{request.node.name}:whole + chunk-max"


@pytest.mark.parametrize("command", ["audit", "harden"])
def test_a_misspelt_ranker_is_refused_before_the_data_is_read(command: str) -> None:
    refused = CliRunner().invoke(app, [command, "minlm", "--data", "nowhere"])
    assert isinstance(refused.exception, ModelError)
    assert "no ranker 'minlm'. Did you mean 'minilm'? Give a folder" in str(refused.exception)


def test_lengths_may_come_in_any_order_and_twice(folder: Path, request: pytest.FixtureRequest) -> None:
    options = ["--queries", "8", "--slots", "3", "--lengths", "256,192,256", "--out", "out"]
    assert audit(f"{request.node.name}:whole", *options).exit_code == 0
    assert read_card(folder / "out/card.json").design.lengths == (192, 256)
    refused = audit(f"{request.node.name}:whole", "--lengths", "0")
    assert str(refused.exception) == "--lengths takes 16 tokens or more, got '0'"


def test_a_memory_answers_a_second_audit_and_a_budget_stops_the_first(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    ranker = f"{request.node.name}:whole"
    stopped = audit(ranker, *SMALL, "--out", "one", "--cache", "scores.sqlite", "--budget", "$0.06", "--price", "1")
    assert stopped.exit_code == 1
    assert "the budget of 60 documents is used up" in stopped.output
    assert f"{ranker}: not finished. 2 of 8 queries were answered" in stopped.output
    assert read_card(folder / "one/card.json").queries_answered == 2  # 29 documents a query
    assert audit(ranker, *SMALL, "--out", "one", "--cache", "scores.sqlite").exit_code == 0
    again = audit(ranker, *SMALL, "--out", "two", "--cache", "scores.sqlite")
    assert again.exit_code == 0
    assert (folder / "one/card.json").read_bytes() == (folder / "two/card.json").read_bytes()
    assert json.loads((folder / "one/timings.json").read_text())["texts"] == 8 * 29
    assert json.loads((folder / "two/timings.json").read_text())["texts"] == 8 * 2  # the re-run alone is asked again


@pytest.mark.parametrize("budget", [["28"], ["$0.028", "--price", "1"]])
def test_a_budget_of_less_than_a_query_is_refused_before_anything_is_scored(folder: Path, budget: list[str]) -> None:
    (folder / "little.py").write_text(MODULE)
    refused = audit("little:whole", *SMALL, "--out", "out", "--budget", *budget)
    assert isinstance(refused.exception, SettingsError)
    assert "and one query takes 29" in str(refused.exception)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("budget", ["$inf", "$nan", "$-5", "$0", "$", "-1", "0", "inf", "many"])
def test_a_budget_that_can_be_none_is_refused_before_the_data_is_read(folder: Path, budget: str) -> None:
    (folder / "little.py").write_text(MODULE)
    refused = audit("little:whole", "--data", "nowhere", "--budget", budget, "--price", "1")
    assert isinstance(refused.exception, SettingsError)
    assert f"dollars such as '$5', more than 0, got {budget!r}" in str(refused.exception)


def test_a_budget_in_dollars_without_a_price_is_refused_before_the_data_is_read(folder: Path) -> None:
    (folder / "little.py").write_text(MODULE)
    refused = audit("little:whole", "--data", "nowhere", "--budget", "$5")
    assert "needs --price" in str(refused.exception)


@pytest.mark.parametrize(
    ("option", "number"),
    [("--price", "0"), ("--price", "inf"), ("--price", "-1"), ("--fail-if-lost", "nan"), ("--tolerance", "nan")],
)
def test_a_number_that_no_limit_can_be_is_refused(option: str, number: str) -> None:
    refused = audit("minilm", "--data", "nowhere", option, number)
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}'" in refused.stderr


def test_a_price_of_next_to_nothing_lets_all_be_scored() -> None:
    assert allowed_documents(read_budget("$5"), 1e-320, total=70) == 70


def test_what_a_killed_run_scored_does_not_look_saved(folder: Path, request: pytest.FixtureRequest) -> None:
    ranker = f"{request.node.name}:whole"
    assert audit(ranker, *SMALL, "--out", "whole").exit_code == 0
    audit(ranker, *SMALL, "--out", "out", "--budget", "180")
    (folder / "out/timings.json").unlink()  # as after a kill: six answers are there, what they took is not
    assert audit(ranker, *SMALL, "--out", "out").exit_code == 0
    whole, rest = (json.loads((folder / name / "timings.json").read_text()) for name in ("whole", "out"))
    assert rest["queries"] == 2
    assert rest["times_fewer_tokens"] == pytest.approx(whole["times_fewer_tokens"], rel=0.1)


def test_the_window_is_said_when_it_was_probed(folder: Path, request: pytest.FixtureRequest) -> None:
    done = audit(f"{request.node.name}:whole", *SMALL, "--out", "out", "--probe")
    assert done.exit_code == 0, done.output
    assert "Probing the window" in done.stderr
    assert "The ranker reads all of the longest text tried." in done.stdout


def test_a_probe_that_fails_leaves_the_finished_audit(folder: Path, request: pytest.FixtureRequest) -> None:
    with (folder / f"{request.node.name}.py").open("a") as module:
        module.write(
            "def short(query, texts):\n    assert len(texts[0].split()) < 2000\n    return whole(query, texts)\n"
        )
    done = audit(f"{request.node.name}:short", *SMALL, "--out", "out", "--probe")
    assert done.exit_code == 0, done.output
    assert "the window could not be probed: the ranker failed on a text of 8192 words" in " ".join(done.output.split())
    assert read_card(folder / "out/card.json").window is None


def test_answers_that_are_no_lists_are_counted_and_the_audit_goes_on(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    with (folder / f"{request.node.name}.py").open("a") as module:
        module.write(
            "def odd(query, texts):\n    found = whole(query, texts)\n    return found if seen[3:] else None\n"
        )
    done = audit(f"{request.node.name}:odd", *SMALL, "--out", "out")
    assert done.exit_code == 1
    card = read_card(folder / "out/card.json")
    assert card.outcome == "not auditable"  # never a verdict on missing data
    assert card.problems == {"the function returned a NoneType": 3}
    assert audit(f"{request.node.name}:odd", *SMALL, "--out", "out").exit_code == 0


def test_a_chat_models_order_is_audited_list_by_list(folder: Path) -> None:
    order = " > ".join(f"[{n}]" for n in range(1, 6))
    replies = json.dumps([order] * (8 * 8))  # 8 queries x (3 slots + alone + absent + 2 reversed + 1 re-run)
    chat = f'{{ name = "scripted", params = {{ replies = {replies} }} }}'
    (folder / "gpt.toml").write_text(f'name = "rankgpt"\nparams = {{ tokenizer = "words", chat = {chat} }}\n')
    done = audit("gpt.toml", *SMALL, "--distractors", "4")  # nobody has to say that it orders lists
    assert done.exit_code == 1, done.output
    card = read_card(folder / "audits/gpt.toml/card.json")
    assert card.outcome == "not auditable"  # it leaves every list as it was, evidence or not
    assert card.design.listwise
    assert card.problems == {}
    refused = audit("gpt.toml", *SMALL, "--listwise", "--cache", "scores.sqlite")
    assert isinstance(refused.exception, SettingsError)
