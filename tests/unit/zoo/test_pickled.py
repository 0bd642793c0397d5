from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popskipjump.errors import DataError
from popskipjump.zoo import read_cifar10

PIXELS = np.random.default_rng(0).integers(0, 256, size=(4, 3072), dtype=np.uint8)
LABELS = [3, 0, 9, 1]
EXPECTED = PIXELS.reshape(4, 3, 32, 32).astype(np.float32) / np.float32(255)
BATCH = {b"batch_label": b"testing batch 1 of 1", b"labels": LABELS, b"data": PIXELS, b"filenames": [b"a.png"] * 4}


def text(value: str) -> bytes:
    """SHORT_BINSTRING, the `str` of Python 2."""
    return b"U" + bytes([len(value)]) + value.encode()


def python2_batch(pixels: np.ndarray = PIXELS, labels: list[int] = LABELS) -> bytes:
    """A batch as Python 2 wrote it in protocol 2: the form of the published files, operation by operation."""
    rows, columns = pixels.shape
    dtype = b"cnumpy\ndtype\nq\x0e" + text("u1") + b"q\x0fK\x00K\x01\x87q\x10Rq\x11"
    dtype += b"(K\x03" + text("|") + b"q\x12NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x13b"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85q\x09"
        + text("b")
        + b"q\x0a\x87q\x0bRq\x0c"
    )
    array += b"(K\x01K" + bytes([rows]) + b"M" + struct.pack("<H", columns) + b"\x86q\x0d" + dtype
    array += b"\x89T" + struct.pack("<i", pixels.size) + pixels.tobytes() + b"q\x14tq\x15b"
    numbers = b"]q\x05(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    names: bytes = b"]q\x17(" + text("a.png") + b"q\x18" + b"h\x18" * (rows - 1) + b"e"
    items = (
        text("batch_label") + b"q\x02" + text("testing batch 1 of 1") + b"q\x03" + text("labels") + b"q\x04" + numbers
    )
    items += text("data") + b"q\x06" + array + text("filenames") + b"q\x16" + names
    return b"\x80\x02}q\x01(" + items + b"u."


def read(tmp_path: Path, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    (tmp_path / "test_batch").write_bytes(content)
    return read_cifar10(tmp_path, "test")


def test_the_hand_built_batch_is_what_python_reads() -> None:
    batch = pickle.loads(python2_batch(), encoding="bytes")  # noqa: S301 - bytes of this file
    np.testing.assert_array_equal(batch[b"data"], PIXELS)
    assert batch[b"labels"] == LABELS


def test_a_python_2_batch_is_read(tmp_path: Path) -> None:
    images, labels = read(tmp_path, python2_batch())
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(images, EXPECTED)
    assert labels.tolist() == LABELS


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("keys", ["bytes", "text"])
def test_a_python_3_batch_is_read(tmp_path: Path, protocol: int, keys: str) -> None:
    batch = BATCH if keys == "bytes" else {key.decode(): value for key, value in BATCH.items()}
    images, labels = read(tmp_path, pickle.dumps(batch, protocol=protocol))
    np.testing.assert_array_equal(images, EXPECTED)
    assert labels.tolist() == LABELS


def test_an_array_stored_by_column_is_read_by_row(tmp_path: Path) -> None:
    images, _ = read(tmp_path, pickle.dumps(BATCH | {b"data": np.asfortranarray(PIXELS)}, protocol=2))
    np.testing.assert_array_equal(images, EXPECTED)


def test_five_pickled_batches_make_the_training_split(tmp_path: Path) -> None:
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}").write_bytes(python2_batch(labels=[number] * 4))
    images, labels = read_cifar10(tmp_path, "train")
    assert images.shape == (20, 3, 32, 32)
    assert labels[::4].tolist() == [1, 2, 3, 4, 5]


class Hostile:
    """Makes a folder when a pickle of it is executed."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.target,)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_hostile_pickle_is_refused_and_not_executed(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "executed"
    content = pickle.dumps(BATCH | {b"labels": Hostile(str(target))}, protocol=protocol)
    with pytest.raises(DataError, match="it was not executed"):
        read(tmp_path, content)
    assert not target.exists()
    pickle.loads(content)  # noqa: S301 - shows that the pickle works, by the harmless call above
    assert target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02c__builtin__\neval\nU\x011\x85R.",
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x02cnumpy\nload\nU\x01x\x85R.",
        b"\x80\x02c_codecs\nencode\nU\x01x\x85R.",
        b"\x80\x02c_codecs\nencode\nU\x01xU\x03hex\x86R.",
        b"\x80\x02cnumpy\ndtype\nU\x01O\x85R.",
        b"\x80\x02cnumpy\nndarray\nK\x09\x85R.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02Px\n.",
    ],
)
def test_every_other_operation_or_name_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match="it was not executed"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        b"\x80\x02.",
        b"\x80\x02e.",
        b"\x80\x02h\x05.",
        b"\x80\x02K\x01K\x02R.",
        b"\x80\x02]K\x01b.",
        b"\x80\x02]K\x01s.",
        b"\x80\x02}(K\x01K\x02u.",
        b"\x80\x02}(U\x01au.",
        b"\x80\x02}K\x01a.",
        b"\x80\x02K\x01K\x02\x93.",
        b"\x80\x02K\x01.",
        b"\x80\x02}" + b")" + b"\x85" * 200_000 + b"K\x01s.",
        python2_batch()[:-1],
        python2_batch()[:5000],
        python2_batch().replace(b"M\x00\x0c", b"M\x01\x0c"),
    ],
)
def test_a_damaged_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"not a complete CIFAR-10 batch|ends without"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({b"data": PIXELS}, "has no labels"),
        ({b"fine_labels": LABELS}, "has no data and no labels"),
        (BATCH | {b"data": PIXELS[:, 1:]}, r"\(4, 3071\), not an array"),
        (BATCH | {b"data": [1, 2]}, "the data in .* is list"),
        (BATCH | {b"labels": LABELS[:3]}, "not a list of 4 whole numbers"),
        (BATCH | {b"labels": ["a"] * 4}, "not a list of 4 whole numbers"),
        (BATCH | {b"labels": [0, 1, 2, 10]}, "1 of 4 labels"),
        (BATCH | {b"labels": [0, 1, 2, -1]}, "1 of 4 labels"),
    ],
)
def test_a_dictionary_that_is_no_cifar_batch_is_refused(tmp_path: Path, batch: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, pickle.dumps(batch, protocol=2))


def test_an_array_of_another_type_than_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="call of the dtype"):
        read(tmp_path, pickle.dumps(BATCH | {b"data": PIXELS.astype(np.float32)}, protocol=2))
