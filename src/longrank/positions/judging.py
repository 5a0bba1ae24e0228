"""Documents judged piece by piece by a chat model, with what it cost and what it could not answer."""

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np

from longrank.chat.messages import ChatModel, Message, Reply
from longrank.core.contracts import Tokenizer
from longrank.core.errors import ChatError, SettingsError
from longrank.core.fingerprint import fingerprint
from longrank.core.settings import Settings
from longrank.core.types import CharSpan, Document, Query, SplitText, TokenizedText, TokenSpan
from longrank.positions.estimators import Located
from longrank.positions.records import PairRecord

GRADES: Final = (0, 1, 2, 3)
THRESHOLDS: Final = (1, 2, 3)
METHOD = "judged"

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])|\n\s*\n")
_FINAL_SCORE = re.compile(r"final\s+score\W{0,12}(\d+)", re.IGNORECASE)
_BARE = re.compile(r"\W*(\d)\W*")

PROMPT: Final = """\
You grade how well one piece of a document serves one search query. Use this scale:
0: the piece has nothing to do with the query.
1: the piece is about the query's subject but does not answer it.
2: the piece holds an answer to the query, but unclear, partial, or mixed with other matters.
3: the piece is devoted to the query and holds its exact answer.

Proceed in three steps, silently. First decide what the person who typed the query most likely wants. Then grade how
well the content of the piece matches that intent (M). Then grade how far the piece can be trusted (T). Weigh both
into one grade, O, from 0 to 3. Judge only what stands in the piece.

Query: {query}
Piece: {piece}

Give no explanation. Answer with this line only:
##final score: O"""


class JudgeSettings(Settings):
    """Size of the pieces, how many are judged at most, and the longest reply."""

    chunk_tokens: int = 256
    max_chunks: int = 36
    reply_tokens: int = 100


@dataclass(frozen=True, slots=True)
class JudgedChunk:
    """One piece and its grade; None where the reply could not be read, with the problem."""

    chars: CharSpan
    tokens: TokenSpan
    grade: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class JudgeTally:
    """What judging took: pieces, those without a grade, calls that were not read from disk, and tokens."""

    chunks: int = 0
    unreadable: int = 0
    failed: int = 0
    asked: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: "JudgeTally") -> "JudgeTally":
        return JudgeTally(
            self.chunks + other.chunks,
            self.unreadable + other.unreadable,
            self.failed + other.failed,
            self.asked + other.asked,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
        )

    def cost(self, *, per_million_in: float, per_million_out: float) -> float:
        """Price of the tokens.

        >>> JudgeTally(tokens_in=2_000_000, tokens_out=10_000).cost(per_million_in=0.15, per_million_out=0.60)
        0.306
        """
        return (self.tokens_in * per_million_in + self.tokens_out * per_million_out) / 1e6


class Graded(NamedTuple):
    """A grade or the problem that left it out, and what asking took."""

    grade: int | None
    problem: str
    tally: JudgeTally


@dataclass(frozen=True)
class JudgedDocument:
    """All judged pieces of one document for one query."""

    query_id: str
    document_id: str
    length: int
    chunks: tuple[JudgedChunk, ...]
    unseen_tokens: int
    tally: JudgeTally

    def located(self, *, at_least: int = 1) -> Located:
        """The pieces of at least this grade; pieces without a grade are no slots, neither relevant nor not."""
        graded = [chunk for chunk in self.chunks if chunk.grade is not None]
        slots = tuple(place for place, chunk in enumerate(graded) if (chunk.grade or 0) >= at_least)
        notes = [f"{len(self.chunks) - len(graded)} pieces without a grade"] if len(graded) < len(self.chunks) else []
        if not slots:
            notes.insert(0, f"no piece was graded {at_least} or more")
        spans = tuple(graded[place].chars for place in slots)
        return Located(spans, METHOD, slots=len(graded), relevant_slots=slots, reason="; ".join(notes))

    def record(self, *, at_least: int = 1) -> PairRecord:
        """The pair with the pieces of at least this grade as relevant, in tokens."""
        located = self.located(at_least=at_least)
        graded = [chunk for chunk in self.chunks if chunk.grade is not None]
        return PairRecord(
            self.query_id,
            self.document_id,
            self.length,
            tuple(graded[place].tokens for place in located.relevant_slots),
            METHOD,
            slots=located.slots,
            relevant_slots=located.relevant_slots,
            reason=located.reason,
        )


