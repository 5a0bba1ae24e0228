"""``longrank fuse``: several run files made one."""

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.given import given_options

if TYPE_CHECKING:
    from longrank.core.types import Qrels, Run


class Method(StrEnum):
    """How runs are joined."""

    LINEAR = "linear"
    RRF = "rrf"


class Scale(StrEnum):
    """How scores are made comparable."""

    MIN_MAX = "min-max"
    Z = "z"
    NONE = "none"


def fuse(
    context: typer.Context,
    runs: Annotated[list[Path], typer.Argument(help="Two or more run files.")],
    *,
    out: Annotated[Path, typer.Option(help="Run file to write.", dir_okay=False)],
    method: Annotated[Method, typer.Option(help="Weighted sum of scores, or reciprocal ranks.")] = Method.LINEAR,
    weights: Annotated[str | None, typer.Option(help="One weight a run, e.g. 0.7,0.3; equal by default.")] = None,
    scale: Annotated[Scale, typer.Option(help="How scores are made comparable within a query.")] = Scale.MIN_MAX,
    tune: Annotated[str | None, typer.Option(metavar="MEASURE", help="Choose the weights, e.g. by nDCG@10.")] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgements for --tune.")] = None,
    folds: Annotated[int, typer.Option(min=0, help="With --tune: weights of each fold from the others.")] = 0,
    depth: Annotated[int, typer.Option(min=1, help="Documents a query.")] = 1000,
) -> None:
    """Fuse runs by a weighted sum of their scores or by reciprocal ranks."""
    from longrank.core.errors import SettingsError
    from longrank.corpora.formats.trec import write_run
    from longrank.retrieval.fusion import linear, reciprocal_rank

    if len(runs) < 2:
        raise SettingsError("fusion needs at least two run files")
    if qrels is not None and tune is None:
        raise SettingsError(
            "--qrels is for --tune, which chooses weights by judgements: give --tune MEASURE, or leave it out"
        )
    if folds and (tune is None or folds == 1):
        raise SettingsError("--folds takes two or more, and goes with --tune: weights of each fold from the others")
    if method is Method.RRF and given_options(context, ["tune", "weights", "scale"]):
        raise SettingsError("reciprocal ranks have no weights and no scores: leave --tune, --weights and --scale out")
    loaded = [_filled(path) for path in runs]
    if method is Method.RRF:
        fused = reciprocal_rank(loaded)
    elif tune is not None:
        if qrels is None or weights is not None:
            raise SettingsError("--tune needs --qrels, and finds the weights itself: leave --weights out")
        fused = _tuned(loaded, tune, qrels, scale=scale, folds=folds)
    else:
        fused = linear(loaded, _weights(weights, len(loaded)), normalisation=scale.value)
    write_run(out, fused.top(depth))
    typer.echo(f"{out}: {len(fused)} queries from {len(loaded)} runs")


def _filled(path: Path) -> "Run":
    from longrank.core.errors import DataError
    from longrank.corpora.formats.trec import read_run

    run = read_run(path)
    if not run.scores:
        raise DataError(f"{path} holds no line of a run, so there is nothing to fuse")
    return run


def _tuned(runs: "list[Run]", measure: str, qrels: Path, *, scale: Scale, folds: int) -> "Run":
    from longrank.cli.retrieve import objective
    from longrank.corpora.formats.trec import read_qrels
    from longrank.retrieval.fusion import best_weights, linear

    judged = read_qrels(qrels)
    worth = objective(measure, judged)
    if folds:
        return _cross_validated(runs, measure, judged, scale=scale, folds=folds)
    found = best_weights(runs, worth, normalisation=scale.value)
    shown = ", ".join(f"{run.name} {weight:.2f}" for run, weight in zip(runs, found.best, strict=True))
    typer.echo(f"weights {shown}: {measure} {found.value:.4f} on the queries they were chosen on")
    return linear(runs, found.best, normalisation=scale.value)


def _cross_validated(runs: "list[Run]", measure: str, judged: "Qrels", *, scale: Scale, folds: int) -> "Run":
    from dataclasses import replace

    from longrank.cli.retrieve import objective
    from longrank.core.errors import SettingsError
    from longrank.retrieval.fusion import best_weights, cross_validated, linear, select

    worth, found = objective(measure, judged), sorted({query_id for run in runs for query_id in run})
    queries = [query_id for query_id in found if query_id in judged.grades]
    if len(queries) < folds:
        raise SettingsError(f"{folds} folds need as many judged queries, and the runs have {len(queries)}: take fewer")
    parts = [queries[start::folds] for start in range(folds)]
    fused = cross_validated(runs, parts, worth, normalisation=scale.value)
    typer.echo(f"{measure} {worth(fused):.4f} over {folds} folds, {len(queries)} queries")
    others = set(found) - set(queries)
    if not others:
        return fused
    typer.echo(f"{len(others)} queries without judgements are fused with the weights found on all others")
    weights = best_weights([select(run, queries) for run in runs], worth, normalisation=scale.value).best
    rest = linear([select(run, others) for run in runs], weights, normalisation=scale.value)
    return replace(fused, scores={**fused.scores, **rest.scores})


def _weights(text: str | None, runs: int) -> list[float]:
    from longrank.core.errors import SettingsError

    if text is None:
        return [1 / runs] * runs
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if not any(weights) or not all(map(math.isfinite, weights)):
        raise SettingsError(
            f"--weights takes numbers with commas between, not all of them 0, such as 0.7,0.3, not {text!r}"
        )
    return weights
