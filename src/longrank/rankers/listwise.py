"""A chat model that is shown several documents at once and puts them in order (RankGPT, Sun et al. 2023)."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from pydantic import Field, model_validator

from longrank.chat.messages import ChatModel, Message, Reply
from longrank.chat.patience import reply_all
from longrank.core.contracts import Tokenizer
from longrank.core.errors import SettingsError, TruncatedInput
from longrank.core.seeds import generator
from longrank.core.settings import Settings
from longrank.core.types import CharSpan, Document, GoldSpan, Query, Scores, TokenizedText
from longrank.rankers.permutation import Permutation, agreed_order, read_permutation
from longrank.rankers.ranking import Ranked, rank_texts

SYSTEM = "You order search results. You read every text to its end before you decide."
PROMPT = """\
Below are {count} texts, each with a number in square brackets. Put them in order of how well they serve this query:
{query}

{texts}

The query once more: {query}
Write all {count} numbers, the text that serves the query best first, in this form and without any other word:
[best] > [second] > [third]"""

_MARKER = re.compile(r"\[(\d+)\]")  # a text must not look as if it held other numbered texts
_MARGIN_PER_DOCUMENT = 8  # tokens of a number and the line breaks around a text
_REPLY_PER_DOCUMENT = 8

Seen = Literal["whole", "part", "none"]


class ListwiseSettings(Settings):
    """How documents are cut and shown.

    ``document_tokens`` is FirstP at the papers' 512; None is LongP. ``context_tokens`` is what the model takes in,
    prompt and reply; tokens are counted by the ranker's tokenizer, and ``margin`` of them is kept free because the
    model counts its own. Where long documents do not fit, fewer are shown at once; they are cut only where not even
    ``fewest`` would fit. ``passes`` above 1 asks about every window in that many orders and takes what they agree on
    (permutation self-consistency). ``reply_tokens`` is for models that think aloud: the default is room for the order.
    """

    window: int = Field(default=20, ge=2)
    step: int = Field(default=10, ge=1)
    document_tokens: int | None = Field(default=512, ge=1)
    context_tokens: int | None = Field(default=None, ge=1)
    margin: float = Field(default=0.1, ge=0, lt=1)
    fewest: int = Field(default=4, ge=2)
    reply_tokens: int | None = Field(default=None, ge=1)
    passes: int = Field(default=1, ge=1)
    seed: int = 0
    workers: int = Field(default=8, ge=1)
    strict: bool = False

    @model_validator(mode="after")
    def _overlapping(self) -> "ListwiseSettings":
        if self.step >= self.window:
            raise ValueError(f"windows of {self.window} that move by {self.step} do not overlap: use a smaller step")
        return self

    def longest_reply(self, count: int) -> int:
        """Tokens that the order of so many documents may take."""
        return self.reply_tokens or 20 + _REPLY_PER_DOCUMENT * count


@dataclass(frozen=True)
class Shown:
    """A document in a prompt: its tokens, how many of them were shown, and how much of the gold evidence they hold.

    ``gold`` is None where no evidence is marked for this query and document.
    """

    document_id: str
    tokens: int
    shown_tokens: int
    gold: Seen | None


@dataclass(frozen=True)
class ListwiseCall:
    """One prompt: where its window starts in the ranking, what it showed, in order, and what came back."""

    query_id: str
    start: int
    shown: tuple[Shown, ...]
    reply: Permutation
    cached: bool


@dataclass(frozen=True)
class _Prepared:
    """A document's text as prompts show it."""

    text: str
    shown: Shown


