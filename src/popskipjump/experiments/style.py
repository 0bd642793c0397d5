"""Common style of all figures of curves. Figure objects only: nothing here touches matplotlib's global state."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

INK, GREY = "#222222", "#777777"


class Shown(Figure):
    """A figure that a notebook shows as a picture, whether or not it has been told to draw inline."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


class Band(Protocol):
    """A curve with its upper percentile."""

    @property
    def median(self) -> np.ndarray:
        """`(N,)`; inf where most images have no value."""

    @property
    def high(self) -> np.ndarray:
        """`(N,)`."""


def ceiling_of(curves: Sequence[Band]) -> float:
    """Where to draw what is infinite: above everything that is not."""
    values = np.concatenate([np.concatenate((c.median, c.high)) for c in curves]) if curves else np.array([])
    finite = values[np.isfinite(values)]
    return float(1.25 * finite.max()) if len(finite) else 1.0


def top_line(axes: Axes, ceiling: float, text: str, size: float) -> None:
    """The line at which infinite values are drawn, and what they mean."""
    axes.axhline(ceiling, color=GREY, linewidth=0.8, linestyle=":")
    axes.annotate(
        text,
        (1, ceiling),
        (-4, size / 2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        fontsize=size,
        color=GREY,
    )


def quiet(axes: Axes) -> None:
    """A light grid behind the curves, and no box."""
    axes.grid(True, which="major", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def plain_numbers(axis: Axis, subs: Sequence[int] = ()) -> None:
    """Numbers without powers on a logarithmic axis, at these multiples of each power of ten."""
    if subs:
        axis.set_major_locator(LogLocator(subs=tuple(subs)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
