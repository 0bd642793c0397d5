"""CIFAR-10's two file layouts: "binary" (`test_batch.bin`) and "python" (`test_batch`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from popskipjump.errors import DataError
from popskipjump.zoo.pickled import read_pickled_dict

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
CLASSES = 10
BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}

Raw = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_cifar_batches(folder: Path, split: str) -> Raw:
    """Images `(N, 3, 32, 32)` and labels `(N,)` of one split, in whichever layout the folder holds."""
    binary = [folder / f"{name}.bin" for name in BATCHES[split]]
    pickled = [folder / name for name in BATCHES[split]]
    if all(path.is_file() for path in binary):
        paths, read = binary, _read_binary
    elif all(path.is_file() for path in pickled):
        paths, read = pickled, _read_pickled
    else:
        raise DataError(
            f"{folder} does not hold all of {', '.join(BATCHES[split])}, with or without .bin. "
            "Pass the folder that the CIFAR-10 archive unpacks to (cifar-10-batches-bin or cifar-10-batches-py)."
        )
    try:
        parts = [read(path) for path in paths]
    except OSError as error:
        raise DataError(f"{folder} cannot be read ({error.strerror or error}). Check its permissions.") from error
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _read_binary(path: Path) -> Raw:
    """Records of one label byte and 3,072 pixel bytes."""
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    record = 1 + PIXELS
    if len(content) == 0 or len(content) % record:
        raise DataError(
            f"{path} has {len(content)} bytes, not a positive multiple of {record} (a label and {PIXELS} pixels). "
            "Download it again."
        )
    records = content.reshape(-1, record)
    return _checked(records[:, 1:], records[:, 0].astype(np.int64), path)


def _read_pickled(path: Path) -> Raw:
    batch = read_pickled_dict(path)
    missing = [name for name in ("data", "labels") if name not in batch]
    if missing:
        raise DataError(
            f"{path} has no {' and no '.join(missing)}: it is not a CIFAR-10 batch (CIFAR-100 is not read)."
        )
    data, labels = batch["data"], batch["labels"]
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != PIXELS or len(data) == 0:
        found = data.shape if isinstance(data, np.ndarray) else type(data).__name__
        raise DataError(f"the data in {path} is {found}, not an array (N, {PIXELS}) of bytes. Download it again.")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels) or len(labels) != len(data):
        raise DataError(f"the labels in {path} are not a list of {len(data)} whole numbers. Download it again.")
    return _checked(data, np.array(labels, dtype=np.int64), path)


def _checked(pixels: NDArray[np.uint8], labels: NDArray[np.int64], path: Path) -> Raw:
    if labels.min() < 0 or labels.max() >= CLASSES:
        wrong = int(np.count_nonzero((labels < 0) | (labels >= CLASSES)))
        raise DataError(f"{wrong} of {len(labels)} labels in {path} are not in 0..{CLASSES - 1}: it is not CIFAR-10.")
    return pixels.reshape(-1, *SHAPE), labels
