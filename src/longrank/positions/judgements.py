"""All relevant pairs of a collection judged piece by piece: profiles at every grade, and the grades as a file."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from longrank.core.disk import write_atomic
from longrank.core.errors import ChatError
from longrank.core.progress import track
from longrank.core.types import Collection
from longrank.positions.judging import THRESHOLDS, ChunkJudge, JudgedDocument, JudgeTally, check_threshold, total_tally
from longrank.positions.profile import PositionProfile
from longrank.positions.profiling import Pair
from longrank.positions.records import PairRecord

# so many pieces without a single reply are no accident: a refused key, a wrong address
HOPELESS = 20


@dataclass(frozen=True)
class JudgedCollection:
    """Judged documents in the order of the pairs, and the pairs that could not be judged, with their reasons."""

    name: str
    tokenizer: str
    documents: tuple[JudgedDocument, ...]
    excluded: tuple[PairRecord, ...] = ()

    @property
    def tally(self) -> JudgeTally:
        """What judging took."""
        return total_tally(self.documents)

    def profile(self, *, at_least: int) -> PositionProfile:
        """Where pieces of at least this grade sit."""
        check_threshold(at_least)
        records = tuple(document.record(at_least=at_least) for document in self.documents)
        return PositionProfile(self.name, self.tokenizer, records + self.excluded)

    def profiles(self) -> dict[int, PositionProfile]:
        """The profile for each reading of the grades: at least 1, at least 2, and 3."""
        return {grade: self.profile(at_least=grade) for grade in THRESHOLDS}

    def grades(self) -> dict[tuple[str, str], int | None]:
        """Grades by query and piece, pieces named as FiRA names snippets: document, underscore, number from 0."""
        return {
            (document.query_id, f"{document.document_id}_{number}"): chunk.grade
            for document in self.documents
            for number, chunk in enumerate(document.chunks)
        }

    def account(self) -> tuple[str, ...]:
        """Sentences on what was judged and what is missing."""
        tally = self.tally
        unseen = sum(document.unseen_tokens > 0 for document in self.documents)
        sentences = [
            f"Judged {tally.chunks} pieces of {len(self.documents)} documents; {tally.unreadable} replies could not be "
            f"read and {tally.failed} did not come: those pieces count neither as relevant nor as irrelevant."
        ]
        if unseen:
            sentences.append(f"{unseen} documents have more pieces than are judged: their ends were not read.")
        return tuple(sentences)


def judge_pairs(collection: Collection, judge: ChunkJudge, pairs: Sequence[Pair]) -> JudgedCollection:
    """The pairs' documents judged; pairs without text are excluded with a reason, a judge who never replies stops it.

    With a chat model whose replies are kept, a job that was stopped goes on where it was.
    """
    documents: list[JudgedDocument] = []
    excluded: list[PairRecord] = []
    tally = JudgeTally()
    for pair in track(pairs, "judging", total=len(pairs)):
        query, document = collection.queries.get(pair.query_id), collection.documents.get(pair.document_id)
        if query is None or document is None:
            missing = "document" if document is None else "query"
            reason = f"the {missing} is not in the collection"
        elif not document.text.strip():
            reason = "the document has no words"
        else:
            documents.append(judge.judge(query, document))
            tally += documents[-1].tally
            if tally.failed == tally.chunks >= HOPELESS:
                problem = documents[-1].chunks[-1].problem
                raise ChatError(f"none of {tally.failed} questions was answered, so judging stops ({problem})")
            continue
        excluded.append(PairRecord(*pair, 0, (), "none", 0.0, reason=reason))
    return JudgedCollection(collection.name, judge.tokenizer.name, tuple(documents), tuple(excluded))


def write_grades(judged: JudgedCollection, path: Path) -> None:
    """Write every piece's grade as JSON lines: query, document, number, its characters and tokens, grade, problem."""
    write_atomic(path, "".join(json.dumps(line) + "\n" for line in _lines(judged)))


def _lines(judged: JudgedCollection) -> Iterator[dict[str, object]]:
    for document in judged.documents:
        for number, chunk in enumerate(document.chunks):
            yield {
                "query_id": document.query_id,
                "document_id": document.document_id,
                "piece": number,
                "chars": [chunk.chars.start, chunk.chars.stop],
                "tokens": [chunk.tokens.start, chunk.tokens.stop],
                "tokenizer": judged.tokenizer,
                "grade": chunk.grade,
                "problem": chunk.problem,
            }
