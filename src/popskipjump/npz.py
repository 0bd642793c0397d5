"""Reading of untrusted npz files: sizes that an archive declares are checked before memory is allocated.

Pickled, encrypted and exotically compressed members are refused, as are archives that would expand without end. Every
defect is a `DataError` in words.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

import numpy as np

from popskipjump.errors import DataError

LARGE = 1 << 30  # bytes; an archive that expands to more must not do so too easily
LARGE_RATIO = 200  # how many times its own size a large archive may expand to
DEFLATE_RATIO = 1032  # no deflated member expands to more than that many times its size
MOST_HEADER = 10_000  # bytes of an array's header
_SUFFIX = ".npy"
_ADDED = 1 << 12  # what a member's own header may add to its data


def read_arrays(
    source: str | Path | bytes, names: Collection[str] | None = None, most: int | None = None
) -> dict[str, np.ndarray]:
    """Arrays of an npz file by their names.

    Args:
        source: the file, or its content.
        names: those to read; names that are not there are left out. None reads all.
        most: bytes that all of them may take; None for half of the machine's memory.

    Raises:
        DataError: the file is no npz file, damaged, or larger than it may be.
    """
    stream: str | Path | IO[bytes] = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        with zipfile.ZipFile(stream) as archive:
            members = {_name(info): info for info in archive.infolist()}
            chosen = {name: info for name, info in members.items() if names is None or name in names}
            _check_sizes(list(chosen.values()), _half_of_memory() if most is None else most)
            return {name: _read_member(archive, info) for name, info in chosen.items()}
    except DataError:
        raise
    except Exception as error:  # whatever zip and array headers of unknown origin can provoke
        raise DataError(f"it is no whole npz file ({type(error).__name__}: {error})") from error


def names_in(source: str | Path) -> list[str]:
    """The names of the arrays in an npz file.

    Raises:
        DataError: the file is no npz file.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            return [_name(info) for info in archive.infolist()]
    except Exception as error:
        raise DataError(f"it is no whole npz file ({type(error).__name__}: {error})") from error


def _name(info: zipfile.ZipInfo) -> str:
    return info.filename.removesuffix(_SUFFIX)


def _check_sizes(members: list[zipfile.ZipInfo], most: int) -> None:
    for info in members:
        name = _name(info)
        if info.flag_bits & 0x1:
            raise DataError(f"its array {name} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"its array {name} is compressed in a way that np.savez never uses")
        if info.file_size > DEFLATE_RATIO * info.compress_size + _ADDED:
            raise DataError(f"its array {name} promises {info.file_size:,} bytes, more than it can hold")
    total, packed = sum(info.file_size for info in members), sum(info.compress_size for info in members)
    if total > most:
        raise DataError(f"it expands to {total:,} bytes, more than the {most:,} that may be used for it")
    if total > LARGE and total > LARGE_RATIO * packed:
        raise DataError(
            f"its {packed:,} bytes expand to {total:,}: it is refused as an archive made to fill the memory"
        )


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as stream:
        shape, fortran, dtype, header = _read_header(stream)
        expected = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise DataError(f"its array {_name(info)} holds pickled objects, which are never loaded")
        if header + expected != info.file_size or dtype.itemsize == 0:
            raise DataError(
                f"its array {_name(info)} has {info.file_size:,} bytes, but its header promises {expected:,}"
            )
        data = stream.read(expected + 1)  # one more, so that the end is reached and the checksum is compared
    if len(data) != expected:
        raise DataError(f"its array {_name(info)} is cut short")
    array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return array.copy()  # one that may be written to, as from np.load


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, order, type and the length of an array's header."""
    version = np.lib.format.read_magic(stream)
    size = {(1, 0): 2, (2, 0): 4}.get(version)
    if size is None:
        raise DataError(f"an array has a header of the unknown version {version}")
    length_bytes = stream.read(size)
    length = int.from_bytes(length_bytes, "little")
    if len(length_bytes) != size or length > MOST_HEADER:
        raise DataError(f"an array has a header of {length:,} bytes, more than {MOST_HEADER:,}")
    content = io.BytesIO(length_bytes + stream.read(length))
    read = np.lib.format.read_array_header_1_0 if size == 2 else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(content, max_header_size=MOST_HEADER)
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise DataError("an array has a negative length")
    return shape, bool(fortran), dtype, 8 + size + length


def _half_of_memory() -> int:
    try:
        return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2, 1 << 28)
    except (AttributeError, OSError, ValueError):  # a platform that does not tell
        return 4 << 30
