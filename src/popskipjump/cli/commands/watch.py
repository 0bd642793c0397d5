"""`psj watch`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.console import output, plain_errors

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, under way or done; see `psj runs`.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one and prints it.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address, and open no browser.")]
Out = Annotated[
    Path | None, typer.Option(help="Write what is known now as one page of HTML, instead of following the run.")
]
Force = Annotated[bool, typer.Option("--force", help="Write over a page that is there.")]


def watch(run: Run, port: Port = 0, no_browser: NoBrowser = False, out: Out = None, force: Force = False) -> None:
    """Follow a run in the browser, iteration by iteration, until Ctrl-C: image, search line, sigmoid, queries.

    A run keeps the iterations of the first images of every group. The run itself is not touched.
    """
    with plain_errors("no longer watching; the run itself was not touched"):
        from popskipjump.errors import InputError
        from popskipjump.experiments.watch import page_of
        from popskipjump.experiments.watch_server import WatchServer

        if out is not None:
            if out.exists() and not force:
                raise InputError(f"{out} is there already: choose another --out, or pass --force to write over it.")
            page = page_of(run, live=False)
            try:
                out.write_text(page, encoding="utf-8")
            except OSError as error:
                raise InputError(f"{out} cannot be written ({error.strerror}): choose another --out.") from error
            output().print(f"written: {out}", markup=False)
            return
        with WatchServer(run, port) as server:
            output().print(f"watching {run} at {server.address} (Ctrl-C ends)", markup=False)
            if not no_browser and sys.stdout.isatty():
                import webbrowser

                webbrowser.open(server.address)
            server.serve_forever(poll_interval=0.2)
