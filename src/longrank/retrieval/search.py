"""A first stage put together from its parts: which retriever the parts make, and how it is tuned."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from longrank.core.contracts import Retriever
from longrank.core.errors import SettingsError
from longrank.core.types import Collection, Qrels, Query, Run
from longrank.retrieval.analysis import Analyzer
from longrank.retrieval.bm25 import BM25
from longrank.retrieval.fusion import best_weight, interpolate
from longrank.retrieval.hybrid import Hybrid, HybridSettings, Rescoring
from longrank.retrieval.model1 import Model1, train_model1, training_pairs
from longrank.retrieval.rm3 import RM3, RM3Settings
from longrank.retrieval.tuning import Objective, tune_bm25, tune_rm3


@dataclass(frozen=True)
class Lexical:
    """BM25 alone, with feedback, or with embeddings: the retrievers that have something to tune."""

    bm25: BM25
    feedback: RM3Settings | None = None
    dense: Rescoring | None = None
    mixture: HybridSettings = field(default_factory=HybridSettings)

    def __post_init__(self) -> None:
        if self.feedback is not None and self.dense is not None:
            raise SettingsError(
                "a hybrid takes BM25 without feedback: fuse the runs of RM3 and dense retrieval instead"
            )

    def retriever(self) -> Retriever:
        """What the parts make together."""
        if self.dense is not None:
            return Hybrid(self.bm25, self.dense, self.mixture)
        return self.bm25 if self.feedback is None else RM3(self.bm25, self.feedback)


@dataclass(frozen=True)
class Tuner:
    """Training queries, their judgements and what is to become large on them."""

    queries: Sequence[Query]
    qrels: Qrels
    objective: Objective
    depth: int = 100

    def tuned(self, search: Lexical) -> tuple[Lexical, list[str]]:
        """The search with the best parameters found, part after part, and a line on each."""
        on = f"on {len(self.queries)} queries"
        found = tune_bm25(search.bm25, self.queries, self.objective, depth=self.depth)
        search = replace(search, bm25=search.bm25.at(k1=found.best.k1, b=found.best.b))
        lines = [f"k1 {found.best.k1:g}, b {found.best.b:g}: {found.value:.4f} {on}"]
        if search.feedback is not None:
            widened = tune_rm3(search.bm25, self.queries, self.objective, depth=self.depth)
            best = widened.best
            search = replace(search, feedback=best)
            lines.append(
                f"feedback of {best.documents} documents and {best.terms} terms, original weight "
                f"{best.original_weight:g}: {widened.value:.4f} {on}"
            )
        if search.dense is not None:
            mixed = Hybrid(search.bm25, search.dense, search.mixture)
            hybrid, weighed = mixed.tuned(self.queries, self.objective, depth=self.depth)
            search = replace(search, mixture=hybrid.settings)
            lines.append(f"BM25 weight {weighed.best:g}: {weighed.value:.4f} {on}")
        return search, lines

    def translated(self, search: Lexical, run: Run, collection: Collection) -> tuple[Run, str]:
        """A run of the search with Model 1's scores added by the best weight found, and a line on it.

        Half of the training queries teach the translations and the other half choose the weight: on the queries it
        was taught, Model 1 would look too good.
        """
        teaching, choosing = self.queries[::2], self.queries[1::2]
        if not choosing:
            raise SettingsError(f"Model 1 needs at least two judged training queries, got {len(self.queries)}")
        analyzer = Analyzer(search.bm25.postings.settings.analysis)
        pairs = training_pairs(teaching, self.qrels, collection.documents, analyzer)
        model1 = Model1(train_model1(pairs, analyzer), search.bm25)
        trial = search.retriever().retrieve(choosing, depth=self.depth)
        found = best_weight(trial, model1.rescore(choosing, trial), self.objective)
        mixed = interpolate(run, model1.rescore(collection.queries.values(), run), found.best)
        line = f"weight {found.best:g} against Model 1: {found.value:.4f} on {len(choosing)} queries"
        return replace(mixed, name=f"{run.name}-model1", notes=run.notes), line
