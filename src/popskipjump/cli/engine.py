"""Options for where images are attacked: in this process, or by workers on Ray."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from popskipjump.runs.engine import Engine


class EngineName(str, Enum):
    """Where images are attacked."""

    LOCAL = "local"
    RAY = "ray"


Name = Annotated[
    EngineName | None,
    typer.Option(
        "--engine",
        help="Attack in this process (local), or in worker processes on Ray. Results are the same.",
        show_default="local, or ray with --workers or --address",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address of a Ray cluster, such as `auto` or ray://HOST:10001.",
        show_default="a Ray on this machine, started and stopped",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Worker processes on Ray, each of one thread.", show_default="as many as there is room for"
    ),
]
WorkerCpus = Annotated[float, typer.Option(min=0.001, help="CPUs that each worker takes on Ray.")]
WorkerGpus = Annotated[float, typer.Option(min=0, help="GPUs that each worker takes on Ray; parts of one count.")]


Timeout = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        metavar="SECONDS",
        help="A call to the model that takes longer has failed; it is tried three times.",
        show_default="no limit",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="What each process that attacks may take, such as 2GB: fewer images are attacked together.",
        show_default="no limit",
    ),
]


def engine_of(
    name: EngineName | None, address: str | None, workers: int | None, cpus: float = 1.0, gpus: float = 0.0
) -> Engine | None:
    """The engine that the options name; None for this process. What is missing is said before the first query.

    Raises:
        InputError: options for Ray without Ray.
        MissingExtraError: Ray is not installed.
    """
    from popskipjump.errors import InputError

    if name is None and (workers is not None or address is not None):
        name = EngineName.RAY
    if name is not EngineName.RAY:
        if workers is not None or address is not None:
            raise InputError("--workers and --address belong to --engine ray.")
        return None
    from popskipjump.integrations.ray import RayEngine
    from popskipjump.integrations.ray.cluster import require

    require()
    return RayEngine(address, workers, cpus, gpus)
