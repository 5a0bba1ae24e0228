"""What is kept on disk, so that nothing is paid for twice, and is passed over where a ranker is asked again."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from longrank.audit.response import asked_again, checked_scores
from longrank.core.contracts import Ranker
from longrank.core.errors import DataError
from longrank.core.types import Document, Query, Scores

_TOGETHER = 64  # documents asked about before their scores are written down


@dataclass(frozen=True)
class RememberedScores:
    """A ranker that is asked only about texts whose score is not in the file yet, and about each of them once.

    For rankers whose score depends on the query and the text alone. ``identity`` must change when the ranker does.
    What is asked within ``asking_again`` goes to the ranker, so that a re-run is one. Texts known from before do not
    count as cut.
    """

    ranker: Ranker
    path: Path
    identity: str

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document; those got before something failed are kept."""
        if asked_again():
            return self.ranker.score(query, documents)
        keys = {document.text: self._key(query, document) for document in documents}
        cut_documents = cut_tokens = cut_query_tokens = 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self.path)) as base:
                base.execute("CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL) WITHOUT ROWID")
                known = {text: score for text, key in keys.items() for score in _found(base, key)}
                missing = [Document(f"text{n}", text) for n, text in enumerate(keys) if text not in known]
                for at in range(0, len(missing), _TOGETHER):
                    asked = missing[at : at + _TOGETHER]
                    fresh = checked_scores(self.ranker.score(query, asked), len(asked))
                    rows = [(keys[d.text], value) for d, value in zip(asked, fresh.values, strict=True)]
                    with base:
                        base.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)
                    known |= {d.text: value for d, value in zip(asked, fresh.values, strict=True)}
                    cut_documents, cut_tokens = cut_documents + fresh.cut_documents, cut_tokens + fresh.cut_tokens
                    cut_query_tokens = fresh.cut_query_tokens
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path} cannot keep scores ({error}); remove it or name another file") from None
        values = [known[document.text] for document in documents]
        return Scores(values, cut_documents, cut_tokens, cut_query_tokens)

    def _key(self, query: Query, document: Document) -> bytes:
        whole = blake2b(digest_size=16)
        for part in (self.identity, query.text, document.text):
            whole.update(len(encoded := part.encode("utf-8", "surrogatepass")).to_bytes(8, "big") + encoded)
        return whole.digest()


@dataclass(frozen=True)
class RememberedReplies:
    """A chat ranker over replies that are kept, and the same one over the model itself for what is asked again."""

    kept: Ranker
    fresh: Ranker

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """What the ranker answers; a re-run is put to the model."""
        return (self.fresh if asked_again() else self.kept).score(query, documents)


def _found(base: sqlite3.Connection, key: bytes) -> Iterator[float]:
    return (float(score) for (score,) in base.execute("SELECT score FROM scores WHERE key = ?", (key,)))
