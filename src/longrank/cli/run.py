"""``longrank run``: an experiment from its TOML file to per-query records."""

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longrank.experiments.execute import Store
    from longrank.experiments.records import CellResult
    from longrank.experiments.step import Plan, Step

Patterns = list[str] | None


def run(
    experiment: Annotated[Path, typer.Argument(help="TOML file, such as one of experiments/laptop.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for steps, shared by all experiments, and results.")] = Path(
        "results"
    ),
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override, e.g. seeds=[0]; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and stop.")] = False,
    only: Annotated[Patterns, typer.Option(help="Only steps like this, and what they need; repeatable.")] = None,
    force: Annotated[Patterns, typer.Option(help="Make again steps like this and what reads them; repeatable.")] = None,
    known: Annotated[
        list[Path] | None, typer.Option(help="Earlier results, of any machine: their cells are taken; repeatable.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes, a torch thread each, as memory allows.")] = 1,
    name: Annotated[
        str | None, typer.Option(help="Folder of the results; the file's name and size if not given.")
    ] = None,
) -> None:
    """Run an experiment: steps that are done are found, one that was stopped goes on where it was.

    longrank run experiments/laptop/headline.toml --set seeds=[0] --set 'rankers=["firstp", "maxp"]' --workers 2
    """
    from longrank.experiments.execute import Store, chosen_steps, fitting_steps, missing_steps, run_steps, with_readers
    from longrank.experiments.gather import gather
    from longrank.experiments.known import read_known
    from longrank.experiments.plan import make_plan
    from longrank.experiments.records import write_result
    from longrank.experiments.settings import load_experiment

    settings = load_experiment(experiment, overrides or [])
    plan, store, earlier = make_plan(settings), Store(out / "steps"), read_known(known or [])
    steps = chosen_steps(earlier.remaining(plan), only or [])
    again = with_readers(fitting_steps(steps, force or []), plan)
    for step in plan.steps:
        if step.fingerprint in again and not dry_run:
            store.forget(step)
    missing = missing_steps(steps, store, lambda line: typer.echo(line, err=True), mend=not dry_run)
    again |= {step.fingerprint for step in missing}
    missing = tuple(step for step in steps if step.fingerprint in again)
    _show(plan, steps, missing, store, workers=workers, in_full=dry_run)
    if dry_run:
        return
    began, folder = time.perf_counter(), out / (name or f"{experiment.stem}-{settings.size}")
    try:
        run_steps(missing, store, workers=workers, say=lambda line: typer.echo(f"{_clock(began)} {line}"))
    finally:  # what is finished can be read, whatever happened to the rest
        result = gather(plan, store, earlier, say=lambda line: typer.echo(line, err=True))
        write_result(folder, result)
    typer.echo(f"{folder}: {len(result.cells)} of {len(plan.cells)} cells, {_clock(began)}")
    _summary(result.cells)
    if result.cells:
        from longrank.reports.experiment import write_reports

        typer.echo(f"The page: {write_reports(folder)['html']}")


def _clock(began: float) -> str:
    minutes, seconds = divmod(int(time.perf_counter() - began), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _show(
    plan: "Plan", steps: "tuple[Step, ...]", missing: "tuple[Step, ...]", store: "Store", *, workers: int, in_full: bool
) -> None:
    """The plan: what is there, what will be made, and about how long it takes."""
    from longrank.experiments.costs import duration, measured_speed

    to_make = {step.fingerprint for step in missing}
    trained = [step for step in steps if step.kind == "train" and step.fingerprint not in to_make]
    timed = [(step.work, store.seconds(step)) for step in trained]
    speed = measured_speed((work, seconds) for work, seconds in timed if seconds is not None)
    typer.echo(
        f"{plan.experiment.title}: {len(steps)} steps, {len(steps) - len(missing)} done, {len(plan.cells)} cells"
    )
    for step in steps if in_full else ():
        state = "make" if step.fingerprint in to_make else "done"
        size = f"{step.work.memory_bytes / 2**30:.1f} GiB"
        taken = duration(step.work.seconds(speed)) if step.work.operations or step.work.queries_known else ""
        taken = taken if step.work.queries_known else f"{taken} + ?".removeprefix(" + ")
        cost = f"{taken:>8} {size}" if step.fingerprint in to_make else ""
        typer.echo(f"  {state}  {step.fingerprint}  {step.label:<72} {cost}".rstrip())
    if not missing:
        return
    if not in_full:
        kinds = Counter(step.kind for step in missing)
        typer.echo("to make: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    unknown = sum(not step.work.queries_known for step in missing)
    total = duration(sum(step.work.seconds(speed) for step in missing) / workers)
    hidden = f", and what {unknown} steps of unknown size take" if unknown else ""
    cores = f"{workers} cores" if workers > 1 else "one core"
    taken = "time unknown" if unknown == len(missing) else f"about {total} on {cores} of this machine{hidden}"
    largest = max(step.work.memory_bytes for step in missing) / 2**30
    typer.echo(f"{taken}, up to {largest:.1f} GiB a process")


def _summary(cells: "tuple[CellResult, ...]") -> None:
    """Means by cell, seeds averaged: enough to see that it worked; reports make the tables."""
    from longrank.experiments.records import LABELS

    means: dict[tuple[str, ...], list[float]] = {}
    for cell in cells:
        if not cell.values or "ranker" not in cell.labels:
            continue
        names = [str(cell.labels[n]) for n in ("ranker", "backbone", "stage", "scored_on") if cell.labels[n] != ""]
        names += [f"{label}={value}" for label, value in cell.labels.items() if label not in LABELS]
        for measure, row in cell.values.items():
            means.setdefault((*names, measure), []).append(sum(row.values()) / max(1, len(row)))
    for key, values in means.items():
        seeds = "1 seed" if len(values) == 1 else f"{len(values)} seeds"
        typer.echo(f"  {' / '.join(key):<72} {sum(values) / len(values):.4f}  ({seeds})")
