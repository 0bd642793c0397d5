"""The files that a command leaves behind."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from popskipjump import Report, __version__
from popskipjump.errors import InputError

SCHEMA = 1  # of report.json
REPORT, POINTS = "report.json", "points.npz"


def folder_for(path: Path, own: Collection[str] = (), *, force: bool = False) -> Path:
    """The folder to write to, made if need be; one that holds other files than `own` is refused without `force`.

    Called before the first query, so that no run is lost to a path that cannot be written. Hidden files do not count.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        raise InputError(f"{path} cannot be used as a folder ({error.strerror}): choose another --out.") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"nothing can be written to {path}: choose another --out.")
    others = [name for name in names if name not in own and not name.startswith(".")]
    if others and not force:
        raise InputError(
            f"{path} is not empty (it holds {others[0]}{', ...' if len(others) > 1 else ''}): choose another --out, or "
            "pass --force to write into it all the same."
        )
    return path


def write_results(folder: Path, report: Report, image_ids: np.ndarray, spec: Mapping[str, Any], seconds: float) -> None:
    """Write `report.json`, and `points.npz` with the points, originals, labels and image ids."""
    versions = {
        "popskipjump": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }
    images = [_image(report, row, int(number)) for row, number in enumerate(image_ids)]
    content = {
        "schema": SCHEMA,
        "title": report.title,
        "spec": dict(spec),
        "versions": versions,
        "seconds": round(seconds, 3),
        "images": images,
    }
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    arrays = {"points": report.points, "originals": report.images, "labels": report.labels, "image_ids": image_ids}
    if report.targets is not None:
        arrays["targets"] = report.targets
    try:
        (folder / REPORT).write_text(text, encoding="utf-8")
        with (folder / POINTS).open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options
    except OSError as error:
        raise InputError(f"the results cannot be written to {folder} ({error.strerror}).") from error


def _image(report: Report, row: int, image_id: int) -> dict[str, Any]:
    """All that is known of one image, as JSON has it: what is not finite is null."""
    status = report.status[row]
    entry: dict[str, Any] = {
        "image": image_id,
        "label": int(report.labels[row]),
        "target": None if report.targets is None else int(report.targets[row]),
        "status": status.name,
        "meaning": status.value,
        "message": report.messages.get(row),
        "distance": _number(report.distances[row]),
        "border_distance": None if report.border_distances is None else _number(report.border_distances[row]),
        "queries": int(report.queries[row]),
        "queries_by_phase": {phase: int(count[row]) for phase, count in report.queries_by_phase.items()},
        "verdict": None,
        "sigmoid": None,
    }
    if report.verdict is not None and int(report.verdict.queries[row]):
        probability, low, high, queries = (value[row].item() for value in report.verdict)
        entry["verdict"] = {"probability": probability, "low": low, "high": high, "queries": int(queries)}
    if report.sigmoid is not None and math.isfinite(float(report.sigmoid.centre[row])):
        names = ("centre", "log10_slope", "floor_adversarial", "floor_original")
        entry["sigmoid"] = {name: _number(value[row]) for name, value in zip(names, report.sigmoid, strict=True)}
    return entry


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
