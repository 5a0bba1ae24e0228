"""The figures that an experiment's records allow, ready for a page."""

from collections.abc import Iterator, Sequence
from statistics import median

from longrank.evaluation.efficiency import Cost, RelativeCost, relative_costs
from longrank.experiments.records import CellResult, ExperimentResult
from longrank.positions.gold import SNIPPETS
from longrank.reports.cost_plot import CostPoint, gain_against_cost
from longrank.reports.experiment_audits import audit_figure
from longrank.reports.experiment_found import found_figures
from longrank.reports.experiment_reading import Place, Reading
from longrank.reports.experiment_rows import Column, Row, Setting
from longrank.reports.heat_map import heat_map, sweep_lines
from longrank.reports.page import Figure, Part, Section
from longrank.reports.plots import Interval, PositionSample, TransferBar, position_histograms, transfer_bars
from longrank.reports.tables import Cell, Table

_MOST_FIGURES = 6  # of one kind; a sweep over many rankers and collections would fill pages


def figure_sections(reading: Reading) -> list[Section]:
    """Sections of figures, in reading order; those without anything to show are left out."""
    drawn: dict[str, Sequence[Part]] = {
        "Before and after": list(_transfers(reading)),
        "Sensitivity": _sweeps(reading),
        "Gain against cost": list(_costs(reading)),
        "By position": [figure] if (figure := audit_figure(reading.result)) is not None else [],
        "Which first stage found the relevant documents": list(found_figures(reading)),
        "Where relevance sits": list(_positions(reading.result)),
    }
    return [Section(heading, figures) for heading, figures in drawn.items() if figures]


# -- trainings ---------------------------------------------------------------------------------------------------------


def _transfers(reading: Reading) -> Iterator[Figure]:
    """Two bars a system for each pair of trainings of a collection."""
    for before, after in dict.fromkeys((change.before, change.after) for change in reading.changes):
        rows = [c.row for c in reading.changes if (c.before, c.after) == (before, after)]
        if before not in reading.main_columns:
            continue
        bars = [
            TransferBar(row.name, _interval(reading.places[row, before]), _interval(reading.places[row, after]))
            for row in rows
        ]
        levels = _levels(reading, before)
        svg = transfer_bars(
            bars,
            levels=levels,
            measure=before.measure,
            trainings=(before.stage, after.stage),
        )
        drawn = "".join(f" Line at {level:.3f}: {name}." for name, level in levels.items())
        alt = "; ".join(f"{bar.name} from {bar.zero_shot.mean:.3f} to {bar.tuned.mean:.3f}" for bar in bars)
        caption = (
            f"{before.measure} on {before.scored_on} after the trainings {before.stage} and {after.stage}, "
            "with 95% intervals over queries."
        )
        yield Figure(svg, caption, f"Bars: {alt}.{drawn}")


def _levels(reading: Reading, column: Column) -> dict[str, float]:
    """What the first stage has without any ranker, and what random order would have."""
    known = {row: reading.places[row, column].mean for row in reading.rows if (row, column) in reading.places}
    rows = [row for kind in ("retriever", "random") for row in known if row.reference == kind]
    differ = {row.system for row in rows if any(o.system == row.system and known[o] != known[row] for o in rows)}
    return {row.name if row.system in differ else row.system: known[row] for row in rows}


def _interval(place: Place) -> Interval:
    low, high = place.interval or (place.mean, place.mean)
    # the interval is of the mean over queries, so rounding alone may leave the mean a hair outside
    return Interval(place.mean, min(low, place.mean), max(high, place.mean))


# -- sweeps ------------------------------------------------------------------------------------------------------------


def _sweeps(reading: Reading) -> list[Part]:
    columns = reading.main_columns
    if len(reading.swept) == 1:
        figures = [figure for column in columns for figure in _lines(reading, column, reading.swept[0])]
    elif len(reading.swept) == 2:
        figures = [figure for column in columns for figure in _maps(reading, column, reading.swept)]
    else:
        return []
    left = len(figures) - _MOST_FIGURES
    more = [f"{left} more such figures are left out; the table has all numbers."] if left > 0 else []
    return [*figures[:_MOST_FIGURES], *more]


def _lines(reading: Reading, column: Column, parameter: str) -> Iterator[Figure]:
    lines: dict[str, dict[Setting, Interval]] = {}
    for row in reading.rows:
        if not row.reference and (row, column) in reading.places and parameter in dict(row.settings):
            lines.setdefault(row.system, {})[dict(row.settings)[parameter]] = _interval(reading.places[row, column])
    if lines:
        svg = sweep_lines(lines, parameter=parameter, measure=reading.heading(column))
        alt = "; ".join(
            f"{name}: " + ", ".join(f"{value} {point.mean:.3f}" for value, point in line.items())
            for name, line in lines.items()
        )
        caption = f"{reading.heading(column)} by {parameter}, with 95% intervals over queries."
        yield Figure(svg, caption, f"Means. {alt}.")


