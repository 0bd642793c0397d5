"""Steps of a run's images, written while the run goes on: the data of `psj watch`.

```
steps/7.jsonl   a line that says what image 7 is, then a line for each iteration
```
Nothing depends on these files: a run goes on without them, and writing them never ends one.
"""

from __future__ import annotations

import base64
import json
import math
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from popskipjump.attacks import Snapshot
from popskipjump.errors import StorageError
from popskipjump.runs.source import Source
from popskipjump.storage import RunSpec
from popskipjump.storage.files import open_own, private_folder, read_limited, refuse_links

STEPS = "steps"
WATCHED = 12  # images of each group
MOST_FILES = 120  # of one run; the oldest go first
MOST_LINES = 400  # of one image
MOST_BYTES = 64 << 20  # of one file
SIDE = 96  # pixels of a picture's longer side, at most
CHANGES = 8  # values that changed most, for inputs that are no pictures


class StepLog:
    """Writes the steps of the first images of a group; see `Hooks.on_step`.

    Args:
        folder: of the run.
        group: places in the source.
        source: what is attacked.
        spec: the run.
    """

    def __init__(self, folder: Path, group: Sequence[int], source: Source, spec: RunSpec) -> None:
        self._folder, self._source, self._bounds = folder / STEPS, source, spec.bounds
        self._files: dict[int, Path] = {}
        with suppress(StorageError, OSError):
            refuse_links(self._folder)
            private_folder(self._folder)
            _drop_oldest(self._folder, MOST_FILES - WATCHED)
            for image in group[:WATCHED]:
                self._begin(image)

    def _begin(self, image: int) -> None:
        path = self._folder / f"{image}.jsonl"
        original = self._source.images[image]
        about = {
            "image": image,
            "label": int(self._source.labels[image]),
            "bounds": [float(end) for end in self._bounds],
            "shape": list(original.shape),
            "picture": packed_picture(original, self._bounds),
        }
        file = open_own(path)
        try:
            os.ftruncate(file, 0)
            os.write(file, _line(about))
        finally:
            os.close(file)
        self._files[image] = path

    def __call__(self, now: Snapshot) -> None:
        """Write an iteration."""
        if now.iteration > MOST_LINES:
            return
        for row, image in enumerate(now.image_id.tolist()):
            if image in self._files:
                try:
                    self._write(image, _line(self._step(now, row, image)))
                except (StorageError, OSError, ValueError):  # a full disk, say: the journal tells the user
                    del self._files[image]

    def _write(self, image: int, line: bytes) -> None:
        file = open_own(self._files[image])
        try:
            os.lseek(file, 0, os.SEEK_END)
            os.write(file, line)
        finally:
            os.close(file)

    def _step(self, now: Snapshot, row: int, image: int) -> dict[str, Any]:
        border, original = now.border, self._source.images[image]
        point = border.point[row].cpu().numpy().reshape(original.shape)
        picture = packed_picture(point, self._bounds)
        step: dict[str, Any] = {
            "step": now.iteration,
            "queries": int(now.queries[row]),
            "distance": _number(border.distance[row]),
            "gap": _number(border.gap[row]),
            "position": _number(border.position[row]),
            "sigmoid": None,
            "places": 0,
            "probes": [],
            "picture": picture,
            "changed": [] if picture else _changed(original, point),
        }
        if border.estimate is not None:
            found = border.estimate
            step["sigmoid"] = [_number(part[row]) for part in (found.centre, found.slope, found.low, found.high)]
        if border.probes is not None:
            asked, adversarial = border.probes[row].cpu().numpy()
            step["places"] = len(asked)
            step["probes"] = [[int(at), int(asked[at]), int(adversarial[at])] for at in np.flatnonzero(asked)]
        return step


def read_steps(folder: Path, image: int) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """What image this is, and its steps so far; None if the run keeps no steps of it.

    A line that is being written, or damaged, is left out.
    """
    path = folder / STEPS / f"{image}.jsonl"
    if not path.is_file():
        return None
    lines = [_parsed(line) for line in read_limited(path, MOST_BYTES).splitlines()]
    if not lines or lines[0] is None or "shape" not in lines[0]:
        return None
    return lines[0], [line for line in lines[1:] if line is not None and "queries" in line]


def kept_steps(folder: Path) -> list[int]:
    """The images whose steps are kept, those that were written to last at the end."""
    with suppress(OSError):
        found = [path for path in (folder / STEPS).glob("*.jsonl") if path.stem.isdigit()]
        return sorted(int(path.stem) for path in found)
    return []


def packed_picture(values: np.ndarray, bounds: tuple[float, float]) -> dict[str, Any] | None:
    """A picture in small: sizes and compressed bytes; None for inputs that are no pictures."""
    if values.ndim == 2:
        values = values[np.newaxis]
    if values.ndim != 3 or values.shape[0] not in (1, 3):
        return None
    low, high = bounds
    pixels = (values.astype(np.float32) - low) / (high - low)
    stride = math.ceil(max(pixels.shape[1:]) / SIDE)
    if stride > 1:
        pixels = torch.nn.functional.avg_pool2d(torch.from_numpy(pixels)[None], stride, ceil_mode=True)[0].numpy()
    content = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    packed = base64.b64encode(zlib.compress(content.tobytes(), 6)).decode("ascii")
    return {"size": list(content.shape), "data": packed}


def unpacked_picture(packed: object) -> np.ndarray | None:
    """The pixels in [0, 1], `(C, H, W)`; None if there are none, or they are damaged."""
    if not isinstance(packed, dict):
        return None
    try:
        channels, height, width = (int(size) for size in packed["size"])
        if channels not in (1, 3) or not (0 < height <= SIDE and 0 < width <= SIDE):
            return None
        count = channels * height * width
        content = zlib.decompressobj().decompress(base64.b64decode(packed["data"], validate=True), count + 1)
        return np.frombuffer(content, dtype=np.uint8).reshape(channels, height, width).astype(np.float32) / 255
    except (KeyError, TypeError, ValueError, zlib.error):
        return None


def _changed(original: np.ndarray, point: np.ndarray) -> list[list[float]]:
    before, after = original.ravel(), point.ravel()
    order = np.argsort(-np.abs(after - before), kind="stable")[:CHANGES]
    return [[int(place), float(before[place]), float(after[place])] for place in order]


def _drop_oldest(folder: Path, keep: int) -> None:
    """Remove the files that were written to longest ago."""
    found = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in found[: max(len(found) - keep, 0)]:
        path.unlink(missing_ok=True)


def _number(value: Any) -> float | None:
    number = float(value)
    return round(number, 9) if math.isfinite(number) else None


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
