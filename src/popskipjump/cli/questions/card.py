"""`psj card`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.commands.attack import Force
from popskipjump.cli.console import AsJson, plain_errors, tell_files
from popskipjump.cli.output import tell_answer
from popskipjump.cli.questions.curve import Eta

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; see `psj runs`.")]
Certified = Annotated[Path | None, typer.Option(help="A certify.json to include.", show_default="none")]
Out = Annotated[Path, typer.Option(help="Folder for card.html, card.md and card.json.")]


def card(
    runs: Runs,
    eta: Eta = None,
    certified: Certified = None,
    out: Out = Path("card"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a robustness card of some runs: one page for a model card, as HTML, Markdown and JSON."""
    from popskipjump.cli.output import folder_for
    from popskipjump.questions import card as made
    from popskipjump.questions import save
    from popskipjump.questions.card import read_certificates
    from popskipjump.runs.collect import load

    with plain_errors():
        proofs = None if certified is None else read_certificates(certified)
        answer = made([load(run) for run in runs], tuple(eta or ()), proofs)
        folder = folder_for(out, ("card.html", "card.md", "card.json"), force=force)
        tell_answer(answer, as_json)
        tell_files(save(answer, folder, markdown=True), as_json)
