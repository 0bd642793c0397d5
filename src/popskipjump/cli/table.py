"""`psj attack --data TABLE.CSV`: named columns and texts in and out, a pandas frame for the classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from popskipjump import DataError, Hooks, InputError, Pool, Report, Space, evaluate
from popskipjump.adapters.pandas import read_csv
from popskipjump.attacks import Retry
from popskipjump.cli.inputs import load_model
from popskipjump.cli.progress import Bar
from popskipjump.cli.space import scale_of
from popskipjump.runs.keep import write_report

LABEL, TARGET = "label", "target"
CHANGED = "points.csv"


def is_table(data: object) -> bool:
    """Whether --data names a table with a header."""
    return data is not None and Path(str(data)).suffix.lower() == ".csv"


def attack_table(
    given: dict[str, Any], passed: dict[str, Any], columns: Path | None, mask: Any, retry: Retry | None, bar: Bar
) -> tuple[Report, np.ndarray]:
    """Attack some rows of a table; the report, and the places of the rows in the file.

    Args:
        given: the options of the command.
        passed: those of `evaluate` among them.
        columns: `--columns`; None takes the kinds of the columns from what they hold.
        mask: `--mask`, read; or None.
        retry: what happens when a call to the model fails.
        bar: shows how far it is.
    """
    rows, labels, targets = _columns_of(Path(given["data"]), targeted=given["targeted"])
    space = _space(given, columns, rows)
    first = given["start_index"]
    chosen = np.arange(first, min(first + given["images"], len(rows)))
    if not len(chosen):
        raise InputError(f"--start-index {first} is beyond the last of {len(rows)} rows, counted from 0.")
    if given["starts"] != "noise" and len(set(labels.tolist())) < 2:
        raise InputError("all rows are of one class, so none can be the start of another: pass --starts noise.")
    model = load_model(given["model"], given["weights"], optimize=given["optimize"])
    bar.stage(f"{given['attack']}, {len(chosen)} rows")
    report = evaluate(
        model,
        rows.iloc[chosen],
        labels[chosen],
        targets=None if targets is None else targets[chosen],
        starts=None if given["starts"] == "noise" else Pool(rows, labels),
        space=space,
        mask=mask[chosen] if mask is not None and mask.ndim == 2 and len(mask) == len(rows) > 1 else mask,
        image_ids=chosen,
        keep_trace=False,
        retry=retry,
        hooks=Hooks(on_progress=bar.iteration, on_queries=bar.queries),
        **passed,
    )
    return report, chosen


def write_table(out: Path, report: Any, chosen: np.ndarray, given: dict[str, Any]) -> tuple[Path, Path, Path]:
    """Write `report.json`, `points.npz`, and `points.csv` with the columns of the table, into an empty folder."""
    files = write_report(out, report, chosen, {"spec": with_space(given, report)})
    report.frame.to_csv(out / CHANGED, index_label="row")
    return *files, out / CHANGED


def with_space(given: dict[str, Any], report: Any) -> dict[str, Any]:
    """The options of the command, and the space of the report."""
    return given | {"space": report.space.to_json() | {"digest": report.space.digest}}


def _columns_of(path: Path, *, targeted: bool) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """The rows as a frame, their labels and, if wanted, the classes to reach."""
    frame = read_csv(path)
    for name in (LABEL, *([TARGET] if targeted else [])):
        if name not in frame.columns:
            raise DataError(f"{path} has no column {name!r}: it holds the class of each row, by the classifier's name.")
    targets = frame[TARGET].to_numpy() if targeted else None
    return frame.drop(columns=[LABEL, TARGET], errors="ignore"), frame[LABEL].to_numpy(), targets


def _space(given: dict[str, Any], columns: Path | None, rows: Any) -> Space:
    if tuple(given["bounds"]) != (0.0, 1.0):
        raise InputError("a table has bounds for each column: leave out --bounds, or say them in --columns.")
    if columns is None:
        return Space.from_frame(rows, scale_of(given["scale"]) or "range")
    if given["scale"] is not None:
        raise InputError("--columns holds bounds and scales: leave out --scale.")
    return Space.from_columns(columns)
