"""Runs and judgements to numbers, one a query, by trec_eval's rules and ir-measures' names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from longrank.core.errors import DataError, SettingsError
from longrank.core.types import Qrels, Run
from longrank.evaluation.columns import RunColumns, hits_of_columns
from longrank.evaluation.hits import Hits, hits_of_run
from longrank.evaluation.names import Measure, parse_measures

PerQuery = Mapping[str, Mapping[str, float]]
Missing = Literal["skip", "zero"]


@dataclass(frozen=True)
class Evaluation:
    """Values of one run, and what was left out on the way to them."""

    run: str
    values: PerQuery
    unjudged_queries: tuple[str, ...]  # of the run, without judgements: always skipped
    missing_queries: tuple[str, ...]  # judged, but not in the run: skipped, or 0 where asked
    missing: Missing
    judged_documents: int  # judged documents among the retrieved ones

    @property
    def means(self) -> dict[str, float]:
        """Mean of each measure over the evaluated queries."""
        return {name: sum(row.values()) / len(row) for name, row in self.values.items()}

    @property
    def queries(self) -> int:
        """Number of evaluated queries."""
        return len(next(iter(self.values.values())))

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each thing a reader of the numbers must know."""
        notes = [f"{self.queries} queries"]
        if self.unjudged_queries:
            notes.append(f"{len(self.unjudged_queries)} queries without judgements skipped")
        if self.missing_queries:
            how = "counted as 0" if self.missing == "zero" else "not counted"
            notes.append(f"{len(self.missing_queries)} judged queries missing from the run {how}")
        if not self.judged_documents:
            notes.append("no retrieved document is judged: do the ids of run and judgements match?")
        return tuple(notes)


def evaluate(run: Run, qrels: Qrels, measures: Sequence[str], *, missing: Missing = "skip") -> PerQuery:
    """Measure -> query -> value; names are the keys as given.

    A query without judgements is skipped; a judged query that the run lacks counts as 0 only with ``missing="zero"``.
    ``evaluate_run`` also tells which these were.

    >>> run = Run("demo", {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}})
    >>> evaluate(run, Qrels({"q1": {"b": 1, "d": 1}}), ["RR", "R@10"])
    {'RR': {'q1': 0.5}, 'R@10': {'q1': 0.5}}
    """
    return evaluate_run(run, qrels, measures, missing=missing).values


def evaluate_run(run: Run, qrels: Qrels, measures: Sequence[str], *, missing: Missing = "skip") -> Evaluation:
    """Values of a run with the queries that were left out."""
    wanted = parse_measures(list(measures))
    common = _common(run.name, tuple(run), qrels)
    hits = hits_of_run(run, qrels, common)
    values = _values(wanted, hits, run.ranking, qrels)
    return _evaluation(run.name, tuple(run), hits, values, qrels=qrels, missing=missing)


def evaluate_columns(
    columns: RunColumns, qrels: Qrels, measures: Sequence[str], *, missing: Missing = "skip"
) -> Evaluation:
    """Values of a run read by ``read_columns``; the same numbers as ``evaluate_run``, without a dict of the run."""
    wanted = parse_measures(list(measures))
    common = _common(columns.name, columns.query_ids, qrels)
    hits = hits_of_columns(columns, qrels, common)
    values = _values(wanted, hits, columns.ranking, qrels)
    return _evaluation(columns.name, columns.query_ids, hits, values, qrels=qrels, missing=missing)


def _common(name: str, run_queries: tuple[str, ...], qrels: Qrels) -> tuple[str, ...]:
    common = tuple(query_id for query_id in run_queries if qrels.grades.get(query_id))
    if not common:
        shown = f"run: {', '.join(run_queries[:3]) or 'none'}; judgements: {', '.join(list(qrels)[:3]) or 'none'}"
        raise DataError(f"run {name!r} and the judgements have no query in common ({shown}). Are the ids the same?")
    return common


def _evaluation(
    name: str,
    run_queries: tuple[str, ...],
    hits: Hits,
    values: Mapping[str, dict[str, float]],
    *,
    qrels: Qrels,
    missing: Missing,
) -> Evaluation:
    if missing not in ("skip", "zero"):
        raise SettingsError(f"missing queries are 'skip' or 'zero', not {missing!r}")
    judged = set(hits.query_ids)
    unjudged = tuple(query_id for query_id in run_queries if query_id not in judged)
    absent = tuple(query_id for query_id, row in qrels.grades.items() if row and query_id not in judged)
    if missing == "zero":
        values = {measure: row | dict.fromkeys(absent, 0.0) for measure, row in values.items()}
    return Evaluation(name, values, unjudged, absent, missing, len(hits.rank))


def _values(
    measures: tuple[Measure, ...], hits: Hits, ranking: Callable[[str], list[str]], qrels: Qrels
) -> dict[str, dict[str, float]]:
    values = _foreign_values(measures, hits.query_ids, ranking, qrels)
    for measure in measures:
        if measure.compute is not None:
            values[measure.name] = dict(zip(hits.query_ids, measure.compute(hits).tolist(), strict=True))
    return {measure.name: values[measure.name] for measure in measures}


def _foreign_values(
    measures: tuple[Measure, ...], query_ids: tuple[str, ...], ranking: Callable[[str], list[str]], qrels: Qrels
) -> dict[str, dict[str, float]]:
    foreign = [measure for measure in measures if measure.compute is None]
    if not foreign:
        return {}
    import ir_measures

    # scores are replaced by falling ranks, so that every provider of ir-measures sees trec_eval's order of ties
    order = {q: {d: float(-place) for place, d in enumerate(ranking(q))} for q in query_ids}
    # pytrec_eval may hang on a query whose grades are all negative; nothing is relevant there, so 0 says the same
    rows = {query_id: qrels.grades[query_id] for query_id in query_ids}
    grades = {q: dict(row) if max(row.values()) >= 0 else dict.fromkeys(row, 0) for q, row in rows.items()}
    values: dict[Any, dict[str, float]] = {measure.foreign: {} for measure in foreign}
    try:
        for metric in ir_measures.iter_calc(list(values), grades, order):
            values[metric.measure][metric.query_id] = float(metric.value)
    except (ValueError, RuntimeError) as error:
        raise SettingsError(f"ir-measures cannot compute {', '.join(m.name for m in foreign)}: {error}") from None
    return {measure.name: dict(values[measure.foreign]) for measure in foreign}
