"""Prices, budgets, rehearsals, patience and the cache, without a network."""

import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from longrank.chat.cache import CachedChat
from longrank.chat.cost import SHIPPED_PRICES, Account, MeteredChat, Price, Rehearsal, load_prices
from longrank.chat.messages import ChatModel, Message, Reply
from longrank.chat.patience import Patience, PatientChat, reply_all
from longrank.chat.scripted import ScriptedChat
from longrank.core.errors import BudgetSpent, ChatBusy, ChatError, SettingsError

ASK = [Message("user", "What colour is the bridge?")]
DOLLAR_A_TOKEN = Price(per_million_in=1e6, per_million_out=1e6)


def test_dated_names_have_the_price_of_their_model() -> None:
    prices = load_prices()
    for name in ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"):
        assert prices.find(name) == Price(per_million_in=0.15, per_million_out=0.60)
    assert prices.find("claude-3-haiku-20240307") == prices.models["claude-3-haiku"]
    assert prices.find("gpt-4o-mini-of-mine") is None


def test_the_models_of_the_papers_have_prices() -> None:
    # gpt-4o-mini and claude-3-haiku rank, gpt-4o is the papers' check with a stronger model
    assert {"gpt-4o-mini", "claude-3-haiku", "gpt-4o"} <= set(json.loads(SHIPPED_PRICES.read_text())["models"])


def test_the_shipped_prices_say_of_when_they_are_and_that_they_must_be_checked(tmp_path: Path) -> None:
    shipped = load_prices()
    assert re.fullmatch(r"20\d\d-\d\d", shipped.date)
    assert "you must check them" in shipped.note
    (tmp_path / "own.json").write_text('{"models": {}, "date": "2026-01"}')
    assert load_prices(tmp_path / "own.json").date == "2026-01"


def test_an_own_price_file_goes_before_the_shipped_one(tmp_path: Path) -> None:
    own = tmp_path / "prices.json"
    own.write_text('{"models": {"gpt-4o": {"per_million_in": 1, "per_million_out": 2}}}')
    prices = load_prices(own)
    assert prices.find("gpt-4o") == Price(per_million_in=1, per_million_out=2)
    assert prices.find("gpt-4o-mini") is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "JSON"), ("[]", "object"), ('{"models": {"m": {"per_million_in": -1, "per_million_out": 0}}}', "models.m")],
)
def test_a_bad_price_file_is_named_with_its_fault(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=reason):
        load_prices(path)
    with pytest.raises(SettingsError, match="no price file"):
        load_prices(tmp_path / "absent.json")


def test_accounts_add_up_and_an_unknown_price_stays_unknown() -> None:
    assert Account(1, 10, 2, 0.5) + Account(2, 5, 1, 0.25) == Account(3, 15, 3, 0.75)
    assert (Account(1, 10, 2, None) + Account(dollars=1.0)).dollars is None
    assert str(Account(1200, 10, 2, None)) == "1,200 calls, 10 tokens in, 2 out, price unknown"


def test_calls_are_counted_with_the_tokens_of_the_reply() -> None:
    meter = MeteredChat(ScriptedChat(["it is green"] * 2), price=DOLLAR_A_TOKEN)
    for _ in range(2):
        meter.reply(ASK, max_tokens=10)
    assert meter.account == Account(2, 10, 6, 16.0)  # five words in and three out a call


@pytest.mark.parametrize("tokens_out", [0, 5])
def test_a_reply_that_does_not_tell_its_tokens_is_charged_with_the_most_it_may_cost(tokens_out: int) -> None:
    class Silent:
        def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
            return Reply("green", 0, tokens_out)

    meter = MeteredChat(Silent(), price=DOLLAR_A_TOKEN, budget=50)  # at most 17 tokens in and 3 out a call
    for _ in range(2):
        meter.reply(ASK, max_tokens=3)
    assert meter.account == Account(2, 34, 6, 40.0)
    with pytest.raises(BudgetSpent):
        meter.reply(ASK, max_tokens=3)


def test_a_call_that_failed_costs_nothing_and_frees_its_share() -> None:
    # the prompt is bounded by ceil(26 / 3) + 8 = 17 tokens, a reply of 3: $20
    meter = MeteredChat(ScriptedChat([ChatError("no"), "green"]), price=DOLLAR_A_TOKEN, budget=20)
    with pytest.raises(ChatError):
        meter.reply(ASK, max_tokens=3)
    assert meter.reply(ASK, max_tokens=3).text == "green"
    assert meter.account.calls == 1


def test_the_budget_is_never_passed_by_calls_under_way() -> None:
    started = threading.Event()
    go = threading.Event()

    class Waiting:
        def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
            started.set()
            go.wait(5)
            return Reply("green", 10, 1)

    meter = MeteredChat(Waiting(), price=DOLLAR_A_TOKEN, budget=30)  # one call of at most $20, not two
    first = threading.Thread(target=meter.reply, args=(ASK,), kwargs={"max_tokens": 3})
    first.start()
    assert started.wait(5)
    with pytest.raises(BudgetSpent, match="under way"):
        meter.reply(ASK, max_tokens=3)
    go.set()
    first.join(5)
    assert meter.account.dollars == 11.0


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_is_money(budget: float) -> None:
    with pytest.raises(SettingsError, match="more than 0"):
        MeteredChat(ScriptedChat([]), price=DOLLAR_A_TOKEN, budget=budget)


def test_a_budget_without_a_price_is_refused() -> None:
    with pytest.raises(SettingsError, match="price"):
        MeteredChat(ScriptedChat([]), budget=1.0)


