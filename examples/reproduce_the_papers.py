"""A paper's table as data, your own numbers beside it, and tests over an experiment's records."""

from pathlib import Path
from tempfile import TemporaryDirectory

from longrank.core.seeds import generator
from longrank.evaluation import compare
from longrank.evaluation.papers import beside, paper_table
from longrank.experiments.records import CellResult, ExperimentResult, by_system, read_result, write_result


def paper() -> None:
    table = paper_table("positional-bias/4")
    maxp = table.cell("MaxP", ("far-relevant/zero-shot", "RR"))
    print(f"{table.title}: MaxP without fine-tuning, {maxp.value.digits if maxp.value else '?'}")

    mine = {("maxp", ("far-relevant/zero-shot", "RR")): 0.281}
    for row in beside(table, mine):
        if row.ours is not None:
            print(f"{row.system} on {row.column}: theirs {row.theirs}, ours {row.ours}")


def records(folder: Path) -> None:
    result = read_result(folder)
    far = result.where(scored_on="toy-far", stage="zero-shot")
    systems = by_system(far, name=("ranker",))
    comparison = compare(systems, baseline="firstp", rng=generator("my comparison", 0))
    for estimate in comparison.estimates:
        low, high = estimate.interval
        print(f"{estimate.system} - {estimate.baseline}: {estimate.difference:+.3f} [{low:+.3f}, {high:+.3f}]")


def made_up(folder: Path) -> None:
    """Records as `longrank run` leaves them, here of two rankers and four queries."""
    values = {"firstp": [0.2, 0.1, 0.0, 0.1], "maxp": [1.0, 0.5, 0.5, 1.0]}
    cells = [
        CellResult(
            {"ranker": ranker, "backbone": "tiny", "seed": 0, "stage": "zero-shot", "scored_on": "toy-far"},
            {"RR": {f"q{number}": value for number, value in enumerate(row)}},
        )
        for ranker, row in values.items()
    ]
    write_result(folder, ExperimentResult({"title": "Made up"}, tuple(cells)))


if __name__ == "__main__":
    paper()
    with TemporaryDirectory() as temporary:
        made_up(Path(temporary))
        records(Path(temporary))
