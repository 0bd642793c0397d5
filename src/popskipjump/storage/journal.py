"""The journal of a run's images under way: every answer, written before the attack sees it.

The file is a header and then records, each with its length and a checksum, in the order of the calls. A record is
written in one piece, so a process that is killed leaves at most one torn record at the end, which is dropped: the
answers of the call in flight. Nothing is ever changed but the end.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from popskipjump.errors import DamagedRunError, InputError, OracleError
from popskipjump.oracles import Oracle, Replay, Ticket, device_of
from popskipjump.oracles.classifier import checked_labels
from popskipjump.storage.files import writing

MAGIC = "psj journal 1 of {run}\n"
_FRAME = struct.Struct("<II")  # length of the body, CRC-32 of the body
_HEAD = struct.Struct("<BBdI")  # kind, bytes of a label, seconds spent so far, number of spans
_SPAN = np.dtype([("image", "<i8"), ("first", "<i8"), ("count", "<i8")])
_ANSWERS, _FAILURE = 1, 2


class Record(NamedTuple):
    """One call to the classifier."""

    spans: np.ndarray  # of _SPAN: for each image the number of its first query, and how many there were
    seconds: float  # spent on the images of the journal, up to the end of this call
    labels: np.ndarray | None  # int64, of all spans in order; None for a call that failed
    error: tuple[str, str] | None  # name and text of the exception


class Journal:
    """An append-only file of answers, and what it held when it was opened.

    Args:
        path: the file; made if there is none.
        run: the digest of the run's spec.

    Raises:
        DamagedRunError: the file is not a journal, or that of another run.
        StorageError: the file cannot be read or written.
    """

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self._header = MAGIC.format(run=run).encode()
        self.seconds = 0.0  # spent up to the last record
        self._answers: dict[int, list[tuple[int, np.ndarray]]] = {}
        self._failures: dict[tuple[int, int], tuple[str, str]] = {}  # (image, number) -> name and text
        self._end = len(self._header)
        self._last_answer = len(self._header)  # where the last record with answers ends
        with writing(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            content = path.read_bytes()
            if len(content) < len(self._header) and self._header.startswith(content):  # new, or killed while being made
                self._write(0, self._header)
                content = self._header
        if not content.startswith(self._header):
            os.close(self._file)
            raise DamagedRunError(
                f"{path} is not the journal of this run. Nothing was changed. Move it away to attack the unfinished "
                "images again from the start."
            )
        for record, end in _records(content, len(self._header)):
            self._learn(record)
            self._note_end(end, record.labels is not None)
        with writing(path):
            os.ftruncate(self._file, self._end)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def images(self) -> set[int]:
        """The ids of all images that the journal speaks of."""
        return {*self._answers, *(image for image, _ in self._failures)}

    def answers(self) -> dict[int, Tensor]:
        """What `Replay` takes: id -> int64 `(queries,)`, -1 where an answer is missing."""
        return {image: _joined(parts) for image, parts in self._answers.items()}

    def failure(self, ticket: Ticket) -> tuple[str, str] | None:
        """Name and text of the exception that one of these queries has met, if any."""
        if not self._failures or ticket.serial is None:
            return None
        numbers = zip(ticket.image.tolist(), ticket.serial.tolist(), strict=True)
        return next((self._failures[number] for number in numbers if number in self._failures), None)

    def write_answers(self, ticket: Ticket, labels: Tensor, seconds: float) -> None:
        """Append the answers of a call: `(M,)` labels."""
        values = labels.cpu().numpy()
        width = _width(int(values.max(initial=0)))
        self._append(_body(_ANSWERS, width, seconds, _spans(ticket), values.astype(f"<u{width}").tobytes()))
        self._last_answer = self._end

    def write_failure(self, ticket: Ticket, error: Exception, seconds: float) -> None:
        """Append that a call has failed, so that a replay fails in the same place."""
        text = json.dumps([type(error).__name__, str(error)]).encode()
        self._append(_body(_FAILURE, 1, seconds, _spans(ticket), text))

    def forget_last_failures(self) -> None:
        """Take back the failures after the last answer: whoever goes on has mended the classifier."""
        with writing(self.path):
            os.ftruncate(self._file, self._last_answer)
        self._end = self._last_answer

    def clear(self) -> None:
        """Drop everything: the images are finished."""
        with writing(self.path):
            os.ftruncate(self._file, len(self._header))
        self._end = self._last_answer = len(self._header)
        self._answers, self._failures, self.seconds = {}, {}, 0.0

    def _append(self, body: bytes) -> None:
        with writing(self.path):
            frame = _FRAME.pack(len(body), zlib.crc32(body)) + body
            self._write(self._end, frame)
        self._end += len(frame)

    def _write(self, place: int, content: bytes) -> None:
        written = 0
        while written < len(content):
            written += os.pwrite(self._file, content[written:], place + written)

    def _learn(self, record: Record) -> None:
        self.seconds = record.seconds
        begin = 0
        for image, first, count in record.spans.tolist():
            if record.labels is not None:
                self._answers.setdefault(image, []).append((first, record.labels[begin : begin + count]))
            elif record.error is not None:
                self._failures |= {(image, number): record.error for number in range(first, first + count)}
            begin += count

    def _note_end(self, end: int, answered: bool) -> None:
        self._end = end
        if answered:
            self._last_answer = end


class Journalled:
    """Answers from the journal, and asks and writes down what it does not hold.

    Args:
        oracle: asked for what is new.
        journal: read and appended to.
        before: seconds that earlier processes spent on the images.
        on_queries: called with the number of queries after every call that asked something.
    """

    def __init__(
        self,
        oracle: Oracle,
        journal: Journal,
        before: float = 0.0,
        on_queries: Callable[[int], None] | None = None,
    ) -> None:
        self.oracle, self.journal = oracle, journal
        self.device = device_of(oracle)
        self._before = before
        self._on_queries = on_queries
        self._began: float | None = None  # when the first new question was asked; the replay before it is not counted
        self._replay = Replay(journal.answers(), then=_Asking(self))

    @property
    def seconds(self) -> float:
        """Time spent on the images, over all processes that worked on them, without replays."""
        return self._before + (0.0 if self._began is None else time.perf_counter() - self._began)

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        if ticket.serial is None:
            raise InputError("a journal needs numbered queries: put it below the ledger.")
        if failure := self.journal.failure(ticket):
            name, text = failure
            raise type(name, (OracleError,), {})(text)  # an error that reads like the one of then
        return self._replay.ask(points, ticket)

    def ask_anew(self, points: Tensor, ticket: Ticket) -> Tensor:
        """Ask the oracle and write its answers down."""
        if self._began is None:
            self._began = time.perf_counter()
        try:
            labels = checked_labels(self.oracle.ask(points, ticket), len(points))
        except Exception as error:
            self.journal.write_failure(ticket, error, self.seconds)
            raise
        self.journal.write_answers(ticket, labels, self.seconds)
        if self._on_queries is not None:
            self._on_queries(len(points))
        return labels


class _Asking:
    """The far end of the replay."""

    def __init__(self, owner: Journalled) -> None:
        self._owner, self.device = owner, owner.device

    def ask(self, points: Tensor, ticket: Ticket) -> Tensor:
        """See `Oracle`."""
        return self._owner.ask_anew(points, ticket)


def _records(content: bytes, place: int) -> Iterator[tuple[Record, int]]:
    """The whole records from `place` on, each with the place where it ends; nothing after the first torn one."""
    while place + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, place)
        body = content[place + _FRAME.size : place + _FRAME.size + length]
        if len(body) < max(length, _HEAD.size) or zlib.crc32(body) != checksum:
            return
        place += _FRAME.size + length
        yield _parsed(body), place


def _parsed(body: bytes) -> Record:
    kind, width, seconds, count = _HEAD.unpack_from(body)
    spans = np.frombuffer(body, dtype=_SPAN, count=count, offset=_HEAD.size)
    rest = body[_HEAD.size + spans.nbytes :]
    if kind == _ANSWERS:
        return Record(spans, seconds, np.frombuffer(rest, dtype=f"<u{width}").astype(np.int64), None)
    name, text = json.loads(rest)
    return Record(spans, seconds, None, (name, text))


def _body(kind: int, width: int, seconds: float, spans: np.ndarray, rest: bytes) -> bytes:
    return _HEAD.pack(kind, width, seconds, len(spans)) + spans.tobytes() + rest


def _spans(ticket: Ticket) -> np.ndarray:
    """Runs of consecutive queries of one image: of _SPAN."""
    if ticket.serial is None:
        raise InputError("a journal needs numbered queries: put it below the ledger.")
    image, serial = ticket.image.numpy(), ticket.serial.numpy()
    begins = np.ones(len(image), dtype=bool)
    begins[1:] = (image[1:] != image[:-1]) | (serial[1:] != serial[:-1] + 1)
    first = np.flatnonzero(begins)
    spans = np.empty(len(first), dtype=_SPAN)
    spans["image"], spans["first"] = image[first], serial[first]
    spans["count"][:-1], spans["count"][-1:] = first[1:] - first[:-1], len(image) - first[-1:]
    return spans


def _width(largest: int) -> int:
    """How many bytes an unsigned label needs."""
    return next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width))


def _joined(parts: list[tuple[int, np.ndarray]]) -> Tensor:
    """Answers in the order of their numbers: int64, -1 where there is none."""
    joined = np.full(max(first + len(labels) for first, labels in parts), -1, dtype=np.int64)
    for first, labels in parts:
        joined[first : first + len(labels)] = labels
    return torch.from_numpy(joined)
