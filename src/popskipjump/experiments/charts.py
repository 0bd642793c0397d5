"""Geometry of charts: coordinates of lines, bands, dots and ticks, which a template draws as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from popskipjump.metrics import Curve
from popskipjump.sigmoid.model import noisy_sigmoid

WIDTH, HEIGHT = 620.0, 290.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 8.0, 10.0, 38.0
SMALL_WIDTH, SMALL_HEIGHT = 176.0, 104.0
MARGIN = 5.0
AXIS_LEFT, AXIS_BOTTOM = 22.0, 18.0  # room for the numbers of a small plot


class Tick(NamedTuple):
    """A place on an axis."""

    at: float
    text: str


class Line(NamedTuple):
    """A median with its band, as SVG writes points: "x,y x,y"."""

    number: int  # which colour
    median: str
    band: str


class CurveChart(NamedTuple):
    """Distance against queries, both logarithmic."""

    width: float
    height: float
    left: float
    right: float  # x of the right end
    top: float
    bottom: float  # y of the lower end
    across: list[Tick]
    up: list[Tick]
    lines: list[Line]
    ceiling: float | None  # y of what is infinite; None if nothing is


class Dot(NamedTuple):
    """Answers at one place of a search line."""

    x: float
    y: float
    radius: float


class SigmoidChart(NamedTuple):
    """The fitted probability of an adversarial answer along a search line, and the answers it was fitted to."""

    width: float
    height: float
    curve: str
    dots: list[Dot]
    centre: float
    left: float
    right: float
    top: float
    bottom: float
    half: float  # y of probability 1/2
    answers: int


def curve_chart(curves: Sequence[Curve]) -> CurveChart:
    """Medians with 40 to 60 percentile bands; infinite values are a line at the top."""
    values = np.concatenate([np.concatenate((c.median, c.low, c.high)) for c in curves])
    usual = values[np.isfinite(values) & (values > 0)]
    least, most = (float(usual.min()), float(usual.max())) if len(usual) else (0.5, 1.0)
    endless = bool(np.isinf(values).any())
    roof = most * (1.25 if endless else 1.05)
    floor = min(least / 1.05, roof / 2)
    queries = np.concatenate([c.queries for c in curves])
    first, last = float(queries.min()), float(queries.max())
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(count: np.ndarray) -> np.ndarray:
        return np.asarray(LEFT + (right - LEFT) * np.log(count / first) / math.log(last / first))

    def y(value: np.ndarray) -> np.ndarray:
        inside = np.clip(value, floor, roof)
        return np.asarray(bottom - (bottom - TOP) * np.log(inside / floor) / math.log(roof / floor))

    lines = []
    for number, curve in enumerate(curves):
        across = x(curve.queries)
        band = _points(np.concatenate((across, across[::-1])), np.concatenate((y(curve.low), y(curve.high)[::-1])))
        lines.append(Line(number, _points(across, y(curve.median)), band))
    return CurveChart(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=right,
        top=TOP,
        bottom=bottom,
        across=[Tick(float(x(np.array(v))), f"{v:,.0f}") for v in log_ticks(first, last)],
        up=[Tick(float(y(np.array(v))), f"{v:g}") for v in log_ticks(floor, roof)],
        lines=lines,
        ceiling=TOP if endless else None,
    )


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: about four to eight."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), tuple(range(1, 10)), tuple(k / 4 for k in range(4, 40))):
        ticks = [float(f"{step * 10.0**power:.12g}") for power in powers for step in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 4:
            break
    return inside[:: math.ceil(len(inside) / 8)] if inside else [low]


def sigmoid_chart(
    centre: float, slope: float, low: float, high: float, asked: np.ndarray, adversarial: np.ndarray
) -> SigmoidChart | None:
    """A small plot for one image, without dots where the answers were not kept; None without a fit.

    Args:
        centre: z, in units of the line.
        slope: s.
        low: noise at the adversarial end.
        high: noise at the original.
        asked: `(P,)` decisions at P evenly spaced places.
        adversarial: `(P,)` how many of them were adversarial.
    """
    if not all(map(math.isfinite, (centre, slope, low, high))):
        return None
    left, right, bottom = AXIS_LEFT, SMALL_WIDTH - MARGIN, SMALL_HEIGHT - AXIS_BOTTOM

    def x(position: np.ndarray) -> np.ndarray:
        return left + (right - left) * position

    def y(probability: np.ndarray) -> np.ndarray:
        return bottom - (bottom - MARGIN) * probability

    position = torch.linspace(0, 1, 101, dtype=torch.float64)
    fitted = 1 - noisy_sigmoid(position, torch.tensor(centre), torch.tensor(slope), low, high)
    places = np.flatnonzero(asked)
    share = adversarial[places] / asked[places]
    dots = zip(x((places + 0.5) / len(asked)), y(share), 1.2 + 0.9 * np.sqrt(asked[places]), strict=True)
    return SigmoidChart(
        width=SMALL_WIDTH,
        height=SMALL_HEIGHT,
        curve=_points(x(position.numpy()), y(fitted.numpy())),
        dots=[Dot(*(round(float(value), 1) for value in dot)) for dot in dots],
        centre=round(float(x(np.array(centre))), 1),
        half=float(y(np.array(0.5))),
        left=left,
        right=right,
        top=MARGIN,
        bottom=bottom,
        answers=int(asked.sum()),
    )


def _points(across: np.ndarray, up: np.ndarray) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True))
