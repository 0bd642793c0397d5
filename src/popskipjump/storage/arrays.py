"""Arrays of one image in an npz file, identified by a digest of its bytes."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np

from popskipjump import npz
from popskipjump.errors import DamagedRunError, DataError
from popskipjump.storage.files import read_limited, write_whole

MOST_BYTES = 4 << 30  # of one image's arrays


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """Write named arrays to an npz file, and return its digest."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options
    content = buffer.getvalue()
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def read_arrays(path: Path, digest: str) -> dict[str, np.ndarray]:
    """Read the arrays of an npz file, after checking its digest."""
    if not path.is_file():
        raise _damaged(path, "it is missing")
    content = read_limited(path, MOST_BYTES)
    if hashlib.sha256(content).hexdigest() != digest:
        raise _damaged(path, "its content has changed")
    try:
        return npz.read_arrays(content, most=MOST_BYTES)
    except DataError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> DamagedRunError:
    return DamagedRunError(
        f"{path} is damaged: {why}. Nothing was changed. Restore it from a copy, or move the folder "
        f"{path.parent.parent} away and run the command again."
    )
