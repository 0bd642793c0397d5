"""The app that holds all commands. Slow imports happen inside the command that needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from popskipjump.cli.commands.attack import attack
from popskipjump.cli.commands.attacks import attacks
from popskipjump.cli.commands.demo import demo
from popskipjump.cli.commands.human import human
from popskipjump.cli.commands.noises import noises
from popskipjump.cli.commands.report import report
from popskipjump.cli.commands.reproduce import reproduce
from popskipjump.cli.commands.resume import resume
from popskipjump.cli.commands.runs import runs
from popskipjump.cli.commands.serve import serve
from popskipjump.cli.commands.watch import watch
from popskipjump.cli.help import EXIT_CODES, START, Command, Group, examples_of
from popskipjump.cli.questions.card import card
from popskipjump.cli.questions.certify import certify
from popskipjump.cli.questions.check import check
from popskipjump.cli.questions.compare import compare
from popskipjump.cli.questions.curve import ManyValues, curve
from popskipjump.cli.questions.gate import gate
from popskipjump.memory import keep_memory

app = typer.Typer(
    name="psj",
    cls=Group,
    help="Measure how robust a classifier is, using only its predicted labels, even when they are noisy. "
    "Attack only models that are yours, or whose owner has agreed.",
    epilog=EXIT_CODES,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    demo,
    attack,
    attacks,
    noises,
    reproduce,
    runs,
    resume,
    report,
    watch,
    check,
    compare,
    certify,
    curve,
    gate,
    card,
    serve,
    human,
)
for _command in COMMANDS:
    _kind = ManyValues if _command in (curve, card) else Command
    app.command(cls=_kind, epilog=examples_of(_command.__name__))(_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from popskipjump import __version__

        typer.echo(f"popskipjump {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Measure how robust a classifier is, using only its predicted labels, even when they are noisy."""
    if context.invoked_subcommand is None:
        typer.echo(START, nl=False)


def main() -> None:
    """Entry point of the command `psj`."""
    keep_memory()  # before the first large allocation
    app()
