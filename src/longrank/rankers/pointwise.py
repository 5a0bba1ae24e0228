"""Language models that judge one passage at a time; a document is as good as its best passage."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from longrank.chat.messages import ChatModel, Message, Reply
from longrank.chat.patience import reply_all
from longrank.core.contracts import Splitter, Tokenizer
from longrank.core.errors import BadScore, TruncatedInput
from longrank.core.types import Document, Query, Scores, SplitText
from longrank.rankers.ranking import Ranked, rank_texts

ASK = """\
Query: {query}

Text: {passage}

Does the text hold an answer to the query? Say yes or no, one word only."""

_YES_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class PassageScorer(Protocol):
    """Short texts to one score each; a score depends on the query and its own passage only."""

    def passage_scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """One score a passage, in the order given; higher is better."""
        ...


@dataclass(frozen=True)
class PointwiseRanker:
    """The best passage score of each document (MaxP); the splitter decides what a passage is, and what is not read.

    >>> from longrank.chat.scripted import ScriptedChat
    >>> from longrank.chunking.splitters import Sliding
    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> chat = ScriptedChat(lambda messages: "Yes." if "green paint" in messages[0].text else "No.")
    >>> ranker = PointwiseRanker(ChatYesNo(chat), WordTokenizer(), Sliding(4, 2))
    >>> ranker.score(Query("q", "bridge"), [Document("a", "ice on the road"), Document("b", "so it got green paint")])
    Scores(values=[0.0, 1.0], cut_documents=0, cut_tokens=0, cut_query_tokens=0)
    """

    scorer: PassageScorer
    tokenizer: Tokenizer
    splitter: Splitter
    strict: bool = False

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document, with the count of what no passage held."""
        split = [self.splitter.split(self.tokenizer.tokenize(document.text)) for document in documents]
        cut = [document.cut_tokens for document in split]
        if self.strict and any(cut):
            raise TruncatedInput(
                f"{sum(c > 0 for c in cut)} of {len(documents)} documents are longer than this ranker reads "
                f"({sum(cut)} tokens would be cut): use a splitter that goes further, or strict=False"
            )
        passages = [passage_texts(part) for part in split]
        found = iter(self.scorer.passage_scores(query.text, [text for row in passages for text in row]))
        values = [max(next(found) for _ in row) for row in passages]
        if not all(map(math.isfinite, values)):
            raise BadScore(f"the model gave a score that is not finite for query {query.id!r}")
        return Scores(values, sum(c > 0 for c in cut), sum(cut))

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
        """The documents best first; ties keep the order given."""
        return rank_texts(self, query, documents, top_k=top_k)


def passage_texts(split: SplitText) -> list[str]:
    """The text of each span, as it stands in the document."""
    chars = [split.source.chars(span) for span in split.spans]
    return [split.source.text[span.start : span.stop] for span in chars]


@dataclass(frozen=True)
class ChatYesNo:
    """The chance that a chat model says yes, from the log-probabilities of its first token.

    Where a model gives none, its word counts: 1 for yes, 0 for no, one half for anything else. Such scores tie often;
    ask for ``top_logprobs`` where they are offered.
    """

    chat: ChatModel
    workers: int = 8
    reply_tokens: int = 5

    def passage_scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """One number between 0 and 1 a passage."""
        asked = [[Message("user", ASK.format(query=query, passage=passage))] for passage in passages]
        replies = reply_all(self.chat, asked, max_tokens=self.reply_tokens, workers=self.workers)
        return [yes_share(reply) for reply in replies]


def yes_share(reply: Reply) -> float:
    """How much of a reply's weight on yes and no lies on yes; one half if neither is there.

    A word that is not among the candidates is less likely than all of them: it gets the weight of the last.

    >>> yes_share(Reply("yes", logprobs={"Yes": math.log(0.6), " yes": math.log(0.2), "No": math.log(0.2)}))
    0.8
    >>> yes_share(Reply("No, it does not.")), yes_share(Reply("Perhaps"))
    (0.0, 0.5)
    """
    if reply.logprobs:
        yes, no = (_weight(reply.logprobs, word) for word in ("yes", "no"))
        least = math.exp(min(reply.logprobs.values()))
        return 0.5 if not yes and not no else round((yes or least) / ((yes or least) + (no or least)), 12)
    said = _YES_NO.match(reply.text)
    return 0.5 if said is None else float(said[1].lower() == "yes")


def _weight(logprobs: Mapping[str, float], word: str) -> float:
    return sum(math.exp(value) for token, value in logprobs.items() if token.strip(" \t\n.,!▁Ġ").lower() == word)
