"""Public fakes: what our own tests use, for the tests of others."""

from collections.abc import Sequence

from longrank.chat.scripted import ScriptedChat
from longrank.core.types import Collection, Document, Query, Scores, Spec
from longrank.synthetic.toy import ToySettings, ToyWorld, make_toy

__all__ = ["ScriptedChat", "WordOverlapRanker", "one_document_collection", "small_toy_world", "tiny_spec"]


class WordOverlapRanker:
    """A ranker without weights: the share of the query's words that a document's first ``words`` words hold."""

    def __init__(self, words: int | None = None) -> None:
        self.words = words

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One share a document; words behind the limit are counted as cut.

        >>> WordOverlapRanker(words=2).score(Query("q", "red fox"), [Document("d", "a red fox")])
        Scores(values=[0.5], cut_documents=1, cut_tokens=1, cut_query_tokens=0)
        """
        asked = set(query.text.lower().split())
        read = [document.text.lower().split() for document in documents]
        values = [len(asked & set(words[: self.words])) / max(1, len(asked)) for words in read]
        cut = [max(0, len(words) - (self.words or len(words))) for words in read]
        return Scores(values, sum(count > 0 for count in cut), sum(cut))


def tiny_spec(ranker: str = "maxp", **params: object) -> Spec:
    """Spec of a ranker over the smallest encoder, which needs no files: a quarter of a million weights."""
    return Spec(ranker, {"backbone": Spec("tiny", {"dim": 24, "vocabulary": 997}), **params})


def small_toy_world(*, queries: int = 30, seed: int = 0) -> ToyWorld:
    """A toy world of a few documents with known positions."""
    third = queries // 3
    return make_toy(ToySettings(train=queries - 2 * third, dev=third, test=third, seed=seed))


def one_document_collection(text: str, *, query: str) -> Collection:
    """A collection of one document that is relevant to one query."""
    from longrank.core.types import Qrels

    return Collection("one", {"d": Document("d", text)}, {"q": Query("q", query)}, Qrels({"q": {"d": 1}}))
