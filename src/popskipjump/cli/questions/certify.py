"""`psj certify`."""

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
    Model,
    Seed,
    StartIndex,
    Threads,
    Weights,
)
from popskipjump.cli.console import AsJson, notes, plain_errors, tell_files
from popskipjump.cli.output import tell_answer
from popskipjump.cli.progress import Bar

Sigma = Annotated[float, typer.Option(help="Standard deviation of the Gaussian noise on every input value.")]
Declared = Annotated[bool, typer.Option("--declared", help="The classifier adds this noise itself.")]
Samples = Annotated[int, typer.Option(min=1, help="Number of answers behind each certified radius.")]
Confidence = Annotated[float, typer.Option(help="Probability with which the radii of all images hold together.")]
Budget = Annotated[int, typer.Option(min=1, help="Largest number of queries of the attack per image.")]
Out = Annotated[Path | None, typer.Option(help="Folder for certify.json and certify.html.", show_default="none")]


def certify(
    sigma: Sigma,
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    declared: Declared = False,
    samples: Samples = 1000,
    confidence: Confidence = 0.999,
    attack: Attack = "qsj",
    budget: Budget = 1000,
    images: Images = 10,
    start_index: StartIndex = 0,
    bounds: BoundsPair = (0.0, 1.0),
    seed: Seed = 0,
    threads: Threads = 1,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Bound the L2 robustness of a smoothed classifier from both sides: certified, and found by an attack."""
    from popskipjump.cli.inputs import load_images, load_model
    from popskipjump.cli.output import folder_for
    from popskipjump.oracles.speed import threads as using
    from popskipjump.questions import certify as certified
    from popskipjump.questions import save

    with plain_errors(), using(threads):
        chosen = load_images(data, images, start_index, targeted=False, from_noise=False, bounds=bounds)
        network = load_model(model, weights)
        folder = None if out is None else folder_for(out, force=force)
        with Bar(notes()) as bar:
            bar.stage(f"certify, {len(chosen.images)} images")
            answer = certified(
                network,
                chosen.images,
                chosen.labels,
                sigma,
                declared=declared,
                samples=samples,
                confidence=confidence,
                attack=attack,
                budget=budget,
                starts=chosen.pool,
                bounds=bounds,
                seed=seed,
                on_queries=bar.queries,
            )
            bar.done()
        tell_answer(answer, as_json)
        tell_files([] if folder is None else save(answer, folder), as_json)
