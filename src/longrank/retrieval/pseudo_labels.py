"""Training labels without judges: what a retriever puts first is taken as relevant."""

from collections.abc import Iterable, Mapping

from longrank.core.contracts import Retriever
from longrank.core.errors import SettingsError
from longrank.core.types import Qrels, Query, Run


def pseudo_labels(run: Run, *, positives: int = 1) -> Qrels:
    """Grade 1 for each query's best ``positives`` documents; queries without documents are left out.

    >>> pseudo_labels(Run("r", {"q": {"a": 1.0, "b": 2.0}, "none": {}})).grades
    {'q': {'b': 1}}
    """
    if positives < 1:
        raise SettingsError(f"at least one positive a query is needed, got {positives}")
    return Qrels({q: dict.fromkeys(run.ranking(q)[:positives], 1) for q, row in run.scores.items() if row})


def candidate_sets(retrievers: Mapping[str, Retriever], queries: Iterable[Query], *, depth: int) -> dict[str, Run]:
    """One run a retriever, under the retriever's name: the pools from which a trainer draws hard negatives."""
    queries = list(queries)
    found = {name: retriever.retrieve(queries, depth=depth) for name, retriever in retrievers.items()}
    return {name: Run(name, run.scores, run.notes) for name, run in found.items()}
