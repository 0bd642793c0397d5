"""Medians, curves and their comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from popskipjump.experiments.runner import RunData
from popskipjump.metrics import Summary, summarise


class Curve(NamedTuple):
    """Medians along some axis, with the 40th and 60th percentile."""

    x: np.ndarray  # (N,)
    median: np.ndarray  # (N,); inf where most images have no value
    low: np.ndarray  # (N,)
    high: np.ndarray  # (N,)


def curve(x: np.ndarray, values: np.ndarray) -> Curve:
    """Sum up `(N, B)` values at each of `(N,)` places."""
    summaries = [summarise(row) for row in values]
    median, low, high = (np.array([s[i] for s in summaries], dtype=float) for i in range(3))
    return Curve(np.asarray(x, dtype=float), median, low, high)


def by_iteration(run: RunData) -> Curve:
    """Border distance against iterations; 0 is the first search."""
    return curve(np.arange(len(run.trace_border)), run.trace_border)


def by_queries(run: RunData) -> Curve:
    """Border distance after each iteration against the median number of queries asked by then, as the paper has it."""
    return by_iteration(run)._replace(x=np.median(run.trace_queries, axis=1).astype(float))


def border(run: RunData) -> Summary:
    """Border distances at the end."""
    return summarise(run.border_distances)


def queries(run: RunData) -> Summary:
    """Queries of the attack, without those of the verdict."""
    return summarise(run.attack_queries)


def at_queries(curve: Curve, count: float) -> float:
    """The median distance that a curve has reached after `count` queries; inf before it begins."""
    reached = np.flatnonzero(curve.x <= count)
    return float(curve.median[reached[-1]]) if len(reached) else math.inf


def ratio(value: float, reference: float) -> float:
    """`value / reference`, inf where the value is, nan where it cannot be told."""
    if not math.isfinite(reference) or reference == 0:
        return math.nan
    return value / reference


def spread(values: Sequence[float]) -> float:
    """The largest value over the smallest."""
    return ratio(max(values), min(values))


def show(value: float | None, digits: int = 3) -> str:
    """A number for people: 3 significant digits, thousands with commas, infinity as a sign."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def show_named(values: Mapping[str, float], digits: int = 3) -> str:
    """Numbers for people, each with its name."""
    return ", ".join(f"{show(value, digits)} ({name})" for name, value in values.items())


def show_summary(s: Summary) -> str:
    """Median with its percentiles."""
    return f"{show(s.median)} [{show(s.low)} to {show(s.high)}]"
