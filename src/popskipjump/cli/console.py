"""Output streams: results go to standard output, everything else to standard error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from popskipjump.errors import PopSkipJumpError

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to the output instead of text, for programs.")]
BAD_INPUT = 2
INTERRUPTED = 130  # what a shell reports for a program that Ctrl-C ended
TERMINATED = 143  # likewise, SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM, as `timeout`, Slurm and Docker send it: what Ctrl-C saves is saved, and the exit code is its own."""


def output() -> Console:
    """For results."""
    return Console(highlight=False, soft_wrap=True)


def tell_json(content: Any) -> None:
    """A result for programs, alone on the output."""
    import json

    typer.echo(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


def tell_files(paths: Iterable[Path], as_json: bool = False) -> None:
    """What was written, where it does not get into the way of JSON."""
    for path in paths:
        (notes() if as_json else output()).print(f"written: {path}", markup=False)


def notes() -> Console:
    """For progress, remarks and errors."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(remark: str) -> None:
    """A remark for the user that is neither a result nor an error."""
    notes().print(Text(f"note: {remark}", style="yellow"))


@contextmanager
def plain_errors(when_interrupted: str = "nothing was written") -> Iterator[None]:
    """Turn errors that are raised on purpose into one line and an exit code, and Ctrl-C and SIGTERM into others."""
    try:
        with _terminable() as ended:
            yield
    except PopSkipJumpError as error:
        notes().print(Text(f"error: {' '.join(str(error).split())}", style="bold red"))
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        notes().print(Text(f"interrupted: {when_interrupted}.", style="bold yellow"))
        raise typer.Exit(TERMINATED if ended else INTERRUPTED) from error
    except typer.Exit as leaving:
        if ended and leaving.exit_code == INTERRUPTED:  # what SIGTERM stopped was finished in good order
            raise typer.Exit(TERMINATED) from leaving
        raise


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Let SIGTERM end the work as Ctrl-C does; a list that is filled when it comes."""
    ended: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return

    def stop(number: int, _: FrameType | None) -> None:
        ended.append(number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield ended
    finally:
        signal.signal(signal.SIGTERM, before)