def _maps(reading: Reading, column: Column, parameters: tuple[str, ...]) -> Iterator[Figure]:
    grids: dict[str, dict[tuple[Setting, Setting], float]] = {}
    for row in reading.rows:
        points = dict(row.settings)
        if not row.reference and (row, column) in reading.places and set(parameters) <= points.keys():
            pair = (points[parameters[0]], points[parameters[1]])
            grids.setdefault(row.system, {})[pair] = reading.places[row, column].mean
    for name, grid in grids.items():
        svg = heat_map(grid, across=parameters[0], down=parameters[1], measure=reading.heading(column))
        alt = "; ".join(f"{x} and {y}: {value:.3f}" for (x, y), value in grid.items())
        caption = f"{name}: {reading.heading(column)} by {parameters[0]} and {parameters[1]}; the best is framed."
        yield Figure(svg, caption, f"Heat map. {alt}.")


# -- cost and positions ------------------------------------------------------------------------------------------------


def _costs(reading: Reading) -> Iterator[Figure]:
    """Average gain over the own baseline against the time it costs, from runs side by side."""
    for cell in reading.result.where(what="costs"):
        times = relative_times(cell, reading)
        points = [CostPoint(row.name, cost.time, gain) for row, cost, gain in times]
        if points:
            alt = "; ".join(f"{p.name}: {p.relative_time:.2f} times, {p.gain_percent:+.1f}%" for p in points)
            caption = (
                "Average gain over the own baseline against time a document; median of rounds that run all rankers "
                f"side by side, {cell.facts.get('documents', 'some')} documents; of untrained ones waiting counts too. "
                "Times differ from machine to machine."
            )
            owns = {reading.own[row].ranker for row, _, _ in times}
            baseline = owns.pop() if len(owns) == 1 else "baseline"
            yield Figure(gain_against_cost(points, baseline=baseline), caption, f"Points. {alt}.")


def relative_times(cell: CellResult, reading: Reading) -> list[tuple[Row, RelativeCost, float]]:
    """Each row with its time over its own baseline's, and its average gain in percent."""
    rounds: dict[str, list[float]] = {}
    for name, seconds in cell.seconds.items():
        rounds.setdefault(name.rpartition(", round ")[0], []).append(seconds)
    documents, tokens = int(cell.facts.get("documents", 1)), cell.facts.get("tokens", {})
    costs = {name: Cost(tuple(times), documents, tokens.get(name)) for name, times in rounds.items()}
    found = []
    swept = {label: value for label, value in cell.labels.items() if label not in {"what", "scored_on"}}
    for row in reading.rows:
        if any(swept.get(label, value) != value for label, value in row.settings):
            continue  # of another point of the sweep
        gains = reading.gains(row)
        own = reading.own.get(row)
        if own is None or bool(own.backbone) != bool(row.backbone):
            continue  # of trained rankers processor seconds are counted, of others all that pass
        names = [f"{r.ranker} {r.backbone}".rstrip() for r in (row, own)]
        if gains and names[0] != names[1] and set(names) <= costs.keys():
            cost = relative_costs(costs, {names[0]: names[1]})[names[0]]
            found.append((row, cost, sum(gains) / len(gains)))
    return found


def costs_table(reading: Reading) -> Table | None:
    """Gain beside the tokens that are read for it; times stand in the figure, for they are never the same twice."""
    found = [each for cell in reading.result.where(what="costs") for each in relative_times(cell, reading)]
    rows = [
        (Cell(row.name), Cell(f"{gain:+.1f}%"), Cell(f"{cost.tokens:.2f}"))
        for row, cost, gain in found
        if cost.tokens is not None
    ]
    notes = ("Average gain over the own baseline, and tokens read a document as a multiple of the baseline's.",)
    return Table(("system", "average gain", "tokens, times"), tuple(rows), notes) if rows else None


def _positions(result: ExperimentResult) -> Iterator[Figure]:
    samples, alts = {}, []
    edge = str((result.about.get("settings", {}).get("positions") or {}).get("edge", "start"))
    recorded = "stop" if edge == "end" else edge
    in_tokens = [cell for cell in result.where(what="positions") if cell.facts.get("tokenizer") != SNIPPETS]
    for cell in in_tokens:
        places, lengths = ([int(v) for v in cell.values.get(name, {}).values()] for name in (recorded, "length"))
        if lengths:
            name = str(cell.labels["collection"])
            samples[name] = PositionSample(places, lengths)
            alts.append(
                f"{name}: {len(places)} of {cell.facts.get('pairs', len(places))} relevant pairs located, "
                f"median {edge} {median(places):.0f}, median length {median(lengths):.0f} tokens"
            )
    if samples:
        tokenizers = sorted({str(c.facts.get("tokenizer", "")) for c in in_tokens} - {""})
        named = f"{edge.capitalize()} of the first relevant passage"
        caption = f"{named} against document length, in tokens ({', '.join(tokenizers)})."
        yield Figure(position_histograms(samples, edge=edge), caption, "; ".join(alts) + ".")
