"""Files of every kind that is read, ways to damage them, and the readers that must end in typed errors."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save

from popskipjump import PopSkipJumpError, Ticket, zoo
from popskipjump.runs.data import load
from popskipjump.storage import ImageResult, Journal, RunFolder, RunSpec, info
from popskipjump.storage.records import FRAME, MARKER
from popskipjump.zoo.readers import read_targets

SPEC = RunSpec(attack="hsj", iterations=2)
INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


class Target(NamedTuple):
    """A kind of file."""

    name: str  # of the file within the folder
    make: Callable[[Path], None]  # writes it, and what it needs beside it, into a folder
    read: Callable[[Path], object]  # reads it from there


class Outcome(NamedTuple):
    """Of one mutant."""

    kind: str  # "read", the name of a typed error, or of another exception
    typed: bool
    seconds: float


def _idx(folder: Path) -> None:
    images = np.arange(3 * 784, dtype=np.uint32).astype(np.uint8)
    head = bytes([0, 0, 8, 3]) + struct.pack(">III", 3, 28, 28)
    (folder / "t10k-images-idx3-ubyte").write_bytes(head + images.tobytes())
    (folder / "t10k-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 3) + bytes([1, 2, 3]))


def _idx_gz(folder: Path) -> None:
    _idx(folder)
    path = folder / "t10k-images-idx3-ubyte"
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()


def _cifar_binary(folder: Path) -> None:
    (folder / "test_batch.bin").write_bytes(bytes(3073 * 2))


def _cifar_python(folder: Path) -> None:
    batch = {b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [1, 2]}
    (folder / "test_batch").write_bytes(pickle.dumps(batch, protocol=2))


def _npz(folder: Path) -> None:
    buffer = io.BytesIO()
    images = np.linspace(0, 1, 40, dtype=np.float32).reshape(2, 20)
    np.savez_compressed(buffer, images=images, labels=np.array([0, 1]), targets=np.array([1, 0]))
    (folder / "data.npz").write_bytes(buffer.getvalue())


def _npz_read(folder: Path) -> None:
    zoo.read_npz(folder / "data.npz")
    read_targets(folder / "data.npz", 2)


def _safetensors(folder: Path) -> None:
    (folder / "w.safetensors").write_bytes(save(torch.nn.Linear(3, 2).state_dict()))


def _run(folder: Path) -> None:
    with RunFolder.working(folder, SPEC, "run") as run:
        run.begin([1, 2], {"data": None}, {"python": "3"})
        run.finish([_result(1)])
    for name in ("results.sqlite-wal", "results.sqlite-shm"):
        (folder / "run" / name).unlink(missing_ok=True)


def _result(image: int) -> ImageResult:
    names = ("distance", "queries", "centre", "slope", "low", "high", "gap")
    trace: dict[str, np.ndarray] = {f"trace_{name}": np.zeros(3) for name in names}
    arrays: dict[str, np.ndarray] = {"original": np.zeros(4, np.float32), "point": np.ones(4, np.float32)}
    arrays |= {"trace_border": np.zeros(3), **trace}
    return ImageResult(image, 3, None, "FINISHED", None, 1.0, 1.0, 9, {"search": 9}, 0.5, (1.0, 0.5, 1.0, 5), arrays)


def _run_read(folder: Path) -> None:
    info(folder / "run")
    load(folder / "run")


def _journal(folder: Path) -> None:
    journal = Journal(folder / "journal.bin", "ab12")
    rng = np.random.default_rng(0)
    for call in range(12):
        size = 400 if call % 4 == 2 else 3
        serial = torch.arange(size).repeat(4) + 1000 * call
        who = Ticket(torch.arange(4).repeat_interleave(size), serial)
        journal.write_answers(who, torch.from_numpy(rng.integers(0, 5, 4 * size)), 1.0)
    journal.write_failure(Ticket(torch.tensor([2]), torch.tensor([20_000])), ValueError("busy"), 2.0)
    journal.drop_after({3: 11_000})
    journal.write_failure(Ticket(torch.tensor([2]), torch.tensor([20_001])), ValueError("busy"), 2.0)
    journal.close()


def _journal_read(folder: Path) -> None:
    journal = Journal(folder / "journal.bin", "ab12", write=False)
    journal.damage()
    journal.answered()
    journal.known(1, np.arange(50))


TARGETS = {
    "idx": Target("t10k-images-idx3-ubyte", _idx, zoo.read_mnist),
    "idx.gz": Target("t10k-images-idx3-ubyte.gz", _idx_gz, zoo.read_mnist),
    "cifar binary": Target("test_batch.bin", _cifar_binary, zoo.read_cifar10),
    "cifar python": Target("test_batch", _cifar_python, zoo.read_cifar10),
    "npz": Target("data.npz", _npz, _npz_read),
    "safetensors": Target(
        "w.safetensors", _safetensors, lambda folder: zoo.load_weights(torch.nn.Linear(3, 2), folder / "w.safetensors")
    ),
    "spec": Target("run/spec.json", _run, _run_read),
    "database": Target("run/results.sqlite", _run, _run_read),
    "arrays": Target("run/arrays/1.npz", _run, _run_read),
    "journal": Target("journal.bin", _journal, _journal_read),
    "journal tail": Target("journal.tail", _journal, _journal_read),
}


def mutant(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with one to three damages; checksums of a journal are made right again half of the time."""
    harmed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        _harm(harmed, rng)
    return _with_right_sums(bytes(harmed)) if MARKER in content and rng.random() < 0.5 else bytes(harmed)


