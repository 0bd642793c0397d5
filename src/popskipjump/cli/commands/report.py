"""`psj report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.console import output, plain_errors

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; see `psj runs`.")]
Out = Annotated[Path, typer.Option(help="The page to write.")]
Rows = Annotated[int, typer.Option(min=0, help="Images shown of each run; the numbers are of all of them.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a page that is there.")]


def report(runs: Runs, out: Out = Path("report.html"), rows: Rows = 30, force: Force = False) -> None:
    """Make one page of HTML of some runs, to open in a browser or to send: it needs no network and no other file."""
    from popskipjump.errors import InputError
    from popskipjump.experiments.page import render
    from popskipjump.runs.collect import load

    with plain_errors():
        if out.exists() and not force:
            raise InputError(f"{out} is there already: choose another --out, or pass --force to write over it.")
        page = render([load(run) for run in runs], rows)
        try:
            out.write_text(page, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{out} cannot be written ({error.strerror}): choose another --out.") from error
        output().print(f"written: {out}", markup=False)
