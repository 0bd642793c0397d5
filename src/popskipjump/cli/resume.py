"""`psj resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from popskipjump.cli.console import notes, output, plain_errors
from popskipjump.cli.progress import Bar

if TYPE_CHECKING:
    from popskipjump.experiments.runner import Source

KEPT = "what was answered is kept; go on with the same command"

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; see `psj runs`.")]
Data = Annotated[
    Path | None, typer.Option(help="Folder or npz file of the images.", show_default="where it was before")
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.PY:FACTORY",
        help="The model, if it comes from a Python file. The file is run: name only files that you trust.",
    ),
]
Weights = Annotated[
    Path | None, typer.Option(metavar="X.SAFETENSORS", help="Weights.", show_default="where they were before")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Of torch.", show_default="torch's own choice")]


def resume(
    runs: Runs, data: Data = None, model: Model = None, weights: Weights = None, threads: Threads = None
) -> None:
    """Go on with interrupted runs until every image that was asked for is done. No query is asked a second time."""
    from popskipjump.experiments.runner import resume as go_on
    from popskipjump.oracles.speed import threads as using
    from popskipjump.storage import RunFolder

    with plain_errors(KEPT), using(threads):
        missing = []
        for run in runs:  # what cannot be used is said before the first query
            with RunFolder.reading(run) as folder:
                missing.append(len(set(folder.asked()) - set(folder.finished())))
        with Bar(notes(), max(sum(missing), 1)) as bar:
            for run, work in zip(runs, missing, strict=True):
                bar.stage(run.resolve().name, work)
                source = _source(run, data, model, weights) if work else None
                if source is not None:
                    go_on(run, source=source, on_queries=bar.queries, on_progress=lambda now: bar.share(now.share))
            bar.done()
        for run, work in zip(runs, missing, strict=True):
            output().print(f"{run}: {f'{work} images were missing, ' if work else ''}all are done.", markup=False)


def _source(run: Path, data: Path | None, model: str | None, weights: Path | None) -> Source:
    """Where the run's source was before, unless the user says otherwise."""
    from popskipjump.experiments.runner import source_at, source_of
    from popskipjump.storage import RunFolder

    if data is None and model is None and weights is None:
        return source_at(run)
    with RunFolder.reading(run) as folder:
        place, spec = folder.place(), folder.spec
    return source_of(
        spec.dataset,
        data or place.get("data"),
        model or spec.model,
        weights or place.get("weights"),
    )
