"""Runs that are collected once: what a run's folder holds is read, what is missing is asked."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from popskipjump import __version__
from popskipjump.attacks import Progress
from popskipjump.errors import InputError, NotARunError
from popskipjump.experiments.run_data import RunData, data_of, load
from popskipjump.experiments.run_group import attack_group
from popskipjump.experiments.source import Place, Source, source_of
from popskipjump.oracles.base import is_whole
from popskipjump.storage import RunFolder, RunSpec

__all__ = [
    "Place",
    "RunData",
    "RunProgress",
    "Source",
    "collect",
    "load",
    "resume",
    "source_at",
    "source_of",
]

GROUP = 50  # images attacked together: enough for large batches, few enough to finish now and then
STEPWISE_GROUP = 200  # for attacks that ask one question an image at a time, which only more images make a large batch
STEPWISE = ("boundary",)
_TRACE_BYTES = 256 << 20  # what the points of one group's trace may take


class RunProgress(NamedTuple):
    """How far `collect` is."""

    done: int  # images, those that were found included
    images: int  # asked for
    share: float  # of the images that were missing at the call, in [0, 1]; within a group by iterations


def collect(
    spec: RunSpec,
    images: Sequence[int],
    root: Path,
    *,
    source: Source | None = None,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> RunData:
    """The results of some images under a spec: those in the run's folder are read, the others attacked and kept.

    Args:
        spec: the run; its folder is `root / spec.digest`.
        images: places in the source, each once.
        root: the folder of run folders; made if need be.
        source: what is attacked; None for the embedded images and network.
        on_queries: called with the number of queries after every call to the classifier; nothing that was found or
            replayed is counted.
        on_progress: called after every iteration of every group, and once at the end.

    Raises:
        InputError: the source is not the spec's, or an image is not in it; nothing has been asked.
        StorageError: the folder cannot be used; nothing in it was overwritten.
        OracleError: the classifier failed on every image of a group; what was answered is kept.
        KeyboardInterrupt: Ctrl-C; what was answered is kept, and the next call goes on from there.
    """
    source = source_of() if source is None else source
    source.check(spec)
    wanted = _checked(images, len(source.images))
    if (found := _found(Path(root) / spec.digest, spec, wanted)) is not None:
        return found
    with RunFolder.working(Path(root), spec) as folder:
        folder.begin(wanted, source.place._asdict(), versions())
        finished = set(folder.finished())
        missing = [image for image in wanted if image not in finished]
        size = _group_size(spec, source.images[0].size)
        for first in range(0, len(missing), size):
            group = missing[first : first + size]
            tell = _Teller(on_progress, len(wanted), len(missing), first, len(group))
            attack_group(folder, group, source, on_queries, tell.iteration)
            tell.finished()
        return data_of(folder, wanted)


def resume(
    folder: Path,
    *,
    source: Source | None = None,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
) -> RunData:
    """Go on with a run until every image that was ever asked for is finished.

    Args:
        folder: of the run.
        source: what is attacked; None reads it from where it was (`source_at`).
        on_queries: see `collect`.
        on_progress: see `collect`.

    Raises:
        InputError: see `collect`; also if the folder no longer bears the name of its run.
        StorageError: see `collect`.
    """
    folder = Path(folder).resolve()
    with RunFolder.reading(folder) as run:
        spec, asked = run.spec, run.asked()
    if folder.name != spec.digest:
        raise InputError(f"{folder} was renamed: give the folder the name of its run, {spec.digest}, to go on with it.")
    source = source_at(folder) if source is None else source
    return collect(spec, asked, folder.parent, source=source, on_queries=on_queries, on_progress=on_progress)


def source_at(folder: Path) -> Source:
    """The source of a run, read from where it was when the run was last worked on.

    A model from a Python file is not read in this way, as the file would be run: make its source with `source_of`.
    """
    with RunFolder.reading(Path(folder)) as run:
        place, model = run.place(), run.spec.model
    if ":" in model:
        raise InputError(f"the model of this run comes from a Python file ({model}): pass --model with its path.")
    return source_of(run.spec.dataset, place.get("data"), model, place.get("weights"))


def _found(path: Path, spec: RunSpec, images: list[int]) -> RunData | None:
    """The images, if all are finished; nothing is locked, so another process may be at work on others."""
    try:
        with RunFolder.reading(path) as folder:
            complete = folder.spec == spec and set(images) <= set(folder.finished())
            return data_of(folder, images) if complete else None
    except NotARunError:  # not begun yet, or not a run: whoever opens it for writing finds out
        return None


def versions() -> dict[str, str]:
    """Of what the results may depend on."""
    return {
        "popskipjump": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def _checked(images: Sequence[int], count: int) -> list[int]:
    """Ids as plain numbers, each once and all of them in the source."""
    bad = next((image for image in images if not is_whole(image) or not 0 <= image < count), None)
    if bad is not None:
        raise InputError(f"image {bad!r} is not one of the {count} images, counted from 0.")
    wanted = [int(image) for image in images]
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError("images must be some places in the data, each named once.")
    return wanted


def _group_size(spec: RunSpec, values: int) -> int:
    """How many images to attack at once; results do not depend on it."""
    most = max(GROUP, STEPWISE_GROUP) if spec.attack.name in STEPWISE else GROUP
    return max(1, min(most, _TRACE_BYTES // (4 * values * (spec.iterations + 1))))


class _Teller:
    """From the iterations of one group to the progress of them all."""

    def __init__(
        self, on_progress: Callable[[RunProgress], None] | None, images: int, missing: int, before: int, size: int
    ) -> None:
        self._on_progress, self._images, self._missing = on_progress, images, missing
        self._before, self._size = before, size  # missing images that are done, and those of this group

    def iteration(self, now: Progress) -> None:
        """After an iteration; iteration t asks about sqrt(t) queries, so t of them are about t^1.5 of the work."""
        self._tell(self._before, self._size * (now.iteration / max(now.iterations, 1)) ** 1.5)

    def finished(self) -> None:
        """After the group."""
        self._tell(self._before + self._size, 0.0)

    def _tell(self, done: int, more: float) -> None:
        if self._on_progress is not None:
            found = self._images - self._missing
            self._on_progress(RunProgress(found + done, self._images, (done + more) / self._missing))
