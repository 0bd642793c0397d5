"""The folder of a run: its spec, its finished images, and the journal of unfinished ones.

```
<digest>/  spec.json       what the run is; its digest is the folder's name
           results.sqlite  a row for each finished image; which images were asked for; versions
           arrays/7.npz    the points and traces of image 7
           journal.bin     the answers that unfinished images have got so far; journal.tail has the latest
           lock            held by the process that is at work
           workers/        the journals of other processes that attack images for it; see `storage.workers`
```
An image is finished in this order: arrays, row, journal. Whatever moment a process dies at, the next one finds either
the row, or the journal from which the image is replayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from popskipjump.errors import DamagedRunError, InputError, NotARunError, StorageError
from popskipjump.oracles import Oracle
from popskipjump.storage.arrays import read_arrays, write_arrays
from popskipjump.storage.database import Database, ImageResult, wrong_version
from popskipjump.storage.files import (
    PARTIAL,
    Lock,
    drop_partials,
    io_errors,
    is_locked,
    private_folder,
    read_limited,
    refuse_links,
    write_whole,
)
from popskipjump.storage.journal import Journal
from popskipjump.storage.journalled import Journalled, drop_what_follows_from_lost, over_journal
from popskipjump.storage.records import Record
from popskipjump.storage.spec import SCHEMA, RunSpec
from popskipjump.storage.workers import WORKERS, absorb, left_over

SPEC, RESULTS, ARRAYS, JOURNAL, LOCK = "spec.json", "results.sqlite", "arrays", "journal.bin", "lock"
MOST_SPEC = 1 << 20  # bytes of a spec


class RunFolder:
    """A run's folder, open for reading; `working` opens one for writing too."""

    def __init__(self, path: Path, spec: RunSpec, database: Database, journal: Journal | None = None) -> None:
        self.path, self.spec = path, spec
        self._database, self._journal = database, journal
        damage = None if journal is None else journal.damage()
        self.notes = [] if damage is None else [damage]  # what the user should know of the state of the files

    @classmethod
    @contextmanager
    def reading(cls, path: Path) -> Iterator[RunFolder]:
        """Open a run to look at it; nothing is locked or changed.

        Raises:
            NotARunError: there is no run, or one of another version.
            DamagedRunError: its files are not whole.
        """
        spec = read_spec(path)
        if not (path / RESULTS).is_file():
            raise NotARunError(f"{path} has no {RESULTS}: the run has not begun, or the file was lost.")
        database = Database(path / RESULTS, write=False)
        try:
            _check_database(database, spec)
            yield cls(path, spec, database)
        finally:
            database.close()

    @classmethod
    @contextmanager
    def working(cls, root: Path, spec: RunSpec, name: str | None = None, *, force: bool = False) -> Iterator[RunFolder]:
        """Open the run of a spec to add to it, or begin it; no other process can do so at the same time.

        Args:
            root: the folder of the run's folder.
            spec: the run.
            name: of the run's folder; None for the spec's digest.
            force: begin the run in a folder that holds other things, too.

        Raises:
            BusyRunError: another process is at work in it.
            NotARunError: the folder holds something else, or a run of another version.
            DamagedRunError: its files are not whole.
        """
        path = root / (spec.digest if name is None else name)
        private_folder(path)
        refuse_links(
            path / ARRAYS, path / WORKERS, *(path / f"{RESULTS}{end}" for end in ("", "-wal", "-shm", "-journal"))
        )
        if not force:
            _refuse_strangers(path)
        with ExitStack() as stack:
            stack.enter_context(Lock(path / LOCK))
            if not (path / SPEC).exists():
                write_whole(path / SPEC, (json.dumps(spec.model_dump(mode="json"), indent=1) + "\n").encode())
            found = read_spec(path)
            if found != spec:
                raise NotARunError(f"{path} holds the run of another spec ({found.words}): choose another folder.")
            _refuse_lost_results(path, is_new=not (path / RESULTS).exists())
            database = Database(path / RESULTS, write=True)
            stack.callback(database.close)
            _refuse_lost_results(path, database.is_new)
            if database.is_new:
                database.create(spec.text)
            _check_database(database, spec)
            private_folder(path / ARRAYS)
            drop_partials(path / ARRAYS)
            drop_partials(path)
            journal = Journal(path / JOURNAL, spec.digest)
            stack.callback(journal.close)
            folder = cls(path, spec, database, journal)
            folder.absorb_workers()
            folder._drop_finished()
            yield folder

    def begin(self, images: Sequence[int], place: dict[str, str | None], versions: dict[str, str]) -> None:
        """Note which images are asked for, where the source lies, and the versions at work."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._database.begin(now, versions, {"place": json.dumps(place)}, images)

    def asked(self) -> list[int]:
        """The ids of all images that were ever asked for."""
        return self._database.asked()

    def finished(self) -> list[int]:
        """The ids of the images that have a result."""
        return self._database.finished()

    def queries(self) -> int:
        """Of all finished images."""
        return self._database.queries()

    def place(self) -> dict[str, str | None]:
        """Where the source was when the run was last worked on."""
        text = self._database.meta("place")
        try:
            found = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            raise DamagedRunError(f"{self.path / RESULTS} does not say where the images came from.") from error
        if not isinstance(found, dict):
            raise DamagedRunError(f"{self.path / RESULTS} does not say where the images came from.")
        return {str(key): None if value is None else str(value) for key, value in found.items()}

    def versions(self) -> list[tuple[str, dict[str, str]]]:
        """When each process began that finished an image, and the versions it had."""
        return self._database.versions()

    def results(self, images: Sequence[int] | None = None) -> list[ImageResult]:
        """Finished images with their arrays, in the given order; None for all, by id."""
        rows = self._database.results()
        chosen = list(rows) if images is None else images
        return [replace(rows[i], arrays=read_arrays(self._array_path(i), rows[i].array_digest)) for i in chosen]

    def journalled(
        self, oracle: Oracle, images: Sequence[int], on_queries: Callable[[int], None] | None = None
    ) -> Journalled:
        """The oracle of a group of images: replays what the journal holds, and writes down what is new."""
        found, note = over_journal(oracle, self._writable(), set(images), on_queries)
        self.notes += [] if note is None else [note]
        return found

    @property
    def workers(self) -> Path:
        """The folder of the workers' journals; see `storage.workers`."""
        return self.path / WORKERS

    def known(self, images: Sequence[int], *, repeatable: bool) -> list[Record]:
        """What the journal knows of a shard of images, for the worker that attacks it."""
        journal, chosen = self._writable(), set(images)
        note = None if repeatable else drop_what_follows_from_lost(journal, chosen)
        self.notes += [] if note is None else [note]
        return journal.records(chosen)

    def absorb_workers(self) -> None:
        """Move what workers have written down into the journal.

        Raises:
            BusyRunError: a worker is still at work.
        """
        if left_over(self.workers):
            self.notes += absorb(self._writable(), self.workers, self.spec.digest, set(self.finished()))

    def forget_last_failures(self) -> None:
        """After a classifier has failed on every image: let the next process ask it again."""
        self._writable().forget_last_failures()

    def finish(self, results: Sequence[ImageResult]) -> None:
        """Keep the results of a group of images; its journal is dropped once they are safe."""
        kept = [replace(r, array_digest=write_arrays(self._array_path(r.image), r.arrays)) for r in results]
        self._database.write(kept)
        if results and (self.workers / f"{results[0].image}.bin").is_file():
            self.notes += absorb(
                self._writable(), self.workers, self.spec.digest, {r.image for r in results}, results[0].image
            )
        self._drop_finished()

    def _drop_finished(self) -> None:
        """Empty the journal unless it holds answers of an image that is not finished."""
        journal = self._writable()
        images = journal.images()
        if not images or images <= set(self._database.finished()):
            journal.clear()

    def _array_path(self, image: int) -> Path:
        return self.path / ARRAYS / f"{image}.npz"

    def _writable(self) -> Journal:
        if self._journal is None:
            raise InputError(f"the run in {self.path} is open for reading only: open it with `working`.")
        return self._journal


