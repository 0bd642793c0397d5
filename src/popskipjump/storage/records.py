"""Records of a journal: checksummed frames of bit-packed answers, and a reader that tolerates damage.

A record is a frame, an index and data, each with a CRC-32 of its own. The index says whose queries the record holds,
the data what was answered. Damaged data therefore costs known queries; a damaged index costs one record; and after a
damaged frame the reader goes on at the next marker. No size in a file is believed before it is checked against the
bytes that are there, so that reading takes at most a small multiple of the file's size in memory.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from popskipjump.storage.packing import PLAINLY, UNSIGNED, pack, unpack, width_of

MARKER = b"\x93psj"
FRAME = struct.Struct("<4sIIIII")  # marker, bytes of index and data, CRC of index and of data, CRC of all before
_SIZES, _SUM = struct.Struct("<4sIIII"), struct.Struct("<I")  # the two parts of a frame
_HEAD = struct.Struct("<BBBBdII")  # kind, bytes of an image id, of a number, of a count; seconds; spans, queries
ANSWERS, FAILURE, VOID = 1, 2, 3
_CALL = 4  # answers listed query by query, which is quick to write; read as ANSWERS
_NUMBER = np.dtype("<i8")
_CALL_WIDTHS = (_NUMBER.itemsize,) * 3
MAX_QUERIES = 1 << 18  # of one record; larger calls are split
MAX_PART = 1 << 24  # bytes of an index, and of the data
FOREVER = 1 << 62  # a count in a VOID record: all queries from `first` on
_NONE = np.zeros(0, dtype=np.int64)


class Record(NamedTuple):
    """One call to the classifier, several of them, or answers that no longer count."""

    kind: int  # ANSWERS, FAILURE or VOID
    spans: np.ndarray  # (S, 3) int64: image, number of its first query, how many queries
    seconds: float  # spent on the images of the journal, up to the end of this call
    labels: np.ndarray  # (N,) int64, of all spans in order; empty but for ANSWERS
    error: tuple[str, str] | None = None  # name and text of the exception, of FAILURE only


class Failed(NamedTuple):
    """Consecutive queries of one image that met an exception."""

    first: int
    end: int
    error: tuple[str, str]  # name and text

    def outside(self, begin: int, end: int) -> list[Failed]:
        """The parts of these queries before `begin` and from `end` on."""
        parts = [self._replace(end=min(self.end, begin)), self._replace(first=max(self.first, end))]
        return [part for part in parts if part.first < part.end]


class Damage(NamedTuple):
    """A stretch of the file that cannot be believed."""

    begin: int
    end: int
    spans: np.ndarray | None  # the queries it held, as in `Record`; None if that is lost too


class Found(NamedTuple):
    """What a file holds."""

    records: list[Record]
    damages: list[Damage]
    end: int  # where the next record belongs: a record that the file's end cuts short is dropped


def encoded(record: Record) -> bytes:
    """A record as it stands in the file."""
    return _framed(_index(record), _data(record))


def _framed(index: bytes, data: bytes) -> bytes:
    head = _SIZES.pack(MARKER, len(index), len(data), zlib.crc32(index), zlib.crc32(data))
    return b"".join((head, _SUM.pack(zlib.crc32(head)), index, data))


def _index(record: Record) -> bytes:
    largest = record.spans.max(axis=0, initial=0).tolist()
    widths = [width_of(value) for value in largest]
    head = _HEAD.pack(record.kind, *widths, record.seconds, len(record.spans), len(record.labels))
    columns = (record.spans[:, part].astype(UNSIGNED[width]).tobytes() for part, width in enumerate(widths))
    return b"".join((head, *columns))


def _data(record: Record) -> bytes:
    if record.kind == ANSWERS:
        return pack(record.labels, record.spans[:, 2])
    return b"" if record.error is None else json.dumps([text[:2000] for text in record.error]).encode()


def parsed(index: bytes, data: bytes) -> Record:
    """A record from its parts; ValueError if they do not fit, whatever they hold."""
    kind, seconds, spans = read_index(index)
    if kind == ANSWERS:
        return Record(kind, spans, seconds, unpack(data, spans[:, 2]))
    if kind == VOID:
        return Record(kind, spans, seconds, _NONE)
    try:
        name, text = json.loads(data)
    except (RecursionError, TypeError, ValueError) as error:
        raise ValueError("a failure without its words") from error
    if not isinstance(name, str) or not isinstance(text, str):
        raise ValueError("a failure without its words")
    return Record(kind, spans, seconds, _NONE, (name, text))


def read_index(index: bytes) -> tuple[int, float, np.ndarray]:
    """Kind, seconds and spans; ValueError if the bytes do not fit."""
    if len(index) < _HEAD.size:
        raise ValueError("an index without its head")
    kind, *widths, seconds, count, queries = _HEAD.unpack_from(index)
    if kind == _CALL:
        return ANSWERS, seconds, _read_call(index, seconds, count, queries)
    known = kind in (ANSWERS, FAILURE, VOID) and all(width in (1, 2, 4, 8) for width in widths)
    if not known or len(index) != _HEAD.size + count * sum(widths) or not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError("an index that does not fit its head")
    place, columns = _HEAD.size, []
    for width in widths:
        columns.append(np.frombuffer(index, dtype=UNSIGNED[width], count=count, offset=place).astype(np.uint64))
        place += count * width
    spans = np.stack(columns, axis=1)
    most = FOREVER if kind == VOID else MAX_QUERIES
    if count and (int(spans.max()) > FOREVER or not 0 < int(spans[:, 2].min()) <= int(spans[:, 2].max()) <= most):
        raise ValueError("an index with numbers out of range")
    total = 0 if kind == VOID else int(spans[:, 2].sum())
    if queries != (total if kind == ANSWERS else 0) or total > MAX_QUERIES:
        raise ValueError("an index that promises other answers than it lists")
    return kind, seconds, spans.astype(np.int64)


def _read_call(index: bytes, seconds: float, count: int, queries: int) -> np.ndarray:
    """The spans of a small call; ValueError if the bytes do not fit."""
    size = count * _NUMBER.itemsize
    if len(index) != _HEAD.size + 2 * size or not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError("an index that does not fit its head")
    image, number = (np.frombuffer(index, _NUMBER, count, _HEAD.size + part * size) for part in (0, 1))
    if not 0 < count == queries <= MAX_QUERIES:
        raise ValueError("an index that promises other answers than it lists")
    if min(image.min(), number.min()) < 0 or max(image.max(), number.max()) > FOREVER:
        raise ValueError("an index with numbers out of range")
    return stretches_of(image, number)


def read_records(content: bytes, place: int) -> Found:
    """All records from `place` on: those that are whole, and the damage between them."""
    records: list[Record] = []
    damages: list[Damage] = []
    while place < len(content):
        record, spans, known_end = _read_one(content, place)
        end = _next_frame(content, place + 1) if known_end is None else known_end
        if record is not None:
            records.append(record)
        elif known_end is None and end == len(content) and _is_torn(content, place):
            break  # the process died in the middle of writing this record
        else:
            damages.append(Damage(place, end, spans))
        place = end
    return Found(records, _joined(damages), place)


def _read_one(content: bytes, place: int) -> tuple[Record | None, np.ndarray | None, int | None]:
    """The record that begins here, or what its index says; where it ends, if that is known."""
    frame = _frame(content, place)
    if frame is None:
        return None, None, None
    middle = place + FRAME.size + frame[0]
    end = middle + frame[1]
    index, data = content[place + FRAME.size : middle], content[middle:end]
    spans = None
    try:
        if end <= len(content) and zlib.crc32(index) == frame[2]:
            spans = read_index(index)[2]
            if zlib.crc32(data) == frame[3]:
                return parsed(index, data), spans, end
    except ValueError:  # right checksums around what no writer of ours has written
        pass
    following = _next_frame(content, place + FRAME.size)  # it may lie within, if bytes were lost
    return None, spans, following if end <= len(content) or following < len(content) else None


def _frame(content: bytes, place: int) -> tuple[int, int, int, int] | None:
    """Sizes and checksums of the record that begins here, if one does."""
    if place + FRAME.size > len(content) or content[place : place + 4] != MARKER:
        return None
    _, index, data, index_sum, data_sum, frame_sum = FRAME.unpack_from(content, place)
    if zlib.crc32(content[place : place + FRAME.size - 4]) != frame_sum or max(index, data) > MAX_PART:
        return None
    return index, data, index_sum, data_sum


def _is_torn(content: bytes, place: int) -> bool:
    """Whether the file ends within a record, or in the zeros that a file system may leave after a power failure."""
    if len(content) - place < FRAME.size:
        return MARKER.startswith(content[place : place + 4])
    return _frame(content, place) is not None or not content[place:].strip(b"\0")


def _next_frame(content: bytes, place: int) -> int:
    """Where the next frame with a right checksum begins; the end of the file if there is none."""
    while (place := content.find(MARKER, place)) >= 0:
        if _frame(content, place) is not None:
            return place
        place += 1
    return len(content)


def _joined(damages: Sequence[Damage]) -> list[Damage]:
    """Stretches of unknown content that follow one another are one."""
    joined: list[Damage] = []
    for damage in damages:
        if joined and joined[-1].end == damage.begin and joined[-1].spans is None and damage.spans is None:
            joined[-1] = Damage(joined[-1].begin, damage.end, None)
        else:
            joined.append(damage)
    return joined


def split(spans: np.ndarray, labels: np.ndarray, seconds: float) -> Iterator[Record]:
    """Answers as records of at most MAX_QUERIES each."""
    ends = np.cumsum(spans[:, 2])
    for begin in range(0, len(labels), MAX_QUERIES):
        end = min(begin + MAX_QUERIES, len(labels))
        part = spans[np.searchsorted(ends, begin, "right") : np.searchsorted(ends, end, "left") + 1].copy()
        first_end = ends[np.searchsorted(ends, begin, "right")]
        cut = part[0, 2] - (first_end - begin)
        part[0] += (0, cut, -cut)
        part[-1, 2] -= part[:, 2].sum() - (end - begin)
        yield Record(ANSWERS, part, seconds, labels[begin:end])


def merged(records: list[Record]) -> list[Record]:
    """The same answers and failures in as few records as possible."""
    answers = [record for record in records if record.kind == ANSWERS]
    others = [record for record in records if record.kind != ANSWERS]
    if not answers:
        return others
    spans = np.concatenate([record.spans for record in answers])
    labels = np.concatenate([record.labels for record in answers])
    return [*_in_order(*queries_of(spans), labels, records[-1].seconds), *others]


def _in_order(image: np.ndarray, number: np.ndarray, labels: np.ndarray, seconds: float) -> Iterator[Record]:
    order = np.lexsort((number, image))
    return split(stretches_of(image[order], number[order]), labels[order], seconds)


def queries_of(spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Image and number of each query in some spans: int64 `(S, 3)` -> twice int64 `(M,)`."""
    image, number = (np.repeat(spans[:, part], spans[:, 2]) for part in (0, 1))
    return image, number + np.arange(len(number)) - np.repeat(np.cumsum(spans[:, 2]) - spans[:, 2], spans[:, 2])


