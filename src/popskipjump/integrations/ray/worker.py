"""A Ray worker: it builds the model once, attacks shards of images, and returns their results."""

from __future__ import annotations

import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from popskipjump import Pool, Report
from popskipjump.attacks import Progress
from popskipjump.errors import InputError, OracleError
from popskipjump.oracles import Oracle, TorchModel, threads
from popskipjump.runs.collect import versions
from popskipjump.runs.engine import work_done
from popskipjump.runs.group import attack_group, results_of
from popskipjump.runs.source import Source, model_at
from popskipjump.storage import ImageResult, Journalled, RunSpec
from popskipjump.storage.journal import Journal
from popskipjump.storage.journalled import over_journal
from popskipjump.storage.records import Record
from popskipjump.storage.workers import shard_journal


class Arrays(NamedTuple):
    """The arrays of a source, in Ray's object store once for each machine."""

    images: np.ndarray
    labels: np.ndarray
    targets: np.ndarray | None
    starts: np.ndarray | Pool | None


@dataclass(frozen=True, eq=False)
class Task:
    """What a worker needs to know of a run."""

    spec: RunSpec
    source: Source  # without its arrays and its model
    arrays: Any  # reference to `Arrays`
    model: Any  # reference to the model; None builds it from the source's place
    journals: str  # folder of the workers' journals
    sign: str  # a file in that folder: a machine that sees it sees the run's folder
    path: list[str]  # where the process that has the engine finds Python modules
    points: bool  # see `Room`
    gpu: bool  # whether a torch module moves to the worker's GPU


class Finished(NamedTuple):
    """What became of a shard."""

    results: list[ImageResult]
    asked: int  # queries, since the worker that finished it began the shard
    notes: list[str]
    versions: dict[str, str]
    error: tuple[str, str] | None = None  # class and text of what ended it; the results then say what each image met


class Worker:
    """The actor. It is made of nothing, so that Ray can always make it again when its process has died."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._size = 0  # of the shard under way
        self._now = (-1, 0, 0.0)  # first image of the shard under way, queries asked, images' worth of work done

    def progress(self) -> tuple[int, int, float]:
        """How far the shard under way is; answered while it is attacked."""
        return self._now

    def attack(self, task: Task, images: list[int], known: list[Record]) -> Finished:
        """Attack a shard of images with one thread; what ends it is returned, not raised.

        Args:
            task: the same at every call.
            images: of the shard.
            known: what the run's journal knows of them.
        """
        self._size, self._now = len(images), (images[0], 0, 0.0)
        notes: list[str] = []
        try:
            with threads(1), warnings.catch_warnings():
                # Arrays in the object store cannot be written to, and nothing here does.
                warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
                results = self._attacked(task, images, known, notes)
        except Exception as error:
            report = getattr(error, "report", None)
            failed = results_of(report, images, 0.0) if isinstance(report, Report) else []
            return Finished(failed, self._now[1], notes, versions(), (type(error).__name__, str(error)))
        return Finished(results, self._now[1], notes, versions())

    def _attacked(self, task: Task, images: list[int], known: list[Record], notes: list[str]) -> list[ImageResult]:
        if self._source is None:
            self._source = _source_of(task)
        with _journal(task, images, known) as journal:

            def wrap(oracle: Oracle) -> Journalled:
                journalled, note = over_journal(oracle, journal, set(images), self._count)
                notes.extend([] if note is None else [note])
                return journalled

            shared = journal.path.parent == Path(task.journals)
            folder, points = journal.path.parent.parent if shared else None, task.points
            try:
                return attack_group(
                    task.spec, self._source, images, wrap, self._tell, keep_points=points, folder=folder
                )
            except OracleError:
                journal.forget_last_failures()
                raise

    def _count(self, queries: int) -> None:
        first, asked, work = self._now
        self._now = (first, asked + queries, work)

    def _tell(self, now: Progress) -> None:
        first, asked, _ = self._now
        self._now = (first, asked, self._size * work_done(now))


def _source_of(task: Task) -> Source:
    """The source with its arrays and its model."""
    import ray

    sys.path += [place for place in task.path if place not in sys.path and Path(place).is_dir()]
    arrays: Arrays = ray.get(task.arrays)
    if task.model is not None:
        model = ray.get(task.model)
    else:
        model, digest = model_at(task.source.place)
        if digest != task.spec.weights:
            raise InputError(
                f"the model {task.source.place.model} on the machine {socket.gethostname()} is not the one that the "
                "run was begun with: give every machine the same files."
            )
    if task.gpu and isinstance(model, TorchModel):
        model = TorchModel(model.module, "cuda", model.output, optimize=model.forward is not model.module)
    return replace(task.source, model=model, **arrays._asdict())


@contextmanager
def _journal(task: Task, images: list[int], known: list[Record]) -> Iterator[Journal]:
    """The shard's journal in the run's folder; elsewhere, on a machine that does not see that folder."""
    folder = Path(task.journals)
    with ExitStack() as stack:
        if not (folder / task.sign).is_file():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="psj-shard-")))
        yield stack.enter_context(shard_journal(folder, task.spec.digest, images, known))
