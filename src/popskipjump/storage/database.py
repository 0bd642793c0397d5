"""SQLite table of a run's finished images, written in atomic transactions."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import numpy as np

from popskipjump.errors import DamagedRunError, NotARunError, StorageError
from popskipjump.storage.files import open_own
from popskipjump.storage.spec import SCHEMA
from popskipjump.types import Status

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE asked (image INTEGER PRIMARY KEY)",
    "CREATE TABLE sessions (session INTEGER PRIMARY KEY, began TEXT NOT NULL, versions TEXT NOT NULL)",
    "CREATE TABLE images (image INTEGER PRIMARY KEY, session INTEGER NOT NULL, label INTEGER NOT NULL, target INTEGER,"
    " status TEXT NOT NULL, message TEXT, distance REAL, border_distance REAL, queries INTEGER NOT NULL,"
    " phases TEXT NOT NULL, seconds REAL NOT NULL, verdict_probability REAL, verdict_low REAL, verdict_high REAL,"
    " verdict_queries INTEGER NOT NULL, array_digest TEXT NOT NULL)",
)
_COLUMNS = (
    "image, session, label, target, status, message, distance, border_distance, queries, phases, seconds, "
    "verdict_probability, verdict_low, verdict_high, verdict_queries, array_digest"
)


@dataclass(frozen=True, eq=False)
class ImageResult:
    """All that is kept of one finished image."""

    image: int
    label: int
    target: int | None
    status: str  # the name of a `Status`
    message: str | None  # what the classifier did, where it failed
    distance: float  # inf without a result
    border_distance: float  # nan without a white box
    queries: int
    phases: dict[str, int]
    seconds: float
    verdict: tuple[float, float, float, int]  # probability (nan where nothing was asked), low, high, queries
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    array_digest: str = ""


class Database:
    """The connection to a run's `results.sqlite`.

    Args:
        path: the file.
        write: whether to change it; a reader changes nothing, and needs no right to write in the folder.

    Raises:
        NotARunError: the file has another version.
        DamagedRunError: the file is not a database, or not a whole one.
    """

    def __init__(self, path: Path, *, write: bool) -> None:
        self.path = path
        self._session: int | None = None
        if write:
            os.close(open_own(path))  # for its owner alone; SQLite gives its own files the same rights
        with self._errors():
            address = f"file:{quote(str(path.absolute()))}?mode={'rwc' if write else _reading_mode(path)}"
            self._connection = sqlite3.connect(address, uri=True, isolation_level=None)
        try:
            with self._errors():
                self._check()
                self._connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self._connection.close()
            raise

    @property
    def is_new(self) -> bool:
        """Whether nothing has been written yet."""
        return self._value("PRAGMA user_version") == 0

    def _check(self) -> None:
        if (found := self._value("PRAGMA quick_check(1)")) != "ok":
            raise self._damaged(str(found))
        version = self._value("PRAGMA user_version")
        if version not in (0, SCHEMA) or (version == 0 and self._value("SELECT count(*) FROM sqlite_master")):
            raise wrong_version(self.path, version)

    def create(self, spec_text: str) -> None:
        """Make the tables of a new run; the file remembers that it is written ahead (WAL)."""
        self._value("PRAGMA journal_mode = WAL")
        with self._transaction():
            for table in _TABLES:
                self._connection.execute(table)
            self._connection.execute("INSERT INTO meta VALUES ('spec', ?)", (spec_text,))
            self._connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def meta(self, key: str) -> str | None:
        """A remark about the run."""
        with self._errors():
            row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def begin(self, began: str, versions: dict[str, str], remarks: dict[str, str], images: Iterable[int]) -> None:
        """Note that a process begins work, with what, and which images it was asked for."""
        with self._transaction():
            versions_text = json.dumps(versions, sort_keys=True)
            cursor = self._connection.execute(
                "INSERT INTO sessions (began, versions) VALUES (?, ?)", (began, versions_text)
            )
            self._session = cursor.lastrowid
            self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", remarks.items())
            self._connection.executemany("INSERT OR IGNORE INTO asked VALUES (?)", ((image,) for image in images))

    def write(self, results: Sequence[ImageResult]) -> None:
        """Add finished images, all or none."""
        rows = [
            (
                r.image, self._session, r.label, r.target, r.status, r.message, r.distance, r.border_distance,
                r.queries, json.dumps(r.phases), r.seconds, *r.verdict, r.array_digest,
            )
            for r in results
        ]  # fmt: skip
        with self._transaction():
            self._connection.executemany(f"INSERT INTO images ({_COLUMNS}) VALUES ({', '.join('?' * 16)})", rows)  # noqa: S608

    def asked(self) -> list[int]:
        """The ids of all images that were ever asked for, in order."""
        return self._integers("SELECT image FROM asked ORDER BY image")

    def finished(self) -> list[int]:
        """The ids of the images that have a result, in order."""
        return self._integers("SELECT image FROM images ORDER BY image")

    def queries(self) -> int:
        """Of all finished images together."""
        return sum(self._integers("SELECT queries FROM images"))

    def versions(self) -> list[tuple[str, dict[str, str]]]:
        """When each process began that finished an image, and the versions it had."""
        query = "SELECT began, versions FROM sessions WHERE session IN (SELECT session FROM images) ORDER BY session"
        with self._errors():
            rows = self._connection.execute(query).fetchall()
            return [(str(began), {k: str(v) for k, v in _mapping(text).items()}) for began, text in rows]

    def results(self) -> dict[int, ImageResult]:
        """All finished images by id, without their arrays."""
        with self._errors():
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM images ORDER BY image").fetchall()  # noqa: S608
            return {_whole(row[0]): _result(row) for row in rows}

    def close(self) -> None:
        """Let go of the file."""
        with self._errors():
            self._connection.close()

    def _integers(self, query: str) -> list[int]:
        with self._errors():
            return [_whole(row[0]) for row in self._connection.execute(query)]

    def _value(self, query: str) -> object:
        with self._errors():
            return self._connection.execute(query).fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                raise StorageError(
                    f"the disk is full: {self.path} could not be written. What was finished is kept; make room and go "
                    "on with the same command or `psj resume`."
                ) from error
            raise StorageError(
                f"{self.path} cannot be used ({error}): check its folder, its permissions and other programs that "
                "have it open."
            ) from error
        except (sqlite3.Error, ValueError, TypeError, RecursionError, OverflowError) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> DamagedRunError:
        return DamagedRunError(
            f"{self.path} is damaged ({why}). Nothing was changed. Restore it from a copy, or move the folder "
            f"{self.path.parent} away and run the command again."
        )


def _reading_mode(path: Path) -> str:
    """SQLite wants to make files of its own beside one written ahead, unless it is told that nothing is pending."""
    ahead = path.with_name(f"{path.name}-wal")
    pending = ahead.is_file() and ahead.stat().st_size > 0
    return "ro" if pending or os.access(path.parent, os.W_OK) else "ro&immutable=1"


def wrong_version(path: Path, found: object) -> NotARunError:
    """The error for files of another version."""
    return NotARunError(
        f"{path} has version {found} of the files of a run; this popskipjump reads version {SCHEMA}. Nothing was "
        "changed. Use the popskipjump that wrote it, or another folder for new runs."
    )


def _result(row: tuple[object, ...]) -> ImageResult:
    """A row of the table; SQLite keeps nan as null."""
    image, _, label, target, status, message, distance, border, queries, phases, seconds, *verdict, digest = row
    probability, low, high, asked = verdict
    return ImageResult(
        image=_whole(image),
        label=_whole(label),
        target=None if target is None else _whole(target),
        status=_status(status),
        message=None if message is None else str(message),
        distance=_number(distance),
        border_distance=_number(border),
        queries=_whole(queries),
        phases={str(phase): _whole(count) for phase, count in _mapping(phases).items()},
        seconds=_number(seconds),
        verdict=(_number(probability), _number(low), _number(high), _whole(asked)),
        array_digest=str(digest),
    )


def _whole(value: object) -> int:
    """A whole number that a column of 64 bits can hold."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 63:
        raise ValueError(f"{_some(value)} is no whole number")
    return value


def _number(value: object) -> float:
    if value is not None and not isinstance(value, int | float):
        raise ValueError(f"{_some(value)} is no number")
    return float("nan") if value is None else float(value)


def _status(value: object) -> str:
    if value not in Status.__members__:
        raise ValueError(f"{_some(value)} is no status")
    return str(value)


def _mapping(text: object) -> dict[str, object]:
    found = json.loads(str(text))
    if not isinstance(found, dict):
        raise ValueError(f"{_some(text)} is no table of names")
    return found


def _some(value: object) -> str:
    """A value of unknown origin, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
