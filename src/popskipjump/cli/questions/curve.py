"""`psj curve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.commands.attack import Force
from popskipjump.cli.console import AsJson, plain_errors, tell_files
from popskipjump.cli.help import Command
from popskipjump.cli.output import tell_answer

MANY = "--eta"

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run; see `psj runs`.")]
Eta = Annotated[list[float] | None, typer.Option(MANY, help="Sizes to report on: --eta 0.5 1 2.")]
Confidence = Annotated[float, typer.Option(help="Confidence level of the band and of the median, such as 0.95.")]
Out = Annotated[Path | None, typer.Option(help="Folder for curve.json and curve.html.", show_default="none")]


class ManyValues(Command):
    """A command whose option `--eta` takes several numbers at once."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Write the option again before each of its numbers."""
        return super().parse_args(ctx, spread(args))


def spread(words: list[str]) -> list[str]:
    """`--eta 0.5 1 2` as `--eta 0.5 --eta 1 --eta 2`; other words stay as they are."""
    out: list[str] = []
    inside = False
    for word in words:
        if inside and _is_number(word) and out[-1] != MANY:
            out += [MANY]
        inside = word == MANY or (inside and _is_number(word))
        out.append(word)
    return out


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def curve(
    run: Run,
    eta: Eta = None,
    confidence: Confidence = 0.95,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Robust accuracy against the size of the attack, with a band that holds the whole curve."""
    from popskipjump.cli.output import folder_for
    from popskipjump.questions import curve_of, save
    from popskipjump.runs.collect import load

    with plain_errors():
        answer = curve_of(load(run), tuple(eta or ()), confidence)
        folder = None if out is None else folder_for(out, force=force)
        tell_answer(answer, as_json)
        tell_files([] if folder is None else save(answer, folder), as_json)