class RunInfo(NamedTuple):
    """What a list of runs says of one."""

    path: Path
    spec: RunSpec | None  # None if it cannot be read
    finished: int
    asked: int
    queries: int
    state: str  # "done", "unfinished", "running", or what is wrong
    journalled: int = 0  # answers of images under way
    under_way: int = 0  # images that these belong to
    in_flight: int = 0  # queries whose answers never came, as a process died: they are asked again
    deaths: int = 0  # how many processes died with a call in flight
    damage: str | None = None  # of the journal, in words


def info(path: Path) -> RunInfo:
    """What can be said of a folder at a glance; a run that cannot be read is described, not raised."""
    try:
        busy = is_locked(path / LOCK)
        with RunFolder.reading(path) as folder:
            finished, asked = set(folder.finished()), set(folder.asked())
            state = "running" if busy else "done" if asked <= finished else "unfinished"
            found = RunInfo(path, folder.spec, len(finished), len(asked | finished), folder.queries(), state)
        try:
            run = found.spec.digest if found.spec else ""
            return _with_journals(
                found,
                finished,
                busy,
                [Journal(p, run, write=False) for p in (path / JOURNAL, *left_over(path / WORKERS))],
            )
        except StorageError as error:
            return found._replace(damage=str(error))
    except StorageError as error:
        return RunInfo(path, None, 0, 0, 0, str(error))


