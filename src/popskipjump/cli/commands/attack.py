"""`psj attack`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from popskipjump.cli.console import AsJson, plain_errors
from popskipjump.cli.engine import Address, Memory, Name, Timeout, WorkerCpus, WorkerGpus, Workers, engine_of
from popskipjump.cli.space import Columns, Mask, Scale


class Starts(str, Enum):
    """Where attacks begin."""

    IMAGES = "images"
    NOISE = "noise"


Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.PY:FACTORY|URL",
        help="A function without arguments that returns a torch module, a function to labels, or an oracle; or the "
        "address of a model on an inference server (V2). "
        "The file is run: name only files that you trust.",
        show_default="the embedded MNIST network",
    ),
]
Weights = Annotated[Path | None, typer.Option(metavar="X.SAFETENSORS", help="File of weights for the torch module.")]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="X.NPZ|X.CSV",
        help="File with the arrays `images` (N, ...) and `labels` (N,); or a table with a header and a column `label`, "
        "whose classifier is asked with pandas frames.",
        show_default="the embedded MNIST test images",
    ),
]
Attack = Annotated[str, typer.Option(help="Name of the attack; `psj attacks` lists them.")]
Noise = Annotated[str | None, typer.Option(help="Noise to put on the answers, such as flip:0.1; see `psj noises`.")]
Norm = Annotated[str, typer.Option(help="Norm of the distance: l2 or linf.")]
IsTargeted = Annotated[bool, typer.Option("--targeted", help="Reach the classes in the array `targets` of --data.")]
StartsFrom = Annotated[Starts, typer.Option(help="Begin at images of other classes (of all the data), or at noise.")]
Votes = Annotated[int, typer.Option(min=1, help="Repeat each query this many times and take the majority.")]
Images = Annotated[int, typer.Option(min=1, help="Number of images to attack.")]
StartIndex = Annotated[int, typer.Option(min=0, help="Number of the first image, counted from 0.")]
Iterations = Annotated[
    int | None,
    typer.Option(
        min=0, help="Number of steps along the border.", show_default="the attack's own; qsj: until its budget is spent"
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(min=1, help="Largest number of queries per image.", show_default="1000 for qsj, no limit for others"),
]
StopDistance = Annotated[
    float | None, typer.Option(min=0, help="Stop an image once its point is at most this far away.")
]
Verdict = Annotated[
    int, typer.Option(min=0, help="Number of fresh queries at each returned point, beyond those that confirm it.")
]
BoundsPair = Annotated[
    tuple[float, float], typer.Option(metavar="LOW HIGH", help="Smallest and largest value of an input.")
]
Seed = Annotated[int, typer.Option(help="Random seed of the attack and of the noise.")]
Threads = Annotated[
    int,
    typer.Option(min=1, help="Number of torch threads. One is fastest for small networks, whose calls are short."),
]
Optimize = Annotated[
    bool,
    typer.Option(
        help="Ask a torch module through a frozen, fused copy, which is checked against it and answers alike, faster."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the run, with report.json and points.npz: look at it with `psj runs` and `psj report`, go on "
        "with `psj resume` or the same command.",
        show_default="none",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Write into a folder that already holds other files.")]


NOT_GIVEN = (
    "out",
    "force",
    "as_json",
    "engine",
    "address",
    "workers",
    "worker_cpus",
    "worker_gpus",
    "memory",
    "timeout",
)  # no result depends on them


def attack(
    model: Model = None,
    weights: Weights = None,
    data: Data = None,
    attack: Attack = "qsj",
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
    verdict: Verdict = 0,
    bounds: BoundsPair = (0.0, 1.0),
    mask: Mask = None,
    scale: Scale = None,
    columns: Columns = None,
    seed: Seed = 0,
    threads: Threads = 1,
    optimize: Optimize = True,
    engine: Name = None,
    address: Address = None,
    workers: Workers = None,
    worker_cpus: WorkerCpus = 1.0,
    worker_gpus: WorkerGpus = 0.0,
    memory: Memory = None,
    timeout: Timeout = None,
    out: Out = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Attack a model from its labels alone and report how far its border is.

    Without --model and --data: the embedded MNIST network and its test images.
    """
    given = {name: _plain(value) for name, value in locals().items() if name not in NOT_GIVEN}
    from popskipjump.attacks import Retry
    from popskipjump.cli.attacking import attack_at_once, attack_in_folder
    from popskipjump.cli.endpoint import again
    from popskipjump.errors import InputError
    from popskipjump.evaluation.inputs import budget_of
    from popskipjump.oracles.speed import threads as using
    from popskipjump.runs.room import bytes_of

    kept = "nothing was written" if out is None else f"what was answered is kept; go on with {again(model, out)}"
    with plain_errors(kept), using(threads):
        chosen = engine_of(engine, address, workers, worker_cpus, worker_gpus)
        given["budget"] = budget_of(attack, iterations, budget)
        where: dict[str, Any] = {"columns": columns, "mask": mask, "retry": Retry(timeout=timeout)}
        where["as_json"] = as_json
        if out is None:
            if chosen is not None or memory is not None:
                raise InputError("workers and a limit of memory need the folder of a run: pass --out.")
            attack_at_once(given, **where)
        else:
            limit = None if memory is None else bytes_of(memory)
            attack_in_folder(out, given, force=force, engine=chosen, memory=limit, **where)


def _plain(value: object) -> object:
    """An option as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value
