"""The commands under one name. What takes long to import is imported by the command that needs it."""

from __future__ import annotations

from typing import Annotated

import typer

from popskipjump.cli.attack import attack
from popskipjump.cli.attacks import attacks
from popskipjump.cli.demo import demo
from popskipjump.cli.noises import noises
from popskipjump.cli.report import report
from popskipjump.cli.reproduce import reproduce
from popskipjump.cli.resume import resume
from popskipjump.cli.runs import runs

app = typer.Typer(
    name="psj",
    help="Measure the robustness of a classifier, noisy or not, from its labels alone. For models of your own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(attack)
app.command()(attacks)
app.command()(noises)
app.command()(reproduce)
app.command()(runs)
app.command()(resume)
app.command()(report)


def _show_version(wanted: bool) -> None:
    if wanted:
        from popskipjump import __version__

        typer.echo(f"popskipjump {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of `psj` itself."""


def main() -> None:
    """Entry point of the command `psj`."""
    app()
