"""File access: atomic writes, no writing through links, one writer at a time, and errors with advice.

Folders of runs are made for their owner alone (0700, files 0600) where the platform knows such rights.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from popskipjump.errors import BusyRunError, StorageError

PARTIAL = ".partial"  # the end of the name of a file that is being written
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


@contextmanager
def io_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageError(
                f"the disk is full: {path} could not be written. What was finished is kept; make room and go on with "
                "the same command or `psj resume`."
            ) from error
        if error.errno == errno.ELOOP:
            raise linked(path) from error
        why = error.strerror or str(error)
        raise StorageError(f"{path} cannot be used ({why}): check its folder and its permissions.") from error


def linked(path: Path) -> StorageError:
    """The error for a link where a file of the run should be."""
    return StorageError(
        f"{path} is a symbolic link or no plain file: the files of a run are never written through links. Nothing was "
        "changed; put the file itself in its place."
    )


def open_own(path: Path) -> int:
    """A file of a run, open for reading and writing, made if need be; a link or a device is refused."""
    with io_errors(path):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | _NO_FOLLOW, _PRIVATE_FILE)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise linked(path)
    return file


def refuse_links(*paths: Path) -> None:
    """Raise if one of these is there and is a symbolic link."""
    for path in paths:
        if path.is_symlink():
            raise linked(path)


def private_folder(path: Path) -> None:
    """Make a folder that only its owner can read, if it is not there; parents are made in the usual way."""
    with io_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir(mode=_PRIVATE_FOLDER)
        except FileExistsError:
            if not path.is_dir():
                raise


def read_limited(path: Path, most: int) -> bytes:
    """The bytes of a plain file, which must not be larger than `most`."""
    with io_errors(path), os.fdopen(_open_plain(path), "rb") as file:
        if os.fstat(file.fileno()).st_size <= most:
            return file.read(most)
    raise StorageError(f"{path} is larger than {most:,} bytes, more than any file of its kind: it is not read.")


def _open_plain(path: Path) -> int:
    """A pipe or a device could keep a reader waiting for ever."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    return file


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a fresh temporary name, and rename it when it has reached the disk."""
    partial = path.with_name(f".{path.name}.{os.urandom(6).hex()}{PARTIAL}")
    with io_errors(path):
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, _PRIVATE_FILE)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)
            _sync_folder(path.parent)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def drop_partials(folder: Path) -> None:
    """Remove what killed processes were writing; only for whoever holds the lock."""
    with io_errors(folder):
        for path in folder.glob(f".*{PARTIAL}"):
            path.unlink(missing_ok=True)


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
        file = open_own(self._path)
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
            with io_errors(self._path):
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
    with io_errors(path), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
