"""A report as figures and as a page: what `Report.plot` and `Report.to_html` call."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popskipjump import Report
from popskipjump.errors import InputError
from popskipjump.experiments.drawing import BAD, GOOD
from popskipjump.experiments.pictures import changed_most, difference, gain_of, picture
from popskipjump.experiments.style import GREY, INK, Shown, plain_numbers, quiet
from popskipjump.metrics import curve_over_queries
from popskipjump.sigmoid.model import noisy_sigmoid

MOST = 8  # images in a figure
MOST_ON_PAGE = 100


def plot(report: Report, kind: str = "images", path: str | Path | None = None, most: int = MOST) -> Figure:
    """A figure of a report.

    Args:
        report: what to draw.
        kind: "images" (original, point, difference), "curves" (distance against queries) or "sigmoids".
        path: where to write it, as PNG, SVG or PDF by its suffix; None does not.
        most: images to draw at most.
    """
    kinds = {"images": _images, "curves": _curves, "sigmoids": _sigmoids}
    if kind not in kinds:
        raise InputError(f"a report has no plot {kind!r}: choose one of {', '.join(kinds)}.")
    figure = kinds[kind](report, max(1, min(most, len(report))))
    if path is not None:
        figure.savefig(path)
    return figure


def _reached(report: Report, row: int) -> str:
    reached = int(report.adversarial_labels[row])
    return f"{int(report.labels[row])} → {reached if reached >= 0 else '?'}"


def _grey_or_colour(values: np.ndarray) -> np.ndarray | None:
    """`(H, W)` or `(H, W, 3)`; None for inputs that are no pictures."""
    if values.ndim == 2:
        return values
    if values.ndim == 3 and values.shape[0] in (1, 3):
        return values[0] if values.shape[0] == 1 else np.moveaxis(values, 0, 2)
    if values.ndim == 3 and values.shape[2] in (1, 3):
        return values[:, :, 0] if values.shape[2] == 1 else values
    return None


def _images(report: Report, count: int) -> Figure:
    if _grey_or_colour(report.images[0]) is None:
        raise InputError(f"inputs of shape {report.images.shape[1:]} are no pictures: see `to_pandas()`.")
    low, high = report.bounds
    figure = Shown(figsize=(1.5 * count + 0.3, 4.9), dpi=110, facecolor="white")
    grid = figure.subplots(3, count, squeeze=False)
    for row in range(count):
        original, point = (_grey_or_colour(v[row]) for v in (report.images, report.points))
        if original is None or point is None:
            continue
        for axes, values in ((grid[0, row], original), (grid[1, row], point)):
            axes.imshow((values - low) / (high - low), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        change = point - original
        change = change if change.ndim == 2 else change.mean(axis=2)
        span = max(float(np.abs(change).max()), 1e-12)
        grid[2, row].imshow(change, cmap="RdBu_r", vmin=-span, vmax=span, interpolation="nearest")
        good = bool(report.success[row])
        grid[0, row].set_title(f"image {row}, label {int(report.labels[row])}", fontsize=8, color=INK)
        text = f"{_reached(report, row)}, {report.distances[row]:.3g}{'' if good else ' NOT confirmed'}"
        grid[1, row].set_title(text, fontsize=8, color=GOOD if good else BAD)
        grid[2, row].set_title(f"change, up to {span:.2g}", fontsize=7, color=GREY)
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
    figure.suptitle(f"{report.title} ({report.norm.name} distance)", fontsize=9, color=INK)
    figure.subplots_adjust(0.02, 0.02, 0.98, 0.88, wspace=0.08, hspace=0.24)
    return figure


def _curves(report: Report, count: int) -> Figure:
    queries, values = np.asarray(report.trace.queries), np.asarray(report.trace.distance)
    found = np.isfinite(values[-1]) & (values[-1] > 0)
    if not found.any():
        raise InputError("nothing was attacked, so there is no curve: see `report.status`.")
    figure = Shown(figsize=(6.4, 4.2), dpi=120, facecolor="white", layout="constrained")
    axes: Axes = figure.subplots()
    for row in np.flatnonzero(found)[:count]:
        axes.plot(np.maximum(queries[:, row], 1), values[:, row], color=GREY, linewidth=0.7, alpha=0.6)
    curve = curve_over_queries(queries[:, found], values[:, found], places=200)
    axes.plot(curve.queries, curve.median, color="#0072b2", linewidth=2.2, label="median", drawstyle="steps-post")
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis, (1, 2, 3, 5, 7))
    axes.set_xlabel("queries per image")
    axes.set_ylabel(f"{report.norm.name} distance")
    axes.set_title(f"{report.title}: {int(found.sum())} images", fontsize=10, color=INK, loc="left")
    quiet(axes)
    axes.legend(frameon=False)
    return figure


def _sigmoids(report: Report, count: int) -> Figure:
    if report.sigmoid is None:
        raise InputError("this attack fits no sigmoid: choose qsj or psj.")
    figure = Shown(figsize=(2.1 * min(count, 4), 1.9 * math.ceil(count / 4)), dpi=120, layout="constrained")
    grid = figure.subplots(math.ceil(count / 4), min(count, 4), squeeze=False)
    position = torch.linspace(0, 1, 201, dtype=torch.float64)
    for row, axes in enumerate(grid.flat):
        centre, log_slope, low, high = (
            (float(value[row]) for value in report.sigmoid) if row < count else (math.nan,) * 4
        )
        if not math.isfinite(centre):
            axes.set_axis_off()
            continue
        fitted = 1 - noisy_sigmoid(position, torch.tensor(centre), torch.tensor(10.0**log_slope), low, high)
        axes.plot(position, fitted, color="#d55e00", linewidth=1.6)
        if report.probes is not None:
            asked = report.probes.asked[row]
            there = asked > 0
            share = report.probes.adversarial[row][there] / asked[there]
            axes.scatter(report.probes.position[there], share, s=6 * asked[there], color=INK, alpha=0.4, linewidth=0)
        axes.set_ylim(-0.05, 1.05)
        axes.set_title(f"image {row}, {_reached(report, row)}", fontsize=8, color=INK)
        axes.set_xlabel("position: 0 adversarial, 1 image", fontsize=7)
        axes.set_ylabel("P(adversarial)", fontsize=7)
        axes.tick_params(labelsize=7)
        quiet(axes)
    return figure


def to_html(report: Report, path: str | Path | None = None) -> str:
    """The report as one page; `path` also writes it."""
    environment = Environment(
        loader=PackageLoader("popskipjump.experiments", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = range(min(len(report), MOST_ON_PAGE))
    page = environment.get_template("single.html").render(
        title=report.title,
        text=str(report),
        norm={"l2": "ℓ₂", "linf": "ℓ∞"}.get(report.norm.name, report.norm.name),
        has_pictures=_grey_or_colour(report.images[0]) is not None,
        rows=[_row(report, row) for row in shown],
    )
    if path is not None:
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path} cannot be written ({error.strerror}): choose another path.") from error
    return page


def _row(report: Report, row: int) -> dict[str, Any]:
    low, high = report.bounds
    original, point = ((values[row] - low) / (high - low) for values in (report.images, report.points))
    change = point - original
    gain = gain_of(change)
    return {
        "image": row,
        "reached": _reached(report, row),
        "good": bool(report.success[row]),
        "status": report.status[row].name,
        "meaning": report.status[row].value,
        "distance": f"{report.distances[row]:.4g}",
        "queries": f"{int(report.queries[row]):,}",
        "original": picture(original),
        "point": picture(point),
        "change": difference(change, gain),
        "gain": f"{gain:g}",
        "changed": changed_most(report.images[row], report.points[row], getattr(report, "space", None)),
    }
