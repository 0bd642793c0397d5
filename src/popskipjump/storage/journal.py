"""The journal of a run's unfinished images: every answer, written before the attack sees it.

```
journal.bin   the header, then sealed records of many answers each, bit-packed
journal.tail  the header, the call in flight, then a record for each small call since the last sealed one
```
A call to the classifier is written in one piece when its answers arrive. Small calls go to the tail, as plain numbers;
a full tail is packed into one sealed record, which is brought to the disk, and emptied.
Answers are known by image and number: a process that dies between these two steps leaves them twice, which is no harm.
A record that the end of a file cuts short is dropped; damage anywhere else is reported and costs only what it hit.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from popskipjump.errors import DamagedRunError, InputError
from popskipjump.oracles import Ticket
from popskipjump.storage.answers import Answers
from popskipjump.storage.files import io_errors, open_own, read_limited, refuse_links
from popskipjump.storage.records import (
    ANSWERS,
    FAILURE,
    FOREVER,
    VOID,
    Failed,
    Found,
    Loose,
    Record,
    encoded,
    merged,
    read_records,
    split,
    stretches_of,
)

MAGIC = "psj journal 2 of {run}\n"
LARGE_CALL = 1024  # queries from which on a call is a sealed record of its own
TAIL_BYTES = 512 << 10  # about 20,000 answers
MOST_BYTES = 512 << 20  # of one file
_NOW = struct.Struct("<Q")  # queries in flight
_FLIGHT = struct.Struct("<QQQ")  # queries in flight; queries that were in flight when processes died; such deaths
_MOST_IN_FLIGHT = 1 << 50
_NONE = np.zeros(0, dtype=np.int64)
_SHOWN = 8  # images listed in a message


class Flight(NamedTuple):
    """Queries whose answers never arrived, because the process died while it waited for them."""

    now: int  # of the call under way, or of the last call of a process that died
    lost: int  # of earlier processes
    deaths: int  # how many those were


class Journal:
    """Two append-only files of answers, and what they held when they were opened.

    Args:
        path: the file of sealed records; the tail lies beside it. Both are made if there are none.
        run: the digest of the run's spec.
        write: whether to change them; a reader needs no right to write.

    Raises:
        DamagedRunError: a file is not a journal, or that of another run.
        StorageError: a file cannot be read or written.
    """

    def __init__(self, path: Path, run: str, *, write: bool = True) -> None:
        self.path, self.tail = path, path.with_suffix(".tail")
        self._header = MAGIC.format(run=run).encode()
        self.seconds = 0.0  # spent up to the last record
        self._answers: dict[int, Answers] = {}
        self._failures: dict[int, list[Failed]] = {}
        self._recent: list[np.ndarray] = []  # spans of the failures since the last answer
        self._loose = Loose()
        self.lost_bytes = 0  # that are damaged
        self.lost_spans: list[tuple[int, int, int]] = []  # what was in them, as far as that is known
        if write:
            refuse_links(self.path, self.tail)
        main, tail = self._content(self.path, 0), self._content(self.tail, _FLIGHT.size)
        self.flight = Flight(*_FLIGHT.unpack_from(tail, len(self._header))) if tail else Flight(0, 0, 0)
        if max(self.flight) > _MOST_IN_FLIGHT:  # rubbish: these numbers are for people alone
            self.flight = Flight(0, 0, 0)
        sealed = self._learn_all(main, len(self._header))
        loose = self._learn_all(tail, len(self._header) + _FLIGHT.size)
        for record in loose.records:
            self._loose.add(record)
        self._main_end, self._tail_end = sealed.end, loose.end
        self.bytes = len(main) + len(tail)
        if write:
            self._open()

    def _content(self, path: Path, slot: int) -> bytes:
        """What a file holds; nothing if it is new, or if its maker was killed at once."""
        if not path.exists() and not path.is_symlink():
            return b""
        content = read_limited(path, MOST_BYTES)
        start = self._header + bytes(slot)
        if len(content) < len(start) and self._header.startswith(content[: len(self._header)]):
            return b""
        if not content.startswith(self._header):
            raise DamagedRunError(
                f"{path} is not the journal of this run, or of another version. Nothing was changed. Move it away to "
                "attack the unfinished images again from the start."
            )
        return content

    def _open(self) -> None:
        self._main = open_own(self.path)
        try:
            self._small = open_own(self.tail)
        except BaseException:
            os.close(self._main)
            raise
        lost = self.flight.lost + self.flight.now
        self.flight = Flight(0, lost, self.flight.deaths + bool(self.flight.now))
        self._main_end = max(self._main_end, len(self._header))
        self._tail_end = max(self._tail_end, len(self._header) + _FLIGHT.size)
        with io_errors(self.path):
            self.write_at(self._main, 0, self._header)
            os.ftruncate(self._main, self._main_end)
            self.write_at(self._small, 0, self._header + _FLIGHT.pack(*self.flight))
            os.ftruncate(self._small, self._tail_end)
            # In shared memory: a note at each call costs nothing so, and the system keeps it when the process dies.
            self._slot = mmap.mmap(self._small, len(self._header) + _FLIGHT.size)

    def _learn_all(self, content: bytes, begin: int) -> Found:
        found = read_records(content, begin)
        for record in found.records:
            self._learn(record)
        for damage in found.damages:
            self.lost_bytes += damage.end - damage.begin
            if damage.spans is not None:
                self.lost_spans += [tuple(span) for span in damage.spans.tolist()]
        return found

    def close(self) -> None:
        """Let go of the files."""
        self._slot.close()
        os.close(self._main)
        os.close(self._small)

    def images(self) -> set[int]:
        """The ids of all images that the journal speaks of."""
        return {*self.answered(), *(image for image, failed in self._failures.items() if failed)}

    def answered(self) -> dict[int, int]:
        """How many answers there are of each image."""
        return {image: len(known) for image, known in self._answers.items() if len(known)}

    @property
    def end(self) -> int:
        """The number after the last query of any image that is known."""
        return max((known.end for known in self._answers.values()), default=0)

    def known(self, image: int, serial: np.ndarray) -> np.ndarray:
        """The answers to some queries of an image: `(M,)` -> int64 `(M,)`, -1 where there is none."""
        return self._answers[image].of(serial) if image in self._answers else np.full(len(serial), -1)

    def gaps(self) -> dict[int, list[tuple[int, int]]]:
        """Queries of each image that lost their answers although later ones have theirs: where these begin and end."""
        found = {}
        for image, known in self._answers.items():
            failed = self._failures.get(image, [])
            lost = [gap for gap in known.gaps() if not any(f.first <= gap[0] and gap[1] <= f.end for f in failed)]
            if lost and self.lost_bytes:
                found[image] = lost
        return found

    def first_gaps(self, images: Collection[int]) -> dict[int, int]:
        """For those of some images that lost answers, the number of the first query that did."""
        return {image: gaps[0][0] for image, gaps in self.gaps().items() if image in images}

    def damage(self) -> str | None:
        """What is damaged, and what that costs, in words; None if nothing is."""
        if not self.lost_bytes:
            return None
        lost = {image: sum(end - begin for begin, end in gaps) for image, gaps in self.gaps().items()}
        for image, first, count in self.lost_spans:
            end = self._answers[image].end if image in self._answers else 0
            lost[image] = lost.get(image, 0) + max(0, first + count - max(first, end))
        lost = {image: count for image, count in lost.items() if count}
        shown = ", ".join(map(str, sorted(lost)[:_SHOWN])) + (", ..." if len(lost) > _SHOWN else "")
        cost = f"{sum(lost.values()):,} answers of image{'s' * (len(lost) > 1)} {shown} are lost"
        return (
            f"the journal {self.path} is damaged in {self.lost_bytes:,} bytes: "
            f"{cost if lost else 'what it held there is unknown'}. The rest is used; what is lost is asked again."
        )

    def failure(self, ticket: Ticket) -> tuple[str, str] | None:
        """Name and text of the exception that one of these queries has met, if any."""
        if not self._failures or ticket.serial is None:
            return None
        for image, first, count in spans_of(ticket).tolist():
            for failed in self._failures.get(image, ()):
                if failed.first < first + count and first < failed.end:
                    return failed.error
        return None

    @property
    def loose(self) -> int:
        """How many answers are in the tail."""
        return len(self._loose)

    def begin_call(self, queries: int) -> None:
        """Note that so many queries are about to be asked."""
        _NOW.pack_into(self._slot, len(self._header), queries)

    def write_answers(self, ticket: Ticket, labels: Tensor, seconds: float) -> None:
        """Append the answers of a call: `(M,)` labels."""
        count = labels.shape[0]
        if count >= LARGE_CALL:
            for record in split(spans_of(ticket), labels.cpu().numpy(), seconds):
                self._append_sealed(record)
        elif count:
            asked = ticket.image.numpy(), _numbered(ticket).numpy()
            self.append_loose(self._loose.add_call(*asked, labels.cpu().numpy(), seconds))
        self._recent = []
        self.begin_call(0)

    def write_failure(self, ticket: Ticket, error: Exception, seconds: float) -> None:
        """Append that a call has failed, so that a replay fails in the same place."""
        words = (type(error).__name__, str(error))
        spans = spans_of(ticket)
        for record in split(spans, np.zeros(int(spans[:, 2].sum()), dtype=np.int64), seconds):
            self.append_loose(self._loose.add(Record(FAILURE, record.spans, seconds, _NONE, words)))
        self._recent.append(spans)
        self.begin_call(0)

    def forget_last_failures(self) -> None:
        """Take back the failures after the last answer: whoever goes on has mended the classifier."""
        if self._recent:
            self._void(np.concatenate(self._recent))

    def drop_after(self, first: dict[int, int]) -> int:
        """Forget what images were answered from a query on, for good: image -> number; how many answers that were."""
        lost = sum(self._answers[image].after(number) for image, number in first.items() if image in self._answers)
        self._void(np.array([(image, number, FOREVER) for image, number in first.items()], dtype=np.int64))
        return lost

    def records(self, images: Collection[int]) -> list[Record]:
        """All that is known of some images, in a few records."""
        found = [
            Record(ANSWERS, np.array([(image, first, len(labels))]), self.seconds, labels.astype(np.int64))
            for image, known in self._answers.items()
            if image in images
            for first, labels in known.stretches()
        ]
        failed = [(image, failure) for image in images for failure in self._failures.get(image, ())]
        found += [
            Record(FAILURE, np.array([(i, f.first, f.end - f.first)]), self.seconds, _NONE, f.error) for i, f in failed
        ]
        return merged(found)

    def absorb(self, records: Sequence[Record], lost: int = 0, deaths: int = 0) -> None:
        """Write down what another journal knows, and the queries and deaths that it has counted."""
        for record in records:
            self._append_sealed(record)
            self._learn(record)
        self.flight = Flight(self.flight.now, self.flight.lost + lost, self.flight.deaths + deaths)
        _FLIGHT.pack_into(self._slot, len(self._header), *self.flight)

    def clear(self) -> None:
        """Drop everything: the images are finished."""
        self._main_end, self._tail_end = len(self._header), len(self._header) + _FLIGHT.size
        with io_errors(self.path):
            os.ftruncate(self._main, self._main_end)
            os.ftruncate(self._small, self._tail_end)
        self._answers, self._failures, self._recent, self._loose, self.seconds = {}, {}, [], Loose(), 0.0
        self.lost_bytes, self.lost_spans = 0, []

    def _void(self, spans: np.ndarray) -> None:
        """What these spans held is no longer true; the tail is sealed first, as its records are read last."""
        self._seal()
        record = Record(VOID, spans, self.seconds, _NONE)
        self._append_sealed(record)
        self._learn(record)
        self._recent = []

    def _append_sealed(self, record: Record) -> None:
        content = encoded(record)
        with io_errors(self.path):
            self.write_at(self._main, self._main_end, content)
        self._main_end += len(content)

    def append_loose(self, content: bytes) -> None:
        """Write a record to the tail, which is sealed when it is full."""
        try:
            self.write_at(self._small, self._tail_end, content)
        except OSError:  # entered only now: this is part of every call
            with io_errors(self.tail):
                raise
        self._tail_end += len(content)
        if self._tail_end > TAIL_BYTES:
            self._seal()

    def _seal(self) -> None:
        """Pack the tail's answers into sealed records, and empty it once these are on the disk."""
        for record in self._loose.sealed():
            self._append_sealed(record)
        with io_errors(self.path):
            os.fdatasync(self._main)
            self._tail_end = len(self._header) + _FLIGHT.size
            os.ftruncate(self._small, self._tail_end)
        self._loose = Loose()

    def write_at(self, file: int, place: int, content: bytes) -> None:
        """Write all of the bytes, in as many calls of the system as it takes."""
        written = os.pwrite(file, content, place)
        while written < len(content):
            written += os.pwrite(file, content[written:], place + written)

    def _learn(self, record: Record) -> None:
        self.seconds = max(self.seconds, record.seconds)
        begin = 0
        for image, first, count in record.spans.tolist():
            if record.kind == ANSWERS:
                self._answers.setdefault(image, Answers()).add(first, record.labels[begin : begin + count])
                begin += count
            elif record.error is not None:
                self._failures.setdefault(image, []).append(Failed(first, first + count, record.error))
            elif record.kind == VOID:
                self._forget(image, first, count)

    def _forget(self, image: int, first: int, count: int) -> None:
        if image in self._answers:
            self._answers[image].drop(first, count)
        if image in self._failures:
            kept = [part for failed in self._failures[image] for part in failed.outside(first, first + count)]
            self._failures[image] = kept


def spans_of(ticket: Ticket) -> np.ndarray:
    """Runs of consecutive queries of one image: int64 `(S, 3)`, as in `Record`."""
    return stretches_of(ticket.image.numpy(), _numbered(ticket).numpy())


def _numbered(ticket: Ticket) -> Tensor:
    if ticket.serial is None:
        raise InputError("a journal needs numbered queries: put it below the ledger.")
    return ticket.serial
