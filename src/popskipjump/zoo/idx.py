"""MNIST's file format, idx, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from popskipjump.errors import DataError

UNSIGNED_BYTE = 0x08  # the idx code of the only element type MNIST uses
GZIP_MAGIC = b"\x1f\x8b"
SIDE = 28
MOST_BYTES = 256 << 20  # largest unpacked file accepted; MNIST's largest has 47 million bytes
CLASSES = 10
STEMS = {"train": "train", "test": "t10k"}


def read_idx_pair(folder: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images `(N, 28, 28)` and labels `(N,)` of one MNIST split, as the bytes on disk."""
    images_path = _find(folder, f"{STEMS[split]}-images", dimensions=3)
    labels_path = _find(folder, f"{STEMS[split]}-labels", dimensions=1)
    images = read_idx(images_path, dimensions=3)
    labels = read_idx(labels_path, dimensions=1)
    if len(images) != len(labels):
        raise DataError(
            f"{images_path} holds {len(images)} images but {labels_path} holds {len(labels)} labels: "
            "they are not of the same data set. Download both again."
        )
    if images.shape[1:] != (SIDE, SIDE) or len(labels) == 0 or labels.max() >= CLASSES:
        raise DataError(
            f"{images_path} and {labels_path} are not MNIST: images {images.shape[1:]}, {len(labels)} labels; "
            f"expected {SIDE} x {SIDE} pixels and labels in 0..{CLASSES - 1}."
        )
    return images, labels


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An idx file of unsigned bytes with that many dimensions.

    The header is two zero bytes, the element type, the number of dimensions, then each size as a big-endian uint32.
    """
    content = _content(path)
    header = 4 + 4 * dimensions
    magic = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    if content[:4] != magic:
        raise DataError(
            f"{path} is not an idx file of unsigned bytes with {dimensions} dimension(s): it starts with "
            f"{content[:4].hex(' ') or 'nothing'}, not {magic.hex(' ')}. Pass the folder of the original MNIST files."
        )
    if len(content) < header:
        raise DataError(
            f"{path} is truncated: {len(content)} bytes, its header alone takes {header}. Download it again."
        )
    sizes = [int(size) for size in np.frombuffer(content, dtype=">u4", count=dimensions, offset=4)]
    expected = header + int(np.prod(sizes, dtype=object))
    if len(content) != expected:
        kind = "truncated" if len(content) < expected else "too long"
        raise DataError(
            f"{path} is {kind}: {len(content)} bytes, but its header promises {' x '.join(map(str, sizes))} "
            f"elements, {expected} bytes in all. Download it again."
        )
    return np.frombuffer(content, dtype=np.uint8)[header:].reshape(sizes)


def _content(path: Path) -> bytes:
    """The bytes of a file, decompressed if the content is gzip, whatever the file name."""
    try:
        raw = path.read_bytes()
        if raw[:2] != GZIP_MAGIC:
            return raw
        with gzip.open(path) as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read, or is a damaged gzip file ({error}). Download it again.") from error
    if len(content) > MOST_BYTES:
        raise DataError(f"{path} expands to more than {MOST_BYTES:,} bytes: it is not MNIST. Download it again.")
    return content


def _find(folder: Path, stem: str, dimensions: int) -> Path:
    """The first existing file among the four file names in use."""
    names = [f"{stem}{joint}idx{dimensions}-ubyte{ending}" for joint in "-." for ending in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise DataError(f"{folder} holds none of {', '.join(names)}. Pass the folder of the original MNIST files.")
