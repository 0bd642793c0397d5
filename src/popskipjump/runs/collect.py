"""Collection of a run: stored results are read from its folder, missing ones are computed."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from popskipjump import __version__
from popskipjump.errors import BusyRunError, InputError, NotARunError
from popskipjump.oracles.base import is_whole
from popskipjump.runs.data import RunData, data_of, load
from popskipjump.runs.engine import Engine, InProcess, Room, Watch
from popskipjump.runs.room import STEPWISE, room_for
from popskipjump.runs.source import Place, Source, read_masks, source_of
from popskipjump.space import Space
from popskipjump.storage import ImageResult, RunFolder, RunSpec

__all__ = [
    "Place",
    "RunData",
    "RunProgress",
    "Source",
    "collect",
    "complete",
    "load",
    "resume",
    "source_at",
    "source_of",
]

GROUP = 50  # images attacked together: enough for large batches, few enough to finish now and then
STEPWISE_GROUP = 200  # for attacks that ask one question an image at a time, which only more images make a large batch


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
    name: str | None = None,
    force: bool = False,
    engine: Engine | None = None,
    memory: int | None = None,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> RunData:
    """The results of some images under a spec: those in the run's folder are read, the others attacked and kept.

    Args:
        spec: the run; its folder is `root / spec.digest`, unless it has another name.
        images: places in the source, each once.
        root: the folder of run folders; made if need be.
        source: what is attacked; None for the embedded images and network.
        name: of the run's folder; None for the spec's digest.
        force: begin the run in a folder that holds other things, too.
        engine: where the images are attacked; None for this process. Results do not depend on it.
        memory: bytes that each process which attacks may take: fewer images are attacked together, and where not even
            one image's trace fits, border distances by iteration are left out, with a note. None for 256 MB of traces.
        on_queries: called with the number of queries after every call to the classifier; nothing that was found or
            replayed is counted.
        on_progress: called after every iteration of every group, and once at the end.
        on_note: called with what the user should know of the files' state, such as damage that costs queries; None
            gives these as warnings.

    Raises:
        InputError: the source is not the spec's, or an image is not in it; nothing has been asked.
        StorageError: the folder cannot be used; nothing in it was overwritten.
        OracleError: the classifier failed on every image of a group; what was answered is kept.
        KeyboardInterrupt: Ctrl-C; what was answered is kept, and the next call goes on from there.
    """
    source = source_of() if source is None else source
    source.check(spec)
    wanted = _checked(images, len(source.images))
    path = Path(root) / (name or spec.digest)
    if (found := _found(path, spec, wanted)) is not None:
        return found
    hooks = {"on_queries": on_queries, "on_progress": on_progress, "on_note": on_note}
    complete(spec, wanted, root, source=source, name=name, force=force, engine=engine, memory=memory, **hooks)  # type: ignore[arg-type]
    with RunFolder.reading(path) as folder:
        return data_of(folder, wanted)


def complete(
    spec: RunSpec,
    images: Sequence[int],
    root: Path,
    *,
    source: Source,
    name: str | None = None,
    force: bool = False,
    engine: Engine | None = None,
    memory: int | None = None,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> None:
    """Attack those of some images that have no result, and load none: memory does not grow with their number.

    See `collect` for the arguments and errors.
    """
    source.check(spec)
    wanted = _checked(images, len(source.images))
    group = max(GROUP, STEPWISE_GROUP) if spec.attack.name in STEPWISE else GROUP
    room = room_for(spec, source.images[0].size, group, memory)
    with RunFolder.working(Path(root), spec, name, force=force) as folder:
        if not room.points:
            folder.notes.append(
                "the points of every iteration do not fit into the stated memory: border distances by iteration are "
                "left out of these images' traces (nan). Points, distances and queries are not affected."
            )
        tell_notes = _Notes(folder, on_note)
        folder.begin(wanted, source.place._asdict(), versions())
        finished = set(folder.finished())
        missing = [image for image in wanted if image not in finished]
        teller = _Teller(on_progress, len(wanted), len(missing))
        watch = Watch(on_queries, teller.part, tell_notes)
        with closing(_results(engine or InProcess(), folder, source, missing, room, watch)) as shards:
            for results in shards:
                folder.finish(results)
                teller.finished(results)
        tell_notes()


def _results(
    engine: Engine, folder: RunFolder, source: Source, missing: list[int], room: Room, watch: Watch
) -> Generator[list[ImageResult], None, None]:
    """The engine's results; whatever ends it, what workers have written down is gathered."""
    try:
        if missing:
            yield from engine.attack(folder, source, missing, room, watch)
    finally:
        with suppress(BusyRunError):  # a worker that does not die yet: whoever opens the run next gathers it
            folder.absorb_workers()


