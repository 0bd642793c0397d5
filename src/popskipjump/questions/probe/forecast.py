"""Forecast of the queries that an attack needs, from the noise that `check` measured."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from popskipjump.questions.intervals import Interval

NEARLY = 1.2  # times the nearest distance that is known: the goal if none is given
_DIMENSION = 784


class _Law(NamedTuple):
    """Read off benchmarks/results/queries-*.md and questions.md: MNIST, CIFAR-10 and small problems."""

    base: float  # queries without noise for an MNIST image
    by_dimension: float  # power of the number of input values
    by_contrast: float  # power of 1 / (1 - lost)
    per_width: float  # more queries for each unit of width over border distance
    below: float  # the interval: so many times less
    above: float  # and so many times more


_LAWS = {
    "qsj": _Law(1000, 0.5, 2.0, 45, 4, 7),  # more where inputs are no pictures, and it cannot use their smoothness
    "psj": _Law(15_000, 0.65, 4.6, 45, 8, 4),
}
FORECAST = tuple(_LAWS)
_FEW_INPUTS = 50  # with fewer, a line to another class may well run straight to the nearest border
_FEWEST = Interval(40, 10, 100)  # queries of any attack: image, starting point and first search
# A distance over that of the border on the line to another class, and the share of the queries above after which the
# median image is as near: about the 5%, 50% and 95% quantiles over the problems of benchmarks/results/questions.md.
_REACH = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9])
_SHARE = np.array([
    [0.15, math.inf, math.inf],
    [0.07, math.inf, math.inf],
    [0.025, 1.5, math.inf],
    [0.025, 0.6, math.inf],
    [0.02, 0.35, math.inf],
    [0.015, 0.22, math.inf],
    [0.015, 0.12, 1.5],
    [0.012, 0.1, 0.5],
])  # fmt: skip


class Forecast(NamedTuple):
    """Queries for one image, predicted; infinite where the goal may never be reached."""

    attack: str
    queries: Interval
    multiplier: Interval  # of the queries, by the noise


def forecast(
    attack: str, dimension: int, lost: Interval, relative_width: Interval, reach: float | None = None
) -> Forecast:
    """Predict the queries of an attack until it has reached a distance.

    Floors take away contrast, a wide transition hides the border in proportion to its width.

    Args:
        attack: one of `FORECAST`.
        dimension: d, values of an input.
        lost: sum of both floors, with its interval.
        relative_width: width of the transition over the distance to the border, with its interval.
        reach: the distance, over that of the border on the line to another class; None for a distance within `NEARLY`
            of the nearest one.
    """
    law = _LAWS[attack]
    value, low, high = (
        (1 + law.per_width * wide) / (1 - min(part, 0.95)) ** law.by_contrast
        for part, wide in zip(lost, relative_width, strict=True)
    )
    base = law.base * math.pow(dimension / _DIMENSION, law.by_dimension)
    below, part, above = (1 / law.below, 1.0, law.above) if reach is None else _shares(reach)
    if reach is not None and reach < 1 and dimension < _FEW_INPUTS:
        above = math.inf
    needed = (base * value * part, base * low * below, base * high * above)
    queries = Interval(*(max(pair) for pair in zip(needed, _FEWEST, strict=True)))
    return Forecast(attack, queries, Interval(value, low, high))


def _shares(reach: float) -> tuple[float, float, float]:
    """Shares of the queries for the nearest distance, at quantiles: low, middle, high."""
    places = np.log(_REACH)
    at = float(np.clip(math.log(reach), places[0], places[-1]))
    with np.errstate(invalid="ignore"):
        row = int(np.clip(np.searchsorted(places, at, side="right") - 1, 0, len(places) - 2))
        first, last = np.log(_SHARE[row]), np.log(_SHARE[row + 1])
        weight = (at - places[row]) / (places[row + 1] - places[row])
        mixed = np.where(weight == 0, first, np.where(weight == 1, last, first + weight * (last - first)))
    low, middle, high = np.exp(np.where(np.isnan(mixed), math.inf, mixed)).tolist()
    return low, middle, high
