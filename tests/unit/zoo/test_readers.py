from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from popskipjump.errors import DataError, InputError
from popskipjump.zoo import read_cifar10, read_mnist, read_npz
from popskipjump.zoo.readers import Split

PIXELS = np.random.default_rng(0).integers(0, 256, size=(4, 3072), dtype=np.uint8)
DIGITS = PIXELS[:, :784].reshape(4, 28, 28)
LABELS = [3, 0, 9, 1]


def idx(array: list[int] | npt.NDArray[Any], magic: bytes | None = None) -> bytes:
    array = np.asarray(array, dtype=np.uint8)
    header = magic or bytes([0, 0, 8, array.ndim])
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(
    folder: Path, joint: str = "-", ending: str = "", stem: str = "t10k", images: Any = None, labels: Any = None
) -> None:
    pack = gzip.compress if ending else bytes
    (folder / f"{stem}-images{joint}idx3-ubyte{ending}").write_bytes(pack(idx(DIGITS) if images is None else images))
    (folder / f"{stem}-labels{joint}idx1-ubyte{ending}").write_bytes(pack(idx(LABELS) if labels is None else labels))


@pytest.mark.parametrize("joint", ["-", "."])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(("stem", "split"), [("t10k", "test"), ("train", "train")])
def test_mnist_is_read_in_every_spelling(
    tmp_path: Path, joint: str, ending: str, stem: str, split: Literal["test", "train"]
) -> None:
    write_mnist(tmp_path, joint, ending, stem)
    images, labels = read_mnist(tmp_path, split)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(images, DIGITS[:, None].astype(np.float32) / np.float32(255))
    assert labels.tolist() == LABELS


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"images": idx(DIGITS)[:-1]}, "truncated"),
        ({"images": idx(DIGITS)[:9]}, "its header alone takes 16"),
        ({"images": idx(DIGITS) + b"x"}, "too long"),
        ({"images": idx(DIGITS, magic=b"\0\0\x0d\x03")}, "starts with 00 00 0d 03"),
        ({"images": b""}, "starts with nothing"),
        ({"labels": idx(LABELS[:3])}, "4 images but .* 3 labels"),
        ({"labels": idx([3, 0, 10, 1])}, r"labels in 0\.\.9"),
        ({"images": idx(DIGITS[:, 1:])}, "expected 28 x 28"),
        ({"images": idx(DIGITS[:0]), "labels": idx([])}, "not MNIST"),
        ({"images": gzip.compress(idx(DIGITS))[:-9]}, "damaged gzip"),
    ],
)
def test_a_damaged_mnist_file_is_refused(tmp_path: Path, files: Any, message: str) -> None:
    write_mnist(tmp_path, **files)
    with pytest.raises(DataError, match=message):
        read_mnist(tmp_path)


@pytest.mark.parametrize("reader", [read_mnist, read_cifar10])
def test_a_missing_folder_an_empty_one_and_an_unknown_split_are_refused(
    tmp_path: Path, reader: Callable[..., Any]
) -> None:
    with pytest.raises(DataError, match="no folder"):
        reader(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"holds none of|does not hold all of"):
        reader(tmp_path)
    with pytest.raises(InputError, match="split 'valid': choose one of test, train"):
        reader(tmp_path, "valid")


def binary(pixels: npt.NDArray[Any], labels: list[int]) -> bytes:
    return np.column_stack([np.array(labels, dtype=np.uint8), pixels]).tobytes()


def test_cifar_binary_is_read_in_the_order_of_its_batches(tmp_path: Path) -> None:
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(binary(PIXELS, [number] * 4))
    images, labels = read_cifar10(tmp_path, "train")
    assert images.shape == (20, 3, 32, 32)
    assert labels.tolist() == np.repeat(np.arange(1, 6), 4).tolist()
    np.testing.assert_array_equal(images[4:8], PIXELS.reshape(4, 3, 32, 32).astype(np.float32) / np.float32(255))


def test_one_missing_training_batch_is_refused(tmp_path: Path) -> None:
    for number in range(1, 5):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(binary(PIXELS, LABELS))
    with pytest.raises(DataError, match="does not hold all of data_batch_1"):
        read_cifar10(tmp_path, "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (binary(PIXELS, LABELS)[:-1], "12291 bytes, not a positive multiple of 3073"),
        (b"", "0 bytes"),
        (binary(PIXELS, [3, 0, 10, 1]), "1 of 4 labels"),
    ],
)
def test_a_damaged_cifar_binary_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_cifar10(tmp_path)


def test_npz_bytes_are_scaled_and_floats_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, images=DIGITS, labels=np.array(LABELS, dtype=np.uint8))
    images, labels = read_npz(path)
    np.testing.assert_array_equal(images, DIGITS.astype(np.float32) / np.float32(255))
    assert labels.dtype == np.int64
    np.savez(path, images=DIGITS / 255.0, labels=LABELS)
    again, _ = read_npz(str(path))
    assert again.dtype == np.float32
    np.testing.assert_allclose(again, images, rtol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": DIGITS}, "no array labels, only"),
        ({"images": DIGITS, "labels": LABELS[:2]}, "do not fit"),
        ({"images": DIGITS[:0], "labels": np.zeros(0, dtype=int)}, "do not fit"),
        ({"images": DIGITS, "labels": [0.5, 0, 1, 2]}, "whole numbers"),
        ({"images": DIGITS, "labels": [-1, 0, 1, 2]}, "whole numbers"),
        ({"images": DIGITS.astype(np.int32), "labels": LABELS}, "int32"),
        ({"images": DIGITS.astype(np.float32), "labels": LABELS}, "largest 255"),
        ({"images": np.full((4, 2), np.nan), "labels": LABELS}, "not in"),
        ({"images": np.array([None] * 4), "labels": LABELS}, "cannot be read"),
    ],
)
def test_npz_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=message):
        read_npz(path)


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        read_npz(tmp_path / "nothing.npz")
    np.save(tmp_path / "a.npy", DIGITS)
    with pytest.raises(DataError, match="not an npz file"):
        read_npz(tmp_path / "a.npy")


def test_the_whole_mnist_is_read(data_folder: Path) -> None:
    counts: dict[Split, int] = {"train": 60_000, "test": 10_000}
    for split, count in counts.items():
        images, labels = read_mnist(data_folder / "mnist", split)
        assert images.shape == (count, 1, 28, 28)
        assert labels.shape == (count,)
        assert images.max() == 1.0
