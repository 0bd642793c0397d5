"""The engine that attacks a run's images on Ray."""

from __future__ import annotations

import math
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from popskipjump import errors
from popskipjump.errors import (
    EngineError,
    InputError,
    MissingExtraError,
    OracleError,
    PopSkipJumpError,
    UnknownNameError,
)
from popskipjump.integrations.ray.cluster import connected, workers_that_fit
from popskipjump.integrations.ray.worker import Arrays, Finished, Task, Worker
from popskipjump.runs.collect import versions
from popskipjump.runs.engine import Room, Watch
from popskipjump.runs.source import Source
from popskipjump.storage import ImageResult, RunFolder
from popskipjump.storage.files import private_folder
from popskipjump.storage.journalled import is_repeatable

POLL = 0.25  # seconds between two looks at the workers' progress
_SHOWN = 8  # images listed in a message
_MOST_WORKERS = 10_000


@dataclass(frozen=True)
class RayEngine:
    """Attacks shards of images in Ray actors, each a process of one thread that holds the model.

    The process that has this engine hands out the shards, at most one to each worker, and is the only one that writes
    results: its memory does not grow with the number of images. A worker writes every answer into a journal of its own
    in the run's folder; when it dies, Ray begins its shard again, and what was answered is not asked again. A machine
    that does not see the run's folder begins such a shard anew.

    Args:
        address: of a Ray cluster, such as "auto" or "ray://head:10001"; None uses the Ray that this process is
            connected to, or starts one on this machine and stops it in the end.
        workers: how many; None for as many as there is room for.
        cpus: CPUs of each worker, also a part of one.
        gpus: GPUs of each worker, also a part of one; torch modules are moved there.
        shard: images of one shard at most; None for a size that keeps all workers busy to the end.
        retries: how often a shard is begun again after the death of its worker.
    """

    address: str | None = None
    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    shard: int | None = None
    retries: int = 16

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("shard", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or int(value) != value or value < least):
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        if self.workers is not None and self.workers > _MOST_WORKERS:
            raise InputError(f"workers must be at most {_MOST_WORKERS}, not {self.workers}.")
        if not (math.isfinite(self.cpus) and self.cpus > 0 and math.isfinite(self.gpus) and self.gpus >= 0):
            raise InputError(f"cpus must be positive and gpus not negative, not {self.cpus!r} and {self.gpus!r}.")

    def attack(
        self, folder: RunFolder, source: Source, images: list[int], room: Room, watch: Watch
    ) -> Iterator[list[ImageResult]]:
        """See `Engine`.

        Raises:
            MissingExtraError: Ray is not installed.
            EngineError: Ray cannot be started or reached, or workers keep dying on some images; the others are kept.
        """
        here = self.workers or _cores()
        store = 2 * sum(array.nbytes for array in (source.images, source.labels))
        with connected(self.address, here * self.cpus, here * self.gpus, store) as ray:
            count = min(self.workers or workers_that_fit(ray, self.cpus, self.gpus), len(images))
            shards = _shards(images, min(room.images, self.shard or room.images), count)
            with self._task(ray, folder, source, room) as task, self._actors(ray, count) as actors:
                crew = _Crew(ray, actors, task, folder, is_repeatable(source.model), watch)
                yield from crew.work(shards)

    @contextmanager
    def _task(self, ray: Any, folder: RunFolder, source: Source, room: Room) -> Iterator[Task]:
        """What workers need to know; images, and a model that has no name, are put into the object store."""
        private_folder(folder.workers)
        sign = folder.workers / f".{secrets.token_hex(8)}"
        sign.touch(mode=0o600)
        blank = np.zeros((0, *source.images.shape[1:]), dtype=np.float32)
        try:
            yield Task(
                spec=folder.spec,
                source=replace(source, model=None, images=blank, labels=source.labels[:0], targets=None, starts=None),
                arrays=ray.put(Arrays(source.images, source.labels, source.targets, source.starts)),
                model=None if source.place.model is not None else _put(ray, source.model),
                journals=str(folder.workers.resolve()),
                sign=sign.name,
                path=list(sys.path),
                gpu=self.gpus > 0,
                points=room.points,
            )
        finally:
            sign.unlink(missing_ok=True)

    @contextmanager
    def _actors(self, ray: Any, count: int) -> Iterator[list[Any]]:
        """Workers, which end with the block."""
        kind = ray.remote(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_restarts=-1,  # a shard has its own limit
            max_task_retries=self.retries,
            concurrency_groups={"watch": 1},
        )(Worker)
        actors = [kind.remote() for _ in range(count)]
        try:
            yield actors
        finally:
            for actor in actors:
                ray.kill(actor)


