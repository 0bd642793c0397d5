"""Arrays of one image in an npz file, known by a digest of its bytes."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from pathlib import Path

import numpy as np

from popskipjump.errors import DamagedRunError
from popskipjump.storage.files import write_whole, writing


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """Write arrays under their names; the digest to read them back with."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options
    content = buffer.getvalue()
    write_whole(path, content)
    return hashlib.sha256(content).hexdigest()


def read_arrays(path: Path, digest: str) -> dict[str, np.ndarray]:
    """The arrays of a file that has not changed since it was written."""
    if not path.is_file():
        raise _damaged(path, "it is missing")
    with writing(path):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise _damaged(path, "its content has changed")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> DamagedRunError:
    return DamagedRunError(
        f"{path} is damaged: {why}. Nothing was changed. Restore it from a copy, or move the folder "
        f"{path.parent.parent} away and run the command again."
    )
