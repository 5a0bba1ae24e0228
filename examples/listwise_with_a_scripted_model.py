"""Listwise ranking without a network: a scripted model, its cost foretold, and what its prompts showed."""

import re
from collections.abc import Sequence

from longrank import Document, Query
from longrank.chat.cost import Rehearsal, load_prices
from longrank.chat.messages import Message
from longrank.chat.scripted import ScriptedChat
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import CharSpan, GoldSpan
from longrank.rankers.listwise import ListwiseCall, ListwiseRanker, ListwiseSettings, visibility

QUERY = Query("q1", "why is the bridge green?")
ANSWER = "It was painted green, because green paint was cheapest."
NOTES = "The committee met again and adjourned. " * 100
documents = [Document(f"d{i:02}", NOTES) for i in range(24)] + [Document("d24", NOTES + ANSWER)]
evidence = [GoldSpan("q1", "d24", CharSpan(len(NOTES), len(NOTES + ANSWER)), "hand")]


def reads_to_the_end(messages: Sequence[Message]) -> str:
    """A model that puts the text with the answer first, if it was shown one."""
    texts = re.split(r"^\[(\d+)\] ", messages[-1].text, flags=re.MULTILINE)
    numbers = [n for n, text in zip(texts[1::2], texts[2::2], strict=True) if ANSWER in text]
    return " > ".join(f"[{n}]" for n in numbers) or "[1]"


for name, tokens in (("FirstP", 512), ("LongP", None)):
    settings = ListwiseSettings(document_tokens=tokens, context_tokens=128_000)
    rehearsal = Rehearsal(load_prices().find("gpt-4o-mini"))
    ListwiseRanker(rehearsal, WordTokenizer(), settings).score(QUERY, documents)

    calls: list[ListwiseCall] = []
    chat = ScriptedChat(reads_to_the_end)
    ranker = ListwiseRanker(chat, WordTokenizer(), settings, spans=evidence, record=calls.append)
    scores = ranker.score(QUERY, documents)
    place = sorted(scores.values, reverse=True).index(scores.values[24]) + 1
    print(f"{name}: the answer's document is at rank {place} of 25; {scores.cut_documents} documents were cut")
    print(f"  with gpt-4o-mini at most: {rehearsal.account}")
    print(f"  {visibility(calls)}")
