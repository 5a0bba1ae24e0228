"""Teachers: a larger ranker, or its scores in a run."""

from collections.abc import Sequence

from longrank.core.contracts import Ranker
from longrank.core.errors import TrainingError
from longrank.core.types import Document, Query, Run
from longrank.training.trainer import Teach


def ranker_teaches(teacher: Ranker) -> Teach:
    """A ranker's own scores; each pair is scored once and remembered."""
    known: dict[tuple[str, str], float] = {}

    def teach(query: Query, documents: Sequence[Document]) -> list[float]:
        new = [document for document in documents if (query.id, document.id) not in known]
        if new:
            values = teacher.score(query, new).values
            known.update({(query.id, d.id): value for d, value in zip(new, values, strict=True)})
        return [known[query.id, document.id] for document in documents]

    return teach


def run_teaches(run: Run) -> Teach:
    """Scores of a run, which must hold every pair that is asked for."""

    def teach(query: Query, documents: Sequence[Document]) -> list[float]:
        row = run.scores.get(query.id, {})
        absent = next((document.id for document in documents if document.id not in row), None)
        if absent is not None:
            raise TrainingError(
                f"the teacher's run {run.name!r} has no score of {absent!r} for query {query.id!r}: "
                "score all positives and candidates, or give the teacher's checkpoint"
            )
        return [row[document.id] for document in documents]

    return teach
