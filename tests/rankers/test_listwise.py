"""Windows, replies of every kind, and what prompts showed."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrank.chat.cache import CachedChat
from longrank.chat.cost import MeteredChat, Price, Rehearsal
from longrank.chat.messages import Message
from longrank.chat.scripted import ScriptedChat
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import BudgetSpent, ChatError, SettingsError, SpanOutsideDocument, TruncatedInput
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, Run, TokenSpan
from longrank.evaluation.measures import evaluate
from longrank.rankers.listwise import ListwiseCall, ListwiseRanker, ListwiseSettings, calls_needed, visibility
from longrank.rankers.permutation import agreed_order, read_permutation
from longrank.rankers.rerank import rerank

WORDS = WordTokenizer()
QUERY = Query("q", "which one is best")
_TEXT = re.compile(r"^\[(\d+)\] merit (\d+)", re.MULTILINE)


def documents(count: int, tail: str = "") -> list[Document]:
    """Documents whose merit is their number: the first given is the worst."""
    return [Document(f"d{i:03}", f"merit {i} {tail}") for i in range(count)]


def knowing(messages: Sequence[Message]) -> str:
    """The right order of the texts in a prompt."""
    found = _TEXT.findall(messages[-1].text)
    return " > ".join(f"[{number}]" for number, _ in sorted(found, key=lambda f: -int(f[1])))


@pytest.mark.parametrize("count", [2, 5, 20, 21, 100, 137])
def test_a_model_that_knows_the_order_gives_perfect_rr_in_the_promised_number_of_calls(count: int) -> None:
    chat = ScriptedChat(knowing)
    shelf = {document.id: document for document in documents(count)}
    best = f"d{count - 1:03}"
    collection = Collection("c", shelf, {"q": QUERY}, Qrels({"q": {best: 1}}))
    # the worst possible start: the best document is the last candidate
    candidates = Run("start", {"q": {document_id: float(-i) for i, document_id in enumerate(shelf)}})
    run = rerank(ListwiseRanker(chat, WORDS), candidates, collection, depth=count)
    assert evaluate(run, collection.qrels, ["RR"])["RR"]["q"] == 1.0
    # the ten best rise together: each window hands ten on
    assert run.ranking("q")[:10] == sorted(shelf, reverse=True)[:10]
    assert len(chat.asked) == calls_needed(count)


def test_the_number_of_calls_is_the_closed_formula() -> None:
    # 1 up to 20; 21: ceil(1 / 10) + 1; 100: ceil(80 / 10) + 1; 137: ceil(117 / 10) + 1
    assert [calls_needed(n) for n in (2, 20, 21, 30, 31, 100, 137)] == [1, 1, 2, 2, 3, 9, 13]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_is_asked_where_there_is_nothing_to_order(count: int) -> None:
    chat = ScriptedChat([])
    assert len(ListwiseRanker(chat, WORDS).score(QUERY, documents(count)).values) == count
    assert not chat.asked


def drops(messages: Sequence[Message]) -> str:
    return " > ".join(knowing(messages).split(" > ")[::3])


def repeats(messages: Sequence[Message]) -> str:
    return knowing(messages) + " > [1] > [1] > [2]"


def strays(messages: Sequence[Message]) -> str:
    return "[0] > [99] > [1234] > " + knowing(messages)


def chats(messages: Sequence[Message]) -> str:
    return f"Of the 20 texts, text [1] is weak. My order:\n**{knowing(messages)}**\nI hope these 3 hints help!"


def empty(messages: Sequence[Message]) -> str:
    return ""


def refuses(messages: Sequence[Message]) -> str:
    return "I cannot rank these."


@pytest.mark.parametrize("script", [drops, repeats, strays, chats, empty, refuses])
@pytest.mark.parametrize("count", [3, 21, 45])
def test_no_reply_loses_or_repeats_a_document(script: Callable[[Sequence[Message]], str], count: int) -> None:
    scores = ListwiseRanker(ScriptedChat(script), WORDS).score(QUERY, documents(count)).values
    assert sorted(scores) == [float(i) for i in range(1, count + 1)]


@given(st.text(alphabet="[](){}<>0123456789, =>\nab", max_size=200), st.integers(1, 30))
def test_whatever_the_reply_the_order_is_a_permutation(reply: str, count: int) -> None:
    found = read_permutation(reply, count)
    assert sorted(found.order) == list(range(count))
    assert 0 <= found.missing <= count


@pytest.mark.parametrize(
    ("reply", "order"),
    [
        ("[3] > [1] > [2]", (2, 0, 1)),
        ("3 > 1 > 2", (2, 0, 1)),
        ("(3) > (1) > (2)", (2, 0, 1)),
        ("{3}, {1}, {2}", (2, 0, 1)),
        ("【3】>【1】>【2】", (2, 0, 1)),
        ("[3 > [1 > 2]", (2, 0, 1)),
        ("1. [3]\n2. [1]\n3. [2]", (2, 0, 1)),
        ("3, 1, 2", (2, 0, 1)),
        ("3\n1\n2", (2, 0, 1)),
        ("[3] >= [1] = [2]", (2, 0, 1)),
        ("[1] tells of ice, [2] of paint. So: [3] > [1] > [2]. There were 3.", (2, 0, 1)),
        ("First guess [1] > [2] > [3]; better [3] > [1] > [2]", (2, 0, 1)),
        ("<think>[1] > [2] > [3]</think> [3] > [1] > [2]", (2, 0, 1)),
        ("<think>so [3] > [2] and then", (0, 1, 2)),
        ("[3] > [3] > [7]", (2, 0, 1)),
        ("9" * 5000, (0, 1, 2)),
    ],
)
def test_orders_are_read_out_of_all_sorts_of_replies(reply: str, order: tuple[int, ...]) -> None:
    assert read_permutation(reply, 3).order == order


def test_what_was_wrong_with_a_reply_is_counted() -> None:
    found = read_permutation("[2] > [2] > [9] > [0]", 4)
    assert (found.missing, found.repeated, found.out_of_range, found.complete) == (3, 1, 2, False)
    assert read_permutation("[2] > [1]", 2).complete


def test_numbers_in_brackets_inside_a_text_are_not_taken_for_documents() -> None:
    chat = ScriptedChat(knowing)
    ListwiseRanker(chat, WORDS).score(QUERY, [Document("a", "merit 1 see [7]"), Document("b", "merit 2")])
    assert "see (7)" in chat.asked[0][-1].text and "[7]" not in chat.asked[0][-1].text


def test_firstp_shows_the_first_tokens_and_counts_the_rest() -> None:
    chat = ScriptedChat(knowing)
    settings = ListwiseSettings(document_tokens=4)
    long = [Document("a", "merit 1 two three CUT off"), Document("b", "merit 2")]
    scores = ListwiseRanker(chat, WORDS, settings).score(QUERY, long)
    assert (scores.cut_documents, scores.cut_tokens) == (1, 2)
    assert "three" in chat.asked[0][-1].text and "CUT" not in chat.asked[0][-1].text


def test_longp_cuts_nothing() -> None:
    chat = ScriptedChat(knowing)
    settings = ListwiseSettings(document_tokens=None)
    scores = ListwiseRanker(chat, WORDS, settings).score(QUERY, documents(3, "word " * 5000 + "LAST"))
    assert scores.cut_tokens == 0
    assert chat.asked[0][-1].text.count("LAST") == 3


def test_strict_refuses_to_cut() -> None:
    ranker = ListwiseRanker(ScriptedChat(knowing), WORDS, ListwiseSettings(document_tokens=4, strict=True))
    with pytest.raises(TruncatedInput, match="document_tokens"):
        ranker.score(QUERY, documents(3, "too long by far"))


@pytest.mark.parametrize("context", [600, 1500, 4000, 16_000])
def test_no_prompt_passes_the_models_limit_and_the_best_still_wins(context: int) -> None:
    chat = ScriptedChat(knowing)
    mixed = [Document(f"d{i:02}", f"merit {i} " + "word " * (40 * (i % 9))) for i in range(45)]
    settings = ListwiseSettings(document_tokens=None, context_tokens=context)
    scores = ListwiseRanker(chat, WORDS, settings).score(QUERY, mixed)
    for messages in chat.asked:
        shown = messages[-1].text.count("merit")
        prompt = sum(len(WORDS.tokenize(message.text)) for message in messages)
        assert prompt + settings.longest_reply(shown) <= context
    assert scores.values.index(max(scores.values)) == 44
    assert len(chat.asked) >= calls_needed(45)
    # the longest text has 2 + 320 words, and four of them fit 1,500 tokens with room for frame and reply
    assert (scores.cut_documents == 0) == (context > 1500)


def test_a_large_context_leaves_the_windows_alone() -> None:
    chat = ScriptedChat(knowing)
    settings = ListwiseSettings(context_tokens=128_000)
    ListwiseRanker(chat, WORDS, settings).score(QUERY, documents(100))
    assert len(chat.asked) == 9


def test_a_context_too_small_for_anything_is_refused() -> None:
    ranker = ListwiseRanker(ScriptedChat(knowing), WORDS, ListwiseSettings(context_tokens=100))
    with pytest.raises(SettingsError, match="larger context"):
        ranker.score(QUERY, documents(3))


def test_one_window_can_hold_all() -> None:
    chat = ScriptedChat(knowing)
    scores = ListwiseRanker(chat, WORDS, ListwiseSettings(window=50)).score(QUERY, documents(45))
    assert len(chat.asked) == 1
    assert scores.values == [float(i) for i in range(1, 46)]


def first_come(messages: Sequence[Message]) -> str:
    """A model with a position bias and nothing else: it keeps the order it is shown, but knows the best one."""
    found = _TEXT.findall(messages[-1].text)
    best = max(found, key=lambda f: int(f[1]))[0]
    return " > ".join([f"[{best}]", *(f"[{number}]" for number, _ in found if number != best)])


def test_several_passes_show_other_orders_and_multiply_the_calls() -> None:
    chat = ScriptedChat(first_come)
    settings = ListwiseSettings(passes=5, workers=1)
    scores = ListwiseRanker(chat, WORDS, settings).score(QUERY, documents(30))
    assert len(chat.asked) == 5 * calls_needed(30)
    assert scores.values[29] == 30.0
    assert len({messages[-1].text for messages in chat.asked[:5]}) == 5
    again = ListwiseRanker(ScriptedChat(first_come), WORDS, settings.model_copy(update={"workers": 4}))
    assert again.score(QUERY, documents(30)).values == scores.values


def test_agreement_goes_by_mean_rank_and_then_by_majorities_of_neighbours() -> None:
    # mean ranks: a 4/3, b 4/3, c 4/3 places 0-based: a (0, 2, 2), b (1, 0, 1), c (2, 1, 0): totals 4, 2, 3
    assert agreed_order([[0, 1, 2], [1, 2, 0], [2, 1, 0]]) == [1, 2, 0]
    # totals: 0 -> 0+0+4 = 4, 1 -> 1+1+0 = 2: mean rank puts 1 first, but two of three orders have 0 before 1
    assert agreed_order([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]) == [0, 1, 2, 3, 4]


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.permutations(range(n)), min_size=1, max_size=5)))
def test_agreement_is_a_permutation_without_a_pair_of_neighbours_most_would_swap(orders: list[list[int]]) -> None:
    agreed = agreed_order(orders)
    assert sorted(agreed) == sorted(orders[0])
    for before, after in pairwise(agreed):
        against = sum(order.index(after) < order.index(before) for order in orders)
        assert 2 * against <= len(orders)


def test_windows_that_do_not_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        ListwiseSettings(window=10, step=10)


def test_the_second_run_asks_nothing(tmp_path: Path) -> None:
    chat = ScriptedChat(knowing)
    for _ in range(2):
        cached = CachedChat(chat, tmp_path, model="m")
        ListwiseRanker(cached, WORDS).score(QUERY, documents(45))
    assert len(chat.asked) == calls_needed(45)


def test_a_killed_job_goes_on_without_paying_twice(tmp_path: Path) -> None:
    asked: list[str] = []

    def dies_at_the_third(messages: Sequence[Message]) -> str:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(messages[-1].text)
        return knowing(messages)

    def lives(messages: Sequence[Message]) -> str:
        asked.append(messages[-1].text)
        return knowing(messages)

    with pytest.raises(KeyboardInterrupt):
        ListwiseRanker(CachedChat(ScriptedChat(dies_at_the_third), tmp_path, model="m"), WORDS).score(
            QUERY, documents(45)
        )
    ListwiseRanker(CachedChat(ScriptedChat(lives), tmp_path, model="m"), WORDS).score(QUERY, documents(45))
    assert len(asked) == len(set(asked)) == calls_needed(45)


def test_a_failing_model_is_not_taken_for_an_opinion() -> None:
    with pytest.raises(ChatError, match="out of order"):
        ListwiseRanker(ScriptedChat([ChatError("out of order")]), WORDS).score(QUERY, documents(3))


def test_a_spent_budget_stops_the_job() -> None:
    meter = MeteredChat(ScriptedChat(knowing), price=Price(per_million_in=1e6, per_million_out=0), budget=500)
    with pytest.raises(BudgetSpent):
        ListwiseRanker(meter, WORDS).score(QUERY, documents(45))
    assert 1 <= meter.account.calls < calls_needed(45)
    assert 0 < (meter.account.dollars or 0) <= 500


def test_a_rehearsal_makes_the_same_number_of_calls_and_bounds_the_price() -> None:
    price = Price(per_million_in=1, per_million_out=1)
    rehearsal, meter = Rehearsal(price), MeteredChat(ScriptedChat(knowing), price=price)
    for chat in (rehearsal, meter):
        ListwiseRanker(chat, WORDS).score(QUERY, documents(100))
    assert rehearsal.account.calls == meter.account.calls == 9
    assert (meter.account.dollars or 0) <= (rehearsal.account.dollars or 0)


GOLD = [
    GoldSpan("q", "d000", CharSpan(0, 7), "hand"),  # "merit 0": inside any cut
    GoldSpan("q", "d001", CharSpan(8, 24), "hand"),  # from the third word to the sixth
    GoldSpan("q", "d002", TokenSpan(5, 7, "words-v1"), "hand"),  # behind the cut
]


def test_a_run_tells_whether_the_evidence_reached_the_prompts() -> None:
    calls: list[ListwiseCall] = []
    settings = ListwiseSettings(document_tokens=4)
    ranker = ListwiseRanker(ScriptedChat(knowing), WORDS, settings, spans=GOLD, record=calls.append)
    ranker.score(QUERY, documents(4, "alpha beta gamma delta epsilon"))
    (call,) = calls
    assert [shown.gold for shown in call.shown] == ["whole", "part", "none", None]
    assert [(shown.tokens, shown.shown_tokens) for shown in call.shown] == [(7, 4)] * 4
    found = visibility(calls)
    assert found.of_pairs == found.in_prompts == {"whole": 1, "part": 1, "none": 1}
    assert found.share == pytest.approx(1 / 3)
    assert "whole for 1 of 3 pairs" in str(found)


def test_longp_shows_the_evidence_that_firstp_hides() -> None:
    calls: list[ListwiseCall] = []
    settings = ListwiseSettings(document_tokens=None)
    ranker = ListwiseRanker(ScriptedChat(knowing), WORDS, settings, spans=GOLD, record=calls.append)
    ranker.score(QUERY, documents(45, "alpha beta gamma delta epsilon"))
    found = visibility(calls)
    assert found.share == 1.0
    assert found.in_prompts["whole"] >= found.of_pairs["whole"] == 3
    assert (found.calls, found.unread) == (calls_needed(45), 0)


def test_nothing_marked_means_no_share() -> None:
    assert visibility([]).share is None


def test_evidence_counted_with_another_tokenizer_is_refused() -> None:
    spans = [GoldSpan("q", "d000", TokenSpan(0, 1, "bert-uncased"), "hand")]
    with pytest.raises(SpanOutsideDocument, match="another tokenizer"):
        ListwiseRanker(ScriptedChat(knowing), WORDS, spans=spans).score(QUERY, documents(2))
