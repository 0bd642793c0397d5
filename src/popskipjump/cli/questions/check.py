"""`psj check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.commands.attack import (
    BoundsPair,
    Data,
    Force,
    Model,
    Noise,
    Seed,
    StartIndex,
    Threads,
    Weights,
)
from popskipjump.cli.console import AsJson, notes, plain_errors, tell_files
from popskipjump.cli.output import tell_answer
from popskipjump.cli.progress import Bar

Images = Annotated[int, typer.Option(min=1, max=8, help="Number of images.")]
Distance = Annotated[
    float | None,
    typer.Option(
        help="L2 distance for which to predict the queries of qsj and psj.",
        show_default="within 20% of the nearest that they find",
    ),
]
Run = Annotated[
    int, typer.Option(min=0, help="Queries per image of a run of qsj that the prediction is held against; 0: no run.")
]
Budget = Annotated[int, typer.Option(min=1, help="Largest number of queries per image.")]
Out = Annotated[Path | None, typer.Option(help="Folder for check.json and check.html.", show_default="none")]


def check(
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    noise: Noise = None,
    images: Images = 8,
    start_index: StartIndex = 0,
    budget: Budget = 500,
    distance: Distance = None,
    run: Run = 0,
    bounds: BoundsPair = (0.0, 1.0),
    seed: Seed = 0,
    threads: Threads = 1,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Is this classifier noisy, and how? Names the kind of noise, its size, and what to do, from labels alone."""
    from popskipjump.cli.inputs import load_images, load_model
    from popskipjump.cli.output import folder_for
    from popskipjump.oracles.speed import threads as using
    from popskipjump.questions import check as checked
    from popskipjump.questions import save

    with plain_errors(), using(threads):
        chosen = load_images(data, images, start_index, targeted=False, from_noise=True, bounds=bounds)
        network = load_model(model, weights)
        folder = None if out is None else folder_for(out, force=force)
        with Bar(notes()) as bar:
            bar.stage(f"check, {len(chosen.images)} images")
            answer = checked(
                network,
                chosen.images,
                chosen.labels,
                noise=noise,
                budget=budget,
                distance=distance,
                run=run,
                bounds=bounds,
                seed=seed,
                on_queries=bar.queries,
            )
            bar.done()
        tell_answer(answer, as_json)
        tell_files([] if folder is None else save(answer, folder), as_json)
