"""Which options a person gave, so that those without effect can be refused."""

from collections.abc import Iterable

import typer


def given_options(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Those of the parameters that stand on the command line, as they are written there."""
    typed = (name for name in names if str(context.get_parameter_source(name)).endswith("COMMANDLINE"))
    return [f"--{name.replace('_', '-')}" for name in typed]