class ListwiseRanker:
    """Candidates in the order given, put into a better one by windows that move from the end to the top.

    Scores are n, n - 1, …, 1: strictly falling, and meaningful only within one call. Pass ``spans`` and ``record`` to
    learn for every prompt whether the evidence stood in it; ``visibility`` sums it up. Failures of the model are
    raised; with a cached chat model the work done is not lost.

    >>> from longrank.chat.scripted import ScriptedChat
    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> ranker = ListwiseRanker(ScriptedChat(["[2] > [1]"]), WordTokenizer())
    >>> [hit.text for hit in ranker.rank("green bridge", ["a red boat", "a green bridge"])]
    ['a green bridge', 'a red boat']
    """

    def __init__(
        self,
        chat: ChatModel,
        tokenizer: Tokenizer,
        settings: ListwiseSettings | None = None,
        *,
        spans: Iterable[GoldSpan] = (),
        record: Callable[[ListwiseCall], None] | None = None,
    ) -> None:
        self.chat = chat
        self.tokenizer = tokenizer
        self.settings = settings or ListwiseSettings()
        self._record = record
        self._gold: dict[tuple[str, str], list[GoldSpan]] = {}
        for span in spans:
            self._gold.setdefault((span.query_id, span.document_id), []).append(span)

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """Falling whole numbers in the model's order, with the count of what no prompt held."""
        prepared = self._prepare(query, documents)
        cut = [p.shown.tokens - p.shown.shown_tokens for p in prepared]
        if self.settings.strict and any(cut):
            raise TruncatedInput(
                f"{sum(c > 0 for c in cut)} of {len(documents)} documents are longer than this ranker shows "
                f"({sum(cut)} tokens would be cut): raise document_tokens or context_tokens, or set strict=False"
            )
        values = [0.0] * len(prepared)
        for place, i in enumerate(self._order(query, prepared)):
            values[i] = float(len(prepared) - place)
        return Scores(values, sum(c > 0 for c in cut), sum(cut))

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
        """The documents best first."""
        return rank_texts(self, query, documents, top_k=top_k)

    def watched(self, spans: Iterable[GoldSpan], record: Callable[[ListwiseCall], None]) -> "ListwiseRanker":
        """The same ranker that records its prompts and looks for this evidence in them."""
        return ListwiseRanker(self.chat, self.tokenizer, self.settings, spans=spans, record=record)

    def _order(self, query: Query, prepared: Sequence[_Prepared]) -> list[int]:
        """Document numbers best first; every window's order is applied in place before the next is asked about."""
        settings = self.settings
        order = list(range(len(prepared)))
        start = stop = len(order)
        while start > 0 and len(order) > 1:
            start = self._fitting(query, [prepared[i] for i in order], stop)
            held = order[start:stop]
            found = self._ordered(query, [prepared[i] for i in held], start)
            order[start:stop] = [held[i] for i in found]
            # the best of this window meet the next one: half of them at 20 and 10, in smaller windows the same share
            stop = start + max(1, (stop - start) * (settings.window - settings.step) // settings.window)
        return order

    def _fitting(self, query: Query, ranked: Sequence[_Prepared], stop: int) -> int:
        """Where the window that ends at ``stop`` starts: it holds ``window`` documents, or as many as fit."""
        start = max(0, stop - self.settings.window)
        sizes = [p.shown.shown_tokens + _MARGIN_PER_DOCUMENT for p in ranked]
        while stop - start > 2:
            room = self._room(query, stop - start)
            if room is None or sum(sizes[start:stop]) <= room:
                break
            start += 1
        return start

    def _prepare(self, query: Query, documents: Sequence[Document]) -> list[_Prepared]:
        limit = self.settings.document_tokens
        fewest = max(2, min(self.settings.fewest, self.settings.window, len(documents)))
        room = self._room(query, fewest)
        if room is not None:
            each = room // fewest - _MARGIN_PER_DOCUMENT
            if each < 1:
                raise SettingsError(
                    f"a context of {self.settings.context_tokens} tokens leaves no room for {fewest} documents beside "
                    f"query {query.id!r}: use a larger context, or smaller fewest, margin or reply_tokens"
                )
            limit = each if limit is None else min(limit, each)
        return [self._cut(query, document, limit) for document in documents]

    def _cut(self, query: Query, document: Document, limit: int | None) -> _Prepared:
        text = self.tokenizer.tokenize(document.text)
        shown = len(text) if limit is None else min(limit, len(text))
        end = len(document.text) if shown == len(text) else int(text.char_stops[shown - 1])
        seen = _seen([_chars(gold, text) for gold in self._gold.get((query.id, document.id), ())], end)
        numbered = _MARKER.sub(r"(\1)", document.text[:end])
        return _Prepared(numbered, Shown(document.id, len(text), shown, seen))

    def _room(self, query: Query, count: int) -> int | None:
        """Tokens left for texts in a prompt of so many documents; None where the model's limit is not known."""
        if self.settings.context_tokens is None:
            return None
        frame = len(self.tokenizer.tokenize(SYSTEM + PROMPT)) + 2 * len(self.tokenizer.tokenize(query.text))
        usable = int(self.settings.context_tokens * (1 - self.settings.margin))
        return usable - frame - self.settings.longest_reply(count)

    def _ordered(self, query: Query, held: Sequence[_Prepared], start: int) -> list[int]:
        orders = _orders(query, len(held), self.settings, start)
        prompts = [_prompt(query, [held[i] for i in order]) for order in orders]
        longest = self.settings.longest_reply(len(held))
        replies = reply_all(self.chat, prompts, max_tokens=longest, workers=self.settings.workers)
        found = []
        for order, reply in zip(orders, replies, strict=True):
            read = read_permutation(reply.text, len(held))
            self._note(query, start, [held[i].shown for i in order], read, reply)
            found.append([order[i] for i in read.order])
        return agreed_order(found)

    def _note(self, query: Query, start: int, shown: Sequence[Shown], read: Permutation, reply: Reply) -> None:
        if self._record is not None:
            self._record(ListwiseCall(query.id, start, tuple(shown), read, reply.cached))


def calls_needed(count: int, *, window: int = 20, step: int = 10) -> int:
    """Prompts for ``count`` candidates where windows fit the model: one up to the window's size, then one a step.

    >>> [calls_needed(n) for n in (1, 20, 21, 100, 137)]
    [0, 1, 2, 9, 13]
    """
    return 0 if count < 2 else ceil(max(0, count - window) / step) + 1


def _orders(query: Query, count: int, settings: ListwiseSettings, start: int) -> list[list[int]]:
    """The orders in which a window is shown: as it stands, then shuffled."""
    rng = generator(f"listwise/{query.id}/{start}", settings.seed)
    return [list(range(count)), *(rng.permutation(count).tolist() for _ in range(settings.passes - 1))]


def _prompt(query: Query, held: Sequence[_Prepared]) -> list[Message]:
    texts = "\n\n".join(f"[{number}] {p.text}" for number, p in enumerate(held, start=1))
    asked = PROMPT.format(count=len(held), query=_MARKER.sub(r"(\1)", query.text), texts=texts)
    return [Message("system", SYSTEM), Message("user", asked)]


def _chars(gold: GoldSpan, text: TokenizedText) -> CharSpan:
    return gold.span if isinstance(gold.span, CharSpan) else text.chars(gold.span)


def _seen(spans: Sequence[CharSpan], end: int) -> Seen | None:
    if not spans:
        return None
    if any(span.stop <= end for span in spans):
        return "whole"
    return "part" if any(span.start < end for span in spans) else "none"


@dataclass(frozen=True)
class Visibility:
    """How often marked evidence stood in the prompts of a run, by prompt and by query-document pair.

    A pair counts by the best that any prompt showed of it. ``unread`` are replies that were no complete order.
    """

    calls: int
    unread: int
    in_prompts: dict[Seen, int]
    of_pairs: dict[Seen, int]

    @property
    def share(self) -> float | None:
        """Share of the marked pairs whose evidence was shown whole; None where nothing is marked."""
        pairs = sum(self.of_pairs.values())
        return self.of_pairs["whole"] / pairs if pairs else None

    def __str__(self) -> str:
        if self.share is None:
            return f"{self.calls} prompts; no evidence is marked for their documents"
        return (
            f"evidence shown whole for {self.of_pairs['whole']} of {sum(self.of_pairs.values())} pairs, in part for "
            f"{self.of_pairs['part']}, not for {self.of_pairs['none']}; {self.calls} prompts, {self.unread} replies "
            f"were no complete order"
        )


def visibility(calls: Iterable[ListwiseCall]) -> Visibility:
    """What the recorded prompts of a run showed of the evidence: a ranker cannot find what it was not shown."""
    best: dict[tuple[str, str], Seen] = {}
    prompts: dict[Seen, int] = {"whole": 0, "part": 0, "none": 0}
    rank: dict[Seen, int] = {"none": 0, "part": 1, "whole": 2}
    count = unread = 0
    for call in calls:
        count += 1
        unread += not call.reply.complete
        for shown in call.shown:
            if shown.gold is not None:
                prompts[shown.gold] += 1
                key = (call.query_id, shown.document_id)
                best[key] = max(best.get(key, shown.gold), shown.gold, key=rank.__getitem__)
    pairs: dict[Seen, int] = {seen: sum(found == seen for found in best.values()) for seen in prompts}
    return Visibility(count, unread, prompts, pairs)
