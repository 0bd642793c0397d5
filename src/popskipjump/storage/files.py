"""Files that are whole or not there, one writer at a time, and errors that say what to do."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from popskipjump.errors import BusyRunError, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageError(
                f"the disk is full: {path} could not be written. What was finished is kept; make room and go on with "
                "the same command or `psj resume`."
            ) from error
        why = error.strerror or str(error)
        raise StorageError(f"{path} cannot be used ({why}): check its folder and its permissions.") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, and rename it when it has reached the disk."""
    partial = path.with_name(f".{path.name}.partial")
    with writing(path):
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
            _sync_folder(path.parent)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    """The new name itself must reach the disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Lock:
    """Held by the one process that may write; the system lets go of it when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def __enter__(self) -> Lock:
        with writing(self._path):
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(file)
            raise BusyRunError(
                f"another process (number {owner}) is at work on the run in {self._path.parent}: wait until it ends, "
                "or stop it; what it has finished is kept."
            ) from error
        self._file = file
        try:
            with writing(self._path):
                os.ftruncate(file, 0)
                os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock."""
    if not path.is_file():
        return False
    with writing(path), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
