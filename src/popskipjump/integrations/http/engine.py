"""Engine for slow classifiers in a kept run: shards of images in threads, so that the classifier is never idle."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from popskipjump.attacks import Progress
from popskipjump.errors import InputError, OracleError
from popskipjump.evaluation import Report
from popskipjump.integrations.http.stop import Stoppable, interrupt
from popskipjump.oracles import Oracle
from popskipjump.runs.engine import Room, Watch, work_done
from popskipjump.runs.group import attack_group, results_of
from popskipjump.runs.source import Source
from popskipjump.storage import ImageResult, Journalled, RunFolder
from popskipjump.storage.files import private_folder
from popskipjump.storage.journalled import is_repeatable, over_journal
from popskipjump.storage.records import Record
from popskipjump.storage.workers import shard_journal

POLL = 1.0  # seconds after which whoever waits for threads looks up, so that Ctrl-C is heard


class _Done(NamedTuple):
    """What became of a shard."""

    results: list[ImageResult]
    error: OracleError | None = None  # the classifier failed on every image; the results say what each met


@dataclass(frozen=True)
class OverlappingEngine:
    """The engine for slow classifiers: a few shards of images advance independently, each in a thread of its own.

    While the answers for one shard are awaited, the next questions of others are computed and asked. The model must be
    safe to be asked from several threads at once, as an `Endpoint` is. Results do not depend on it.

    Args:
        groups: shards under way at once.
    """

    groups: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 1:
            raise InputError(f"groups must be a whole number of at least 1, not {self.groups!r}.")

    def attack(
        self, folder: RunFolder, source: Source, images: list[int], room: Room, watch: Watch
    ) -> Iterator[list[ImageResult]]:
        """See `Engine`."""
        private_folder(folder.workers)
        size = max(1, min(room.images, -(-len(images) // self.groups)))
        shards = [images[begin : begin + size] for begin in range(0, len(images), size)]
        crew = _Crew(folder, source, room, watch)
        with ThreadPoolExecutor(min(self.groups, len(shards)), "psj-shard") as pool:
            try:
                yield from crew.work(pool, shards)
            finally:
                interrupt(source.model, crew.stop)  # shards under way end; their journals keep what was answered


class _Crew:
    """Shards under way. Threads only attack; the folder and the watcher are touched by the thread that iterates."""

    def __init__(self, folder: RunFolder, source: Source, room: Room, watch: Watch) -> None:
        self._folder, self._source, self._room, self._watch = folder, source, room, watch
        self._news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.stop = threading.Event()

    def work(self, pool: ThreadPoolExecutor, shards: list[list[int]]) -> Iterator[list[ImageResult]]:
        """The results of each shard; one on which the classifier failed altogether waits for one where it did not."""
        repeatable = is_repeatable(self._source.model)
        known = [self._folder.known(shard, repeatable=repeatable) for shard in shards]
        self._watch.notes()
        futures: list[Future[_Done]] = [pool.submit(self._attacked, *both) for both in zip(shards, known, strict=True)]
        failed: list[_Done] = []
        works = False
        while futures:
            self._tell()
            for future in [future for future in futures if future.done()]:
                futures.remove(future)
                done = future.result()
                if done.error is None:
                    works = True
                    self._tell()
                    yield done.results
                else:
                    failed.append(done)
        for done in failed:
            if done.error is not None and not (works and done.results):
                raise done.error
            yield done.results

    def _tell(self) -> None:
        """Pass on what the threads have to say; waits a moment if that is nothing."""
        try:
            self._news.get(timeout=POLL)()
            while True:
                self._news.get_nowait()()
        except queue.Empty:
            pass

    def _attacked(self, shard: list[int], known: list[Record]) -> _Done:
        """Attack a shard, in a thread."""
        folder = self._folder
        with shard_journal(folder.workers, folder.spec.digest, shard, known) as journal:

            def wrap(oracle: Oracle) -> Journalled:
                journalled, note = over_journal(Stoppable(oracle, self.stop), journal, set(shard), self._count)
                self._news.put(partial(folder.notes.extend, [] if note is None else [note]))
                return journalled

            def tell(now: Progress) -> None:
                self._news.put(partial(self._watch.part, shard[0], len(shard) * work_done(now)))

            try:
                results = attack_group(
                    folder.spec, self._source, shard, wrap, tell, keep_points=self._room.points, folder=folder.path
                )
            except OracleError as error:
                journal.forget_last_failures()
                report = getattr(error, "report", None)
                return _Done(results_of(report, shard, 0.0) if isinstance(report, Report) else [], error)
            finally:
                self._news.put(self._watch.notes)
            return _Done(results)

    def _count(self, queries: int) -> None:
        if self._watch.queries is not None:
            self._news.put(partial(self._watch.queries, queries))
