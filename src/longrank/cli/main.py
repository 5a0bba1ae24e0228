"""``longrank``: what the commands are called, and how errors reach a person."""

import os
import sys
from typing import Annotated

import typer

from longrank.cli.audit import audit
from longrank.cli.board import board
from longrank.cli.ceiling import ceiling
from longrank.cli.check import check
from longrank.cli.compare import compare
from longrank.cli.demo import demo
from longrank.cli.evaluate import evaluate
from longrank.cli.expand import expand
from longrank.cli.explain import explain
from longrank.cli.export import export
from longrank.cli.fuse import fuse
from longrank.cli.harden import harden
from longrank.cli.listing import list_
from longrank.cli.make import make_app
from longrank.cli.probe import probe
from longrank.cli.profile import profile
from longrank.cli.pseudo_label import pseudo_label
from longrank.cli.report import report
from longrank.cli.rerank import rerank
from longrank.cli.retrieve import retrieve
from longrank.cli.run import run as run_experiment
from longrank.cli.serve import serve
from longrank.cli.show import show
from longrank.cli.stats import stats
from longrank.cli.train import train
from longrank.core.errors import LongrankError

app = typer.Typer(
    name="longrank",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Rank long documents, and know whether a ranker reads them to the end.",
)
app.command()(demo)
app.command(name="list")(list_)
app.add_typer(make_app, name="make")
app.command()(check)
app.command()(retrieve)
app.command()(fuse)
app.command()(expand)
app.command()(train)
app.command(name="run")(run_experiment)
app.command()(rerank)
app.command()(explain)
app.command()(evaluate)
app.command()(compare)
app.command(name="pseudo-label")(pseudo_label)
app.command()(profile)
app.command()(ceiling)
app.command()(stats)
app.command()(show)
app.command()(audit)
app.command()(probe)
app.command()(harden)
app.command()(board)
app.command()(export)
app.command()(report)
app.command()(serve)

_INTERRUPTED = 130  # what shells take for a program that was ended by Ctrl-C

_state = {"debug": False}


def _version(wanted: bool) -> None:
    if wanted:
        from longrank import __version__

        typer.echo(f"longrank {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Rank long documents, and know whether a ranker reads them to the end."""
    _state["debug"] = debug


def run() -> None:
    """Entry point: exit 0 done, 1 failed, 2 usage, 3 threshold missed, 130 interrupted; an error is one sentence."""
    try:
        app()
    except LongrankError as error:
        if _state["debug"]:
            raise
        typer.echo(f"longrank: {error}", err=True)
        sys.exit(1)
    except SystemExit as end:
        if end.code == _INTERRUPTED:  # typer has made an exit of the interrupt
            _say_interrupted()
        raise
    except KeyboardInterrupt:
        _say_interrupted()
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe has gone; nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if _state["debug"]:
            raise
        place = "" if error.filename is None else f"{error.filename}: "
        typer.echo(f"longrank: {place}{error.strerror or error}", err=True)
        sys.exit(1)


def _say_interrupted() -> None:
    typer.echo("longrank: interrupted; the same command goes on where this one was", err=True)