def resume(
    folder: Path,
    *,
    source: Source | None = None,
    engine: Engine | None = None,
    memory: int | None = None,
    on_queries: Callable[[int], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> RunData:
    """Go on with a run until every image that was ever asked for is finished.

    Args:
        folder: of the run.
        source: what is attacked; None reads it from where it was (`source_at`).
        engine: see `collect`.
        memory: see `collect`.
        on_queries: see `collect`.
        on_progress: see `collect`.
        on_note: see `collect`.

    Raises:
        InputError: see `collect`.
        StorageError: see `collect`.
    """
    folder = Path(folder).resolve()
    with RunFolder.reading(folder) as run:
        spec, asked = run.spec, run.asked()
    source = source_at(folder) if source is None else source
    hooks = {"on_queries": on_queries, "on_progress": on_progress, "on_note": on_note}
    return collect(spec, asked, folder.parent, source=source, name=folder.name, engine=engine, memory=memory, **hooks)  # type: ignore[arg-type]


def source_at(
    folder: Path, data: str | Path | None = None, model: str | None = None, weights: str | Path | None = None
) -> Source:
    """The source of a run, read from where it was when the run was last worked on, or from where the user says.

    A model from a Python file is run only if the user names the file.
    """
    with RunFolder.reading(Path(folder)) as run:
        place, spec = run.place(), run.spec
    if spec.dataset == "given":
        raise InputError(
            f"the run in {folder} does not hold its images and its model ({spec.model}), which were passed from Python "
            "or are behind a URL: go on with the same call, `evaluate_in(folder, ...)`, or the same `psj attack`."
        )
    if model is None and ":" in spec.model:
        raise InputError(
            "the model of this run comes from a Python file, which is run only if you name it: pass --model "
            f"{spec.model}, with the path of the file."
        )
    targeted = ":" in (spec.targets or "")
    data, weights = data or place.get("data"), weights or place.get("weights")
    source = source_of(spec.dataset, data, model or spec.model, weights, spec.bounds, targeted=targeted)
    space = None if spec.space is None else Space.from_json(spec.space)
    masks = None if spec.mask is None else read_masks(place.get("mask"), source.images.shape)
    return replace(source, space=space, masks=masks, place=source.place._replace(mask=place.get("mask")))


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
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
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


class _Notes:
    """Passes on what a folder has to say, each note once."""

    def __init__(self, folder: RunFolder, on_note: Callable[[str], None] | None) -> None:
        self._folder, self._on_note, self._told = folder, on_note, 0
        self()

    def __call__(self) -> None:
        for note in self._folder.notes[self._told :]:
            self._told += 1
            if self._on_note is None:
                warnings.warn(note, UserWarning, stacklevel=2)
            else:
                self._on_note(note)


class _Teller:
    """From the shards under way to the progress of them all."""

    def __init__(self, on_progress: Callable[[RunProgress], None] | None, images: int, missing: int) -> None:
        self._on_progress, self._images, self._missing = on_progress, images, missing
        self._done = 0  # of the missing ones
        self._parts: dict[int, float] = {}  # first image of a shard -> images' worth of work

    def part(self, first: int, work: float) -> None:
        """After an iteration of a shard; one that is begun again does not turn the bar back."""
        self._parts[first] = max(work, self._parts.get(first, 0.0))
        self._tell()

    def finished(self, results: Sequence[ImageResult]) -> None:
        """After a shard."""
        self._parts.pop(results[0].image, None)
        self._done += len(results)
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None:
            found, more = self._images - self._missing, sum(self._parts.values())
            self._on_progress(RunProgress(found + self._done, self._images, (self._done + more) / self._missing))
