"""`psj attack`."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.console import INTERRUPTED, notes, output, plain_errors
from popskipjump.cli.progress import Bar


class Starts(str, Enum):
    """Where attacks begin."""

    IMAGES = "images"
    NOISE = "noise"


Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.PY:FACTORY",
        help="A function without arguments that returns a torch module, a function to labels, or an oracle. "
        "The file is run: name only files that you trust.",
        show_default="the embedded MNIST network",
    ),
]
Weights = Annotated[Path | None, typer.Option(metavar="X.SAFETENSORS", help="Weights for the torch module.")]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="X.NPZ",
        help="Arrays `images` (N, ...) and `labels` (N,).",
        show_default="the embedded MNIST test images",
    ),
]
Attack = Annotated[str, typer.Option(help="See `psj attacks`.")]
Noise = Annotated[str | None, typer.Option(help="Noise to put on the answers, such as flip:0.1; see `psj noises`.")]
Norm = Annotated[str, typer.Option(help="l2 or linf.")]
IsTargeted = Annotated[bool, typer.Option("--targeted", help="Reach the classes in the array `targets` of --data.")]
StartsFrom = Annotated[Starts, typer.Option(help="Begin at images of other classes (of all the data), or at noise.")]
Votes = Annotated[int, typer.Option(min=1, help="Ask everything so often and take the majority.")]
Images = Annotated[int, typer.Option(min=1, help="How many images.")]
StartIndex = Annotated[int, typer.Option(min=0, help="The first of them.")]
Iterations = Annotated[int | None, typer.Option(min=0, help="Steps.", show_default="the attack's own, 32")]
Budget = Annotated[int | None, typer.Option(min=1, help="Queries of each image at most.", show_default="no limit")]
StopDistance = Annotated[float | None, typer.Option(min=0, help="An image is done once its point is this near.")]
Verdict = Annotated[int, typer.Option(min=0, help="Fresh queries at each returned point.")]
BoundsPair = Annotated[tuple[float, float], typer.Option(metavar="LOW HIGH", help="Range of an input value.")]
Seed = Annotated[int, typer.Option(help="Of all randomness of the attack and of --noise.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Of torch.", show_default="torch's own choice")]
Out = Annotated[Path | None, typer.Option(help="Folder for report.json and points.npz.", show_default="none")]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")]


def attack(
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    attack: Attack = "psj",
    noise: Noise = None,
    norm: Norm = "l2",
    targeted: IsTargeted = False,
    starts: StartsFrom = Starts.IMAGES,
    votes: Votes = 1,
    images: Images = 10,
    start_index: StartIndex = 0,
    iterations: Iterations = None,
    budget: Budget = None,
    stop_distance: StopDistance = None,
    verdict: Verdict = 50,
    bounds: BoundsPair = (0.0, 1.0),
    seed: Seed = 0,
    threads: Threads = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Attack a model from its labels alone and report how far its border is: by default the embedded one."""
    spec = {name: _plain(value) for name, value in locals().items() if name not in ("out", "force")}
    from popskipjump import Status, evaluate
    from popskipjump.cli.inputs import load_images, load_model
    from popskipjump.cli.output import folder_for, write_results
    from popskipjump.oracles.speed import threads as using

    with plain_errors(), using(threads):
        from_noise = starts is Starts.NOISE
        chosen = load_images(data, images, start_index, targeted=targeted, from_noise=from_noise, bounds=bounds)
        network = load_model(model, weights)
        folder = None if out is None else folder_for(out, force=force)
        began = time.perf_counter()
        with Bar(notes()) as bar:
            bar.stage(f"{attack}, {len(chosen.images)} images")
            report = evaluate(
                network,
                chosen.images,
                chosen.labels,
                attack,
                noise,
                norm,
                chosen.targets,
                chosen.pool,
                votes,
                iterations,
                budget,
                bounds,
                seed,
                stop_distance=stop_distance,
                verdict=verdict,
                image_ids=chosen.image_ids,
                keep_trace=False,
                on_progress=bar.iteration,
                on_queries=bar.queries,
            )
            stopped = Status.INTERRUPTED in report.status
            if not stopped:
                bar.done()
        output().print(str(report), markup=False)
        if folder is not None:
            write_results(folder, report, chosen.image_ids, spec, time.perf_counter() - began)
            output().print(f"written: {folder / 'report.json'} and {folder / 'points.npz'}", markup=False)
        if stopped:
            raise typer.Exit(INTERRUPTED)


def _plain(value: object) -> object:
    """An option as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value
