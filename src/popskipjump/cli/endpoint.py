"""`--endpoint`: a server's address on the command line, and a summary of the requests sent to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from popskipjump import Report, evaluate
from popskipjump.cli.console import notes, output
from popskipjump.runs.keep import OUTCOMES

if TYPE_CHECKING:
    from popskipjump.runs.engine import Engine

AUTHORIZATION = "PSJ_AUTHORIZATION"  # environment variable: the value of the header Authorization
GROUPS, GROUP = 4, 4  # groups at most, and images of a group at least


def is_address(model: object) -> bool:
    """Whether `--model` names a server."""
    return isinstance(model, str) and model.startswith(("http://", "https://"))


def again(model: str | None, out: Path) -> str:
    """How to go on with an interrupted run."""
    if is_address(model):
        return "the same command"
    return f"`psj resume {out}`" if model is None else f"`psj resume {out} --model {model}`"


def remote_model(url: str) -> Any:
    """The oracle of a server; reached here, so that a wrong address is found before the first query."""
    from popskipjump.integrations.http import Endpoint

    secrets = {"Authorization": AUTHORIZATION} if os.environ.get(AUTHORIZATION) else None
    endpoint = Endpoint(url, secrets=secrets)
    endpoint.connect()
    return endpoint


def groups_of(images: int) -> int:
    """How many groups of images ask a server independently: a few, each of enough images for requests of some size."""
    return max(1, min(GROUPS, images // GROUP))


def at_once(model: Any, images: int) -> Callable[..., Report]:
    """How to evaluate a model on so many images: those of a server in groups that keep it busy."""
    from popskipjump.integrations.http import Endpoint, evaluate_overlapped

    return partial(evaluate_overlapped, groups=groups_of(images)) if isinstance(model, Endpoint) else evaluate


@contextmanager
def overlapping(
    model: Any, folder: Path, images: int, engine: Engine | None = None, as_json: bool = False
) -> Iterator[Engine | None]:
    """The engine of a kept run: a server is asked by groups, and in the end, what became of its queries is told."""
    from popskipjump.integrations.http import Endpoint, OverlappingEngine

    if not isinstance(model, Endpoint):
        yield engine
        return
    try:
        yield engine or OverlappingEngine(groups_of(images))
    finally:
        tell_outcomes(model, folder if (folder / "spec.json").is_file() else None, as_json)


def tell_outcomes(model: Any, folder: Path | None, as_json: bool = False) -> None:
    """Show what became of the queries to a server, add it to `outcomes.json`, and close; nothing for other models."""
    from popskipjump.integrations.http import Endpoint

    if not isinstance(model, Endpoint):
        return
    model.close()
    (notes() if as_json else output()).print(f"  {model.tally}", markup=False)
    if folder is not None:
        model.tally.keep(folder / OUTCOMES)