def stretches_of(image: np.ndarray, serial: np.ndarray) -> np.ndarray:
    """Consecutive queries of one image as spans: two times int64 `(M,)` -> int64 `(S, 3)`, as in `Record`."""
    follows = serial[1:] - serial[:-1] == 1
    follows &= image[1:] == image[:-1]
    spans = np.empty((len(image) - int(np.count_nonzero(follows)), 3), dtype=np.int64)
    if len(image):
        first = np.zeros(len(spans), dtype=np.int64)
        np.add(np.flatnonzero(~follows), 1, out=first[1:])
        spans[:, 0], spans[:, 1] = image[first], serial[first]
        spans[:-1, 2], spans[-1, 2] = first[1:] - first[:-1], len(image) - first[-1]
    return spans


class Loose:
    """What the tail holds until it is sealed."""

    def __init__(self) -> None:
        self._calls: list[tuple[bytes, bytes]] = []  # index and data of each
        self._failures: list[Record] = []
        self._seconds = 0.0

    def __len__(self) -> int:
        """How many answers there are."""
        return sum(len(data) - len(PLAINLY) for _, data in self._calls) // _NUMBER.itemsize

    def add(self, record: Record) -> bytes:
        """Keep answers or a failure; returns how they stand in the tail."""
        self._seconds = max(self._seconds, record.seconds)
        if record.kind == ANSWERS:
            return self.add_call(*queries_of(record.spans), record.labels, record.seconds)
        self._failures.append(record)
        return encoded(record)

    def add_call(self, image: np.ndarray, number: np.ndarray, labels: np.ndarray, seconds: float) -> bytes:
        """Likewise of a call: image, number and label of each query, each `(M,)`."""
        count = len(labels)
        head = _HEAD.pack(_CALL, *_CALL_WIDTHS, seconds, count, count)
        index = b"".join((head, _in_bytes(image), _in_bytes(number)))
        data = b"".join((PLAINLY, _in_bytes(labels)))
        self._calls.append((index, data))
        self._seconds = max(self._seconds, seconds)
        return _framed(index, data)

    def sealed(self) -> list[Record]:
        """All of it in as few records as possible."""
        if not self._calls:
            return self._failures
        queries = [np.frombuffer(index, _NUMBER, offset=_HEAD.size).reshape(2, -1) for index, _ in self._calls]
        labels = [np.frombuffer(data, _NUMBER, offset=len(PLAINLY)) for _, data in self._calls]
        image, number = np.concatenate(queries, axis=1)
        return [*_in_order(image, number, np.concatenate(labels), self._seconds), *self._failures]


def _in_bytes(numbers: np.ndarray) -> memoryview | bytes:
    """As int64, one after the other; no copy is made of those that are."""
    whole = numbers.dtype == _NUMBER and numbers.flags.c_contiguous
    return numbers.data if whole else numbers.astype(_NUMBER).tobytes()
