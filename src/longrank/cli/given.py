"""What a person gave on the command line: numbers that are none and options without effect are refused."""

import math
from collections.abc import Iterable

import typer


def number_or_inf(number: float) -> float:
    """The number of an option that may be 'inf', for no limit; 'nan' is refused."""
    if math.isnan(number):
        raise typer.BadParameter(f"{number} is no number that can be used.")
    return number


def finite(number: float | None) -> float | None:
    """The number of an option; 'nan' and 'inf' are refused, which Python reads as numbers and no limit holds."""
    if number is not None and not math.isfinite(number):
        raise typer.BadParameter(f"{number} is no number that can be used.")
    return number


def above_zero(number: float | None) -> float | None:
    """The number of an option that nothing, or less, cannot be."""
    if (number := finite(number)) is not None and number <= 0:
        raise typer.BadParameter(f"{number:g} is not more than 0.")
    return number


def given_options(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Those of the parameters that stand on the command line, as they are written there."""
    typed = (name for name in names if str(context.get_parameter_source(name)).endswith("COMMANDLINE"))
    return [f"--{name.replace('_', '-')}" for name in typed]