@dataclass(frozen=True)
class ChunkJudge:
    """Grades each piece of a document by itself, so that the judge's own position bias cannot enter.

    Replies are kept by wrapping the chat model in ``CachedChat``; judging again then costs nothing. ``workers`` pieces
    are asked about at once.
    """

    chat: ChatModel
    tokenizer: Tokenizer
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    at_least: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        check_threshold(self.at_least)

    @property
    def identity(self) -> str:
        """Changes with the question, the pieces, the grade and, where ``CachedChat`` names it, the model."""
        model = getattr(self.chat, "identity", type(self.chat).__name__)
        return fingerprint(PROMPT, self.settings, self.tokenizer.name, self.at_least, model)

    def locate(self, query: Query, document: Document) -> Located:
        """The pieces that the judge finds relevant."""
        return self.judge(query, document).located(at_least=self.at_least)

    def judge(self, query: Query, document: Document) -> JudgedDocument:
        """Every piece's grade; a reply that cannot be read, or did not come, leaves its piece without one."""
        text = self.tokenizer.tokenize(document.text)
        split = self.chunks(text)
        ask = partial(self._judge_chunk, query, text)
        if self.workers > 1 and len(split.spans) > 1:
            with ThreadPoolExecutor(min(self.workers, len(split.spans)), thread_name_prefix="longrank-judge") as pool:
                answers = list(pool.map(ask, split.spans))
        else:
            answers = [ask(span) for span in split.spans]
        tally = sum((used for _, used in answers), JudgeTally())
        return JudgedDocument(
            query.id, document.id, len(text), tuple(chunk for chunk, _ in answers), split.cut_tokens, tally
        )

    def grade(self, query: Query, piece: str) -> "Graded":
        """The grade of one piece of text; None, with the problem, where the reply could not be read or did not come."""
        message = Message("user", PROMPT.format(query=query.text, piece=piece))
        try:
            reply = self.chat.reply([message], max_tokens=self.settings.reply_tokens)
        except (ChatError, TimeoutError, ConnectionError) as error:
            return Graded(None, f"no reply: {error}", JudgeTally(1, failed=1))
        grade = read_grade(reply.text)
        problem = "" if grade is not None else f"unreadable reply: {reply.text[:80]!r}"
        return Graded(grade, problem, _used(reply, readable=grade is not None))

    def chunks(self, text: TokenizedText) -> SplitText:
        """The pieces that would be judged."""
        return sentence_chunks(text, near_tokens=self.settings.chunk_tokens, max_chunks=self.settings.max_chunks)

    def estimate(self, pairs: Iterable[tuple[Query, Document]]) -> JudgeTally:
        """What judging these pairs would take at most: every prompt's tokens, and ten tokens a reply."""
        tally = JudgeTally()
        frame = len(self.tokenizer.tokenize(PROMPT))
        for query, document in pairs:
            split = self.chunks(self.tokenizer.tokenize(document.text))
            count = sum(1 for span in split.spans if len(span))
            asked = count * (frame + len(self.tokenizer.tokenize(query.text))) + sum(map(len, split.spans))
            tally += JudgeTally(count, asked=count, tokens_in=asked, tokens_out=10 * count)
        return tally

    def _judge_chunk(self, query: Query, text: TokenizedText, span: TokenSpan) -> tuple[JudgedChunk, JudgeTally]:
        chars = text.chars(span)
        piece = text.text[chars.start : chars.stop]
        if not piece.strip():
            return JudgedChunk(chars, span, 0, "empty"), JudgeTally()
        graded = self.grade(query, piece)
        return JudgedChunk(chars, span, graded.grade, graded.problem), graded.tally


def check_threshold(grade: int) -> int:
    """The grade, if pieces can be relevant from it on."""
    if grade not in THRESHOLDS:
        raise SettingsError(f"grades run from 0 to 3, so relevant is 1, 2 or 3 and more, not {grade}")
    return grade


def _used(reply: Reply, *, readable: bool) -> JudgeTally:
    asked = 0 if reply.cached else 1
    return JudgeTally(1, 0 if readable else 1, 0, asked, asked * reply.tokens_in, asked * reply.tokens_out)


def read_grade(reply: str) -> int | None:
    """The grade a reply gives, None if it gives none, several, or one outside 0 to 3.

    >>> read_grade("##final score: 2"), read_grade("3"), read_grade("final score: 7"), read_grade("no idea")
    (2, 3, None, None)
    """
    found = set(_FINAL_SCORE.findall(reply))
    if not found and (bare := _BARE.fullmatch(reply)):
        found = {bare[1]}
    if len(found) != 1:
        return None
    grade = int(found.pop())
    return grade if grade in GRADES else None


def sentence_chunks(text: TokenizedText, *, near_tokens: int = 256, max_chunks: int = 36) -> SplitText:
    """Whole sentences in runs of nearly ``near_tokens`` tokens, at most ``max_chunks``; the rest is cut.

    A sentence joins the run if that brings it nearer to the size. A sentence of twice the size or more is cut itself.
    """
    if near_tokens < 1 or max_chunks < 1:
        raise SettingsError(f"chunks need at least one token and one chunk, got {near_tokens} and {max_chunks}")
    ends = _sentence_ends(text, longest=2 * near_tokens)
    spans: list[TokenSpan] = []
    start = 0
    for here, after in zip_longest(ends, ends[1:]):
        grows = after is not None and abs(after - start - near_tokens) < abs(here - start - near_tokens)
        if not grows:
            spans.append(TokenSpan(start, here, text.tokenizer))
            start = here
    return SplitText(text, tuple(spans[:max_chunks]) or (TokenSpan(0, 0, text.tokenizer),))


def _sentence_ends(text: TokenizedText, *, longest: int) -> list[int]:
    """Tokens after which a sentence ends, the last token of the text included."""
    breaks = [match.end() for match in _SENTENCE_END.finditer(text.text)]
    ends = np.unique(np.searchsorted(text.char_starts, [*breaks, len(text.text) + 1])).tolist()
    result: list[int] = []
    start = 0
    for end in ends:
        if end == 0:
            continue
        while end - start >= longest:
            start += longest // 2
            result.append(start)
        if end > start:
            result.append(end)
            start = end
    return result


def total_tally(judged: Iterable[JudgedDocument]) -> JudgeTally:
    """What judging all these documents took."""
    return sum((document.tally for document in judged), JudgeTally())
