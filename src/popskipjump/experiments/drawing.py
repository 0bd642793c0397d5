"""The demonstration's figures. Figure objects only: nothing here touches matplotlib's global state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popskipjump.experiments.demo import Outcome, Sample, curve_of
from popskipjump.experiments.style import GREY, INK, ceiling_of, plain_numbers, quiet, top_line

GOOD, BAD = "#00664b", "#b03a00"
COLOURS = ("#222222", "#0072b2", "#d55e00", "#cc79a7", "#009e73", "#e69f00")  # told apart by all eyes (Okabe and Ito)
MOST_ROWS = 8
GAIN = 3  # how much a difference is amplified


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(path, format="png")


def draw_images(sample: Sample, outcomes: Sequence[Outcome], rows: int = MOST_ROWS) -> Figure:
    """A row for each image: the original, then every attack's point and its difference from the original, amplified."""
    rows = min(rows, len(sample.images))
    columns = 1 + 2 * len(outcomes)
    figure = Figure(figsize=(1.12 * columns + 0.2, 1.30 * rows + 1.15), dpi=110, facecolor="white")
    grid = figure.subplots(rows, columns, squeeze=False)
    for index in range(rows):
        _show(grid[index, 0], sample.images[index, 0])
        _below(grid[index, 0], f"image {sample.image_ids[index]}, label {sample.labels[index]}", INK)
        for number, outcome in enumerate(outcomes):
            _show_point(grid[index, 1 + 2 * number], outcome, index)
            _show_difference(grid[index, 2 + 2 * number], outcome, index)
    grid[0, 0].set_title("original", fontsize=9, color=INK)
    for number, outcome in enumerate(outcomes):
        noise = outcome.entry.noise or "no noise"
        grid[0, 1 + 2 * number].set_title(f"{outcome.entry.attack_name}\n{noise}", fontsize=9, color=INK)
        grid[0, 2 + 2 * number].set_title(f"difference ×{GAIN}", fontsize=8, color=GREY)
    note = (
        "Under each point: the label that the classifier gives it without noise, the ℓ₂ distance, and the share P of "
        "noisy answers at it that are adversarial.\nRed: not confirmed to be adversarial more often than not."
    )
    height = figure.get_figheight()
    figure.text(0.5, 0.14 / height, note, ha="center", va="bottom", fontsize=8, color=GREY)
    figure.subplots_adjust(0.01, 0.75 / height, 0.99, 1 - 0.55 / height, wspace=0.06, hspace=0.28)
    return figure


def _show(axes: Axes, picture: np.ndarray) -> None:
    """A grey picture (H, W) in [0, 1]."""
    axes.imshow(picture, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    _frame(axes)


def _show_point(axes: Axes, outcome: Outcome, index: int) -> None:
    report, verdict = outcome.report, outcome.report.verdict
    _show(axes, report.points[index, 0])
    probability = math.nan if verdict is None else float(verdict.probability[index])
    good = bool(report.success[index])
    text = f"→ {outcome.reached[index]}   ℓ₂ {report.distances[index]:.2f}   P {probability:.2f}"
    _below(axes, text, GOOD if good else BAD)


def _show_difference(axes: Axes, outcome: Outcome, index: int) -> None:
    change = outcome.report.points[index, 0] - outcome.report.images[index, 0]
    axes.imshow(GAIN * change, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    _frame(axes)


def _below(axes: Axes, text: str, colour: str) -> None:
    axes.set_xlabel(text, fontsize=7, color=colour, labelpad=2)


def _frame(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_color("#cccccc")
        side.set_linewidth(0.6)


def draw_curves(outcomes: Sequence[Outcome]) -> Figure:
    """Median border distance against queries, with the 40th to 60th percentile; no border on the ray is a top line."""
    figure = Figure(figsize=(7.6, 4.8), dpi=130, facecolor="white", layout="constrained")
    axes = figure.subplots()
    curves = [curve_of(outcome) for outcome in outcomes]
    ceiling = ceiling_of(curves)
    for number, (outcome, curve) in enumerate(zip(outcomes, curves, strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        style = "--" if outcome.entry.noise is None else "-"
        low, middle, high = (np.minimum(values, ceiling) for values in (curve.low, curve.median, curve.high))
        axes.fill_between(curve.queries, low, high, step="post", color=colour, alpha=0.18, linewidth=0)
        axes.plot(
            curve.queries, middle, style, color=colour, linewidth=1.8, label=outcome.entry.name, drawstyle="steps-post"
        )
    top_line(axes, ceiling, "no border on the ray within the bounds", size=8)
    _label(axes, ceiling, len(outcomes[0].report.status))
    return figure


def _label(axes: Axes, ceiling: float, images: int) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(top=ceiling * 1.22)
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis, (1, 2, 3, 5, 7))
    axes.set_xlabel("queries per image")
    axes.set_ylabel("border distance (ℓ₂)")
    axes.set_title(f"Median of {images} images, with the 40th to 60th percentile", fontsize=10, color=INK, loc="left")
    quiet(axes)
    axes.legend(frameon=False, fontsize=9, loc="lower left")
