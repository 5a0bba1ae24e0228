"""``longrank ceiling``: what a model that sees a prefix can possibly reach."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.evaluate import TableFormat, show
from longrank.cli.given import given_options
from longrank.cli.profile import FormatOption, TextFormat

if TYPE_CHECKING:
    from longrank.core.types import Qrels, Run
    from longrank.positions.ceiling import Bounds, Ceiling
    from longrank.positions.chance import Interval


def ceiling(
    context: typer.Context,
    profile: Annotated[Path, typer.Argument(help="Pair records written by longrank profile --out.")],
    *,
    window: Annotated[
        list[int] | None, typer.Option("--window", min=1, help="Tokens a model sees; repeatable.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option("--qrels", help="Judgements, for ceilings of measures.")] = None,
    candidates: Annotated[Path | None, typer.Option("--candidates", help="The run that is reranked.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="A reranked run, to set against the ceiling.")] = None,
    rule: Annotated[str, typer.Option("--rule", help="When evidence counts as seen: start, end or overlap.")] = "start",
    measures: Annotated[str, typer.Option("--measures", help="RR, AP, nDCG, each also with @depth.")] = "RR nDCG@10 AP",
    table_format: FormatOption = TextFormat.text,
) -> None:
    """Show the share of queries that windows of given sizes can answer, and the best any ranker can score.

    Without --candidates the share of relevant pairs is shown; with it and --qrels, the perfect ranker's measures and
    what became of the queries: evidence visible, unknown, hidden, or not retrieved.

    longrank ceiling my.profile.jsonl --window 477 --window 1431 --qrels qrels.txt --candidates bm25.run
    """
    from longrank.core.errors import SettingsError
    from longrank.corpora.formats.trec import read_qrels, read_run
    from longrank.evaluation.names import parse_measures
    from longrank.positions.ceiling import RULES, reach, window_headroom
    from longrank.positions.ceiling import ceiling as ceiling_of
    from longrank.positions.profiling import load_profile
    from longrank.reports.position_tables import ceiling_table, reach_table

    chosen = next((known for known in RULES if known == rule), None)
    if chosen is None:
        raise SettingsError(f"no rule {rule!r}; known: {', '.join(RULES)}")
    if (candidates is None) != (qrels is None) or (run is not None and candidates is None):
        raise SettingsError("ceilings of measures need both --qrels and --candidates; --run needs them too")
    if candidates is None and (unused := given_options(context, ["rule", "measures"])):
        raise SettingsError(f"{', '.join(unused)} needs --qrels and --candidates; without them every rule is shown")
    located, windows = load_profile(profile), sorted(set(window or [477, 1431]))
    if candidates is None or qrels is None:
        show(
            reach_table([reach(located, window=w, rule=r) for w in windows for r in RULES]),
            TableFormat(table_format.value),
        )
        if len(windows) > 1:
            typer.echo(_headroom(window_headroom(located, short=windows[0], long=windows[-1]), windows))
        return
    names = [measure.name for measure in parse_measures(measures)]
    judged = read_qrels(qrels)
    retrieved = read_run(candidates)
    ceilings = {
        seen: ceiling_of(located, judged, retrieved, window=seen, rule=chosen, measures=names) for seen in windows
    }
    efficiencies = {} if run is None else _efficiencies(ceilings, read_run(run), judged, names)
    show(ceiling_table(ceilings, names, efficiencies), TableFormat(table_format.value))


def _headroom(gains: "Bounds", windows: list[int]) -> str:
    lead = f"Headroom of {windows[-1]} over {windows[0]} tokens: "
    if math.isinf(gains.low):
        return f"{lead}a window of {windows[0]} holds the evidence of no pair, so nothing can be set against it."
    if math.isinf(gains.high):
        return f"{lead}from {gains.low:+.1%}, without limit by rules under which {windows[0]} tokens hold no evidence."
    return f"{lead}{gains.low:+.1%} to {gains.high:+.1%} over the rules."


def _efficiencies(
    ceilings: "dict[int, Ceiling]", run: "Run", qrels: "Qrels", names: list[str]
) -> "dict[tuple[int, str], Interval]":
    from longrank.evaluation.measures import evaluate

    values = evaluate(run, qrels, names)
    return {(window, name): one.efficiency(name, values[name]) for window, one in ceilings.items() for name in names}
