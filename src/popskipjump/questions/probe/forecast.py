"""How many queries an attack will need on a classifier, from what `check` has learned of its noise."""

from __future__ import annotations

import math
from typing import NamedTuple

from popskipjump.questions.intervals import Interval

GOAL = "the distance that psj reaches in 32 iterations"
_DIMENSION = 784


class _Law(NamedTuple):
    """Read off benchmarks/results/queries-*.md: MNIST, CIFAR-10 and linear problems; see docs/guide/check.md."""

    base: float  # queries without noise for an MNIST image
    by_dimension: float  # power of the number of input values
    by_contrast: float  # power of 1 / (1 - lost)
    per_width: float  # more queries for each unit of width over border distance
    below: float  # the interval: so many times less
    above: float  # and so many times more


_LAWS = {
    "qsj": _Law(700, 0.5, 2.0, 45, 3, 10),  # more where inputs are no pictures, and it cannot use their smoothness
    "psj": _Law(13_400, 0.0, 4.6, 45, 3, 3),
}


class Forecast(NamedTuple):
    """Queries for one image, predicted."""

    attack: str
    queries: Interval
    multiplier: Interval  # of the queries, by the noise


def forecast(attack: str, dimension: int, lost: Interval, relative_width: float) -> Forecast:
    """Predict the queries of an attack until it has reached `GOAL`.

    Floors take away contrast, a wide transition hides the border in proportion to its width.

    Args:
        attack: "qsj" or "psj".
        dimension: d, values of an input.
        lost: sum of both floors, with its interval.
        relative_width: width of the transition over the distance to the border.
    """
    law = _LAWS[attack]
    wide = 1 + law.per_width * relative_width
    low, value, high = (wide / (1 - min(part, 0.95)) ** law.by_contrast for part in (lost.low, lost.value, lost.high))
    base = law.base * math.pow(dimension / _DIMENSION, law.by_dimension)
    queries = Interval(base * value, base * low / law.below, base * high * law.above)
    return Forecast(attack, queries, Interval(value, low, high))
