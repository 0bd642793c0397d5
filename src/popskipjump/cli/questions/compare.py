"""`psj compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from popskipjump.cli.commands.attack import (
    Attack,
    BoundsPair,
    Data,
    Force,
    Images,
    Norm,
    Seed,
    StartIndex,
    Threads,
)
from popskipjump.cli.console import AsJson, notes, plain_errors, tell_files
from popskipjump.cli.output import tell_answer
from popskipjump.cli.progress import Bar

EMBEDDED = "embedded"

Base = Annotated[str, typer.Argument(metavar="BASE", help="FILE.PY:FACTORY, or `embedded` for the MNIST network.")]
Defended = Annotated[
    str, typer.Argument(metavar="DEFENDED", help="The classifier with the defence: FILE.PY:FACTORY, or `embedded`.")
]
BaseNoise = Annotated[str | None, typer.Option(help="Noise to put on the answers of BASE; see `psj noises`.")]
DefendedNoise = Annotated[str | None, typer.Option(help="Noise to put on the answers of DEFENDED.")]
Budget = Annotated[int, typer.Option(min=1, help="Number of queries per image on BASE.")]
Scale = Annotated[
    float | None,
    typer.Option(
        help="Queries on DEFENDED, as a multiple of those on BASE.", show_default="what its noise needs, by `check`"
    ),
]
Margin = Annotated[float, typer.Option(help="Two distances count as equal if their ratio is at most 1 + this.")]
Out = Annotated[Path | None, typer.Option(help="Folder for compare.json and compare.html.", show_default="none")]


def compare(
    base: Base,
    defended: Defended,
    data: Data = None,
    base_noise: BaseNoise = None,
    defended_noise: DefendedNoise = None,
    attack: Attack = "qsj",
    norm: Norm = "l2",
    budget: Budget = 2000,
    scale: Scale = None,
    margin: Margin = 0.1,
    images: Images = 20,
    start_index: StartIndex = 0,
    bounds: BoundsPair = (0.0, 1.0),
    seed: Seed = 0,
    threads: Threads = 1,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Is the defence real, or only noise? The model files are run: name only files that you trust."""
    from popskipjump.cli.inputs import load_images, load_model
    from popskipjump.cli.output import folder_for
    from popskipjump.oracles.speed import threads as using
    from popskipjump.questions import compare as compared
    from popskipjump.questions import save

    with plain_errors(), using(threads):
        chosen = load_images(data, images, start_index, targeted=False, from_noise=False, bounds=bounds)
        plain, other = (load_model(None if place == EMBEDDED else place, None) for place in (base, defended))
        folder = None if out is None else folder_for(out, force=force)
        with Bar(notes()) as bar:
            bar.stage(f"compare, {len(chosen.images)} images")
            answer = compared(
                plain,
                other,
                chosen.images,
                chosen.labels,
                base_noise=base_noise,
                defended_noise=defended_noise,
                attack=attack,
                norm=norm,
                budget=budget,
                scale=scale,
                starts=chosen.pool,
                margin=margin,
                bounds=bounds,
                seed=seed,
                on_queries=bar.queries,
            )
            bar.done()
        tell_answer(answer, as_json)
        tell_files([] if folder is None else save(answer, folder), as_json)