def test_a_rehearsal_writes_nothing_into_the_cache(tmp_path: Path) -> None:
    inner = ScriptedChat(["green"])
    cache = CachedChat(inner, tmp_path, model="m")
    rehearsal = Rehearsal(DOLLAR_A_TOKEN, known=cache)
    assert rehearsal.reply(ASK, max_tokens=3).text == ""
    assert rehearsal.account == Account(1, 17, 3, 20.0)
    assert not inner.asked and not list(tmp_path.iterdir())


def test_pauses_double_and_what_the_server_asks_for_is_kept() -> None:
    pauses: list[float] = []
    busy = [ChatBusy("later"), ChatBusy("later", retry_after=9.0), ChatBusy("later")]
    patience = Patience(attempts=4, first_wait_seconds=2.0, longest_wait_seconds=60.0)
    chat = PatientChat(ScriptedChat([*busy, "green"]), patience, sleep=pauses.append, spread=lambda: 1.0)
    assert chat.reply(ASK, max_tokens=3).text == "green"
    assert pauses == [2.0, 9.0, 8.0]  # 2, then 9 instead of 4, then 8


def test_pauses_are_spread_and_bounded() -> None:
    patience = Patience(first_wait_seconds=1.0, longest_wait_seconds=10.0)
    assert patience.wait_seconds(2, asked_for=None, spread=0.0) == 1.0  # half of 2
    assert patience.wait_seconds(30, asked_for=None, spread=1.0) == 10.0
    assert patience.wait_seconds(30, asked_for=500.0, spread=1.0) == 500.0  # not ours to shorten


def test_a_server_that_asks_for_a_very_long_wait_is_given_up_and_not_asked_too_early() -> None:
    pauses: list[float] = []
    inner = ScriptedChat([ChatBusy("rate limit", retry_after=300), ChatBusy("rate limit", retry_after=7200), "green"])
    with pytest.raises(ChatError, match="rate limit; it asks to be left alone for 7,200 seconds"):
        PatientChat(inner, sleep=pauses.append, spread=lambda: 1.0).reply(ASK, max_tokens=3)
    assert (pauses, len(inner.asked)) == ([300.0], 2)


def test_patience_ends_with_the_reason_and_the_count() -> None:
    chat = PatientChat(
        ScriptedChat([ChatBusy("rate limit")] * 3), Patience(attempts=3), sleep=lambda seconds: None, spread=lambda: 0.0
    )
    with pytest.raises(ChatError, match="rate limit; asked 3 times"):
        chat.reply(ASK, max_tokens=3)


def test_other_failures_are_not_repeated() -> None:
    inner = ScriptedChat([ChatError("refused"), "green"])
    with pytest.raises(ChatError, match="refused"):
        PatientChat(inner, sleep=lambda seconds: None).reply(ASK, max_tokens=3)
    assert len(inner.asked) == 1


def test_replies_come_in_the_order_of_the_questions() -> None:
    chat: ChatModel = ScriptedChat(lambda messages: messages[0].text.upper())
    asked = [[Message("user", f"question {i}")] for i in range(30)]
    assert [reply.text for reply in reply_all(chat, asked, max_tokens=5)] == [f"QUESTION {i}" for i in range(30)]


def test_the_first_failure_stops_what_has_not_begun() -> None:
    def fails_at_two(messages: Sequence[Message]) -> str:
        if messages[0].text == "2":
            raise BudgetSpent("enough")
        return "ok"

    chat = ScriptedChat(fails_at_two)
    with pytest.raises(BudgetSpent):
        reply_all(chat, [[Message("user", str(i))] for i in range(2000)], max_tokens=5, workers=2)
    assert len(chat.asked) < 2000


def test_a_question_asked_by_many_at_once_is_paid_once(tmp_path: Path) -> None:
    release = threading.Event()

    def slowly(messages: Sequence[Message]) -> str:
        release.wait(0.2)
        return "green"

    inner = ScriptedChat(slowly)
    chat = CachedChat(inner, tmp_path, model="m")
    replies = reply_all(chat, [ASK] * 8, max_tokens=3, workers=8)
    assert {reply.text for reply in replies} == {"green"}
    assert len(inner.asked) == 1
    assert sum(not reply.cached for reply in replies) == 1


@pytest.mark.parametrize("change", ["model", "parameters", "messages", "max_tokens"])
def test_any_change_is_another_question(tmp_path: Path, change: str) -> None:
    inner = ScriptedChat(["one", "two"])
    CachedChat(inner, tmp_path, model="m", parameters={"t": 0}).reply(ASK, max_tokens=3)
    other = CachedChat(
        inner,
        tmp_path,
        model="n" if change == "model" else "m",
        parameters={"t": 1 if change == "parameters" else 0},
    )
    asked = [Message("system", ASK[0].text)] if change == "messages" else ASK
    assert other.reply(asked, max_tokens=4 if change == "max_tokens" else 3).text == "two"


def test_a_damaged_reply_on_disk_is_asked_for_again(tmp_path: Path) -> None:
    inner = ScriptedChat(["one", "two"])
    chat = CachedChat(inner, tmp_path, model="m")
    chat.reply(ASK, max_tokens=3)
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text(kept.read_text()[:10])
    assert chat.reply(ASK, max_tokens=3).text == "two"
    assert chat.reply(ASK, max_tokens=3).cached


def test_log_probabilities_survive_the_cache(tmp_path: Path) -> None:
    class Sure:
        def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
            return Reply("yes", 1, 1, {"yes": -0.25})

    chat = CachedChat(Sure(), tmp_path, model="m")
    assert [chat.reply(ASK, max_tokens=1).logprobs for _ in range(2)] == [{"yes": -0.25}] * 2
