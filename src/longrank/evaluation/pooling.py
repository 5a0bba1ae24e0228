"""Per-query numbers put together before anything is tested: over seeds, folds, query sets and collections."""

from collections.abc import Mapping, Sequence

from longrank.core.errors import DataError
from longrank.evaluation.measures import PerQuery


def average_seeds(seeds: Sequence[PerQuery]) -> PerQuery:
    """Mean over seeds of each query's value, for the measures and queries that every seed has.

    >>> average_seeds([{"RR": {"q1": 1.0, "q2": 0.5}}, {"RR": {"q1": 0.5, "q2": 0.5}}])
    {'RR': {'q1': 0.75, 'q2': 0.5}}
    """
    if not seeds:
        raise DataError("a system without any seed cannot be averaged; give at least one evaluated run")
    measures = [name for name in seeds[0] if all(name in seed for seed in seeds)]
    if not measures:
        raise DataError("the seeds of a system share no measure; evaluate each with the same measures")
    return {
        name: {
            query_id: sum(seed[name][query_id] for seed in seeds) / len(seeds)
            for query_id in seeds[0][name]
            if all(query_id in seed[name] for seed in seeds)
        }
        for name in measures
    }


def pool(parts: Sequence[PerQuery]) -> PerQuery:
    """One set of queries out of folds or of years: each query counts once, so the mean is no mean of means.

    >>> pool([{"nDCG@10": {"19": 0.5}}, {"nDCG@10": {"20": 0.25, "21": 0.0}}])
    {'nDCG@10': {'19': 0.5, '20': 0.25, '21': 0.0}}
    """
    if not parts:
        raise DataError("there is nothing to pool; give at least one part")
    pooled: dict[str, dict[str, float]] = {name: {} for name in parts[0]}
    for part in parts:
        if set(part) != set(pooled):
            raise DataError(f"parts have different measures: {', '.join(pooled)} and {', '.join(part)}")
        for name, row in part.items():
            twice = pooled[name].keys() & row.keys()
            if twice:
                raise DataError(f"query {min(twice)!r} is in two parts; folds and query sets must not overlap")
            pooled[name].update(row)
    return pooled


def join_collections(collections: Mapping[str, PerQuery]) -> PerQuery:
    """One table's columns, '<collection> <measure>', out of one system's values on several collections.

    >>> join_collections({"robust04": {"AP": {"301": 0.5}}, "msmarco": {"RR": {"7": 1.0}}})
    {'robust04 AP': {'301': 0.5}, 'msmarco RR': {'7': 1.0}}
    """
    return {f"{name} {measure}": row for name, values in collections.items() for measure, row in values.items()}
