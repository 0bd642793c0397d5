"""Readers of images and labels in the published files of data sets.

Every reader returns images as float32 in [0, 1] with the images along the first axis, and labels as int64 `(N,)`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from popskipjump import npz
from popskipjump.errors import DataError, UnknownNameError
from popskipjump.zoo.cifar import read_cifar_batches
from popskipjump.zoo.idx import read_idx_pair

Split = Literal["train", "test"]
Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]

NPZ_ADVICE = "Make such a file with np.savez_compressed(path, images=images, labels=labels)."


def read_mnist(folder: str | Path, split: Split = "test") -> Labelled:
    """One split of MNIST, `(N, 1, 28, 28)`, from its idx files, gzipped or not.

    Args:
        folder: holds `t10k-images-idx3-ubyte` and the like, also spelled `t10k-images.idx3-ubyte`, also with `.gz`.
        split: "train" or "test".

    Raises:
        DataError: a file is missing, truncated or of another format.
    """
    images, labels = read_idx_pair(_folder(folder, split), split)
    return to_unit(images[:, np.newaxis]), labels.astype(np.int64)


def read_cifar10(folder: str | Path, split: Split = "test") -> Labelled:
    """One split of CIFAR-10, `(N, 3, 32, 32)`, from its binary or its python layout.

    The python layout consists of pickles; they are interpreted, never executed (see `zoo/pickled.py`).

    Args:
        folder: holds `data_batch_1.bin`, ..., `test_batch.bin`, or the same without `.bin`.
        split: "train" or "test".

    Raises:
        DataError: a file is missing, truncated, of another format, or holds more than images and labels.
    """
    images, labels = read_cifar_batches(_folder(folder, split), split)
    return to_unit(images), labels


def read_npz(path: str | Path, bounds: tuple[float, float] = (0.0, 1.0)) -> Labelled:
    """Images `(N, ...)` and labels `(N,)` from the arrays `images` and `labels` of an npz file.

    Images of uint8 are divided by 255; images of floating point must lie within `bounds`.

    Raises:
        DataError: no such file, another format, or arrays that do not fit.
    """
    path = Path(path)
    images, labels = _checked_shapes(path)
    return _float_images(images, path, bounds), labels


def _checked_shapes(path: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The arrays of an npz file, as many labels as images."""
    images, labels = _npz_arrays(path)
    if images.ndim < 2 or labels.ndim != 1 or len(images) != len(labels) or len(images) == 0:
        raise DataError(
            f"images {images.shape} and labels {labels.shape} in {path} do not fit: "
            "they must be (N, ...) and (N,) with the same N > 0."
        )
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise DataError(f"the labels in {path} ({labels.dtype}) must be whole numbers >= 0, one class index each.")
    return images, labels.astype(np.int64)


def read_rows(path: str | Path) -> Labelled:
    """Rows `(N, ...)` and labels `(N,)` of an npz file as they are, whatever their type and range: for a `Space`.

    Raises:
        DataError: no such file, another format, or arrays that do not fit.
    """
    path = Path(path)
    rows, labels = _checked_shapes(path)
    if rows.dtype.kind not in "biuf":
        raise DataError(f"the array images in {path} is {rows.dtype}: save numbers, categories as codes 0, 1, ...")
    return rows.astype(np.float32), labels


def to_unit(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes 0..255 to float32 in [0, 1]: any shape."""
    return images.astype(np.float32) / np.float32(255)


def _folder(folder: str | Path, split: str) -> Path:
    if split not in ("train", "test"):
        raise UnknownNameError("split", split, ("train", "test"))
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}. Pass the folder that holds the data set's files.")
    return folder


def read_targets(path: str | Path, count: int) -> NDArray[np.int64]:
    """The array `targets` of an npz file: one class to reach for each of `count` images.

    Raises:
        DataError: there is none, or one that does not fit.
    """
    found = _arrays_of(Path(path), ("targets",))
    if "targets" not in found:
        raise DataError(f"{path} has no array targets, only {npz.names_in(path)}: one class per image is needed.")
    targets = found["targets"]
    if targets.shape != (count,) or targets.dtype.kind not in "iu" or int(targets.min()) < 0:
        raise DataError(f"targets in {path} must be {count} integers >= 0, not {targets.dtype} of {targets.shape}.")
    return targets.astype(np.int64)


def _npz_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    if not path.is_file():
        raise DataError(f"there is no file {path}. {NPZ_ADVICE}")
    found = _arrays_of(path, ("images", "labels"))
    missing = [name for name in ("images", "labels") if name not in found]
    if missing:
        names = npz.names_in(path)
        raise DataError(f"{path} has no array {' and no array '.join(missing)}, only {names}. {NPZ_ADVICE}")
    return found["images"], found["labels"]


def _arrays_of(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    try:
        if not zipfile.is_zipfile(path):
            raise DataError(f"{path} is not an npz file. {NPZ_ADVICE}")
        return npz.read_arrays(path, names)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}). {NPZ_ADVICE}") from error
    except DataError as error:
        if str(error).startswith(str(path)):
            raise
        raise DataError(f"{path} cannot be read: {error}. {NPZ_ADVICE}") from error


def _float_images(images: NDArray[Any], path: Path, bounds: tuple[float, float]) -> NDArray[np.float32]:
    if images.dtype == np.uint8:
        return to_unit(images)
    if images.dtype.kind != "f":
        raise DataError(f"the images in {path} are {images.dtype}: save them as uint8 (0..255) or float32 in [0, 1].")
    low, high = bounds
    if not bool(((images >= low) & (images <= high)).all()):  # false for NaN too
        raise DataError(
            f"the images in {path} are not in [{low:g}, {high:g}] (smallest {images.min():g}, largest "
            f"{images.max():g}): rescale them, pass other bounds, or save them as uint8."
        )
    return images.astype(np.float32)
