"""Panels in one style. Figure objects only: nothing here touches matplotlib's global state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popskipjump.experiments.reproduce.numbers import Curve
from popskipjump.experiments.style import INK, ceiling_of, plain_numbers, quiet, top_line

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f3c8d",
    "#666666",
)  # Okabe and Ito first


class Line(NamedTuple):
    """A curve and how it looks."""

    curve: Curve
    label: str
    colour: str
    style: str = "-"
    band: bool = True


def canvas(columns: int, rows: int = 1, *, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure of panels, numbered along rows."""
    width = 6.4 if columns == 1 else 4.6 * columns
    figure = Figure(figsize=(width, 4.2 * rows if rows == 1 else 3.5 * rows), dpi=120, facecolor="white")
    figure.set_layout_engine("constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, sharey="row" if share_y else False).flat)


def draw_lines(axes: Axes, lines: Iterable[Line]) -> None:
    """Medians, with the 40th to 60th percentile as bands; what is infinite is drawn as a top line."""
    lines = list(lines)
    ceiling = ceiling_of([line.curve for line in lines])
    for line in lines:
        low, middle, high = (np.minimum(v, ceiling) for v in (line.curve.low, line.curve.median, line.curve.high))
        if line.band:
            axes.fill_between(line.curve.x, low, high, color=line.colour, alpha=0.15, linewidth=0)
        axes.plot(line.curve.x, middle, line.style, color=line.colour, linewidth=1.6, label=line.label)
    if any(not np.isfinite(line.curve.median).all() for line in lines):
        top_line(axes, ceiling, "no border on the ray", size=7)


def finish(axes: Axes, x: str, y: str, title: str, *, legend: bool = True) -> None:
    """Labels, a quiet grid and the legend."""
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.tick_params(labelsize=8)
    quiet(axes)
    if legend:
        axes.legend(frameon=False, fontsize=7.5)


def plain_log_axis(axes: Axes, which: str = "x", *, dense: bool = True) -> None:
    """A logarithmic axis with plain numbers; dense ones are for an axis of one or two powers of ten."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    plain_numbers(axes.xaxis if which == "x" else axes.yaxis, (1, 2, 5) if dense else ())


def distance_axis(axes: Axes) -> None:
    """Border distances on a logarithmic axis, with enough numbers to read them."""
    axes.set_yscale("log")
    plain_numbers(axes.yaxis, (1, 2, 3, 5))


def bars(axes: Axes, groups: Sequence[str], series: Sequence[tuple[str, Sequence[float]]]) -> None:
    """Bars side by side on a logarithmic axis, with room for a legend: for every series a value in each group."""
    shown = [value for _, values in series for value in values if value > 0]
    width = 0.8 / max(len(series), 1)
    for number, (name, values) in enumerate(series):
        places = np.arange(len(groups)) + (number - (len(series) - 1) / 2) * width
        drawn = axes.bar(places, values, width * 0.92, color=COLOURS[number % len(COLOURS)], label=name)
        axes.bar_label(drawn, [f"{v:,.0f}" if v >= 10 else f"{v:.2g}" for v in values], fontsize=6.5, padding=1)
    axes.set_xticks(np.arange(len(groups)), groups)
    plain_log_axis(axes, "y", dense=False)
    if shown:
        axes.set_ylim(min(shown) / 2, max(shown) * (max(shown) / min(shown)) ** 0.4 * 1.5)
