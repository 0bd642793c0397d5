"""Saving and loading of a report as one npz file with a line of JSON; loading never executes code."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from popskipjump.attacks import Trace
from popskipjump.errors import DataError, InputError
from popskipjump.evaluation.report import Probes, Report
from popskipjump.evaluation.spaced_report import SpacedReport, in_space
from popskipjump.geometry import norm_of
from popskipjump.metrics import Verdict
from popskipjump.npz import read_arrays
from popskipjump.sigmoid import Estimate
from popskipjump.space import Space
from popskipjump.types import Bounds, Status

FORMAT = 1
_PLAIN = ("points", "distances", "walked", "success", "queries", "adversarial_labels", "images", "labels")
_MAYBE = ("border_distances", "targets")
_TRACE = ("distance", "queries", "points", "centre", "slope", "low", "high", "gap")


def save(report: Report, path: str | Path) -> Path:
    """Write a report to a file, `.npz` is added to a name without a suffix; the white box is left out.

    Raises:
        InputError: the file cannot be written.
    """
    place = Path(path)
    place = place if place.suffix else place.with_suffix(".npz")
    about: dict[str, Any] = {
        "format": FORMAT,
        "title": report.title,
        "norm": report.norm.name,
        "bounds": list(report.bounds),
        "status": [state.name for state in report.status],
        "messages": {str(row): text for row, text in report.messages.items()},
        "warnings": report.warnings,
        "phases": list(report.queries_by_phase),
    }
    arrays: dict[str, np.ndarray] = {name: getattr(report, name) for name in _PLAIN}
    arrays |= {name: getattr(report, name) for name in _MAYBE if getattr(report, name) is not None}
    arrays |= {f"phase_{number}": count for number, count in enumerate(report.queries_by_phase.values())}
    arrays |= _parts("trace", {name: getattr(report.trace, name) for name in _TRACE})
    for name in ("verdict", "sigmoid", "probes"):
        part = getattr(report, name)
        arrays |= {} if part is None else _parts(name, part._asdict())
    if isinstance(report, SpacedReport):
        about["space"], arrays["free"] = report.space.to_json(), report.free
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # its stub takes the names for options
    try:
        place.write_bytes(buffer.getvalue())
    except OSError as error:
        raise InputError(f"the report cannot be written to {place} ({error.strerror}): choose another path.") from error
    return place


def _parts(name: str, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {f"{name}_{part}": np.asarray(value) for part, value in values.items() if value is not None}


def load_report(path: str | Path) -> Report:
    """Read what `Report.save` wrote; its `white_box` is None, and points in a space are an array, without a frame.

    Raises:
        DataError: the file is not one of these.
    """
    try:
        if not Path(path).exists():
            raise DataError(
                f"there is no file or folder {path}: pass what `Report.save` wrote, or the folder of a run."
            )
        arrays = read_arrays(Path(path))
        about = json.loads(arrays["about"].tobytes())
        if about["format"] != FORMAT:
            raise DataError(f"{path} has format {about['format']}, and this version reads {FORMAT}.")
        return _report(arrays, about)
    except DataError as error:
        if not Path(path).exists():
            raise
        raise DataError(f"{path} is no report: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is no report that `Report.save` wrote ({type(error).__name__}: {error}).") from error


def _report(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Report:
    def tensors(name: str, parts: tuple[str, ...]) -> dict[str, Tensor] | None:
        if f"{name}_{parts[0]}" not in arrays:
            return None
        return {part: torch.from_numpy(arrays[f"{name}_{part}"]) for part in parts if f"{name}_{part}" in arrays}

    verdict, sigmoid = tensors("verdict", Verdict._fields), tensors("sigmoid", Estimate._fields)
    trace: dict[str, Any] = {"points": None} | (tensors("trace", _TRACE) or {})
    probes = {name: arrays[f"probes_{name}"] for name in Probes._fields if f"probes_{name}" in arrays}
    report = Report(
        **{name: arrays[name] for name in _PLAIN},
        border_distances=arrays.get("border_distances"),
        targets=arrays.get("targets"),
        queries_by_phase={phase: arrays[f"phase_{number}"] for number, phase in enumerate(about["phases"])},
        status=[Status[name] for name in about["status"]],
        messages={int(row): str(text) for row, text in about["messages"].items()},
        warnings=[str(text) for text in about["warnings"]],
        verdict=None if verdict is None else Verdict(**verdict),
        sigmoid=None if sigmoid is None else Estimate(**sigmoid),
        probes=Probes(**probes) if probes else None,
        trace=Trace(**trace),
        norm=norm_of(about["norm"]),
        bounds=Bounds(0.0, 1.0) if "space" in about else Bounds.of(tuple(about["bounds"])),  # a space has its own
        title=str(about["title"]),
        white_box=None,
    )
    return in_space(report, Space.from_json(about["space"]), arrays["free"]) if "space" in about else report