def _harm(content: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(0, max(len(content), 1)))
    way = int(rng.integers(0, 7))
    if way == 0 and content:
        content[place] ^= 1 << int(rng.integers(0, 8))
    elif way == 1 and content:
        content[place] = int(rng.integers(0, 256))
    elif way == 2:
        size = int(rng.choice([1, 2, 4, 8]))
        value = INTERESTING[int(rng.integers(0, len(INTERESTING)))] % (1 << (8 * size))
        content[place : place + size] = value.to_bytes(size, "little" if rng.random() < 0.5 else "big")
    elif way == 3:
        del content[place:]
    elif way == 4:
        del content[place : place + int(rng.integers(1, 64))]
    elif way == 5:
        content[place:place] = rng.bytes(int(rng.integers(1, 32)))
    else:
        other = int(rng.integers(0, max(len(content), 1)))
        content[place : place + 32] = content[other : other + 32]


def _with_right_sums(content: bytes) -> bytes:
    """Let a reader of a journal look behind the checksums."""
    harmed, place = bytearray(content), content.find(MARKER)
    while 0 <= place <= len(harmed) - FRAME.size:
        index, data = struct.unpack_from("<II", harmed, place + 4)
        body = bytes(harmed[place + FRAME.size : place + FRAME.size + min(index + data, len(harmed))])
        struct.pack_into("<II", harmed, place + 12, zlib.crc32(body[:index]), zlib.crc32(body[index : index + data]))
        struct.pack_into("<I", harmed, place + 20, zlib.crc32(bytes(harmed[place : place + 20])))
        place = harmed.find(MARKER, place + 4)
    return bytes(harmed)


def fuzz(target: Target, folder: Path, seed: int, mutants: range) -> list[Outcome]:
    """What becomes of some mutants of a file."""
    target.make(folder)
    path = folder / target.name
    content, outcomes = path.read_bytes(), []
    for number in mutants:
        path.write_bytes(mutant(content, np.random.default_rng((seed, number))))
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.read(folder)
            kind, typed = "read", True
        except PopSkipJumpError as error:
            kind, typed = type(error).__name__, True
        except Exception as error:
            kind, typed = f"{type(error).__name__}: {error} (mutant {number})", False
        outcomes.append(Outcome(kind, typed, time.perf_counter() - began))
    return outcomes