class _Crew:
    """Workers that are kept busy, and what they have told."""

    def __init__(
        self, ray: Any, actors: list[Any], task: Task, folder: RunFolder, repeatable: bool, watch: Watch
    ) -> None:
        self._ray, self._actors, self._task, self._folder, self._watch = ray, actors, task, folder, watch
        self._repeatable = repeatable
        self._busy: dict[Any, tuple[int, list[int]]] = {}  # reference to `Finished` -> worker, shard
        self._looks: dict[Any, int] = {}  # reference to a worker's progress -> worker
        self._next_look = 0.0
        self._counted: dict[int, int] = {}  # first image of a shard -> queries that were told
        self._known_versions = [versions()]

    def work(self, shards: Iterator[list[int]]) -> Iterator[list[ImageResult]]:
        """The results of each shard; a worker gets its next one before these are kept.

        A shard on which the classifier failed altogether waits until another has shown that the classifier works: its
        images are then as bad as single ones in a larger shard.
        """
        lost: list[int] = []
        failed: list[Finished] = []
        works = False
        for worker in range(len(self._actors)):
            self._give(worker, shards)
        while self._busy:
            done, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=POLL)
            for ref in done:
                worker, shard = self._busy.pop(ref)
                finished = self._finished(ref, shard)
                if works or len(failed) <= len(self._actors):
                    self._give(worker, shards)
                if finished is None:
                    lost += shard
                elif finished.error is not None:
                    failed.append(finished)
                else:
                    works = True
                    yield finished.results
            self._look()
        for finished in failed:
            if finished.error is not None and not (works and finished.results):
                raise _error(*finished.error)
            yield finished.results
        if lost:
            shown = ", ".join(map(str, lost[:_SHOWN])) + (", ..." if len(lost) > _SHOWN else "")
            raise EngineError(
                f"the workers on images {shown} died again and again: the classifier may need more memory than there "
                "is, or crash its process. All other images are kept; mend it and go on with the same command."
            )

    def _give(self, worker: int, shards: Iterator[list[int]]) -> None:
        shard = next(shards, None)
        if shard is not None:
            known = self._folder.known(shard, repeatable=self._repeatable)
            self._watch.notes()
            self._busy[self._actors[worker].attack.remote(self._task, shard, known)] = (worker, shard)

    def _finished(self, ref: Any, shard: list[int]) -> Finished | None:
        """What a worker returned; None if workers died on the shard too often."""
        try:
            finished: Finished = self._ray.get(ref)
        except self._ray.exceptions.RayActorError:
            return None
        except self._ray.exceptions.RayError as error:
            raise EngineError(f"Ray cannot attack images {shard[0]} to {shard[-1]}: {error}") from error
        self._count(shard[0], finished.asked)
        self._counted.pop(shard[0], None)
        self._folder.notes += finished.notes
        if finished.versions not in self._known_versions:
            self._known_versions.append(finished.versions)
            self._folder.notes.append(
                f"a worker has other versions ({_words(finished.versions)}) than this process ({_words(versions())}): "
                "results may differ in their last digits."
            )
        self._watch.notes()
        return finished

    def _look(self) -> None:
        """Read how far the workers are, and ask again; one that is being restarted answers later."""
        if self._looks:
            done, _ = self._ray.wait(list(self._looks), num_returns=len(self._looks), timeout=0)
            for ref in done:
                del self._looks[ref]
                try:
                    first, asked, work = self._ray.get(ref)
                except self._ray.exceptions.RayError:
                    continue
                if any(shard[0] == first for _, shard in self._busy.values()):
                    self._count(first, asked)
                    self._watch.part(first, work)
        if time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + POLL + 0.005 * len(self._actors)
            for worker in {worker for worker, _ in self._busy.values()} - set(self._looks.values()):
                look = self._actors[worker].progress.options(concurrency_group="watch", max_task_retries=0).remote()
                self._looks[look] = worker

    def _count(self, first: int, asked: int) -> None:
        """Tell what is new; a worker that follows a dead one counts from 0."""
        before = self._counted.get(first, 0)
        new = asked - before if asked >= before else asked
        self._counted[first] = asked
        if new and self._watch.queries is not None:
            self._watch.queries(new)


def _shards(images: list[int], most: int, workers: int) -> Iterator[list[int]]:
    """As few shards as fit into memory, all of about one size, and as many for each worker.

    Large batches are fast, and with shards of one size no worker waits long for another.
    """
    count = workers * math.ceil(len(images) / (workers * most))
    ends = [round(len(images) * k / count) for k in range(count + 1)]
    return (images[begin:end] for begin, end in pairwise(ends) if end > begin)


def _put(ray: Any, model: Any) -> Any:
    """A reference to a model in the object store."""
    try:
        return ray.put(model)
    except Exception as error:
        raise InputError(
            f"a {type(model).__name__} cannot be sent to workers ({type(error).__name__}: {error}): name it as "
            "file.py:factory (`--model`, or `source_of(model=...)`), so that each worker makes its own."
        ) from error


def _error(name: str, text: str) -> PopSkipJumpError:
    """What ended a shard, as an error of ours."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, PopSkipJumpError):
        return InputError(text) if issubclass(kind, UnknownNameError | MissingExtraError) else kind(text)
    return OracleError(f"a worker failed: {name}: {text}")


def _cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _words(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())
