"""Where text goes: results to the output, everything else to the error stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from popskipjump.errors import PopSkipJumpError

BAD_INPUT = 2
INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended


def output() -> Console:
    """For results."""
    return Console(highlight=False, soft_wrap=True)


def notes() -> Console:
    """For progress, remarks and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def plain_errors(when_interrupted: str = "nothing was written") -> Iterator[None]:
    """Turn errors that are raised on purpose into one line and an exit code, and Ctrl-C into another."""
    try:
        yield
    except PopSkipJumpError as error:
        notes().print(Text(f"error: {' '.join(str(error).split())}", style="bold red"))
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        notes().print(Text(f"interrupted: {when_interrupted}.", style="bold yellow"))
        raise typer.Exit(INTERRUPTED) from error
