"""Journals of workers: if several processes attack a run's images, each shard of images has its own journal.

```
workers/7.bin, 7.tail   the journal of the shard whose first image is 7, in the form of the run's own
workers/7.lock          held by the worker that is at work on the shard
```
The process that holds the run's lock hands out the shards. It tells each worker what is known already, and
keeps the results. Journals that are left over, whoever died, are absorbed by the run's journal when it is opened
next, so that a run may go on with other shards, or without workers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from popskipjump.errors import BusyRunError
from popskipjump.storage.files import Lock, io_errors, refuse_links
from popskipjump.storage.journal import Journal
from popskipjump.storage.records import ANSWERS, FAILURE, Record, queries_of, split, stretches_of

WORKERS = "workers"
PATIENCE = 10.0  # seconds to wait for a worker that is about to die


@contextmanager
def shard_journal(folder: Path, run: str, images: Sequence[int], known: Sequence[Record]) -> Iterator[Journal]:
    """The journal of a shard, for the worker that attacks it; what the run's journal knows is in it.

    Args:
        folder: of the run's workers.
        run: the digest of the run's spec.
        images: of the shard.
        known: what the run's journal knows of them.

    Raises:
        BusyRunError: another worker is at work on the shard.
    """
    path = folder / f"{images[0]}.bin"
    with _patient_lock(path.with_suffix(".lock")):
        journal = Journal(path, run)
        try:
            if not journal.images():  # a worker that follows a dead one finds it there
                journal.absorb(known)
            yield journal
        finally:
            journal.close()


def left_over(folder: Path) -> list[Path]:
    """The journals in a folder of workers."""
    if not folder.is_dir():
        return []
    with io_errors(folder):
        refuse_links(folder)
        return sorted(path for path in folder.glob("*.bin") if path.stem.isdigit())


def absorb(journal: Journal, folder: Path, run: str, finished: Collection[int], shard: int | None = None) -> list[str]:
    """Move what workers have written down into the run's journal; what the user should know of it.

    Args:
        journal: of the run, open for writing.
        folder: of the run's workers.
        run: the digest of the run's spec.
        finished: images that need no journal any more.
        shard: the first image of the one shard that is meant; None for all of them.

    Raises:
        BusyRunError: a worker is still at work.
    """
    notes = []
    for path in left_over(folder) if shard is None else [folder / f"{shard}.bin"]:
        with _patient_lock(path.with_suffix(".lock")):
            theirs = Journal(path, run, write=False)
            damage = theirs.damage()
            gaps = theirs.first_gaps(theirs.images())
            records = theirs.records(theirs.images() - set(finished))
            waiting, lost, deaths = theirs.flight
            journal.absorb(_news(journal, records), lost + waiting, deaths + bool(waiting))
            if gaps:  # which answers follow from lost ones is not known to the run's journal: they are asked again
                journal.drop_after({image: first for image, first in gaps.items() if image not in finished})
            notes += [] if damage is None else [damage]
            drop(path)
    return notes


def drop(path: Path) -> None:
    """Remove the journal of a shard, if it is there."""
    with io_errors(path):
        for part in (path, path.with_suffix(".tail"), path.with_suffix(".lock")):
            part.unlink(missing_ok=True)


def _news(journal: Journal, records: Sequence[Record]) -> list[Record]:
    """What a journal does not know yet."""
    news: list[Record] = []
    for record in records:
        if record.kind == ANSWERS:
            image, number = queries_of(record.spans)
            known = np.concatenate(
                [journal.known(i, first + np.arange(count)) for i, first, count in record.spans.tolist()]
            )
            new = known != record.labels
            news += split(stretches_of(image[new], number[new]), record.labels[new], record.seconds)
        elif not any(_covers(mine, record) for mine in journal.records(set(record.spans[:, 0].tolist()))):
            news.append(record)
    return news


def _covers(mine: Record, other: Record) -> bool:
    """Whether a failure is known already."""
    return mine.kind == FAILURE and {*map(tuple, other.spans.tolist())} <= {*map(tuple, mine.spans.tolist())}


@contextmanager
def _patient_lock(path: Path) -> Iterator[None]:
    """A lock, waited for a while: the worker that holds it may be about to die."""
    end = time.monotonic() + PATIENCE
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(Lock(path))
                break
            except BusyRunError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)
        yield
