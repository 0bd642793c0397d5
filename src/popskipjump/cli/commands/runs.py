"""`psj runs`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from popskipjump.cli.console import AsJson, output, plain_errors, tell_json

if TYPE_CHECKING:
    from popskipjump.storage import RunInfo

ROOT = Path("psj-reproduce") / "runs"  # where `psj reproduce` keeps them unless it is told otherwise


def runs(
    root: Annotated[
        Path | None,
        typer.Argument(help="The folder that holds the runs, or one run.", show_default=f"this one, or {ROOT}"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder: what each is, how many of the images asked for are done, and its state."""
    from popskipjump.storage import list_runs

    with plain_errors():
        place = Path() if root is None else root
        found = list_runs(place)
        if not found and root is None and ROOT.is_dir():
            found = list_runs(ROOT)
        if as_json:
            tell_json([_as_json(run) for run in found])
            return
        if not found:
            advice = "`psj attack --out FOLDER` makes one"
            output().print(f"no runs in the folder {place.resolve()}: {advice}.", markup=False, soft_wrap=True)
            return
        output().print(_table(found), soft_wrap=False)
        for run in found:
            for remark in _remarks(run):
                output().print(Text(f"{run.path.name}: {remark}"))


def _as_json(run: RunInfo) -> dict[str, Any]:
    """A run for programs; null where it cannot be read."""
    about = {"path": str(run.path), "what": None, "digest": None}
    if run.spec is not None:
        about |= {"what": run.spec.words, "digest": run.spec.digest}
    rest = ("state", "finished", "asked", "queries", "under_way", "journalled", "in_flight", "deaths", "damage")
    return about | {name: getattr(run, name) for name in rest}


def _table(found: list[RunInfo]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("run", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("images", justify="right", no_wrap=True)
    table.add_column("queries", justify="right", no_wrap=True)
    table.add_column("under way", justify="right", overflow="fold")
    table.add_column("state", overflow="fold")
    for run in found:
        what = "?" if run.spec is None else run.spec.words
        counts = ("-", "-") if run.spec is None else (f"{run.finished}/{run.asked}", f"{run.queries:,}")
        begun = f"{run.journalled:,} answers of {run.under_way} images" if run.journalled else "-"
        table.add_row(Text(run.path.name), Text(what), *counts, begun, Text(run.state))
    return table


def _remarks(run: RunInfo) -> list[str]:
    """What does not fit the table."""
    remarks = [] if run.damage is None else [run.damage]
    if run.deaths:
        times = f"{run.deaths} interruptions" if run.deaths > 1 else "an interruption"
        remarks.append(f"{run.in_flight:,} queries were in flight at {times}: they are asked again.")
    return remarks