def _with_journals(found: RunInfo, finished: set[int], busy: bool, journals: Sequence[Journal]) -> RunInfo:
    """What the run's journal and those of its workers say; an answer that two of them know counts once."""
    answered: dict[int, int] = {}
    for journal in journals:
        for image, count in journal.answered().items():
            if image not in finished:
                answered[image] = max(count, answered.get(image, 0))
    waiting = [0 if busy else journal.flight.now for journal in journals]  # a living process may still be answered
    damages = [damage for journal in journals if (damage := journal.damage()) is not None]
    return found._replace(
        journalled=sum(answered.values()),
        under_way=len(answered),
        in_flight=sum(waiting) + sum(journal.flight.lost for journal in journals),
        deaths=sum(map(bool, waiting)) + sum(journal.flight.deaths for journal in journals),
        damage=" ".join(damages) or None,
    )


def list_runs(root: Path) -> list[RunInfo]:
    """The runs in a folder, or the folder itself if it is one; the oldest first."""
    if not root.is_dir():
        raise NotARunError(f"there is no folder {root}: name the folder that holds the runs.")
    if (root / SPEC).exists():
        return [info(root)]
    with io_errors(root):
        found = [path for path in root.iterdir() if (path / SPEC).is_file()]
        return [info(path) for path in sorted(found, key=lambda path: (path / SPEC).stat().st_mtime_ns)]


def read_spec(path: Path) -> RunSpec:
    """The spec of the run in a folder."""
    file = path / SPEC
    if not file.is_file():
        raise NotARunError(f"{path} is not the folder of a run: it has no {SPEC}. `psj runs ROOT` lists the runs.")
    content = read_limited(file, MOST_SPEC)
    try:
        fields = json.loads(content)
        if isinstance(fields, dict) and fields.get("schema_version") != SCHEMA:
            raise wrong_version(file, fields.get("schema_version"))
        return RunSpec(**fields)
    except (ValueError, TypeError, RecursionError) as error:  # json's errors and ours are of these kinds
        raise DamagedRunError(f"{file} is damaged ({error}). Nothing was changed: restore it from a copy.") from error


def _check_database(database: Database, spec: RunSpec) -> None:
    if database.is_new:
        raise NotARunError(f"{database.path} is empty: the run has not begun, or the file was lost.")
    if database.meta("spec") != spec.text:
        raise NotARunError(
            f"{database.path} belongs to another spec than the {SPEC} beside it. Nothing was changed: put the files "
            "back together, or move the folder away."
        )


def _refuse_strangers(path: Path) -> None:
    """A folder without a spec may hold nothing but a lock: the remains of a run that was killed at its birth."""
    if (path / SPEC).exists():
        return
    with io_errors(path):
        names = (entry.name for entry in path.iterdir())
        others = sorted(name for name in names if name != LOCK and not _is_partial(name))
    if others:
        raise NotARunError(
            f"{path} holds {others[0]} but no {SPEC}: it is not the folder of a run. Nothing was changed; choose "
            "another folder for the runs, or restore the file."
        )


def _is_partial(name: str) -> bool:
    return name.startswith(f".{SPEC}.") and name.endswith(PARTIAL)


def _refuse_lost_results(path: Path, is_new: bool) -> None:
    """Points without their table are not begun anew."""
    if is_new and (path / ARRAYS).is_dir() and any((path / ARRAYS).iterdir()):
        raise DamagedRunError(
            f"{path / RESULTS} is missing or empty, but {ARRAYS}/ is not. Nothing was changed: restore the file from "
            "a copy, or move the folder away."
        )
