"""``longrank train``: rankers from a collection, candidates and a TOML file."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longrank.cli.course import Outcome
    from longrank.training.config import TrainConfig


def train(
    config: Annotated[Path, typer.Argument(help="TOML file: collection, candidates, ranker, [train] and out.")],
    *,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override, e.g. train.epochs=2; repeatable.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="Where the model computes: cpu, cuda, cuda:1 or mps.")
    ] = None,
    estimate_only: Annotated[bool, typer.Option("--estimate", help="Say what it would cost, and stop.")] = False,
) -> None:
    """Train a ranker, for every seed and fold; a stopped command goes on where it was.

    longrank train maxp.toml --set seeds="[0, 1, 2]" --set train.epochs=2
    """
    from longrank.cli.course import Course, leads, load, runs
    from longrank.core.settings import load_settings
    from longrank.encoders.device import usable_device
    from longrank.training.config import TrainConfig

    chosen = [] if device is None else [f"device={device}"]
    settings = load_settings(TrainConfig, config, [*(overrides or []), *chosen])
    usable_device(settings.device)
    _check_names(settings)
    course = Course(settings, load(settings.collection, _splits(settings)), runs(settings.candidates))
    if estimate_only:
        course.estimate(settings.seeds[0])
        return
    results = course.run()
    if leads():
        _write_summary(settings, results)


def _splits(config: "TrainConfig") -> list[str]:
    """The splits whose queries are needed; folds may name any."""
    from longrank.corpora.formats.beir import split_files

    if config.folds is not None:
        return list(split_files(config.collection))
    return [config.train_split, *([config.validation_split] if config.validation_split else [])]


def _check_names(config: "TrainConfig") -> None:
    """Refuse an unknown measure, loss or ranker now, not after an epoch."""
    from longrank.core.settings import to_spec
    from longrank.core.types import Qrels, Run, Spec
    from longrank.evaluation.measures import evaluate
    from longrank.rankers.zoo import RANKERS
    from longrank.training.losses import LOSSES

    evaluate(Run("none", {"q": {"d": 1.0}}), Qrels({"q": {"d": 1}}), [config.measure])
    LOSSES.build(Spec(config.train.loss, config.train.loss_params))
    if config.ranker is not None:
        RANKERS[to_spec(config.ranker).name]


def _write_summary(config: "TrainConfig", outcomes: "Sequence[Outcome]") -> None:
    from longrank import __version__
    from longrank.core.disk import write_atomic
    from longrank.core.fingerprint import plain

    path, made = config.out / "summary.json", [plain(asdict(outcome)) for outcome in outcomes]
    earlier = json.loads(path.read_text(encoding="utf-8"))["outcomes"] if path.is_file() else []
    kept = [outcome for outcome in earlier if outcome["seed"] not in config.seeds]
    every = sorted(kept + made, key=lambda outcome: outcome["seed"])
    write_atomic(path, json.dumps({"version": __version__, "settings": plain(config), "outcomes": every}, indent=1))
    collapsed = sum(outcome.log.collapsed for outcome in outcomes)
    if collapsed:
        typer.echo(f"{collapsed} of {len(outcomes)} trainings collapsed to constant scores; none was left out")
